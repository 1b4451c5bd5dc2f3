//! Diagnostics as text for a terminal, in the manner of rustc.
//!
//! Promises: marks stand under what they mean, tabs and wide characters included; control
//! characters of the text never reach the terminal, nor do passwords; lines of any length stay readable.
//!
//! Never: decides whether there is a terminal or where the text goes.

use crate::Catalog;
use crate::secret;
use lang::diagnostic::{Diagnostic, Severity};
use lang::source::LineIndex;
use lang::span::Span;

/// How many columns of a line are shown; longer ones are cut around the mark.
const LINE_COLUMNS_MAX: usize = 140;

const TAB_COLUMNS: usize = 4;

/// All diagnostics of one text, each followed by an empty line. The catalog tells which arguments of
/// functions are secrets.
pub fn render(
    diagnostics: &[Diagnostic],
    file: &str,
    text: &str,
    catalog: &Catalog,
    colour: bool,
) -> String {
    let lines = LineIndex::new(text);
    let renderer = Renderer {
        file,
        text,
        lines: &lines,
        catalog,
        colour,
    };
    let mut out = String::new();
    for diagnostic in diagnostics {
        renderer.diagnostic(&mut out, diagnostic);
        out.push('\n');
    }
    out
}

/// One line of an app as a terminal may show it: secrets are masked, control characters replaced.
pub fn line(text: &str, catalog: &Catalog) -> String {
    let hidden = secret::ranges(text, catalog);
    let shown = |(at, c): (usize, char)| match c {
        _ if hidden.iter().any(|range| range.contains(&at)) => '*',
        '\t' => '\t',
        c if is_hidden(c) => '\u{fffd}',
        c => c,
    };
    text.char_indices().map(shown).collect()
}

/// ANSI codes.
const RED: &str = "\x1b[1;31m";
const YELLOW: &str = "\x1b[1;33m";
const BLUE: &str = "\x1b[1;34m";
const CYAN: &str = "\x1b[1;36m";
const BOLD: &str = "\x1b[1m";
const RESET: &str = "\x1b[0m";

struct Renderer<'t> {
    file: &'t str,
    text: &'t str,
    lines: &'t LineIndex,
    catalog: &'t Catalog,
    colour: bool,
}

/// A span to be marked, with its label.
struct Mark<'d> {
    line: u32,
    span: Span,
    label: &'d str,
    primary: bool,
}

