//! Tokens, comments and marks to lines.

use super::COLUMNS_MAX;
use crate::lexer::Lexed;
use crate::parser::layout::{Layout, Mark};
use crate::span::Span;
use crate::token::{Sign, TokenKind};

const INDENT: usize = 4;

/// A token as it is printed.
struct Piece {
    text: String,
    columns: usize,
    /// A space stands before it, within a line.
    space: bool,
    span: Span,
    is_close: bool,
}

/// A stretch of tokens that stands on one line or breaks at all its soft places.
#[derive(Clone, Copy, Default)]
struct Group {
    /// Index of the token behind it.
    end: usize,
    /// Soft places of its own, not of groups inside.
    softs: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Flat,
    Broken,
    /// Has no soft place of its own: its content is laid out as if it were not there.
    Absent,
}

pub(super) fn print(text: &str, lexed: &Lexed, layout: &Layout) -> String {
    let mut printer = Printer::new(text, lexed, layout);
    printer.run();
    printer.out
}

struct Printer<'t> {
    text: &'t str,
    pieces: Vec<Piece>,
    /// Columns of all pieces before each index, on one line.
    columns_before: Vec<usize>,
    /// How many line breaks cannot be avoided up to the gap before piece `i` (at `2 * i`) and up to
    /// its end (at `2 * i + 1`).
    breaks: Vec<u32>,
    comments: &'t [Span],
    marks: &'t [(u32, Mark)],
    groups: Vec<Group>,
    out: String,
    column: usize,
    /// One entry for each open indentation, with how far it goes in.
    indents: Vec<usize>,
    indent: usize,
    states: Vec<State>,
    /// The next piece or comment begins a new line, this far in.
    new_line: Option<usize>,
    /// An empty line stands before it.
    empty_line: bool,
    /// Where the last piece or comment ended in the original.
    last_end: u32,
    comment_at: usize,
    group_at: usize,
}

fn spaced(text: &str, lexed: &Lexed, index: usize) -> bool {
    use Sign::*;
    let kind = lexed.tokens[index].kind;
    let before = index.checked_sub(1).map(|i| lexed.tokens[i].kind);
    if let TokenKind::Sign(
        Comma | Semicolon | CloseParen | CloseBracket | Dot | Colon | OpenBracket,
    ) = kind
    {
        return false;
    }
    // Two signs must not grow together: `- -1` would become a comment.
    let glued = matches!(
        before,
        Some(TokenKind::Sign(
            OpenParen | OpenBracket | Dot | Colon | At | Hash | Bang
        )) | None
    );
    !glued && !lexed.tokens[index].span.text(text).is_empty()
}

