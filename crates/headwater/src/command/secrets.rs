//! `headwater secrets`: the key store that `${secret:NAME}` is read from.
//!
//! Never: a value among the arguments, where a list of processes shows it; a value in an output.

use std::io::{IsTerminal as _, Read as _};
use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use serde_json::json;
use server::Error;
use server::secrets::{FILE, KEY, KeyPlace, KeyStore, Secrets, VALUE_MAX, is_name};

use super::users::{hide_typing, read_line};
use crate::output::Output;

/// Keep passwords and tokens for apps in an encrypted file
///
/// An app, a configuration file or --set has ${secret:NAME} for the value of NAME. The file is encrypted with
/// AES-256-GCM; its key is in another file, or in the variable HEADWATER_SECRETS_KEY. A running server reads
/// changes at a reload (SIGHUP) and at each deployment.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headwater secrets set db.password --state state/ --secrets-key-file key     asks for the value\n  \
    pass show db | headwater secrets set db.password --state state/ --secrets-key-file key\n  \
    headwater secrets list --state state/ --secrets-key-file key\n  \
    headwater secrets rotate --state state/ --secrets-key-file key              a new key\n  \
    headwater run app.siddhi --state state/ --secrets-key-file key\n\n\
    The first 'set' makes the file of the key if there is none. Without it no value can be read: keep a copy, \
    away from those of the key store.")]
pub struct SecretsArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Set a secret; its value is read from the terminal or from standard input
    Set(NameArgs),
    /// List the names of the secrets
    List(ListArgs),
    /// Delete a secret
    Delete(NameArgs),
    /// Encrypt all secrets with a new key, which replaces the old one in its file
    Rotate(PlaceArgs),
}

#[derive(Args, Debug)]
struct NameArgs {
    /// Letters, digits and . _ -
    name: String,
    #[command(flatten)]
    place: PlaceArgs,
}

#[derive(Args, Debug)]
struct ListArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Where the key store is, or in whose state directory.
#[derive(Args, Debug)]
struct PlaceArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// The --state directory of the server, which has the key store if --secrets names no other
    #[arg(long, value_name = "DIR", env = "HEADWATER_STATE")]
    state: Option<PathBuf>,
}

/// Where the key store and its key are.
#[derive(Args, Clone, Debug, Default)]
pub struct StoreArgs {
    /// The key store, for ${secret:NAME} (headwater secrets); by default the file 'secrets' of the --state
    /// directory
    #[arg(long, value_name = "FILE", env = "HEADWATER_SECRETS")]
    pub secrets: Option<PathBuf>,
    /// File with the key of the key store; without it the key is taken from HEADWATER_SECRETS_KEY
    #[arg(long, value_name = "FILE", env = "HEADWATER_SECRETS_KEY_FILE")]
    pub secrets_key_file: Option<PathBuf>,
}

impl StoreArgs {
    /// For a command without these options.
    pub fn of_environment() -> StoreArgs {
        let path = |name| std::env::var_os(name).map(PathBuf::from);
        StoreArgs {
            secrets: path("HEADWATER_SECRETS"),
            secrets_key_file: path("HEADWATER_SECRETS_KEY_FILE"),
        }
    }

    /// `None`: neither it nor a state directory says where the store would be.
    pub fn store(&self, state: Option<&std::path::Path>) -> Option<KeyStore> {
        let of_state = || state.map(|dir| dir.join(FILE));
        let given = |key: &String| !key.is_empty();
        let key = match (
            &self.secrets_key_file,
            std::env::var(KEY).ok().filter(given),
        ) {
            (Some(path), _) => KeyPlace::File(path.clone()),
            (None, Some(key)) => KeyPlace::Given(key),
            (None, None) => KeyPlace::Nowhere,
        };
        let path = self.secrets.clone().or_else(of_state)?;
        Some(KeyStore { path, key })
    }

    /// For the loading of apps.
    pub fn secrets(&self, state: Option<&std::path::Path>, output: &Output) -> Secrets {
        Secrets {
            store: self.store(state),
            hidden: output.hidden.clone(),
        }
    }
}