impl Renderer<'_> {
    fn paint(&self, colour: &str, text: &str) -> String {
        if self.colour {
            format!("{colour}{text}{RESET}")
        } else {
            text.to_owned()
        }
    }

    fn diagnostic(&self, out: &mut String, diagnostic: &Diagnostic) {
        let severity_colour = match diagnostic.severity {
            Severity::Error => RED,
            Severity::Warning => YELLOW,
        };
        let mut marks = self.marks(diagnostic);
        marks.sort_by_key(|mark| (mark.line, !mark.primary, mark.span.start));
        let last_line = marks.last().map_or(1, |mark| mark.line);
        let gutter = last_line.to_string().len() + 1;
        let place = self.lines.position(self.text, diagnostic.span.start);
        // What goes wrong while a query is answered has no code.
        let head = match diagnostic.code {
            "" => diagnostic.severity.name().to_owned(),
            code => format!("{}[{code}]", diagnostic.severity.name()),
        };
        self.put(out, &self.paint(severity_colour, &head));
        let message = printable(&diagnostic.message);
        self.put(out, &self.paint(BOLD, &format!(": {message}\n")));
        let arrow = self.paint(BLUE, &format!("{:gutter$}-->", ""));
        self.put(
            out,
            &format!("{arrow} {}:{}:{}\n", self.file, place.line, place.column),
        );
        self.put(out, &self.paint(BLUE, &format!("{:gutter$} |\n", "")));
        let mut shown = 0;
        for mark in &marks {
            if mark.line != shown {
                if shown != 0 && mark.line > shown + 1 {
                    self.put(out, &self.paint(BLUE, "...\n"));
                }
                self.source_line(out, mark.line, gutter, &marks);
                shown = mark.line;
            }
            self.mark(out, mark, gutter, severity_colour, &marks);
        }
        if let Some(help) = &diagnostic.help {
            let name = self.paint(CYAN, "help");
            let help = printable(help);
            self.put(out, &format!("{:gutter$} = {name}: {help}\n", ""));
        }
        let code = diagnostic.code;
        if code.is_empty() {
            return;
        }
        let docs = self.paint(CYAN, "docs");
        self.put(
            out,
            &format!("{:gutter$} = {docs}: headwater explain {code}\n", ""),
        );
    }

    fn put(&self, out: &mut String, text: &str) {
        out.push_str(text);
    }

    fn marks<'d>(&self, diagnostic: &'d Diagnostic) -> Vec<Mark<'d>> {
        let mark = |span: Span, label: &'d str, primary| {
            let line = self.lines.line(span.start);
            let end = self.lines.line_span(self.text, line).end.max(span.start);
            Mark {
                line,
                span: Span::new(span.start, span.end.min(end)),
                label,
                primary,
            }
        };
        let mut marks = vec![mark(diagnostic.span, &diagnostic.label, true)];
        marks.extend(
            diagnostic
                .related
                .iter()
                .map(|(span, label)| mark(*span, label, false)),
        );
        marks
    }

    /// The part of a line to show: all, or a stretch around its first mark. A line of any length
    /// costs no more than what is shown of it.
    fn shown(&self, line: u32, marks: &[Mark]) -> Span {
        let whole = self.lines.line_span(self.text, line);
        let is_short = (whole.end - whole.start) as usize <= 4 * LINE_COLUMNS_MAX;
        if is_short && columns(whole.text(self.text)) <= LINE_COLUMNS_MAX {
            return whole;
        }
        let first = marks
            .iter()
            .filter(|m| m.line == line)
            .map(|m| m.span.start)
            .min();
        let first = first.unwrap_or(whole.start);
        let before = Span::new(whole.start, first).text(self.text);
        let start = before
            .char_indices()
            .rev()
            .take(LINE_COLUMNS_MAX / 3)
            .last()
            .map_or(first, |(at, _)| whole.start + at as u32);
        let mut room = LINE_COLUMNS_MAX;
        let rest = Span::new(start, whole.end).text(self.text);
        let len = rest
            .char_indices()
            .find(|(_, c)| {
                let fits = width(*c) <= room;
                room = room.saturating_sub(width(*c));
                !fits
            })
            .map_or(rest.len(), |(at, _)| at);
        Span::new(start, start + len as u32)
    }

    fn source_line(&self, out: &mut String, line: u32, gutter: usize, marks: &[Mark]) {
        let whole = self.lines.line_span(self.text, line);
        let part = self.shown(line, marks);
        let mut shown = String::new();
        if part.start > whole.start {
            shown.push('…');
        }
        let hidden = secret::ranges(whole.text(self.text), self.catalog);
        let from = (part.start - whole.start) as usize;
        for (at, c) in part.text(self.text).char_indices() {
            match c {
                _ if hidden.iter().any(|range| range.contains(&(from + at))) => {
                    shown.extend(std::iter::repeat_n('*', width(c)));
                }
                '\t' => shown.extend(std::iter::repeat_n(' ', TAB_COLUMNS)),
                c if is_hidden(c) => shown.push('\u{fffd}'),
                c => shown.push(c),
            }
        }
        if part.end < whole.end {
            shown.push('…');
        }
        let number = self.paint(BLUE, &format!("{line:gutter$} |"));
        self.put(out, format!("{number} {shown}").trim_end());
        out.push('\n');
    }

    fn mark(&self, out: &mut String, mark: &Mark, gutter: usize, colour: &str, marks: &[Mark]) {
        let whole = self.lines.line_span(self.text, mark.line);
        let part = self.shown(mark.line, marks);
        // A mark behind the part that is shown stands at its end.
        let start = mark.span.start.min(part.end);
        let end = mark.span.end.clamp(start, part.end.max(start));
        let shift = usize::from(part.start > whole.start);
        let indent = shift + columns(Span::new(part.start, start).text(self.text));
        let len = columns(Span::new(start, end).text(self.text)).max(1);
        let sign = if mark.primary { "^" } else { "-" };
        let colour = if mark.primary { colour } else { BLUE };
        let label = printable(mark.label);
        let marks = format!("{} {label}", sign.repeat(len));
        let marks = self.paint(colour, marks.trim_end());
        let bar = self.paint(BLUE, &format!("{:gutter$} |", ""));
        self.put(out, &format!("{bar} {:indent$}{marks}\n", ""));
    }
}

/// Control characters and those that turn the writing direction never reach a terminal.
fn is_hidden(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if is_hidden(c) { '\u{fffd}' } else { c })
        .collect()
}

fn columns(text: &str) -> usize {
    text.chars().map(width).sum()
}

