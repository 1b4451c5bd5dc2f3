//! Which web pages may use a listener.
//!
//! A page can have its browser send requests to any address that the browser reaches. The browser says
//! whose page it is in `Origin`; other clients send none.

use connect::component::Environment;
use connect::option::Settings;

/// `allowed.origins` of a listener.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Origins {
    allowed: Vec<String>,
    /// `*`, or nothing is said and the app is as Siddhi's.
    is_any: bool,
}

impl Origins {
    pub fn new(settings: Settings<'_>, environment: &Environment) -> Origins {
        let allowed: Vec<String> = (settings.text("allowed.origins").unwrap_or_default())
            .split(',')
            .map(|origin| origin.trim().trim_matches('\'').trim_end_matches('/'))
            .filter(|origin| !origin.is_empty())
            .map(str::to_owned)
            .collect();
        let is_any = match allowed.is_empty() {
            true => environment.is_compat,
            false => allowed.iter().any(|origin| origin == "*"),
        };
        Origins { allowed, is_any }
    }

    /// May a page of `origin` use a listener that it calls `host`? Its own pages may, where nothing else
    /// is said.
    pub fn allow(&self, origin: &str, host: Option<&str>) -> bool {
        let is = |allowed: &str| origin.eq_ignore_ascii_case(allowed);
        let is_own = || {
            let own = origin.split_once("://").map(|(_, own)| own);
            own.is_some_and(|own| host.is_some_and(|host| own.eq_ignore_ascii_case(host)))
        };
        self.is_any
            || self.allowed.iter().any(|allowed| is(allowed))
            || self.allowed.is_empty() && is_own()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_judged_by_their_origin() {
        let of = |allowed: &[&str], is_any| Origins {
            allowed: allowed.iter().map(|origin| (*origin).to_owned()).collect(),
            is_any,
        };
        let own = of(&[], false);
        assert!(own.allow("http://a.example:80", Some("A.example:80")));
        for origin in ["http://evil.example", "null", "", "a.example"] {
            assert!(!own.allow(origin, Some("a.example")), "{origin}");
            assert!(of(&[], true).allow(origin, None));
        }
        let named = of(&["https://b.example"], false);
        assert!(named.allow("https://B.example", Some("a.example")));
        assert!(!named.allow("https://a.example", Some("a.example")));
        assert!(!named.allow("http://b.example", None));
    }
}
