//! Global transaction ids: the name that MySQL and MariaDB give a transaction, the same on each server
//! that replicates it, whatever its logs are called there.
//!
//! MariaDB: `domain-server-number`, and the position in the log is the last one of each domain.
//! MySQL: `uuid:number` or `uuid:tag:number`, and the position in the log is the set of all.

use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Write as _;

use mysql::binlog::events::{Event, GtidEvent, PreviousGtidsEvent};
use mysql_common::packets::{GnoInterval, Sid, Tag};

/// The kind of MariaDB's event that begins a transaction and names it.
const MARIADB_GTID: u8 = 162;

/// A flag of that event: it stands before one statement, and no end of a transaction follows.
const STANDALONE: u8 = 1;

/// Bytes of a UUID.
const UUID: usize = 16;

/// Where MySQL's transactions come from: a server, and a name that a session may add.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Origin {
    uuid: [u8; UUID],
    /// Empty: none.
    tag: String,
}

/// The name of a transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Gtid {
    MariaDb {
        domain: u32,
        server: u32,
        number: u64,
    },
    MySql {
        origin: Origin,
        number: u64,
    },
}

/// Numbers from one to another, both included.
type Span = (u64, u64);

/// The transactions that lie before a place in a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Gtids {
    /// Server and number of the last one of each domain.
    MariaDb(BTreeMap<u32, (u32, u64)>),
    /// Spans in order that do not touch.
    MySql(BTreeMap<Origin, Vec<Span>>),
}

impl Gtid {
    /// What a transaction of MariaDB is called, and whether it is a single statement; `None` of any
    /// other event.
    pub fn of_mariadb(event: &Event) -> Option<(Gtid, bool)> {
        if event.header().event_type_raw() != MARIADB_GTID {
            return None;
        }
        let data = event.data();
        let gtid = Gtid::MariaDb {
            number: u64::from_le_bytes(data.get(..8)?.try_into().ok()?),
            domain: u32::from_le_bytes(data.get(8..12)?.try_into().ok()?),
            server: event.header().server_id(),
        };
        Some((gtid, data.get(12)? & STANDALONE != 0))
    }

    pub fn of_mysql(event: &GtidEvent) -> Gtid {
        Gtid::MySql {
            origin: Origin {
                uuid: event.sid(),
                tag: event.tag().map_or("", Tag::as_str).to_owned(),
            },
            number: event.gno(),
        }
    }

    pub fn parse(text: &str) -> Option<Gtid> {
        if let Some((origin, number)) = text.rsplit_once(':') {
            let (uuid, tag) = origin.split_once(':').unwrap_or((origin, ""));
            return Some(Gtid::MySql {
                origin: Origin::new(uuid, tag)?,
                number: number.parse().ok()?,
            });
        }
        let (domain, server, number) = parse_mariadb(text)?;
        Some(Gtid::MariaDb {
            domain,
            server,
            number,
        })
    }
}

impl fmt::Display for Gtid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Gtid::MariaDb {
                domain,
                server,
                number,
            } => write!(f, "{domain}-{server}-{number}"),
            Gtid::MySql { origin, number } => write!(f, "{origin}:{number}"),
        }
    }
}

fn parse_mariadb(text: &str) -> Option<(u32, u32, u64)> {
    let mut parts = text.split('-');
    let domain = parts.next()?.parse().ok()?;
    let server = parts.next()?.parse().ok()?;
    let number = parts.next()?.parse().ok()?;
    parts.next().is_none().then_some((domain, server, number))
}

impl Origin {
    fn new(uuid: &str, tag: &str) -> Option<Origin> {
        let mut digits = uuid.bytes().filter(|byte| *byte != b'-');
        let mut bytes = [0; UUID];
        for byte in &mut bytes {
            let digit = |byte| char::from(byte).to_digit(16);
            let (high, low) = (digit(digits.next()?)?, digit(digits.next()?)?);
            *byte = (high << 4 | low) as u8;
        }
        let is_whole = digits.next().is_none() && (tag.is_empty() || Tag::new(tag).is_ok());
        is_whole.then(|| Origin {
            uuid: bytes,
            tag: tag.to_owned(),
        })
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.uuid.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                f.write_char('-')?;
            }
            write!(f, "{byte:02x}")?;
        }
        match self.tag.as_str() {
            "" => Ok(()),
            tag => write!(f, ":{tag}"),
        }
    }
}

