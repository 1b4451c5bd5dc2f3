//! Partitions: their keys and the queries between `begin` and `end`.

use super::layout::Mark;
use super::recover::List;
use super::{Parse, Parser};
use crate::ast::*;
use crate::fault;
use crate::span::Span;
use crate::token::{Keyword, Sign, TokenKind};

const PARTITION_KEYS: List = List {
    item: "a partition key",
    open: Sign::OpenParen,
    close: Sign::CloseParen,
    many: true,
};

impl Parser<'_> {
    pub(super) fn partition(&mut self, annotations: Vec<Annotation>) -> Option<Partition> {
        let start = annotations.first().map_or(self.span(), |a| a.span);
        let header = self.attempt(Self::partition_header);
        if header.is_err() {
            self.skip_until(|p| p.is_keyword(Keyword::Begin));
            self.eat_keyword(Keyword::Begin);
        }
        let column = self.line_indent(start.start);
        self.mark(Mark::Indent);
        let queries = self.partition_queries(column);
        let span = self.since(start);
        header.ok().map(|keys| Partition {
            annotations,
            keys,
            queries,
            span,
        })
    }

    fn partition_header(&mut self) -> Parse<Vec<PartitionKey>> {
        self.expect_keyword(Keyword::Partition)?;
        self.expect_keyword(Keyword::With)?;
        let open = self.span();
        self.expect(Sign::OpenParen);
        let keys = self.list(PARTITION_KEYS, open, Self::partition_key)?;
        self.mark(Mark::Line);
        if !self.eat_keyword(Keyword::Begin) && !self.eat_misspelt(Keyword::Begin) {
            let place = self.missing_line();
            let message = format!("'begin' is missing before {}", self.found());
            let report = fault::error("E0112", place, message, "'begin' belongs here");
            self.report(report.fix(place, "\nbegin"));
        }
        Ok(keys)
    }

    fn partition_key(&mut self) -> Parse<PartitionKey> {
        let start = self.span();
        let first = self.expression()?;
        let by = if self.eat_keyword(Keyword::As) {
            let mut ranges = vec![(first, self.range_name()?)];
            while self.is_keyword(Keyword::Or) {
                self.mark(Mark::Soft);
                self.bump();
                let condition = self.expression()?;
                self.expect_keyword(Keyword::As)?;
                ranges.push((condition, self.range_name()?));
            }
            PartitionBy::Ranges(ranges)
        } else {
            PartitionBy::Value(first)
        };
        self.expect_keyword(Keyword::Of)?;
        let name = self.name("the name of a stream")?;
        let stream = StreamName {
            span: name.span,
            name,
            kind: StreamKind::Plain,
        };
        Ok(PartitionKey {
            stream,
            by,
            span: self.since(start),
        })
    }

    fn range_name(&mut self) -> Parse<Text> {
        if let TokenKind::String(_) = self.peek() {
            let token = self.bump();
            return Ok(self.text_of(token));
        }
        Err(self.expected("the name of the range in quotes"))
    }

    /// Everything between `begin` and `end`.
    fn partition_queries(&mut self, column: usize) -> Vec<Query> {
        let mut queries = Vec::new();
        let mut is_indented = false;
        loop {
            if self.is(Sign::Semicolon) {
                self.stray_semicolon();
                continue;
            }
            // Queries that stood further in have come to an end when one does not.
            let outside = self.starts_line(0) && self.line_indent(self.span().start) <= column;
            let is_end = self.is_keyword(Keyword::End) || self.is_misspelt(0, Keyword::End);
            let left = is_indented && outside && !is_end;
            is_indented |= self.starts_line(0) && !outside;
            if left || self.peek() == TokenKind::End || self.is_keyword(Keyword::Partition) {
                self.partition_not_closed();
                return queries;
            }
            if self.is_keyword(Keyword::End) && !self.peek_at(1).is_name() {
                if queries.is_empty() {
                    let message = "a partition holds at least one query".to_owned();
                    let report =
                        fault::error("E0130", self.span(), message, "no query before this");
                    self.report(report);
                }
                self.mark(Mark::Dedent);
                self.mark(Mark::Line);
                self.bump();
                return queries;
            }
            if self.is_misspelt(0, Keyword::End) && self.peek_at(1).is(Sign::Semicolon) {
                self.eat_misspelt(Keyword::End);
                return queries;
            }
            let before = self.at;
            self.mark(if queries.is_empty() {
                Mark::Line
            } else {
                Mark::Query
            });
            let annotations = self.annotations();
            if self.is_keyword(Keyword::Define) {
                self.definition_in_partition();
            } else if self.is_keyword(Keyword::From)
                || self.is_keyword(Keyword::For)
                || self.is_misspelt(0, Keyword::From)
            {
                queries.extend(self.query(annotations));
            } else {
                let report = self.no_element(&annotations);
                self.report(report);
                self.skip_until(|_| false);
            }
            if self.at == before {
                self.bump();
            }
            if self.is_keyword(Keyword::End) {
                self.mark(Mark::Semicolon);
            } else if !self.eat(Sign::Semicolon) {
                self.inner_query_end();
            }
        }
    }

    fn inner_query_end(&mut self) {
        if self.peek() == TokenKind::End {
            return;
        }
        if self.starts_element(0) || self.is_misspelt_start() {
            self.missing_semicolon();
            return;
        }
        self.unexpected_after_element();
        self.skip_until(|_| false);
        self.eat(Sign::Semicolon);
    }

    fn definition_in_partition(&mut self) {
        let message = "a definition is not allowed inside a partition".to_owned();
        let report = fault::error("E0122", self.span(), message, "inside 'begin … end'")
            .help("move it before the first query; inner streams (#Name) need no definition");
        self.report(report);
        self.skip_until(|_| false);
        if self.is_keyword(Keyword::Define) {
            self.bump();
            self.skip_until(|_| false);
        }
    }

    fn partition_not_closed(&mut self) {
        let place = self.missing_line();
        let message = "a partition is not closed, 'end' is missing".to_owned();
        let report = fault::error("E0112", place, message, "'end;' belongs here");
        self.report(report.fix(place, "\nend;"));
    }

    /// Where a line is missing: at the first empty line behind the last token, else right behind
    /// that token.
    fn missing_line(&self) -> Span {
        let gap = self.gap();
        let between = Span::new(gap.start, self.span().start).text(self.text);
        let mut start = gap.start;
        for (index, line) in between.split_inclusive('\n').enumerate() {
            let is_whole = index > 0 && line.ends_with('\n');
            if is_whole && line.trim().is_empty() {
                return Span::new(start, start);
            }
            start += line.len() as u32;
        }
        gap
    }

    /// How far in the line begins whose first token is at this offset; more than any column where
    /// the token is not the first.
    fn line_indent(&self, offset: u32) -> usize {
        let before = &self.text.as_bytes()[..offset as usize];
        let indent = before
            .iter()
            .rev()
            .take_while(|b| matches!(b, b' ' | b'\t'))
            .count();
        match before
            .len()
            .checked_sub(indent + 1)
            .map(|last| before[last])
        {
            None | Some(b'\n') => indent,
            Some(_) => usize::MAX,
        }
    }
}
