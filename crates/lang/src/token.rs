//! The words and signs of SiddhiQL.

use crate::span::Span;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Token {
    pub kind: TokenKind,
    pub span: Span,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TokenKind {
    /// A name that is not a keyword.
    Name,
    /// A name between back-quotes.
    QuotedName,
    Keyword(Keyword),
    Int,
    Long,
    Float,
    Double,
    /// The value is the number of quote characters on either side: 1 or 3.
    String(u8),
    /// `{ … }` with its braces.
    Script,
    Sign(Sign),
    /// A character that means nothing; the lexer reported it.
    Stray,
    End,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sign {
    Colon,
    Semicolon,
    Dot,
    Ellipsis,
    OpenParen,
    CloseParen,
    OpenBracket,
    CloseBracket,
    Comma,
    Assign,
    Star,
    Plus,
    Question,
    Minus,
    Slash,
    Percent,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Equal,
    NotEqual,
    At,
    Arrow,
    Hash,
    Bang,
}

impl Sign {
    pub const fn text(self) -> &'static str {
        match self {
            Sign::Colon => ":",
            Sign::Semicolon => ";",
            Sign::Dot => ".",
            Sign::Ellipsis => "...",
            Sign::OpenParen => "(",
            Sign::CloseParen => ")",
            Sign::OpenBracket => "[",
            Sign::CloseBracket => "]",
            Sign::Comma => ",",
            Sign::Assign => "=",
            Sign::Star => "*",
            Sign::Plus => "+",
            Sign::Question => "?",
            Sign::Minus => "-",
            Sign::Slash => "/",
            Sign::Percent => "%",
            Sign::Less => "<",
            Sign::LessEqual => "<=",
            Sign::Greater => ">",
            Sign::GreaterEqual => ">=",
            Sign::Equal => "==",
            Sign::NotEqual => "!=",
            Sign::At => "@",
            Sign::Arrow => "->",
            Sign::Hash => "#",
            Sign::Bang => "!",
        }
    }
}

/// One table for the enum, its spellings and the look-up. The first spelling is the one that the
/// formatter and the messages use.
macro_rules! keywords {
    ($($name:ident: $($text:literal)|+),* $(,)?) => {
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum Keyword { $($name),* }

        impl Keyword {
            #[cfg(test)]
            pub const ALL: &[Keyword] = &[$(Keyword::$name),*];

            /// All spellings, in lower case.
            pub const fn texts(self) -> &'static [&'static str] {
                match self { $(Keyword::$name => &[$($text),+]),* }
            }

            /// `word` must be in lower case.
            fn from_lower(word: &str) -> Option<Keyword> {
                match word {
                    $($($text)|+ => Some(Keyword::$name),)*
                    _ => None,
                }
            }
        }
    };
}

keywords! {
    App: "app", Stream: "stream", Define: "define", Table: "table", From: "from",
    Partition: "partition", Window: "window", Select: "select", Group: "group", By: "by",
    Order: "order", Asc: "asc", Desc: "desc", Limit: "limit", Offset: "offset",
    Having: "having", Insert: "insert", Delete: "delete", Update: "update", Set: "set",
    Return: "return", Events: "events", Into: "into", Output: "output", Expired: "expired",
    Current: "current", Snapshot: "snapshot", For: "for", Raw: "raw", Of: "of", As: "as",
    At: "at", Or: "or", And: "and", In: "in", On: "on", Is: "is", Not: "not",
    Within: "within", With: "with", Begin: "begin", End: "end", Null: "null",
    Every: "every", Last: "last", All: "all", First: "first", Join: "join",
    Inner: "inner", Outer: "outer", Right: "right", Left: "left", Full: "full",
    Unidirectional: "unidirectional",
    Years: "years" | "year", Months: "months" | "month", Weeks: "weeks" | "week",
    Days: "days" | "day", Hours: "hours" | "hour", Minutes: "min" | "minute" | "minutes",
    Seconds: "sec" | "second" | "seconds",
    Milliseconds: "millisec" | "millisecond" | "milliseconds",
    False: "false", True: "true", String: "string", Int: "int", Long: "long",
    Float: "float", Double: "double", Bool: "bool", Object: "object",
    Function: "function", Trigger: "trigger", Aggregation: "aggregation",
    Aggregate: "aggregate", Per: "per",
}

/// Longer than any keyword (`unidirectional` has 14).
const KEYWORD_LEN_MAX: usize = 16;

impl Keyword {
    /// Keywords match in any case.
    pub fn from_word(word: &str) -> Option<Keyword> {
        let mut lower = [0u8; KEYWORD_LEN_MAX];
        let lower = lower.get_mut(..word.len())?;
        lower.copy_from_slice(word.as_bytes());
        lower.make_ascii_lowercase();
        std::str::from_utf8(lower)
            .ok()
            .and_then(Keyword::from_lower)
    }

    pub const fn text(self) -> &'static str {
        self.texts()[0]
    }
}

impl TokenKind {
    pub fn is(self, sign: Sign) -> bool {
        self == TokenKind::Sign(sign)
    }

    /// Every keyword can be a name too.
    pub fn is_name(self) -> bool {
        matches!(
            self,
            TokenKind::Name | TokenKind::QuotedName | TokenKind::Keyword(_)
        )
    }
}

/// Units of time from the largest (0) to the smallest, with their milliseconds.
pub(crate) const UNITS: &[(Keyword, i64)] = &[
    (Keyword::Years, 365 * DAY),
    (Keyword::Months, 30 * DAY),
    (Keyword::Weeks, 7 * DAY),
    (Keyword::Days, DAY),
    (Keyword::Hours, 3_600_000),
    (Keyword::Minutes, 60_000),
    (Keyword::Seconds, 1_000),
    (Keyword::Milliseconds, 1),
];

const DAY: i64 = 86_400_000;

/// The place of a unit of time among all, the largest being 0; `None` for other keywords.
pub(crate) fn unit_rank(keyword: Keyword) -> Option<usize> {
    UNITS.iter().position(|(unit, _)| *unit == keyword)
}