impl<'t> Printer<'t> {
    fn new(text: &'t str, lexed: &'t Lexed, layout: &'t Layout) -> Printer<'t> {
        let words = lexed.tokens.len() - 1;
        let mut pieces: Vec<Piece> = (0..words)
            .map(|index| {
                let token = lexed.tokens[index];
                let written = token.span.text(text);
                let text_of = match token.kind {
                    TokenKind::Keyword(_) if !layout.names.contains(&token.span.start) => {
                        written.to_ascii_lowercase()
                    }
                    _ => written.to_owned(),
                };
                let first_line = text_of.split('\n').next().unwrap_or("");
                let columns = first_line.chars().count();
                let is_close = token.kind.is(Sign::CloseParen) || token.kind.is(Sign::CloseBracket);
                let space = spaced(text, lexed, index);
                Piece {
                    columns,
                    text: text_of,
                    space,
                    span: token.span,
                    is_close,
                }
            })
            .collect();
        for (index, mark) in &layout.marks {
            let index = *index as usize;
            match mark {
                Mark::Tight if index < words => pieces[index].space = false,
                Mark::Semicolon if index > 0 => {
                    pieces[index - 1].text.push(';');
                    pieces[index - 1].columns += 1;
                }
                _ => {}
            }
        }
        let columns_before = columns_before(&pieces);
        let breaks = breaks(text, &pieces, lexed, layout);
        Printer {
            text,
            groups: groups(&layout.marks),
            pieces,
            columns_before,
            breaks,
            comments: &lexed.comments,
            marks: &layout.marks,
            out: String::with_capacity(text.len() + text.len() / 4),
            column: 0,
            indents: Vec::new(),
            indent: 0,
            states: Vec::new(),
            new_line: None,
            empty_line: false,
            last_end: 0,
            comment_at: 0,
            group_at: 0,
        }
    }

    fn run(&mut self) {
        let mut mark_at = 0;
        for index in 0..=self.pieces.len() {
            let from = mark_at;
            while self
                .marks
                .get(mark_at)
                .is_some_and(|(at, _)| *at as usize == index)
            {
                mark_at += 1;
            }
            let marks = &self.marks[from..mark_at];
            self.piece(index, marks);
        }
        while self.out.ends_with(['\n', ' ']) {
            self.out.pop();
        }
        self.out.push('\n');
    }

    /// A piece with the comments and marks before it; at the end only those.
    fn piece(&mut self, index: usize, marks: &[(u32, Mark)]) {
        let until = self.pieces.get(index).map_or(u32::MAX, |p| p.span.start);
        let first = self.comment_at;
        while self
            .comments
            .get(self.comment_at)
            .is_some_and(|c| c.start < until)
        {
            self.comment_at += 1;
        }
        let comments = &self.comments[first..self.comment_at];
        let trailing = self.trailing(comments);
        for comment in &comments[..trailing] {
            self.trailing_comment(*comment, until);
        }
        let own = &comments[trailing..];
        let is_element = marks
            .iter()
            .any(|(_, m)| matches!(m, Mark::Definition | Mark::Query))
            || index == self.pieces.len();
        let is_close = self.pieces.get(index).is_some_and(|p| p.is_close);
        if is_close {
            self.own_comments(own, false);
        }
        let closing = marks
            .iter()
            .take_while(|(_, m)| matches!(m, Mark::Close | Mark::Dedent | Mark::Semicolon))
            .count();
        let (closing, opening) = marks.split_at(if is_close { 0 } else { closing });
        closing.iter().for_each(|(_, mark)| self.mark(*mark, index));
        if opening.iter().any(|(_, mark)| *mark == Mark::Query) && !self.out.is_empty() {
            self.new_line = Some(self.indent);
            self.empty_line = true;
        }
        if !is_close {
            self.own_comments(own, is_element);
        }
        if is_element && !own.is_empty() {
            // An empty line was wanted before the first comment, not behind the last.
            self.empty_line = self.is_empty_line_before(until);
        }
        for (_, mark) in opening {
            if *mark == Mark::Query && !own.is_empty() {
                continue;
            }
            self.mark(*mark, index);
        }
        let Some(piece) = self.pieces.get(index) else {
            return;
        };
        let (piece_text, space, end) = (piece.text.clone(), piece.space, piece.span.end);
        self.start(space);
        self.put(&piece_text);
        self.last_end = end;
    }

    fn mark(&mut self, mark: Mark, index: usize) {
        match mark {
            Mark::Open => self.open(index),
            Mark::Close => {
                self.states.pop();
            }
            Mark::Indent => {
                let state = self.states.last().copied();
                // A partition's block is indented by itself, without a group.
                let inner = matches!(state, None | Some(State::Broken));
                self.indents.push(if inner { INDENT } else { 0 });
                self.indent = self.indents.iter().sum();
            }
            Mark::Dedent => {
                self.indents.pop();
                self.indent = self.indents.iter().sum();
            }
            Mark::Soft if self.states.last() == Some(&State::Broken) => {
                self.new_line = Some(self.indent);
            }
            Mark::Line if !self.out.is_empty() => self.new_line = Some(self.indent),
            Mark::Query | Mark::Definition if self.out.is_empty() => {}
            Mark::Query => {
                self.new_line = Some(self.indent);
                self.empty_line = true;
            }
            Mark::Definition => {
                self.new_line = Some(self.indent);
                let start = self.pieces[index].span.start;
                self.empty_line |= self.is_empty_line_before(start);
            }
            Mark::Soft | Mark::Line | Mark::Tight | Mark::Semicolon => {}
        }
    }

    fn open(&mut self, index: usize) {
        let group = self.groups[self.group_at];
        self.group_at += 1;
        let state = if group.softs == 0 {
            State::Absent
        } else if self.states.iter().rev().find(|s| **s != State::Absent) == Some(&State::Flat)
            || self.fits(index, group)
        {
            State::Flat
        } else {
            State::Broken
        };
        self.states.push(state);
    }

    fn fits(&self, index: usize, group: Group) -> bool {
        let Some(piece) = self.pieces.get(index) else {
            return true;
        };
        // One text of several lines stands right behind its bracket.
        let is_one_text = group.softs == 2 && piece.text.contains('\n') && group.end == index + 2;
        if is_one_text {
            return true;
        }
        // From the first piece itself to the last, without what stands before and behind.
        if self.breaks[2 * group.end - 1] > self.breaks[2 * index] {
            return false;
        }
        let start = self
            .new_line
            .unwrap_or(self.column + usize::from(piece.space));
        let width =
            self.columns_before[group.end] - self.columns_before[index] - usize::from(piece.space);
        let mut end = start + width;
        // What follows up to the next place for a break must fit as well.
        let mut mark_at = self
            .marks
            .partition_point(|(at, _)| (*at as usize) < group.end);
        for next in group.end..self.pieces.len() {
            if end > COLUMNS_MAX {
                return false;
            }
            while let Some((at, mark)) = self.marks.get(mark_at)
                && *at as usize == next
            {
                if matches!(
                    mark,
                    Mark::Soft | Mark::Line | Mark::Query | Mark::Definition
                ) {
                    return true;
                }
                mark_at += 1;
            }
            end += self.columns_before[next + 1] - self.columns_before[next];
        }
        end <= COLUMNS_MAX
    }

    // ---- comments ----

    /// How many of the comments stand on the line on which the last piece ended.
    fn trailing(&self, comments: &[Span]) -> usize {
        let mut end = self.last_end;
        let mut count = 0;
        for comment in comments {
            if self.out.is_empty() || self.between(end, comment.start).contains('\n') {
                break;
            }
            count += 1;
            end = comment.end;
            if self.is_line_comment(*comment) {
                break;
            }
        }
        count
    }

    fn between(&self, start: u32, end: u32) -> &'t str {
        Span::new(start, end.min(self.text.len() as u32)).text(self.text)
    }

