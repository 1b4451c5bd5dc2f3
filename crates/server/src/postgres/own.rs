//! Statements that a session answers itself: transactions, settings, what a client cleans up.

/// What a statement wants.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Own {
    Begin,
    Commit,
    /// A transaction that has failed ends by it as well.
    Rollback,
    /// Nothing that anybody could see; the client is told this tag.
    Nothing(&'static str),
    Set {
        name: String,
        value: String,
    },
    Reset(Option<String>),
    Show(String),
    ShowAll,
    Deallocate(Option<String>),
    Discard,
}

/// What a statement wants of its session; `None`: it is for the engine.
pub(super) fn own(sql: &str) -> Option<Own> {
    let words = words(sql);
    let at = |at: usize| words.get(at).map_or("", String::as_str);
    let is = |place: usize, word: &str| at(place).eq_ignore_ascii_case(word);
    let first = at(0).to_ascii_lowercase();
    Some(match &*first {
        "begin" => Own::Begin,
        "start" if is(1, "transaction") => Own::Begin,
        "commit" | "end" => Own::Commit,
        "rollback" if is(1, "to") || is(2, "to") => Own::Nothing("ROLLBACK"),
        "rollback" | "abort" => Own::Rollback,
        "savepoint" => Own::Nothing("SAVEPOINT"),
        "release" => Own::Nothing("RELEASE"),
        "unlisten" => Own::Nothing("UNLISTEN"),
        "close" if is(1, "all") => Own::Nothing("CLOSE CURSOR ALL"),
        "discard" => Own::Discard,
        "deallocate" => {
            let name = if is(1, "prepare") { at(2) } else { at(1) };
            let is_all = name.eq_ignore_ascii_case("all");
            Own::Deallocate((!is_all).then(|| name.to_owned()))
        }
        "reset" => Own::Reset((!is(1, "all")).then(|| at(1).to_owned())),
        "set" => set(&words[1..])?,
        "show" if words.len() == 2 && is(1, "all") => Own::ShowAll,
        "show" if is(1, "transaction") && is(2, "isolation") => {
            Own::Show("transaction_isolation".to_owned())
        }
        "show" if is(1, "time") && is(2, "zone") => Own::Show("timezone".to_owned()),
        "show" if words.len() == 2 && !is(1, "tables") && !is(1, "functions") => {
            Own::Show(at(1).to_owned())
        }
        _ => return None,
    })
}

fn set(words: &[String]) -> Option<Own> {
    let is = |place: usize, word: &str| {
        words
            .get(place)
            .is_some_and(|found| found.eq_ignore_ascii_case(word))
    };
    if is(0, "transaction") || is(1, "characteristics") || is(0, "constraints") || is(0, "role") {
        return Some(Own::Nothing("SET"));
    }
    let words = match is(0, "session") || is(0, "local") {
        true => &words[1..],
        false => words,
    };
    let is = |place: usize, word: &str| {
        words
            .get(place)
            .is_some_and(|found| found.eq_ignore_ascii_case(word))
    };
    let (name, value) = if is(0, "time") && is(1, "zone") {
        ("timezone", &words[2..])
    } else if is(0, "names") {
        ("client_encoding", &words[1..])
    } else if is(1, "to") || is(1, "=") {
        (words[0].as_str(), &words[2..])
    } else {
        return None;
    };
    Some(Own::Set {
        name: name.to_owned(),
        value: value.join(" ").replace(" , ", ", "),
    })
}

/// The words of a statement without quotes and comments; `=` and `,` are words of their own.
fn words(sql: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = sql;
    while let Some(next) = rest.chars().next() {
        let (word, len) = match next {
            _ if rest.starts_with("--") => (None, rest.find('\n').unwrap_or(rest.len())),
            _ if rest.starts_with("/*") => {
                (None, rest.find("*/").map_or(rest.len(), |end| end + 2))
            }
            '=' | ',' => (Some(next.to_string()), 1),
            '\'' | '"' => {
                let inner = &rest[1..];
                let end = inner.find(next).unwrap_or(inner.len());
                (Some(inner[..end].to_owned()), (end + 2).min(rest.len()))
            }
            _ if next.is_whitespace() || next == ';' => (None, next.len_utf8()),
            _ => {
                let ends = |c: char| c.is_whitespace() || "=,;'\"".contains(c);
                // A sign that begins no word is one.
                let end = rest.find(ends).unwrap_or(rest.len());
                (Some(rest[..end].to_owned()), end)
            }
        };
        words.extend(word);
        // What none of these statements needs.
        if words.len() > 100 {
            break;
        }
        rest = &rest[len..];
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_of_a_session_are_told_from_those_of_the_engine() {
        let set = |name: &str, value: &str| Own::Set {
            name: name.to_owned(),
            value: value.to_owned(),
        };
        let name = |name: &str| Some(name.to_owned());
        for (sql, want) in [
            ("BEGIN", Some(Own::Begin)),
            ("/* a */ start transaction read only", Some(Own::Begin)),
            ("commit;", Some(Own::Commit)),
            ("END", Some(Own::Commit)),
            ("rollback to savepoint a", Some(Own::Nothing("ROLLBACK"))),
            ("ROLLBACK", Some(Own::Rollback)),
            ("SET x = 5", Some(set("x", "5"))),
            ("set session \"X y\" to 'a b'", Some(set("X y", "a b"))),
            ("SET DateStyle=ISO,MDY", Some(set("DateStyle", "ISO, MDY"))),
            ("SET TIME ZONE 'UTC'", Some(set("timezone", "UTC"))),
            ("SET NAMES 'UTF8'", Some(set("client_encoding", "UTF8"))),
            (
                "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
                Some(Own::Nothing("SET")),
            ),
            (
                "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
                Some(Own::Nothing("SET")),
            ),
            (
                "-- x\nshow server_version",
                Some(Own::Show("server_version".into())),
            ),
            (
                "SHOW TRANSACTION ISOLATION LEVEL",
                Some(Own::Show("transaction_isolation".into())),
            ),
            ("show all", Some(Own::ShowAll)),
            ("show tables", None),
            ("show columns from t", None),
            ("select 1", None),
            ("setx", None),
            ("set", None),
            ("", None),
            ("DEALLOCATE PREPARE a", Some(Own::Deallocate(name("a")))),
            ("deallocate all", Some(Own::Deallocate(None))),
            ("RESET ALL", Some(Own::Reset(None))),
            ("reset x", Some(Own::Reset(name("x")))),
            ("DISCARD ALL", Some(Own::Discard)),
            ("'open", None),
            ("/* open", None),
        ] {
            assert_eq!(own(sql), want, "{sql}");
        }
    }
}
