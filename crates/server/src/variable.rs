//! Values of `${NAME}` (those of `${secret:NAME}` are in [`crate::secrets`]), `${env:NAME}`, `${sys:NAME}` and `${file:PATH}`, in apps and in the deployment file.
//!
//! Never: a value in a message; mostly they are secrets.

/// Siddhi's names for where a value comes from; a Java process has properties as it has an environment.
const PREFIXES: [&str; 2] = ["env:", "sys:"];

/// The variable's name without the word for where its value comes from.
pub(crate) fn bare(name: &str) -> &str {
    let found = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix));
    found.unwrap_or(name)
}

/// What the environment has under that name, or what a file holds without the line end behind it; `None`
/// where there is neither.
pub fn value(name: &str) -> Option<String> {
    let Some(path) = name.strip_prefix("file:") else {
        return std::env::var(bare(name)).ok();
    };
    let mut text = std::fs::read_to_string(path).ok()?;
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_gives_what_it_holds_without_its_last_line_end() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("secret");
        let of_file = || value(&format!("file:{}", path.display()));
        assert_eq!(of_file(), None);
        for (held, expect) in [("a b\n", "a b"), ("a\r\n", "a"), ("a\n\n", "a\n"), ("", "")] {
            std::fs::write(&path, held).expect("the folder can be written");
            assert_eq!(of_file().as_deref(), Some(expect), "{held:?}");
        }
        assert_eq!(value("env:NOT_SET_BY_ANYBODY"), None);
        assert_eq!(value("env:PATH"), value("PATH"));
    }
}
