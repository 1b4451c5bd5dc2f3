//! On-demand (store) queries: one statement, read on its own.

use super::{Parse, Parser, Reported};
use crate::ast::*;
use crate::fault;
use crate::span::Span;
use crate::token::{Keyword, Sign, TokenKind};

impl Parser<'_> {
    pub(super) fn on_demand(&mut self) -> Option<OnDemandQuery> {
        let parsed = self.attempt(Self::on_demand_body);
        if parsed.is_err() {
            self.skip_element();
        }
        parsed.ok()
    }

    fn on_demand_body(&mut self) -> Parse<OnDemandQuery> {
        let start = self.span();
        if self.is_keyword(Keyword::From) || self.is_misspelt(0, Keyword::From) {
            self.expect_keyword(Keyword::From)?;
            let from = Some(self.on_demand_source()?);
            let selector = self.selector()?;
            if !matches!(
                self.peek(),
                TokenKind::End | TokenKind::Sign(Sign::Semicolon)
            ) {
                return Err(self.behind_find());
            }
            return Ok(OnDemandQuery {
                from,
                selector,
                output: None,
                span: self.since(start),
            });
        }
        let selector = self.selector()?;
        let has_select = selector.span != Span::default();
        let output = self.on_demand_output(has_select)?;
        let span = self.since(start);
        Ok(OnDemandQuery {
            from: None,
            selector,
            output: Some(output),
            span,
        })
    }

    fn on_demand_source(&mut self) -> Parse<OnDemandSource> {
        let name = self.name("the name of a table, window or aggregation")?;
        let name = StreamName {
            span: name.span,
            name,
            kind: StreamKind::Plain,
        };
        let alias = if self.eat_keyword(Keyword::As) {
            Some(self.name("another name for the table")?)
        } else {
            None
        };
        let on = if self.eat_keyword(Keyword::On) {
            Some(self.expression()?)
        } else {
            None
        };
        let (within, per) = self.within_per()?;
        Ok(OnDemandSource {
            name,
            alias,
            on,
            within,
            per,
        })
    }

    /// A query that begins with `from` only finds.
    fn behind_find(&mut self) -> Reported {
        let word = self.token_text(self.token(0)).to_ascii_lowercase();
        let message = match word.as_str() {
            "insert" | "update" | "delete" | "return" => {
                format!("an on-demand query with 'from' has no '{word}'")
            }
            "output" => "an on-demand query has no 'output'".to_owned(),
            _ => format!(
                "expected the end of the on-demand query, found {}",
                self.found()
            ),
        };
        let report = fault::error("E0151", self.span(), message, "not understood from here on")
            .help("write from Table on condition select …; or select … insert into Table");
        self.report(report)
    }

    fn on_demand_output(&mut self, has_select: bool) -> Parse<Output> {
        let start = self.span();
        match self.peek() {
            TokenKind::Keyword(Keyword::Insert) if has_select => {
                self.bump();
                self.expect_keyword(Keyword::Into)?;
                let target = self.stream_name("the name of a table")?;
                Ok(Output::Insert {
                    target,
                    events: None,
                    span: self.since(start),
                })
            }
            TokenKind::Keyword(Keyword::Insert) => {
                let message = "'insert into' needs a 'select' before it".to_owned();
                let report = fault::error("E0151", start, message, "no values to insert")
                    .help("write select 'a' as name, 1 as count insert into Table");
                Err(self.report(report))
            }
            TokenKind::Keyword(Keyword::Delete) => {
                self.bump();
                let table = self.stream_name("the name of a table")?;
                let on = if self.eat_keyword(Keyword::On) {
                    Some(self.expression()?)
                } else {
                    None
                };
                Ok(Output::Delete {
                    table,
                    events: None,
                    on,
                    span: self.since(start),
                })
            }
            TokenKind::Keyword(Keyword::Update) => {
                let output = self.update(start)?;
                if let Output::Update {
                    events: Some(_), ..
                }
                | Output::UpdateOrInsert {
                    events: Some(_), ..
                } = output
                {
                    let message = "an on-demand query has no 'for … events'".to_owned();
                    let report = fault::error("E0151", start, message, "nothing streams here");
                    self.report(report);
                }
                if let Output::UpdateOrInsert { .. } = output
                    && !has_select
                {
                    let message = "'update or insert into' needs a 'select' before it".to_owned();
                    self.report(fault::error("E0151", start, message, "no values to write"));
                }
                Ok(output)
            }
            _ => Err(self.expected("'from', 'select', 'update' or 'delete'")),
        }
    }
}