    fn is_empty_line_before(&self, start: u32) -> bool {
        self.between(self.last_end, start).matches('\n').count() > 1
    }

    fn is_line_comment(&self, comment: Span) -> bool {
        comment.text(self.text).starts_with("--")
    }

    fn trailing_comment(&mut self, comment: Span, until: u32) {
        self.start(true);
        let text = comment.text(self.text).trim_end();
        self.put(text);
        self.last_end = comment.end;
        let next = self
            .comments
            .get(self.comment_at)
            .map_or(until, |c| c.start.min(until));
        let ends_line =
            self.is_line_comment(comment) || self.between(comment.end, next).contains(['\n', '\r']);
        self.new_line = ends_line.then_some(self.indent);
    }

    fn own_comments(&mut self, comments: &[Span], keep_empty_lines: bool) {
        for comment in comments {
            if !self.out.is_empty() {
                self.new_line = Some(self.indent);
            }
            if keep_empty_lines && !self.out.is_empty() {
                self.empty_line |= self.is_empty_line_before(comment.start);
            }
            self.start(false);
            let text = comment.text(self.text).trim_end();
            self.put(text);
            self.last_end = comment.end;
            self.new_line = Some(self.indent);
        }
    }

    // ---- output ----

    /// Begins a line or puts the space before the next piece.
    fn start(&mut self, space: bool) {
        if let Some(indent) = self.new_line {
            self.out.truncate(self.out.trim_end_matches(' ').len());
            self.out.push('\n');
            if self.empty_line {
                self.out.push('\n');
            }
            self.out.extend(std::iter::repeat_n(' ', indent));
            self.column = indent;
        } else if space && !self.out.is_empty() {
            self.out.push(' ');
            self.column += 1;
        }
        self.new_line = None;
        self.empty_line = false;
    }

    fn put(&mut self, text: &str) {
        self.out.push_str(text);
        match text.rsplit_once('\n') {
            Some((_, last)) => self.column = last.chars().count(),
            None => self.column += text.chars().count(),
        }
    }
}

fn columns_before(pieces: &[Piece]) -> Vec<usize> {
    let mut sum = 0;
    let mut sums = vec![0];
    for piece in pieces {
        sum += piece.columns + usize::from(piece.space);
        sums.push(sum);
    }
    sums
}

/// Counts comments that end a line and hard marks in the gaps, and texts of several lines.
fn breaks(text: &str, pieces: &[Piece], lexed: &Lexed, layout: &Layout) -> Vec<u32> {
    let mut breaks = vec![0u32; 2 * pieces.len() + 1];
    for (index, piece) in pieces.iter().enumerate() {
        breaks[2 * index + 1] += u32::from(piece.text.contains('\n'));
    }
    let mut index = 0;
    for comment in &lexed.comments {
        while pieces
            .get(index)
            .is_some_and(|p| p.span.start < comment.start)
        {
            index += 1;
        }
        let written = comment.text(text);
        let rest = text[comment.end as usize..].trim_start_matches([' ', '\t']);
        let ends_line =
            written.starts_with("--") || written.contains('\n') || rest.starts_with(['\n', '\r']);
        breaks[2 * index] += u32::from(ends_line);
    }
    for (index, mark) in &layout.marks {
        if matches!(mark, Mark::Line | Mark::Query) {
            breaks[2 * *index as usize] += 1;
        }
    }
    let mut sum = 0;
    for count in &mut breaks {
        sum += *count;
        *count = sum;
    }
    breaks
}

/// The groups in the order in which they open.
fn groups(marks: &[(u32, Mark)]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    for (index, mark) in marks {
        match mark {
            Mark::Open => {
                open.push(groups.len());
                groups.push(Group::default());
            }
            Mark::Close => {
                if let Some(group) = open.pop() {
                    groups[group].end = *index as usize;
                }
            }
            Mark::Soft => {
                if let Some(group) = open.last() {
                    groups[*group].softs += 1;
                }
            }
            _ => {}
        }
    }
    groups
}
