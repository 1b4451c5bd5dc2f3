//! The pages behind `headwater explain E0123`: what each code means, why, and how to mend it, with
//! an example that fails and one that does not. The tests run both.

pub mod api;
pub mod check;
pub mod option;
mod syntax;

use lang::diagnostic::Severity;

/// What the examples of a page are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Example {
    /// Whole apps.
    App,
    /// On-demand queries.
    OnDemand,
    /// Documents of APIs.
    Document,
}

/// One code.
#[derive(Clone, Copy, Debug)]
pub struct CodePage {
    /// `E0312`, `W0101`.
    pub code: &'static str,
    /// One line, lower case, no full stop.
    pub title: &'static str,
    /// Why this is reported.
    pub cause: &'static str,
    /// What to do.
    pub fix: &'static str,
    /// Gives the code.
    pub failing: &'static str,
    /// Is clean.
    pub fixed: &'static str,
    pub example: Example,
}

impl CodePage {
    pub const fn new(
        code: &'static str,
        title: &'static str,
        cause: &'static str,
        fix: &'static str,
        failing: &'static str,
        fixed: &'static str,
    ) -> CodePage {
        CodePage {
            code,
            title,
            cause,
            fix,
            failing,
            fixed,
            example: Example::App,
        }
    }

    /// The examples are on-demand queries.
    pub(crate) const fn on_demand(mut self) -> CodePage {
        self.example = Example::OnDemand;
        self
    }

    pub fn severity(&self) -> Severity {
        if self.code.starts_with('W') {
            Severity::Warning
        } else {
            Severity::Error
        }
    }
}

/// The slices of all areas; each is ordered by code.
const AREAS: &[&[CodePage]] = &[
    syntax::CODES,
    option::CODES,
    check::AREAS[0],
    check::AREAS[1],
    check::AREAS[2],
    check::AREAS[3],
    check::AREAS[4],
    check::AREAS[5],
    check::AREAS[6],
    api::CODES,
];

const fn total(areas: &[&[CodePage]]) -> usize {
    let mut sum = 0;
    let mut i = 0;
    while i < areas.len() {
        sum += areas[i].len();
        i += 1;
    }
    sum
}

const fn concat<const N: usize>(areas: &[&[CodePage]]) -> [CodePage; N] {
    let mut all = [CodePage::new("", "", "", "", "", ""); N];
    let mut at = 0;
    let mut i = 0;
    while i < areas.len() {
        let mut j = 0;
        while j < areas[i].len() {
            all[at] = areas[i][j];
            at += 1;
            j += 1;
        }
        i += 1;
    }
    all
}

/// Every code there is.
pub const CODES: &[CodePage] = &concat::<{ total(AREAS) }>(AREAS);

/// The page of a code, in any case.
pub fn page(code: &str) -> Option<&'static CodePage> {
    CODES
        .iter()
        .find(|page| page.code.eq_ignore_ascii_case(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_complete() {
        for (index, page) in CODES.iter().enumerate() {
            let code = page.code;
            assert!(
                CODES[..index].iter().all(|p| p.code != code),
                "{code} twice"
            );
            assert!(
                code.len() == 5 && code[1..].bytes().all(|b| b.is_ascii_digit()),
                "{code}"
            );
            for part in [page.title, page.cause, page.fix, page.failing, page.fixed] {
                assert!(!part.trim().is_empty(), "{code} has an empty part");
            }
            assert!(!page.title.ends_with('.'), "{code}: {}", page.title);
        }
    }

    #[test]
    fn pages_are_found_in_any_case() {
        assert_eq!(page("e0111").map(|p| p.code), Some("E0111"));
        assert!(page("E9999").is_none());
    }
}