impl Gtids {
    /// As MariaDB writes them: `0-1-100,7-2-3`.
    pub fn parse_mariadb(text: &str) -> Option<Gtids> {
        let mut last = BTreeMap::new();
        for part in parts(text) {
            let (domain, server, number) = parse_mariadb(part)?;
            last.insert(domain, (server, number));
        }
        Some(Gtids::MariaDb(last))
    }

    /// As MySQL writes them: `uuid:1-7:9:tag:1-3,uuid:1`, with line breaks behind the commas.
    pub fn parse_mysql(text: &str) -> Option<Gtids> {
        let mut all: BTreeMap<Origin, Vec<Span>> = BTreeMap::new();
        for part in parts(text) {
            let mut items = part.split(':').map(str::trim);
            let uuid = items.next()?;
            let mut tag = "";
            for item in items {
                if !item.starts_with(|first: char| first.is_ascii_digit()) {
                    tag = item;
                    continue;
                }
                let (first, last) = item.split_once('-').unwrap_or((item, item));
                let span: Span = (first.parse().ok()?, last.parse().ok()?);
                all.entry(Origin::new(uuid, tag)?).or_default().push(span);
            }
        }
        for spans in all.values_mut() {
            *spans = joined(spans)?;
        }
        Some(Gtids::MySql(all))
    }

    /// What a log of MySQL says at its beginning of all that came before.
    pub fn of_previous(event: &PreviousGtidsEvent<'_>) -> Option<Gtids> {
        let mut all = BTreeMap::new();
        for sid in event.sids() {
            let origin = Origin {
                uuid: sid.uuid(),
                tag: sid.tag().map_or("", |tag| tag.as_str()).to_owned(),
            };
            let spans = sid.intervals().iter();
            let spans: Vec<Span> = spans
                .map(|span| (span.start(), span.end().saturating_sub(1)))
                .collect();
            all.insert(origin, joined(&spans)?);
        }
        Some(Gtids::MySql(all))
    }

    /// The transaction has ended, too. One of the other kind of server is none of these.
    pub fn add(&mut self, gtid: Gtid) {
        match (self, gtid) {
            (
                Gtids::MariaDb(last),
                Gtid::MariaDb {
                    domain,
                    server,
                    number,
                },
            ) => {
                last.insert(domain, (server, number));
            }
            (Gtids::MySql(all), Gtid::MySql { origin, number }) => {
                add(all.entry(origin).or_default(), number);
            }
            _ => {}
        }
    }

    /// The blocks of a request to MySQL.
    pub fn sids(&self) -> Vec<Sid<'static>> {
        let Gtids::MySql(all) = self else {
            return Vec::new();
        };
        let sid = |(origin, spans): (&Origin, &Vec<Span>)| {
            let mut sid = Sid::new(origin.uuid);
            if let Ok(tag) = Tag::new(origin.tag.clone()) {
                sid = sid.with_tag(tag);
            }
            spans.iter().fold(sid, |sid, (first, last)| {
                sid.with_interval(GnoInterval::new(*first, last.saturating_add(1)))
            })
        };
        all.iter().map(sid).collect()
    }
}

fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|p| !p.is_empty())
}

/// The same numbers, in order, with spans that do not touch; `None` where one ends before its beginning.
fn joined(spans: &[Span]) -> Option<Vec<Span>> {
    let mut sorted = spans.to_vec();
    sorted.sort_unstable();
    let mut all: Vec<Span> = Vec::with_capacity(sorted.len());
    for (first, last) in sorted {
        if first > last {
            return None;
        }
        match all.last_mut() {
            Some(before) if before.1.saturating_add(1) >= first => before.1 = before.1.max(last),
            _ => all.push((first, last)),
        }
    }
    Some(all)
}

/// Mostly the number behind the last one.
fn add(spans: &mut Vec<Span>, number: u64) {
    // The first span that has the number, touches it, or lies behind it.
    let at = spans.partition_point(|span| span.1.saturating_add(1) < number);
    let next = spans.get(at + 1).map(|span| span.0);
    match spans.get_mut(at) {
        Some(span) if span.0 <= number && number <= span.1 => {}
        Some(span) if span.1.saturating_add(1) == number => {
            span.1 = number;
            if next == number.checked_add(1) {
                let behind = spans.remove(at + 1);
                spans[at].1 = behind.1;
            }
        }
        Some(span) if number.checked_add(1) == Some(span.0) => span.0 = number,
        _ => spans.insert(at, (number, number)),
    }
}

