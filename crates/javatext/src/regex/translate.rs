//! From Java's syntax to that of the engines.

use std::fmt::Write;

/// Which engine the pattern is written for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Target {
    Linear,
    Backtracking,
}

#[derive(Debug)]
pub struct Translated {
    pub text: String,
    /// Has a quantifier that gives nothing back (`a++`).
    pub is_possessive: bool,
    /// Has a `$` or `\Z`, which for the linear engine is the end of the text.
    pub has_end: bool,
}

/// Flags that the translation itself carries out. `(?i)` is left to the engines.
#[derive(Clone, Copy, Default)]
struct Flags {
    /// `s`: a dot takes line breaks.
    dot_all: bool,
    /// `m`: `^` and `$` stand at every line.
    multiline: bool,
    /// `d`: only `\n` ends a line.
    unix_lines: bool,
    /// `x`: blanks and comments mean nothing.
    comments: bool,
    /// `U`: classes are Unicode's.
    unicode_classes: bool,
    ignore_case: bool,
    /// `u`: `i` folds more than ASCII.
    unicode_case: bool,
}

const LINE_BREAK: &str = r"\n\r\x{85}\x{2028}\x{2029}";

pub fn translate(pattern: &str, target: Target) -> Translated {
    let mut translator = Translator {
        chars: pattern.chars().collect(),
        at: 0,
        target,
        flags: Flags::default(),
        outer: Vec::new(),
        class_depth: 0,
        out: Translated {
            text: String::with_capacity(pattern.len() + 16),
            is_possessive: false,
            has_end: false,
        },
    };
    translator.pattern();
    translator.out
}

struct Translator {
    chars: Vec<char>,
    at: usize,
    target: Target,
    flags: Flags,
    /// The flags outside of each open group.
    outer: Vec<Flags>,
    class_depth: usize,
    out: Translated,
}

impl Translator {
    fn next(&mut self) -> Option<char> {
        let c = self.chars.get(self.at).copied();
        self.at += usize::from(c.is_some());
        c
    }

    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn eat(&mut self, c: char) -> bool {
        let found = self.peek() == Some(c);
        self.at += usize::from(found);
        found
    }

    fn push(&mut self, text: &str) {
        self.out.text.push_str(text);
    }

    fn pattern(&mut self) {
        let mut is_quantified = false;
        while let Some(c) = self.next() {
            if self.class_depth > 0 {
                self.in_class(c);
                continue;
            }
            self.out.is_possessive |= c == '+' && is_quantified;
            is_quantified = matches!(c, '*' | '+' | '?' | '}');
            match c {
                '\\' => self.escape(),
                '[' => self.open_class(),
                '(' => self.open_group(),
                ')' => {
                    self.flags = self.outer.pop().unwrap_or(self.flags);
                    self.push(")");
                }
                '.' => self.dot(),
                '^' if self.flags.multiline => self.push(match self.target {
                    Target::Linear => "(?mR:^)",
                    Target::Backtracking => r"(?m:^|(?<=\r)(?!\n))",
                }),
                '$' => self.end(),
                c if self.flags.comments && c.is_ascii_whitespace() => {}
                '#' if self.flags.comments => while self.next().is_some_and(|c| c != '\n') {},
                c if !c.is_ascii() && self.flags.ignore_case && !self.flags.unicode_case => {
                    write!(self.out.text, "(?-i:{c})").expect("writing to a string cannot fail");
                }
                c => self.out.text.push(c),
            }
        }
    }

    fn in_class(&mut self, c: char) {
        match c {
            '\\' => self.escape(),
            '[' => self.open_class(),
            ']' => {
                self.class_depth -= 1;
                self.push("]");
            }
            // Java takes these as they are inside a class, the engines as set operators.
            '~' | '-' if self.peek() == Some(c) => {
                self.out.text.push('\\');
                self.out.text.push(c);
            }
            c => self.out.text.push(c),
        }
    }

    fn open_class(&mut self) {
        self.class_depth += 1;
        self.push("[");
        if self.eat('^') {
            self.push("^");
        }
        // A bracket that would close at once is a literal.
        if self.eat(']') {
            self.push(r"\]");
        }
    }

