//! The purge that WSO2 DAS has in its configuration.
//!
//! ```text
//! <analytics-data-purging><purging-enable>true</purging-enable><cron-expression>0 0 0 * * ?</cron-expression>
//!  <purge-include-tables><table>.*</table></purge-include-tables><data-retention-days>365</data-retention-days>
//! </analytics-data-purging>
//! ```

use jiff::Timestamp;
use jiff::civil::Time;
use jiff::tz::TimeZone;
use lang::cron::Cron;
use quick_xml::Reader;
use quick_xml::events::Event;

use super::Names;

/// The element that holds it, as the root or anywhere in a file.
const PURGING: &str = "analytics-data-purging";

/// Days that rows may be kept for.
const DAYS_MAX: u32 = 36_500;

/// Elements in each other.
const DEPTH_MAX: usize = 64;

/// Which tables are purged when, and what of them stays.
#[derive(Clone, Debug)]
pub struct PurgeFile {
    pub is_enabled: bool,
    /// As it is written, and what it means.
    pub cron: (String, Cron),
    pub names: Names,
    pub days: u32,
    /// Settings of the same file that have no meaning here.
    pub ignored: Vec<String>,
}

impl PurgeFile {
    /// Reads it, alone or out of an `analytics-config.xml`.
    ///
    /// # Errors
    /// It is not there or not right, in words for its author.
    pub fn read(xml: &str) -> Result<PurgeFile, String> {
        let xml = xml.trim_start_matches('\u{feff}');
        let mut reader = Reader::from_str(xml);
        let mut path: Vec<String> = Vec::new();
        let mut found = Found::default();
        loop {
            let event = reader.read_event().map_err(|cause| {
                let at = usize::try_from(reader.error_position()).unwrap_or(xml.len());
                let before = &xml.as_bytes()[..at.min(xml.len())];
                let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
                format!("line {line}: this is not XML: {cause}")
            })?;
            let content = match event {
                Event::Start(start) => {
                    path.push(
                        String::from_utf8_lossy(start.local_name().into_inner().as_ref())
                            .into_owned(),
                    );
                    if path.len() > DEPTH_MAX {
                        return Err(format!("elements are nested deeper than {DEPTH_MAX}"));
                    }
                    found.begin(&path);
                    continue;
                }
                Event::Empty(empty) => {
                    path.push(
                        String::from_utf8_lossy(empty.local_name().into_inner().as_ref())
                            .into_owned(),
                    );
                    found.begin(&path);
                    path.pop();
                    continue;
                }
                Event::End(_) => {
                    path.pop();
                    continue;
                }
                Event::Eof => break,
                Event::Text(data) => data.xml10_content().into_owned(),
                Event::CData(data) => data.xml10_content().into_owned(),
                Event::GeneralRef(reference) => match reference.resolve_char_ref() {
                    Ok(Some(character)) => character.to_string(),
                    _ => match &*reference.into_inner() {
                        "lt" => "<".to_owned(),
                        "gt" => ">".to_owned(),
                        "amp" => "&".to_owned(),
                        "quot" => "\"".to_owned(),
                        "apos" => "'".to_owned(),
                        other => return Err(format!("'&{other};' is not known in XML")),
                    },
                },
                _ => continue,
            };
            found.add(&path, &content);
        }
        match path.is_empty() {
            true => found.finish(),
            false => Err(format!("element '{}' has no end", path.join("/"))),
        }
    }

    /// The time before which rows go: the begin of the day after the one that lies so many days back, in a zone.
    /// In DAS that is 23:59:59.999 of the day before.
    pub fn before(&self, now: i64, zone: &TimeZone) -> Option<i64> {
        let today = Timestamp::from_millisecond(now)
            .ok()?
            .to_zoned(zone.clone())
            .date();
        let back = jiff::Span::new().days(i64::from(self.days) - 1);
        let day = today.checked_sub(back).ok()?;
        let begin = day
            .to_datetime(Time::midnight())
            .to_zoned(zone.clone())
            .ok()?;
        Some(begin.timestamp().as_millisecond())
    }
}

/// What of it was read.
#[derive(Default)]
struct Found {
    is_there: bool,
    enable: String,
    cron: String,
    days: String,
    tables: Vec<String>,
    ignored: Vec<String>,
}

/// The elements below [`PURGING`] that an element lies in, if it does.
fn below(path: &[String]) -> Option<Vec<&str>> {
    let at = path.iter().position(|name| name == PURGING)?;
    Some(path[at + 1..].iter().map(String::as_str).collect())
}