impl fmt::Display for Gtids {
    /// As the server reads them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut comma = "";
        match self {
            Gtids::MariaDb(last) => {
                for (domain, (server, number)) in last {
                    write!(f, "{comma}{domain}-{server}-{number}")?;
                    comma = ",";
                }
            }
            Gtids::MySql(all) => {
                for (origin, spans) in all {
                    write!(f, "{comma}{origin}")?;
                    for (first, last) in spans {
                        match first == last {
                            true => write!(f, ":{first}")?,
                            false => write!(f, ":{first}-{last}")?,
                        }
                    }
                    comma = ",";
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
    const B: &str = "4e11fa47-71ca-11e1-9e33-c80aa9429562";

    #[test]
    fn sets_are_read_as_servers_write_them() {
        let check = |text: &str, expect: &str| {
            let read = Gtids::parse_mysql(text).map(|gtids| gtids.to_string());
            assert_eq!(read.as_deref(), Some(expect), "{text}");
        };
        check("", "");
        check(&format!("{A}:1-5"), &format!("{A}:1-5"));
        check(
            &format!("{B}:9:1-5:6,\n{}:3", A.to_uppercase()),
            &format!("{A}:3,{B}:1-6:9"),
        );
        check(
            &format!("{A}:1-5:backup:1-3:7:other:2"),
            &format!("{A}:1-5,{A}:backup:1-3:7,{A}:other:2"),
        );
        for broken in ["x:1", &A[1..], &format!("{A}:5-1"), &format!("{A}:Ü:1")] {
            assert!(
                Gtids::parse_mysql(broken).is_none_or(|gtids| gtids.to_string().is_empty()),
                "{broken}"
            );
        }
        let mariadb = Gtids::parse_mariadb("7-2-3,0-1-100").map(|gtids| gtids.to_string());
        assert_eq!(mariadb.as_deref(), Some("0-1-100,7-2-3"));
        assert_eq!(Gtids::parse_mariadb("0-1"), None);
        assert_eq!(Gtids::parse_mariadb("0-1-2-3"), None);
    }

    #[test]
    fn names_are_kept() {
        for name in ["0-1-100", &format!("{A}:7"), &format!("{A}:backup:7")] {
            let read = Gtid::parse(name).map(|gtid| gtid.to_string());
            assert_eq!(read.as_deref(), Some(name));
        }
        for broken in ["", "-", "0-1", "x:1", &format!("{A}:x")] {
            assert_eq!(Gtid::parse(broken), None, "{broken}");
        }
    }

    #[test]
    fn transactions_are_added() {
        let check = |before: &str, gtid: &str, expect: &str| {
            let parse = match before.contains(':') || before.is_empty() {
                true => Gtids::parse_mysql,
                false => Gtids::parse_mariadb,
            };
            let mut gtids = parse(before).expect("it is a set");
            gtids.add(Gtid::parse(gtid).expect("it is a name"));
            assert_eq!(gtids.to_string(), expect);
            assert_eq!(parse(expect), Some(gtids));
        };
        let of_a = |numbers: &str| format!("{A}:{numbers}");
        check("", &of_a("1"), &of_a("1"));
        for (before, number, expect) in [
            ("1-5", "6", "1-6"),
            ("1-5", "3", "1-5"),
            ("1-5", "8", "1-5:8"),
            ("1-5:7-9", "6", "1-9"),
            ("3-5", "2", "2-5"),
            ("3-5:8", "1", "1:3-5:8"),
            ("1:9", "8", "1:8-9"),
            ("1:9", "2", "1-2:9"),
        ] {
            check(&of_a(before), &of_a(number), &of_a(expect));
        }
        check(
            &of_a("1-5"),
            &format!("{B}:t:1"),
            &format!("{A}:1-5,{B}:t:1"),
        );
        check("0-1-5,3-1-2", "0-2-6", "0-2-6,3-1-2");
        // One of another kind of server is passed over.
        check("0-1-5", &of_a("1"), "0-1-5");
    }

    #[test]
    fn a_request_has_a_block_for_each_origin() {
        let text = format!("{A}:1-5:9,{A}:backup:2");
        let gtids = Gtids::parse_mysql(&text).expect("it is a set");
        let blocks: Vec<String> = gtids.sids().iter().map(Sid::to_string).collect();
        assert_eq!(blocks.join(","), text);
    }
}
