//! Where to go on after a fault, and what the writer may have meant.

use super::layout::Mark;
use super::{Parse, Parser, Reported};
use crate::fault;
use crate::span::Span;
use crate::suggest::nearest;
use crate::token::{Keyword, Sign, Token, TokenKind};

/// What a list is called and closed by.
#[derive(Clone, Copy)]
pub(super) struct List {
    /// "an attribute", for messages.
    pub item: &'static str,
    pub open: Sign,
    pub close: Sign,
    /// Holds several items, with commas between them.
    pub many: bool,
}

/// How far is looked to tell where an open list ends.
const LOOKAHEAD_MAX: usize = 400;

/// Keywords that begin a clause of a query, in their order.
const CLAUSES: &[Keyword] = &[
    Keyword::Select,
    Keyword::Group,
    Keyword::Having,
    Keyword::Order,
    Keyword::Limit,
    Keyword::Offset,
    Keyword::Output,
    Keyword::Insert,
    Keyword::Delete,
    Keyword::Update,
    Keyword::Return,
];

impl Parser<'_> {
    /// Whether the token is the first on its line.
    pub(super) fn starts_line(&self, ahead: usize) -> bool {
        let index = (self.at + ahead).min(self.tokens.len() - 1);
        let from = match index.checked_sub(1) {
            Some(last) => self.tokens[last].span.end,
            None => return true,
        };
        Span::new(from, self.tokens[index].span.start)
            .text(self.text)
            .contains(['\n', '\r'])
    }

    fn keyword_at(&self, ahead: usize) -> Option<Keyword> {
        match self.peek_at(ahead) {
            TokenKind::Keyword(keyword) => Some(keyword),
            _ => None,
        }
    }

    /// Whether a new definition, query, partition or annotation seems to begin here.
    pub(super) fn starts_element(&self, ahead: usize) -> bool {
        use Keyword::*;
        match self.peek_at(ahead) {
            TokenKind::Sign(Sign::At) => self.peek_at(ahead + 1).is_name(),
            TokenKind::Keyword(Define) => matches!(
                self.keyword_at(ahead + 1),
                Some(Stream | Table | Window | Trigger | Function | Aggregation)
            ),
            TokenKind::Keyword(Partition) => self.keyword_at(ahead + 1) == Some(With),
            TokenKind::Keyword(From) => {
                self.starts_line(ahead) || self.at == 0 || self.peek_at(ahead + 1).is_name()
            }
            _ => false,
        }
    }

    /// Whether a keyword looks like the start of a clause or element: it is the first on its line
    /// or stands before the word that goes with it.
    pub(super) fn starts_clause(&self, ahead: usize) -> bool {
        use Keyword::*;
        let Some(keyword) = self.keyword_at(ahead) else {
            return false;
        };
        // Names of options and streams: `partition.no = '0'`, `group = S`.
        if let TokenKind::Sign(Sign::Dot | Sign::Assign | Sign::Colon | Sign::Minus) =
            self.peek_at(ahead + 1)
        {
            return false;
        }
        let next = self.keyword_at(ahead + 1);
        match keyword {
            Group | Order if next == Some(By) => true,
            Insert if matches!(next, Some(Into | All | Expired | Current | Events)) => true,
            Update if next == Some(Or) => true,
            Partition if next == Some(With) => true,
            Define => self.starts_element(ahead) || self.starts_line(ahead),
            Output if matches!(next, Some(All | First | Last | Every | Snapshot)) => true,
            End if self.starts_line(ahead) => true,
            Into | Select | From => true,
            Partition => self.starts_line(ahead),
            _ => CLAUSES.contains(&keyword) && self.starts_line(ahead),
        }
    }

    /// Skips the rest of an element: stops at `;`, at the next element or the end.
    pub(super) fn skip_element(&mut self) {
        self.skip_until(|_| false);
    }

    /// Skips until `stop` holds outside of brackets, or the element ends.
    pub(super) fn skip_until(&mut self, stop: impl Fn(&Self) -> bool) {
        let mut depth = 0u32;
        loop {
            match self.peek() {
                TokenKind::End | TokenKind::Sign(Sign::Semicolon) => return,
                TokenKind::Sign(Sign::OpenParen | Sign::OpenBracket) => depth += 1,
                TokenKind::Sign(Sign::CloseParen | Sign::CloseBracket) => {
                    depth = depth.saturating_sub(1);
                }
                TokenKind::Keyword(Keyword::End) if self.ends_partition() => return,
                _ if self.starts_element(0) && (depth == 0 || self.starts_line(0)) => return,
                _ if depth == 0 && stop(self) => return,
                // A clause on a line of its own ends brackets that were left open.
                _ if depth > 0 && self.starts_line(0) && self.starts_clause(0) && stop(self) => {
                    return;
                }
                _ => {}
            }
            self.bump();
        }
    }

    /// Whether `end` closes a partition here: nothing of the element follows it.
    pub(super) fn ends_partition(&self) -> bool {
        self.is_keyword(Keyword::End)
            && (matches!(
                self.peek_at(1),
                TokenKind::End | TokenKind::Sign(Sign::Semicolon)
            ) || self.starts_element(1))
    }

    /// Parses `item , item … )` after the opening bracket, with recovery at `,` and the closing
    /// bracket. Returns the items that could be parsed; `Err` when the list has no end here.
    pub(super) fn list<T>(
        &mut self,
        list: List,
        open: Span,
        mut item: impl FnMut(&mut Self) -> Parse<T>,
    ) -> Parse<Vec<T>> {
        let mut items = Vec::new();
        self.open_group();
        loop {
            self.mark(Mark::Soft);
            let before = self.at;
            if self.is(list.close) {
                if items.is_empty() {
                    self.empty_list(list);
                } else {
                    self.trailing_comma(list.item);
                }
            } else {
                match item(self) {
                    Ok(item) => items.push(item),
                    Err(Reported) => self.skip_in_list(list),
                }
            }
            if self.is(list.close) {
                self.mark(Mark::Dedent);
                self.mark(Mark::Soft);
                self.bump();
                self.mark(Mark::Close);
                return Ok(items);
            }
            if self.eat(Sign::Comma) {
                continue;
            }
            // Where nothing was taken the same fault would come again, for ever.
            if self.at > before && self.could_start_item() {
                self.missing_comma(list.item);
                continue;
            }
            // Where the element ends the list ends as well: what was read of it counts.
            let boundary = self.at_boundary() || self.is_keyword(Keyword::As);
            let reported = self.not_closed(list, open);
            return if boundary && !items.is_empty() {
                Ok(items)
            } else {
                Err(reported)
            };
        }
    }

    /// Whether the next token, on this line or the next, could be another item of a list.
    fn could_start_item(&self) -> bool {
        if self.starts_element(0) && self.starts_line(0) {
            return self.is(Sign::At) && self.peek_at(1).is_name() && !self.define_follows();
        }
        match self.peek() {
            TokenKind::Name | TokenKind::QuotedName => true,
            // Behind `as` goes on what the list stands in.
            TokenKind::Keyword(Keyword::As) => false,
            TokenKind::Keyword(_) => !self.starts_clause(0) && !self.starts_element(0),
            TokenKind::Int | TokenKind::Long | TokenKind::Float | TokenKind::Double => true,
            TokenKind::String(quotes) => quotes > 0,
            TokenKind::Sign(Sign::At) => true,
            _ => false,
        }
    }

    /// Whether an annotation at a line start seems to belong to the next definition rather than to
    /// the open list: a bracket is closed before `define`, `from` or `partition` comes.
    fn define_follows(&self) -> bool {
        let mut depth = 0i32;
        for ahead in 0..LOOKAHEAD_MAX {
            match self.peek_at(ahead) {
                TokenKind::Sign(Sign::OpenParen) => depth += 1,
                TokenKind::Sign(Sign::CloseParen) => depth -= 1,
                TokenKind::Sign(Sign::Comma) if depth == 0 => return false,
                TokenKind::Keyword(Keyword::Define | Keyword::From) => return depth == 0,
                TokenKind::End => return true,
                _ => {}
            }
            if depth < 0 {
                return false;
            }
        }
        false
    }

    fn skip_in_list(&mut self, list: List) {
        let mut depth = 0u32;
        loop {
            match self.peek() {
                TokenKind::End | TokenKind::Sign(Sign::Semicolon) => return,
                TokenKind::Sign(Sign::Comma) if depth == 0 => return,
                TokenKind::Sign(Sign::OpenParen | Sign::OpenBracket) => depth += 1,
                TokenKind::Sign(sign @ (Sign::CloseParen | Sign::CloseBracket)) => {
                    if depth == 0 && sign == list.close {
                        return;
                    }
                    depth = depth.saturating_sub(1);
                }
                _ if self.starts_line(0) && (self.starts_element(0) || self.starts_clause(0)) => {
                    return;
                }
                _ => {}
            }
            self.bump();
        }
    }

    fn empty_list(&mut self, list: List) {
        let message = format!("{} is missing between the brackets", list.item);
        let report = fault::error("E0130", self.span(), message, "an empty list");
        self.report(report);
    }

    /// Takes a closing bracket that closes nothing, with a report.
    pub(super) fn eat_extra_close(&mut self) -> bool {
        let TokenKind::Sign(sign @ (Sign::CloseParen | Sign::CloseBracket)) = self.peek() else {
            return false;
        };
        let span = self.bump().span;
        let message = format!("'{}' closes nothing", sign.text());
        self.report(fault::error("E0113", span, message, "nothing is open here").fix(span, ""));
        true
    }

    fn trailing_comma(&mut self, item: &str) {
        let comma = self.tokens[self.at.saturating_sub(1)].span;
        let message = format!("{item} is missing after ','");
        let report = fault::error("E0135", comma, message, "nothing follows this comma");
        self.report(report.help("remove the comma").fix(comma, ""));
    }

    pub(super) fn missing_comma(&mut self, item: &str) {
        let gap = self.gap();
        let message = format!("',' is missing before {}", self.found());
        let label = format!("{item} ends here");
        self.report(fault::error("E0150", gap, message, &label).fix(gap, ","));
    }

    pub(super) fn not_closed(&mut self, list: List, open: Span) -> Reported {
        if self.behind_open_string() {
            return Reported;
        }
        let close = list.close.text();
        let gap = self.gap();
        let is_end = self.at_boundary() || self.starts_line(0);
        let message = if is_end {
            format!("'{}' is not closed, '{close}' is missing", list.open.text())
        } else if list.many {
            format!("expected ',' or '{close}', found {}", self.found())
        } else {
            format!("expected '{close}', found {}", self.found())
        };
        let span = if is_end { gap } else { self.span() };
        let report = fault::error("E0112", span, message, &format!("'{close}' belongs here"))
            .related(open, "opened here");
        let report = if is_end {
            report.fix(gap, close)
        } else {
            report
        };
        self.report(report)
    }

    /// Whether a string that is not closed, and was reported, swallowed the end of its line.
    pub(super) fn behind_open_string(&self) -> bool {
        self.at > 0 && self.tokens[self.at - 1].kind == TokenKind::String(0)
    }

    /// Whether the element, or the clause, ends before the next token.
    pub(super) fn at_boundary(&self) -> bool {
        matches!(
            self.peek(),
            TokenKind::End | TokenKind::Sign(Sign::Semicolon)
        ) || self.starts_element(0)
            || self.starts_clause(0)
    }

    /// Takes the closing bracket, or reports where it is missing. The list goes on as if it were
    /// there when the element or the clause ends here.
    pub(super) fn close(&mut self, list: List, open: Span) -> Parse<()> {
        if self.eat(list.close) {
            return Ok(());
        }
        let boundary = self.at_boundary();
        let reported = self.not_closed(list, open);
        if boundary { Ok(()) } else { Err(reported) }
    }

    // ---- misspelt keywords ----

    /// Takes a name that is nearly the wanted keyword, with a report.
    pub(super) fn eat_misspelt(&mut self, wanted: Keyword) -> bool {
        let found = self.is_misspelt(0, wanted);
        if found {
            let token = self.bump();
            self.report_misspelt(token, wanted);
        }
        found
    }

    pub(super) fn is_misspelt(&self, ahead: usize, wanted: Keyword) -> bool {
        let token = self.token(ahead);
        let written = match token.kind {
            TokenKind::Name => self.token_text(token),
            // `form` is not a keyword, but `for` in the place of `from` is one.
            TokenKind::Keyword(_) if self.strict => self.token_text(token),
            _ => return false,
        };
        nearest(written, wanted.texts().iter().copied()).is_some()
            && Keyword::from_word(written) != Some(wanted)
    }

    pub(super) fn report_misspelt(&mut self, token: Token, wanted: Keyword) {
        let word = self.token_text(token);
        let right = wanted.text();
        let report = fault::error(
            "E0114",
            token.span,
            format!("'{word}' is not a keyword, '{right}' belongs here"),
            "misspelt",
        )
        .help(format!("did you mean '{right}'?"))
        .fix(token.span, right);
        self.report(report);
    }
}