    /// A group, or flags: `(?i)`, `(?s-m:`. The engines see `i` alone.
    fn open_group(&mut self) {
        let letters: String = self.chars[self.at..]
            .iter()
            .skip(1)
            .take_while(|c| c.is_ascii_alphabetic() || **c == '-')
            .collect();
        let behind = self.chars.get(self.at + 1 + letters.len()).copied();
        let is_flags = self.peek() == Some('?')
            && matches!(behind, Some(')' | ':'))
            && letters.chars().all(|c| "imsdxuU-".contains(c));
        if !is_flags {
            self.outer.push(self.flags);
            self.push("(");
            // What may stand there is no quantifier.
            if self.eat('?') {
                self.push("?");
            }
            return;
        }
        if behind == Some(':') {
            self.outer.push(self.flags);
        }
        self.at += letters.len() + 2;
        let (on, off) = letters.split_once('-').unwrap_or((&letters, ""));
        self.flags.set(on, true);
        self.flags.set(off, false);
        let case = match (on.contains('i'), off.contains('i')) {
            (_, true) => "-i",
            (true, false) => "i",
            (false, false) => "",
        };
        match behind {
            Some(':') => {
                write!(self.out.text, "(?{case}:").expect("writing to a string cannot fail");
            }
            _ if case.is_empty() => {}
            _ => write!(self.out.text, "(?{case})").expect("writing to a string cannot fail"),
        }
    }

    fn dot(&mut self) {
        match (self.flags.dot_all, self.flags.unix_lines) {
            (true, _) => self.push("(?s:.)"),
            (false, true) => self.push(r"[^\n]"),
            (false, false) => {
                self.push("[^");
                self.push(LINE_BREAK);
                self.push("]");
            }
        }
    }

    /// `$`.
    fn end(&mut self) {
        if self.flags.multiline {
            self.push(match self.target {
                Target::Linear => "(?mR:$)",
                Target::Backtracking => r"(?m:(?<!\r)$|(?=\r))",
            });
        } else {
            self.end_of_text();
        }
    }

    /// The end, or the place before a last line break.
    fn end_of_text(&mut self) {
        self.out.has_end = true;
        match (self.target, self.flags.unix_lines) {
            (Target::Linear, _) => self.push(r"\z"),
            (Target::Backtracking, true) => self.push(r"(?=\n?\z)"),
            (Target::Backtracking, false) => {
                // Not between the halves of "\r\n".
                self.push(r"(?:(?=(?:\r\n|[\r\x{85}\x{2028}\x{2029}])?\z)|(?<!\r)(?=\n\z))");
            }
        }
    }

    /// A set, or its content where it already stands in brackets.
    fn set(&mut self, class: &str, is_negated: bool) {
        let text = &mut self.out.text;
        let written = match (self.class_depth > 0, is_negated) {
            (true, false) => write!(text, "{class}"),
            (_, true) => write!(text, "[^{class}]"),
            (false, false) => write!(text, "[{class}]"),
        };
        written.expect("writing to a string cannot fail");
    }

    /// What follows a backslash.
    fn escape(&mut self) {
        let Some(c) = self.next() else {
            // Java refuses a lone backslash, and so do the engines.
            return self.push("\\");
        };
        let is_upper = c.is_ascii_uppercase();
        let in_class = self.class_depth > 0;
        match c {
            'd' | 'D' | 'w' | 'W' | 's' | 'S' if self.flags.unicode_classes => {
                self.out.text.extend(['\\', c]);
            }
            'd' | 'D' => self.set("0-9", is_upper),
            'w' | 'W' => self.set("a-zA-Z_0-9", is_upper),
            's' | 'S' => self.set(r" \t\n\x0B\f\r", is_upper),
            'h' | 'H' => self.set(
                r" \t\xA0\x{1680}\x{180e}\x{2000}-\x{200a}\x{202f}\x{205f}\x{3000}",
                is_upper,
            ),
            'v' | 'V' => self.set(r"\n\x0B\f\r\x85\x{2028}\x{2029}", is_upper),
            'R' if !in_class => self.push(r"(?:\r\n|[\n\x0B\f\r\x85\x{2028}\x{2029}])"),
            'Z' if !in_class => self.end_of_text(),
            'e' => self.push(r"\x1B"),
            'c' => {
                if let Some(control) = self.next() {
                    self.code_point(u32::from(control) ^ 64);
                }
            }
            'Q' => self.quoted(),
            'u' => self.unit(),
            'x' if self.peek() != Some('{') => {
                let digits: String = self.chars[self.at..].iter().take(2).collect();
                self.at += digits.chars().count();
                self.push(r"\x");
                self.push(&digits);
            }
            '0' => self.octal(),
            'p' | 'P' => self.property(is_upper),
            c if c.is_ascii_alphanumeric() => self.out.text.extend(['\\', c]),
            // Any other character stands for itself.
            c => self.push(&regex::escape(c.encode_utf8(&mut [0; 4]))),
        }
    }

