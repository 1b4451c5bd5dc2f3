//! What the formatter learns from the parser: which tokens belong together and where lines may or
//! must break. Nothing is noted in ordinary parsing.

use std::collections::HashSet;

use super::Parser;

/// Stands before a token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mark {
    /// Opens a group: its [`Mark::Soft`] places all break, or none of them.
    Open,
    Close,
    /// Lines from here on stand further right.
    Indent,
    Dedent,
    /// A new line where the group does not fit on one.
    Soft,
    /// A new line.
    Line,
    /// A definition, or an annotation of the app: a new line, after an empty one if there was one.
    Definition,
    /// A query or a partition, or what follows the annotations of the app: an empty line and a
    /// new one.
    Query,
    /// No space before this token.
    Tight,
    /// A `;` belongs behind the last token, and is not there.
    Semicolon,
}

#[derive(Default, Debug)]
pub(crate) struct Layout {
    /// With the index of the token each stands before, in order.
    pub marks: Vec<(u32, Mark)>,
    /// Where tokens start that are names, though they look like keywords.
    pub names: HashSet<u32>,
}

impl Parser<'_> {
    pub(super) fn mark(&mut self, mark: Mark) {
        if let Some(layout) = &mut self.layout {
            layout.marks.push((self.at as u32, mark));
        }
    }

    /// Opens a group whose further lines stand further right.
    pub(super) fn open_group(&mut self) {
        self.mark(Mark::Open);
        self.mark(Mark::Indent);
    }

    pub(super) fn close_group(&mut self) {
        self.mark(Mark::Dedent);
        self.mark(Mark::Close);
    }
}
