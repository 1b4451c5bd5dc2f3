//! A unit file of systemd, read as far as it says how a service is started.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, bail};

/// The settings of its section `[Service]`, those that are given several times with each value.
#[derive(Debug)]
pub struct Unit(BTreeMap<String, Vec<String>>);

impl Unit {
    pub fn parse(text: &str) -> Unit {
        let mut settings: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut section = "";
        for line in text.lines().map(str::trim) {
            if line.starts_with('[') {
                section = line;
            } else if section == "[Service]"
                && !line.starts_with(['#', ';'])
                && let Some((key, value)) = line.split_once('=')
            {
                let values = settings.entry(key.trim().to_owned()).or_default();
                values.push(value.trim().to_owned());
            }
        }
        Unit(settings)
    }

    pub fn get(&self, key: &str) -> anyhow::Result<&str> {
        let values = self
            .0
            .get(key)
            .with_context(|| format!("the unit has no {key}"))?;
        match values.as_slice() {
            [value] => Ok(value),
            _ => bail!("the unit has {key} {} times", values.len()),
        }
    }

    /// A time in seconds without a unit, as ours are.
    pub fn seconds(&self, key: &str) -> anyhow::Result<Duration> {
        let seconds = self.get(key)?.parse();
        Ok(Duration::from_secs(
            seconds.with_context(|| format!("{key} in seconds"))?,
        ))
    }

    /// The words of `ExecStart`: `$NAME` becomes the words of that variable, `${NAME}` its text.
    pub fn command(&self, variables: &[(String, String)]) -> anyhow::Result<Vec<String>> {
        let value = |name: &str| {
            let found = variables.iter().find(|(key, _)| key == name);
            found.map_or("", |(_, value)| value.as_str())
        };
        let mut words = Vec::new();
        for word in self.get("ExecStart")?.split_whitespace() {
            match word.strip_prefix('$') {
                Some(name) if name.starts_with('{') => {
                    words.push(value(name.trim_matches(['{', '}'])).to_owned());
                }
                Some(name) => words.extend(value(name).split_whitespace().map(str::to_owned)),
                None => words.push(word.to_owned()),
            }
        }
        Ok(words)
    }
}

/// The variables of an environment file.
pub fn variables(text: &str) -> Vec<(String, String)> {
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with(['#', ';']));
    let pairs = lines.filter_map(|line| line.split_once('='));
    pairs
        .map(|(name, value)| (name.to_owned(), value.trim_matches('"').to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_made_as_systemd_makes_it() {
        let unit = Unit::parse(
            "[Unit]\nUser=no\n[Service]\n# User=no\nUser=u\nTimeoutStopSec=30\nExecStart=/bin/x a \
             $MORE ${ONE}\n[Install]\nWantedBy=x\n",
        );
        assert_eq!(unit.get("User").unwrap(), "u");
        assert_eq!(
            unit.seconds("TimeoutStopSec").unwrap(),
            Duration::from_secs(30)
        );
        assert!(unit.get("WantedBy").is_err());
        let variables = variables("# MORE=0\nMORE=--http 1\n\nONE=\"b c\"\n");
        let command = unit.command(&variables).unwrap();
        assert_eq!(command, ["/bin/x", "a", "--http", "1", "b c"]);
        let none = unit.command(&[]).unwrap();
        assert_eq!(none, ["/bin/x", "a", ""]);
    }
}