    fn code_point(&mut self, code: u32) {
        write!(self.out.text, "\\x{{{code:X}}}").expect("writing to a string cannot fail");
    }

    /// `\Q…\E`.
    fn quoted(&mut self) {
        while let Some(c) = self.next() {
            if c == '\\' && self.eat('E') {
                return;
            }
            self.push(&regex::escape(c.encode_utf8(&mut [0; 4])));
        }
    }

    fn hex(&self, at: usize) -> Option<u32> {
        let digits: String = self.chars.get(at..at + 4)?.iter().collect();
        u32::from_str_radix(&digits, 16).ok()
    }

    /// `\uXXXX`, two of them for a surrogate pair.
    fn unit(&mut self) {
        let Some(mut code) = self.hex(self.at) else {
            return self.push(r"\u");
        };
        self.at += 4;
        let is_escape = self.chars.get(self.at..self.at + 2) == Some(&['\\', 'u']);
        if (0xD800..0xDC00).contains(&code)
            && is_escape
            && let Some(low) = self.hex(self.at + 2)
            && (0xDC00..0xE000).contains(&low)
        {
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
            self.at += 6;
        }
        self.code_point(code);
    }

    /// `\0n`, `\0nn` and `\0mnn`.
    fn octal(&mut self) {
        let (mut code, mut digits) = (0, 0);
        while let Some(digit) = self.peek().and_then(|c| c.to_digit(8))
            && digits < 3
            && code * 8 + digit <= 0o377
        {
            code = code * 8 + digit;
            digits += 1;
            self.at += 1;
        }
        self.code_point(code);
    }

    /// `\p{…}` and `\pL`: Java's names of classes, those of Unicode as they are.
    fn property(&mut self, is_negated: bool) {
        let name: String = if self.eat('{') {
            let rest = self.chars[self.at..].iter();
            let name: String = rest.take_while(|&&c| c != '}').collect();
            self.at = (self.at + name.chars().count() + 1).min(self.chars.len());
            name
        } else {
            self.next().into_iter().collect()
        };
        if let Some(class) = ascii_class(&name) {
            return self.set(class, is_negated);
        }
        let name = match name.as_str() {
            "javaLowerCase" => "Lowercase",
            "javaUpperCase" => "Uppercase",
            "javaLetter" | "javaAlphabetic" => "Alphabetic",
            "javaDigit" => "Nd",
            name => name
                .strip_prefix("Is")
                .or_else(|| name.strip_prefix("In"))
                .unwrap_or(name),
        };
        let letter = if is_negated { 'P' } else { 'p' };
        write!(self.out.text, "\\{letter}{{{name}}}").expect("writing to a string cannot fail");
    }
}

impl Flags {
    fn set(&mut self, letters: &str, on: bool) {
        for letter in letters.chars() {
            match letter {
                's' => self.dot_all = on,
                'm' => self.multiline = on,
                'd' => self.unix_lines = on,
                'x' => self.comments = on,
                'U' => (self.unicode_classes, self.unicode_case) = (on, on),
                'i' => self.ignore_case = on,
                'u' => self.unicode_case = on,
                _ => {}
            }
        }
    }
}

/// POSIX classes, ASCII in Java.
fn ascii_class(name: &str) -> Option<&'static str> {
    Some(match name {
        "Lower" => "a-z",
        "Upper" => "A-Z",
        "ASCII" => r"\x00-\x7F",
        "Alpha" => "a-zA-Z",
        "Digit" => "0-9",
        "Alnum" => "a-zA-Z0-9",
        "Punct" => r"!-/:-@\[-`{-\~",
        "Graph" => r"!-\~",
        "Print" => r" -\~",
        "Blank" => r" \t",
        "Cntrl" => r"\x00-\x1F\x7F",
        "XDigit" => "0-9a-fA-F",
        "Space" => r" \t\n\x0B\f\r",
        _ => return None,
    })
}