impl PlaceArgs {
    fn store(&self) -> anyhow::Result<KeyStore> {
        let store = self.store.store(self.state.as_deref());
        let none = "name the key store: --secrets FILE, or --state DIR for that of a server";
        Ok(store.ok_or_else(|| Error::Usage(none.to_owned()))?)
    }
}

pub fn run(args: SecretsArgs, output: &Output) -> anyhow::Result<u8> {
    match args.action {
        Action::Set(args) => set(&args, output),
        Action::List(args) => list(&args, output),
        Action::Delete(args) => delete(&args, output),
        Action::Rotate(place) => {
            let store = place.store()?;
            store.rotate()?;
            output.say(&format!(
                "'{}' has a new key: copies of the old one open only copies of the store from before",
                store.path.display()
            ));
            Ok(0)
        }
    }
}

fn set(args: &NameArgs, output: &Output) -> anyhow::Result<u8> {
    let (name, store) = (&args.name, args.place.store()?);
    if !is_name(name) {
        let message =
            format!("'{name}' is no name of a secret: write 1 to 100 letters, digits and . _ -");
        return Err(Error::Usage(message).into());
    }
    if store.make_key()? {
        let KeyPlace::File(path) = &store.key else {
            anyhow::bail!("a key was made that has no file");
        };
        output.say(&format!(
            "made a key in '{}': keep a copy of it, for without it no secret can be read",
            path.display()
        ));
    }
    // Before anybody types a value in vain.
    store.read()?;
    let value = read_value(output)?;
    let before = store.change(|all| all.insert(name.clone(), value))?;
    let done = if before.is_some() { "changed" } else { "set" };
    output.say(&format!(
        "secret '{name}' is {done}: write ${{secret:{name}}}"
    ));
    Ok(0)
}

fn list(args: &ListArgs, output: &Output) -> anyhow::Result<u8> {
    let all = args.place.store()?.read()?;
    let names: Vec<&String> = all.keys().collect();
    if args.json {
        output.print_json(&json!({ "version": 1, "secrets": names }))?;
        return Ok(0);
    }
    if names.is_empty() {
        output.say("there are no secrets: headwater secrets set NAME");
    }
    output.print(
        &names
            .iter()
            .map(|name| format!("{name}\n"))
            .collect::<String>(),
    )?;
    Ok(0)
}

fn delete(args: &NameArgs, output: &Output) -> anyhow::Result<u8> {
    let (name, store) = (&args.name, args.place.store()?);
    let is_there = |all: &std::collections::BTreeMap<String, String>| all.contains_key(name);
    let missing = || {
        Error::Refused(format!(
            "there is no secret '{name}': headwater secrets list names all"
        ))
    };
    if !is_there(&store.read()?) {
        return Err(missing().into());
    }
    store.change(|all| all.remove(name))?.ok_or_else(missing)?;
    output.say(&format!("secret '{name}' is deleted"));
    Ok(0)
}

/// All of standard input without its last line end; on a terminal a line that is asked for and not shown.
fn read_value(output: &Output) -> anyhow::Result<String> {
    let stdin = std::io::stdin();
    let value = if stdin.is_terminal() {
        let shown = hide_typing()?;
        output.say("value:");
        let line = read_line();
        rustix::termios::tcsetattr(stdin, rustix::termios::OptionalActions::Now, &shown)?;
        line?
    } else {
        let mut text = String::new();
        let mut limited = stdin.lock().take(VALUE_MAX as u64 + 3);
        limited
            .read_to_string(&mut text)
            .context("cannot read the value from standard input: it has to be UTF-8")?;
        let text = text.strip_suffix('\n').unwrap_or(&text);
        text.strip_suffix('\r').unwrap_or(text).to_owned()
    };
    match value.len() {
        0 => Err(Error::Usage("the value is empty".to_owned()).into()),
        len if len > VALUE_MAX => {
            Err(Error::Usage(format!("the value is longer than {VALUE_MAX} bytes")).into())
        }
        _ => Ok(value),
    }
}
