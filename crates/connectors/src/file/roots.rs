//! Where file functions may act: the directories that the deployment file names.
//!
//! ```yaml
//! siddhi:
//!   extensions:
//!     - extension:
//!         name: functions
//!         namespace: file
//!         properties:
//!           roots: /data/in, /data/out
//! ```
//!
//! Promises: a path is judged by where it leads to, links resolved. Never: a bound on somebody else on
//! the machine who puts links into the roots while a call runs.

use std::io;
use std::path::{Component, Path, PathBuf};

use connect::component::Environment;
use connect::file_uri::local_path;

/// Property of extension `file:functions`.
const KEY: &str = "roots";

/// Links resolved; `None`: anywhere.
pub struct Roots(Option<Vec<PathBuf>>);

impl Roots {
    pub fn of(environment: &Environment) -> Roots {
        let named = environment.setting("file", "functions", KEY);
        Roots(named.map(|text| {
            let roots = text
                .split(',')
                .map(str::trim)
                .filter(|root| !root.is_empty());
            let roots = roots.filter_map(|root| local_path(root).ok());
            // One that is not there yet is judged by where it will be.
            roots.map(|root| resolved(&root).unwrap_or(root)).collect()
        }))
    }

    pub fn is_anywhere(&self) -> bool {
        self.0.is_none()
    }

    /// Refuses a path that leads out of all roots.
    ///
    /// # Errors
    /// Why, and what to do, in words.
    pub fn check(&self, path: &Path) -> Result<(), String> {
        let Some(roots) = &self.0 else {
            return Ok(());
        };
        let place = resolved(path)
            .map_err(|error| format!("cannot tell where '{}' leads: {error}", path.display()))?;
        if roots.iter().any(|root| place.starts_with(root)) {
            return Ok(());
        }
        Err(format!(
            "'{}' is outside the directories that file functions may use: correct the attribute it is \
             made from, or add its directory to '{KEY}' of extension 'file:functions' in the deployment \
             file",
            path.display()
        ))
    }
}

/// Where a path leads, of which the end may not exist yet.
fn resolved(path: &Path) -> io::Result<PathBuf> {
    let mut there = path;
    let mut rest = Vec::new();
    loop {
        match there.canonicalize() {
            Ok(mut place) => {
                place.extend(rest.iter().rev());
                return Ok(place);
            }
            // A link that leads nowhere would be followed by who writes there.
            Err(error) if error.kind() == io::ErrorKind::NotFound && !there.is_symlink() => {}
            Err(error) => return Err(error),
        }
        match (there.components().next_back(), there.parent()) {
            (Some(Component::Normal(name)), Some(parent)) => {
                rest.push(name);
                there = parent;
            }
            _ => {
                return Err(io::Error::other(
                    "it goes up from a directory that is not there",
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::sync::Arc;

    use connect::component::Setting;

    use super::*;

    fn roots(text: &str) -> Roots {
        let mut environment = Environment::new("A");
        environment.settings = Arc::from([Setting {
            namespace: "file".into(),
            name: "functions".into(),
            key: KEY.into(),
            value: text.into(),
        }]);
        Roots::of(&environment)
    }

    #[test]
    fn a_path_is_judged_by_where_it_leads() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::create_dir(at("in")).unwrap();
        fs::create_dir(at("secret")).unwrap();
        symlink(at("secret"), at("in/way")).unwrap();
        symlink(at("secret/new"), at("in/dangling")).unwrap();
        symlink(at("in"), at("alias")).unwrap();
        let text = format!("{}, file:{}", at("alias").display(), at("later").display());
        let roots = roots(&text);
        for path in ["in", "in/a", "in/a/b", "alias/a", "in/../in/a", "later/a"] {
            assert_eq!(roots.check(&at(path)), Ok(()), "{path}");
        }
        for path in [
            "secret",
            "in/way",
            "in/way/keys",
            "in/dangling",
            "in/../secret/a",
            "in/no/../../x",
            "inside",
            "",
        ] {
            assert!(roots.check(&at(path)).is_err(), "{path}");
        }
    }

    #[test]
    fn without_roots_it_is_anywhere_and_with_none_nowhere() {
        assert!(Roots::of(&Environment::new("A")).is_anywhere());
        assert!(roots("").check(Path::new("/tmp")).is_err());
    }
}
