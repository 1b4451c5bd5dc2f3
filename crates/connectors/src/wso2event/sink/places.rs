//! Where receivers are: `tcp://h:p`; `{a|b}` fails over, `{a,b}` balances, several groups get every event.

use connect::url::split_port;

/// Login port above that of events, unless something else is said.
const LOGIN_OFFSET: u16 = 100;

/// Receivers of all groups.
const RECEIVERS_MAX: usize = 64;

/// An address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub host: String,
    pub port: u16,
    pub is_tls: bool,
}

impl Place {
    fn parse(text: &str) -> Result<Place, String> {
        let wrong = || {
            format!(
                "'{}' is no address: write tcp://host:port or ssl://host:port",
                text.trim()
            )
        };
        let (scheme, rest) = text.trim().split_once("://").ok_or_else(wrong)?;
        let is_tls = match scheme.to_ascii_lowercase().as_str() {
            "tcp" => false,
            "ssl" => true,
            _ => return Err(wrong()),
        };
        let (host, port) = split_port(rest.trim_end_matches('/')).ok_or_else(wrong)?;
        let port = port.ok_or_else(wrong)?;
        match host.is_empty() || host.contains('/') {
            true => Err(wrong()),
            false => Ok(Place {
                host: host.to_owned(),
                port,
                is_tls,
            }),
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scheme = if self.is_tls { "ssl" } else { "tcp" };
        write!(f, "{scheme}://{}:{}", self.host, self.port)
    }
}

/// One receiver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Receiver {
    pub events: Place,
    /// Always with TLS.
    pub login: Place,
}

/// How a group gives its events to its receivers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Spread {
    /// To one of them, and to the next when that is away.
    FailOver,
    /// To all of them in turn.
    Balance,
}

/// Receivers of which one gets each event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Group {
    pub spread: Spread,
    pub receivers: Vec<Receiver>,
}

/// The groups of a `url`, with the places of their logins.
///
/// # Errors
/// What is wrong with one of them, in words.
pub(super) fn groups(url: &str, auth: Option<&str>) -> Result<Vec<Group>, String> {
    let events = split(url).map_err(|cause| format!("option 'url': {cause}"))?;
    let logins = auth.map(split).transpose();
    let logins = logins.map_err(|cause| format!("option 'auth.url': {cause}"))?;
    if let Some(logins) = &logins {
        let shape = |groups: &[(Spread, Vec<Place>)]| {
            groups.iter().map(|(_, all)| all.len()).collect::<Vec<_>>()
        };
        if shape(logins) != shape(&events) {
            return Err("option 'auth.url' names other receivers than 'url': one for each, in the same groups".to_owned());
        }
    }
    if events.iter().map(|(_, places)| places.len()).sum::<usize>() > RECEIVERS_MAX {
        return Err(format!(
            "option 'url' names more than {RECEIVERS_MAX} receivers"
        ));
    }
    let mut groups = Vec::new();
    for (at, (spread, places)) in events.into_iter().enumerate() {
        let mut receivers = Vec::new();
        for (number, events) in places.into_iter().enumerate() {
            let given = logins.as_ref().map(|logins| logins[at].1[number].clone());
            let mut login = match given {
                Some(login) => login,
                // The port with TLS takes events, too.
                None if events.is_tls => events.clone(),
                None => Place {
                    port: events.port.checked_add(LOGIN_OFFSET).ok_or_else(|| {
                        format!("option 'url': port {} has none {LOGIN_OFFSET} above it: name 'auth.url'", events.port)
                    })?,
                    ..events.clone()
                },
            };
            if given_in_the_clear(auth, &login) {
                return Err(format!(
                    "option 'auth.url': '{login}' would send the password in the clear: write ssl://"
                ));
            }
            login.is_tls = true;
            receivers.push(Receiver { events, login });
        }
        groups.push(Group { spread, receivers });
    }
    Ok(groups)
}

fn given_in_the_clear(auth: Option<&str>, login: &Place) -> bool {
    auth.is_some() && !login.is_tls
}

fn split(text: &str) -> Result<Vec<(Spread, Vec<Place>)>, String> {
    let text = text.trim();
    if !text.contains(['{', '}']) {
        return Ok(vec![group(text)?]);
    }
    let mut groups = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let inner = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'));
        let (inner, behind) = inner.ok_or_else(|| {
            format!("'{text}' is none: write {{a|b}} or {{a,b}}, with commas between groups")
        })?;
        groups.push(group(inner)?);
        let behind = behind.trim_start();
        rest = behind.strip_prefix(',').unwrap_or(behind).trim_start();
    }
    Ok(groups)
}

fn group(text: &str) -> Result<(Spread, Vec<Place>), String> {
    let (spread, between) = match (text.contains('|'), text.contains(',')) {
        (true, true) => {
            return Err(format!(
                "'{text}' has both '|' (fails over) and ',' (balances): use one of them in a group"
            ));
        }
        (true, false) => (Spread::FailOver, '|'),
        (false, _) => (Spread::Balance, ','),
    };
    let places = text
        .split(between)
        .map(Place::parse)
        .collect::<Result<_, _>>()?;
    Ok((spread, places))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(url: &str, auth: Option<&str>) -> String {
        match groups(url, auth) {
            Err(cause) => cause,
            Ok(groups) => {
                let groups = groups.iter().map(|group| {
                    let all = group
                        .receivers
                        .iter()
                        .map(|r| format!("{} ({})", r.events, r.login));
                    format!("{:?} {}", group.spread, all.collect::<Vec<_>>().join(" "))
                });
                groups.collect::<Vec<_>>().join("; ")
            }
        }
    }

    #[test]
    fn groups_are_read_as_the_agent_of_wso2_reads_them() {
        for (url, auth, expect) in [
            ("tcp://a:7611", None, "Balance tcp://a:7611 (ssl://a:7711)"),
            (
                " ssl://a:7711 ",
                None,
                "Balance ssl://a:7711 (ssl://a:7711)",
            ),
            (
                "tcp://[::1]:7611",
                None,
                "Balance tcp://::1:7611 (ssl://::1:7711)",
            ),
            (
                "tcp://a:1|tcp://b:2",
                None,
                "FailOver tcp://a:1 (ssl://a:101) tcp://b:2 (ssl://b:102)",
            ),
            (
                "{tcp://a:1 | tcp://b:2}, {tcp://c:3,tcp://d:4}",
                Some("{ssl://a:11|ssl://b:12},{ssl://c:13,ssl://d:14}"),
                "FailOver tcp://a:1 (ssl://a:11) tcp://b:2 (ssl://b:12); \
                 Balance tcp://c:3 (ssl://c:13) tcp://d:4 (ssl://d:14)",
            ),
        ] {
            assert_eq!(shown(url, auth), expect, "{url}");
        }
    }

    #[test]
    fn what_is_no_group_is_said() {
        for (url, auth, says) in [
            ("a:7611", None, "'a:7611' is no address"),
            ("http://a:7611", None, "no address"),
            ("tcp://a", None, "no address"),
            ("", None, "no address"),
            ("tcp://a:1,tcp://b:2|tcp://c:3", None, "both '|'"),
            ("{tcp://a:1", None, "with commas between groups"),
            ("{tcp://a:1}x", None, "with commas between groups"),
            ("tcp://a:65500", None, "name 'auth.url'"),
            ("tcp://a:1", Some("ssl://a:1,ssl://b:2"), "other receivers"),
            ("tcp://a:1", Some("tcp://a:101"), "in the clear"),
        ] {
            let said = shown(url, auth);
            assert!(said.contains(says), "{url}: {said}");
        }
    }
}