impl Found {
    fn begin(&mut self, path: &[String]) {
        let Some(below) = below(path) else {
            // One of a file that holds more.
            if path.len() == 2 && !self.ignored.contains(&path[1]) {
                self.ignored.push(path[1].clone());
            }
            return;
        };
        self.is_there = true;
        match below.as_slice() {
            [] => self.ignored.retain(|name| name != PURGING),
            [
                "purging-enable"
                | "cron-expression"
                | "data-retention-days"
                | "purge-include-tables",
            ] => {}
            ["purge-include-tables", "table"] => self.tables.push(String::new()),
            other => self.ignored.push(other.join("/")),
        }
    }

    fn add(&mut self, path: &[String], content: &str) {
        let Some(below) = below(path) else { return };
        match below.as_slice() {
            ["purging-enable"] => self.enable.push_str(content),
            ["cron-expression"] => self.cron.push_str(content),
            ["data-retention-days"] => self.days.push_str(content),
            ["purge-include-tables", "table"] => {
                if let Some(table) = self.tables.last_mut() {
                    table.push_str(content);
                }
            }
            _ => {}
        }
    }

    fn finish(mut self) -> Result<PurgeFile, String> {
        if !self.is_there {
            return Err(format!("there is no element '{PURGING}'"));
        }
        let is_enabled = match self.enable.trim().to_ascii_lowercase().as_str() {
            "true" => true,
            "false" => false,
            other => return Err(format!("purging-enable is '{other}': write true or false")),
        };
        let text = self.cron.trim().to_owned();
        let cron =
            Cron::parse(&text).map_err(|cause| format!("cron-expression '{text}': {cause}"))?;
        let days = self.days.trim().parse::<u32>().ok();
        let days = days
            .filter(|days| (1..=DAYS_MAX).contains(days))
            .ok_or_else(|| {
                format!(
                    "data-retention-days is '{}': write a number from 1 to {DAYS_MAX}",
                    self.days.trim()
                )
            })?;
        self.tables.retain(|table| !table.trim().is_empty());
        if self.tables.is_empty() {
            return Err(
                "purge-include-tables has no table: write <table>.*</table> for all".to_owned(),
            );
        }
        Ok(PurgeFile {
            is_enabled,
            cron: (text, cron),
            names: Names::new(&self.tables).map_err(|error| error.to_string())?,
            days,
            ignored: self.ignored,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PURGE: &str = "<analytics-data-purging>
  <purging-enable>true</purging-enable>
  <!-- at midnight -->
  <cron-expression>0 0 0 * * ?</cron-expression>
  <purge-include-tables><table>ORG_.*</table><table>other</table></purge-include-tables>
  <data-retention-days> 3 </data-retention-days>
</analytics-data-purging>";

    #[test]
    fn the_purge_of_das_is_read_alone_and_among_others() {
        let alone = PurgeFile::read(PURGE).expect("it is right");
        assert!(alone.is_enabled && alone.days == 3 && alone.ignored.is_empty());
        assert!(alone.names.has("org_wso2") && alone.names.has("other") && !alone.names.has("one"));
        let config = format!(
            "<?xml version='1.0'?><analytics-dataservice-configuration><shardCount>6</shardCount>{PURGE}\
             <indexWorkerCount>1</indexWorkerCount></analytics-dataservice-configuration>"
        );
        let among = PurgeFile::read(&config).expect("it is right");
        assert_eq!(among.ignored, ["shardCount", "indexWorkerCount"]);
        assert_eq!(among.cron.0, "0 0 0 * * ?");
    }

    #[test]
    fn days_end_at_midnight_of_the_zone() {
        let purge = PurgeFile::read(PURGE).expect("it is right");
        let millis = |text: &str| text.parse::<Timestamp>().expect("a time").as_millisecond();
        let zone = TimeZone::get("Europe/Berlin").expect("a zone");
        // The 29th of March 2026 had 23 hours there.
        let before = purge.before(millis("2026-03-31T10:00:00Z"), &zone);
        assert_eq!(before, Some(millis("2026-03-28T23:00:00Z")));
        let before = purge.before(millis("2026-03-31T22:30:00Z"), &zone);
        assert_eq!(before, Some(millis("2026-03-29T22:00:00Z")));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (from, to, says) in [
            ("true", "yes", "purging-enable is 'yes'"),
            ("0 0 0 * * ?", "daily", "cron-expression 'daily'"),
            (" 3 ", "0", "data-retention-days is '0'"),
            ("ORG_.*", "(", "'(' is no pattern"),
            (
                "<table>ORG_.*</table><table>other</table>",
                "",
                "has no table",
            ),
            ("</analytics-data-purging>", "", "has no end"),
            (
                "analytics-data-purging>",
                "purging>",
                "no element 'analytics-data-purging'",
            ),
        ] {
            let refused = PurgeFile::read(&PURGE.replace(from, to)).expect_err(says);
            assert!(refused.contains(says), "{refused}");
        }
    }
}
