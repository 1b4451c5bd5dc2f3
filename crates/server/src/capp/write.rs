//! Texts from outside as parts of an app.

/// A name of a file for a message.
pub(super) fn shown(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(100).collect()
}

/// What is left of a name as a word of SiddhiQL.
pub(super) fn word(name: &str) -> String {
    let word: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect();
    match word.starts_with(|c: char| c.is_ascii_digit()) {
        true => format!("_{word}"),
        false => word,
    }
}

/// A name of a stream, of letters, digits and what else such names have.
pub(super) fn plain<'a>(what: &str, name: &'a str) -> Result<&'a str, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-:".contains(c);
    match !name.is_empty() && name.len() <= 200 && name.chars().all(is_plain) {
        true => Ok(name),
        false => Err(format!(
            "{what} '{}' is no name of letters, digits, dots and underscores",
            shown(name)
        )),
    }
}

/// An attribute: what may stand between backticks in SiddhiQL.
pub(super) fn attribute(name: &str) -> Result<&str, String> {
    let name = plain("attribute", name)?;
    match name.contains(['.', '-', ':']) {
        true => Err(format!(
            "attribute '{name}' has a sign that attributes do not have here"
        )),
        false => Ok(name),
    }
}

/// The value of an option between quotes that it does not hold itself.
pub(super) fn quoted(value: &str) -> Result<String, String> {
    let wrong = |why: &str| Err(format!("'{}' {why}", shown(value)));
    // The server would put a value of its own in its place.
    if value.contains("${") {
        return wrong("names a variable");
    }
    if value.chars().any(char::is_control) {
        return wrong("holds a control character");
    }
    match (value.contains('\''), value.contains('"')) {
        (false, _) => Ok(format!("'{value}'")),
        (true, false) => Ok(format!("\"{value}\"")),
        (true, true) => wrong("holds both kinds of quotes"),
    }
}

/// The type of an attribute or column, by DAS's name.
pub(super) fn type_of(name: &str) -> Option<&'static str> {
    Some(match &*name.to_ascii_uppercase() {
        "INT" | "INTEGER" => "int",
        "LONG" => "long",
        "FLOAT" => "float",
        "DOUBLE" => "double",
        "BOOL" | "BOOLEAN" => "bool",
        "STRING" | "FACET" => "string",
        _ => return None,
    })
}
