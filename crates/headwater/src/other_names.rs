//! What to say of a command that there is not: people know it by another name, or have misspelt it.

use clap::CommandFactory as _;
use clap::error::{ContextKind, ContextValue};
use lang::suggest::nearest;

use crate::cli::Cli;

/// Names of commands elsewhere, with what does it here. Sorted.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("build", "check"),
    ("calc", "eval"),
    ("compile", "check"),
    ("create", "new"),
    ("dev", "run --watch"),
    ("docs", "connectors"),
    ("dry-run", "check --connect"),
    ("exec", "run"),
    ("expr", "eval"),
    ("format", "fmt"),
    ("functions", "connectors"),
    ("generate", "new"),
    ("init", "new"),
    ("inject", "send"),
    ("lint", "check"),
    ("metrics", "statistics"),
    ("plan", "explain"),
    ("publish", "send"),
    ("repl", "eval -"),
    ("select", "query"),
    ("serve", "run"),
    ("server", "run"),
    ("simulate", "send"),
    ("start", "run"),
    ("stats", "statistics"),
    ("template", "new"),
    ("validate", "check"),
    ("verify", "check"),
    ("windows", "connectors"),
];

/// Adds to the error of a command that there is not the one that was meant.
pub fn suggest(error: &mut clap::Error) {
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) else {
        return;
    };
    let name = name.to_ascii_lowercase();
    if let Ok(at) = OTHER_NAMES.binary_search_by_key(&name.as_str(), |(other, _)| other) {
        let (_, here) = OTHER_NAMES[at];
        error.remove(ContextKind::SuggestedSubcommand);
        let tip = format!("'headwater {here}' does this").into();
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
        return;
    }
    if error.get(ContextKind::SuggestedSubcommand).is_some() {
        return;
    }
    let command = Cli::command();
    let known: Vec<&str> = command.get_subcommands().map(|c| c.get_name()).collect();
    if let Some(near) = nearest(&name, known) {
        let near = ContextValue::Strings(vec![near.to_owned()]);
        error.insert(ContextKind::SuggestedSubcommand, near);
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[test]
    fn other_names_are_sorted_lead_to_commands_and_are_none() {
        assert!(OTHER_NAMES.is_sorted());
        let command = Cli::command();
        for (other, here) in OTHER_NAMES {
            let name = here.split(' ').next().unwrap_or_default();
            assert!(command.find_subcommand(name).is_some(), "{here}");
            assert!(command.find_subcommand(other).is_none(), "{other}");
        }
    }

    fn said(name: &str) -> String {
        let mut error = Cli::try_parse_from(["headwater", name]).expect_err("no command");
        suggest(&mut error);
        error.to_string()
    }

    #[test]
    fn a_command_known_by_another_name_or_misspelt_is_named() {
        assert!(said("simulate").contains("'headwater send' does this"));
        assert!(said("Lint").contains("'headwater check' does this"));
        assert!(said("rnu").contains("'run'"), "{}", said("rnu"));
        assert!(said("chekc").contains("'check'"));
        assert!(!said("zzz").contains("tip"), "{}", said("zzz"));
    }
}
