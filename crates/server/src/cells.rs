//! The cells of a CSV record that people write by hand.

/// The cells of a record; what stands in quotes is one cell, and two quotes in it are one.
pub fn cells(record: &str, delimiter: char) -> Vec<String> {
    let (mut cells, mut cell) = (Vec::new(), String::new());
    let mut is_quoted = false;
    let mut chars = record.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if is_quoted && chars.peek() == Some(&'"') => {
                chars.next();
                cell.push('"');
            }
            '"' if is_quoted || cell.is_empty() => is_quoted = !is_quoted,
            c if c == delimiter && !is_quoted => cells.push(std::mem::take(&mut cell)),
            c => cell.push(c),
        }
    }
    cells.push(cell);
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_cut_at_delimiters_outside_quotes() {
        let check = |record: &str, all: &[&str]| assert_eq!(cells(record, ','), all, "{record}");
        check("a,1,", &["a", "1", ""]);
        check(r#""a,b","say ""x""",2"#, &["a,b", r#"say "x""#, "2"]);
        check(r#""",x"#, &["", "x"]);
        check("\"two\nlines\",2", &["two\nlines", "2"]);
    }
}
