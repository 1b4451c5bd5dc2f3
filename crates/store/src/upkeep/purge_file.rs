//! The purge that WSO2 DAS has in its configuration.
//!
//! ```text
//! <analytics-data-purging><purging-enable>true</purging-enable><cron-expression>0 0 0 * * ?</cron-expression>
//!  <purge-include-tables><table>.*</table></purge-include-tables><data-retention-days>365</data-retention-days>
//! </analytics-data-purging>
//! ```

use connect::xml_tree::Element;
use jiff::Timestamp;
use jiff::civil::Time;
use jiff::tz::TimeZone;
use lang::cron::Cron;

use super::Names;

/// The element that holds it, as the root or anywhere in a file.
const PURGING: &str = "analytics-data-purging";

/// Days that rows may be kept for.
const DAYS_MAX: u32 = 36_500;

/// What it may hold.
const KNOWN: [&str; 4] = [
    "purging-enable",
    "cron-expression",
    "data-retention-days",
    "purge-include-tables",
];

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
        let root = Element::read(xml)?;
        let purging = root.find(PURGING);
        let purging = purging.ok_or_else(|| format!("there is no element '{PURGING}'"))?;
        let is_enabled = match &*purging.text_of("purging-enable").to_ascii_lowercase() {
            "true" => true,
            "false" => false,
            other => return Err(format!("purging-enable is '{other}': write true or false")),
        };
        let text = purging.text_of("cron-expression").to_owned();
        let cron =
            Cron::parse(&text).map_err(|cause| format!("cron-expression '{text}': {cause}"))?;
        let days = purging.text_of("data-retention-days");
        let days = match days.parse() {
            Ok(days) if (1..=DAYS_MAX).contains(&days) => days,
            _ => {
                return Err(format!(
                    "data-retention-days is '{days}': write a number from 1 to {DAYS_MAX}"
                ));
            }
        };
        let tables = purging.child("purge-include-tables");
        let tables = tables.iter().flat_map(|list| list.all("table"));
        let tables = tables.map(|table| table.text.trim().to_owned());
        let tables: Vec<String> = tables.filter(|table| !table.is_empty()).collect();
        if tables.is_empty() {
            return Err(
                "purge-include-tables has no table: write <table>.*</table> for all".to_owned(),
            );
        }
        Ok(PurgeFile {
            is_enabled,
            cron: (text, cron),
            names: Names::new(&tables).map_err(|error| error.to_string())?,
            days,
            ignored: ignored(&root, purging),
        })
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

/// The settings that have no meaning here: those beside it in a file that holds more, and those in it.
fn ignored(root: &Element, purging: &Element) -> Vec<String> {
    let beside = root.children.iter().filter(|_| root.name != PURGING);
    let inside = purging
        .children
        .iter()
        .filter(|child| !KNOWN.contains(&&*child.name));
    let mut names: Vec<String> = Vec::new();
    for child in beside.chain(inside) {
        if child.name != PURGING && !names.contains(&child.given) {
            names.push(child.given.clone());
        }
    }
    names
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