/// How many columns of a terminal a character takes: none for combining marks, two for East Asian
/// wide characters and pictographs.
fn width(c: char) -> usize {
    match c {
        '\t' => TAB_COLUMNS,
        ' '..='~' => 1,
        '\u{0300}'..='\u{036f}'
        | '\u{200b}'..='\u{200d}'
        | '\u{20d0}'..='\u{20ff}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{fe20}'..='\u{fe2f}' => 0,
        '\u{1100}'..='\u{115f}'
        | '\u{2e80}'..='\u{303e}'
        | '\u{3041}'..='\u{33ff}'
        | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}'
        | '\u{a000}'..='\u{a4cf}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe6f}'
        | '\u{ff00}'..='\u{ff60}'
        | '\u{ffe0}'..='\u{ffe6}'
        | '\u{1f300}'..='\u{1f64f}'
        | '\u{1f680}'..='\u{1f6ff}'
        | '\u{1f900}'..='\u{1f9ff}'
        | '\u{20000}'..='\u{3fffd}' => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::catalog;
    use lang::diagnostic::Kind;

    fn diagnostic(text: &str, marked: &str, label: &str) -> Diagnostic {
        let start = text.find(marked).unwrap() as u32;
        Diagnostic {
            code: "E0312",
            severity: Severity::Error,
            kind: Kind::Name,
            message: "stream 'TempStream' has no attribute 'avTemp'".into(),
            span: Span::new(start, start + marked.len() as u32),
            label: label.into(),
            related: vec![],
            help: None,
            fix: None,
        }
    }

    #[track_caller]
    fn check(text: &str, diagnostic: &Diagnostic, expect: &str) {
        let found = render(
            std::slice::from_ref(diagnostic),
            "a.siddhi",
            text,
            &catalog(),
            false,
        );
        let body: Vec<_> = found.lines().skip(2).collect();
        let body: Vec<_> = body
            .iter()
            .take_while(|l| !l.contains("= docs"))
            .copied()
            .collect();
        assert_eq!(body.join("\n"), expect.trim_matches('\n'), "\n{found}");
    }

    #[test]
    fn the_whole_of_a_report() {
        let text = "\ndefine stream TempStream (avgTemp double);\n\n\n\n\n\n\n\nselect avTemp\n";
        let mut report = diagnostic(text, "avTemp", "not found");
        let declared = text.find("avgTemp").unwrap() as u32;
        report
            .related
            .push((Span::new(declared, declared + 7), "declared here".into()));
        report.help = Some("did you mean 'avgTemp'?".into());
        let expect = "\
error[E0312]: stream 'TempStream' has no attribute 'avTemp'
   --> a.siddhi:10:8
    |
  2 | define stream TempStream (avgTemp double);
    |                           ------- declared here
...
 10 | select avTemp
    |        ^^^^^^ not found
    = help: did you mean 'avgTemp'?
    = docs: headwater explain E0312

";
        assert_eq!(
            render(&[report], "a.siddhi", text, &catalog(), false),
            expect
        );
    }

    #[test]
    fn marks_stand_under_what_they_mean() {
        let text = "\tselect  x";
        check(
            text,
            &diagnostic(text, "x", "here"),
            "   |\n 1 |     select  x\n   |             ^ here",
        );
        let text = "'日本' as x";
        check(
            text,
            &diagnostic(text, "x", "here"),
            "   |\n 1 | '日本' as x\n   |           ^ here",
        );
        check(
            text,
            &diagnostic(text, "日本", ""),
            "   |\n 1 | '日本' as x\n   |  ^^^^",
        );
        let text = "e\u{301} x";
        check(
            text,
            &diagnostic(text, "x", ""),
            "   |\n 1 | e\u{301} x\n   |   ^",
        );
    }

    #[test]
    fn empty_spans_and_spans_over_lines_are_marked() {
        let text = "a\nb c\nd";
        let mut report = diagnostic(text, "a", "';' belongs here");
        report.span = Span::new(1, 1);
        check(text, &report, "   |\n 1 | a\n   |  ^ ';' belongs here");
        report.span = Span::new(2, 7);
        check(text, &report, "   |\n 2 | b c\n   | ^^^ ';' belongs here");
        report.span = Span::new(7, 7);
        check(text, &report, "   |\n 3 | d\n   |  ^ ';' belongs here");
        report.span = Span::new(99, 120);
        render(&[report], "a.siddhi", text, &catalog(), true);
    }

    #[test]
    fn long_lines_are_cut_around_the_mark() {
        let text = format!("{}MARK{}", "a ".repeat(500), " b".repeat(500));
        let found = render(
            &[diagnostic(&text, "MARK", "here")],
            "f",
            &text,
            &catalog(),
            false,
        );
        let lines: Vec<&str> = found.lines().collect();
        let shown: Vec<char> = lines[3].chars().collect();
        assert!(shown.len() < 160, "{}", lines[3]);
        let column = lines[4].find('^').unwrap();
        assert_eq!(shown[column..column + 4], ['M', 'A', 'R', 'K']);
        assert!(lines[4].ends_with("^^^^ here"));
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        let text = "a \u{1b}[31m b";
        let found = render(
            &[diagnostic(text, "b", "\u{7}")],
            "f",
            text,
            &catalog(),
            false,
        );
        assert!(!found.contains(['\u{1b}', '\u{7}']), "{found:?}");
    }
}
