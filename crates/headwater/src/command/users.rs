//! `headwater users`: who may log in to a server, in its file. A running server sees each change at once.
//!
//! Never: a password among the arguments, where a list of processes shows it; a token twice.

use std::io::{BufRead as _, IsTerminal as _};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::{Value as Json, json};
use server::access::Role;
use server::access::audit::{Audit, Entry};
use server::access::users::{self, User, Users};
use server::clock;

use crate::output::Output;

/// Manage who may use the --http address of a server
///
/// As long as a server has no file of users, everybody on its machine may do everything at --http. From the
/// first user on everybody logs in: programs with a token, people with a token or a password. There is no
/// user and no password from the start. A running server sees changes at once.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headwater users add anna --role admin --state /var/lib/headwater\n  \
    headwater users token anna --expires 30d --state /var/lib/headwater   prints the token, once\n  \
    headwater users add prometheus --role read --state /var/lib/headwater\n  \
    headwater users list --state /var/lib/headwater\n\n\
    Roles, each with what those before it may do:\n  \
    read     metrics, statistics, queries that find\n  \
    operate  send events, queries that write, levels\n  \
    deploy   which apps run\n  \
    admin    everything")]
pub struct UsersArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Add a user
    Add(AddArgs),
    /// List the users and their tokens, which are named by their ids
    List(ListArgs),
    /// Remove a user with all tokens
    Remove(NameArgs),
    /// Set the password of a user, read from the terminal or from standard input
    Password(NameArgs),
    /// Make a token for a user, and print it; it is shown this once
    Token(TokenArgs),
    /// Remove a token
    Revoke(RevokeArgs),
}

/// Where the users are.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
struct PlaceArgs {
    /// The --state directory of the server
    #[arg(long, value_name = "DIR", env = "HEADWATER_STATE")]
    state: Option<PathBuf>,
    /// The --users file of the server
    #[arg(long, value_name = "FILE")]
    users: Option<PathBuf>,
}

#[derive(Args, Debug)]
struct AddArgs {
    /// Letters, digits and . _ - @
    name: String,
    /// What the user may do: read, operate, deploy or admin
    #[arg(long, value_name = "ROLE")]
    role: Role,
    /// Also set a password, which is the first line of standard input
    #[arg(long)]
    password_stdin: bool,
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

#[derive(Args, Debug)]
struct NameArgs {
    name: String,
    #[command(flatten)]
    place: PlaceArgs,
}

#[derive(Args, Debug)]
struct TokenArgs {
    name: String,
    /// What the token allows; by default all that the user may
    #[arg(long, value_name = "ROLE")]
    role: Option<Role>,
    /// For how long it is valid, such as 12h or 30d; by default until it is removed
    #[arg(long, value_name = "TIME", value_parser = parse_validity)]
    expires: Option<i64>,
    #[command(flatten)]
    place: PlaceArgs,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
struct RevokeArgs {
    name: String,
    /// As the list shows it
    id: String,
    #[command(flatten)]
    place: PlaceArgs,
}

impl PlaceArgs {
    fn path(&self) -> PathBuf {
        let of_state = || self.state.as_deref().map(|dir| dir.join(users::FILE));
        self.users.clone().or_else(of_state).unwrap_or_default()
    }

    /// One line in the audit log of the state directory.
    fn note(&self, what: &str) {
        let by = std::env::var("SUDO_USER").or_else(|_| std::env::var("USER"));
        Audit::new(self.state.as_deref()).note(&Entry {
            user: by.ok().as_deref(),
            from: "command line",
            what,
            detail: None,
            outcome: "done",
            status: None,
        });
    }

    /// As it is written on a command line.
    fn option(&self) -> String {
        match &self.state {
            Some(dir) => format!("--state {}", dir.display()),
            None => format!("--users {}", self.path().display()),
        }
    }
}

pub fn run(args: UsersArgs, output: &Output) -> anyhow::Result<u8> {
    match args.action {
        Action::Add(args) => add(&args, output)?,
        Action::List(args) => list(&args, output)?,
        Action::Remove(args) => {
            Users::change(&args.place.path(), |users| users.remove(&args.name))?;
            args.place.note(&format!("user '{}' removed", args.name));
            output.say(&format!("user '{}' removed, with all tokens", args.name));
        }
        Action::Password(args) => {
            let path = args.place.path();
            known(&path, &args.name)?;
            let password = read_password(output)?;
            Users::change(&path, |users| {
                users.of_name(&args.name)?.set_password(&password)
            })?;
            args.place
                .note(&format!("password of user '{}' set", args.name));
            output.say(&format!("the password of '{}' is set", args.name));
        }
        Action::Token(args) => token(&args, output)?,
        Action::Revoke(args) => {
            Users::change(&args.place.path(), |users| {
                users.of_name(&args.name)?.revoke(&args.id)
            })?;
            let what = format!("token {} of user '{}' removed", args.id, args.name);
            args.place.note(&what);
            output.say(&what);
        }
    }
    Ok(0)
}

fn add(args: &AddArgs, output: &Output) -> anyhow::Result<()> {
    let password = match args.password_stdin {
        true => Some(read_password(output)?),
        false => None,
    };
    let path = args.place.path();
    Users::change(&path, |users| {
        let user = users.add(&args.name, args.role)?;
        match &password {
            Some(password) => user.set_password(password),
            None => Ok(()),
        }
    })?;
    let (name, role) = (&args.name, args.role);
    args.place
        .note(&format!("user '{name}' added with role {role}"));
    output.say(&format!("user '{name}' added with role {role}"));
    if password.is_none() {
        let option = args.place.option();
        output.say(&format!(
            "to log in: headwater users token {name} {option}, or headwater users password {name} {option}"
        ));
    }
    Ok(())
}

fn token(args: &TokenArgs, output: &Output) -> anyhow::Result<()> {
    let now = clock::wall_millis();
    let expires = args.expires.map(|validity| now + validity);
    let (token, role) = Users::change(&args.place.path(), |users| {
        let user = users.of_name(&args.name)?;
        let role = args.role.unwrap_or(user.role);
        Ok((user.add_token(role, now, expires)?, role))
    })?;
    let name = &args.name;
    let until = expires.map_or_else(|| "it is removed".to_owned(), clock::timestamp);
    args.place.note(&format!(
        "token {} of user '{name}' made with role {role}",
        token.id
    ));
    if args.json {
        return output.print_json(&json!({
            "version": 1,
            "user": name,
            "id": token.id,
            "role": role.name(),
            "expires": expires.map(clock::timestamp),
            "token": token.secret,
        }));
    }
    output.say(&format!(
        "token {} of '{name}', role {role}, valid until {until}; it cannot be shown again",
        token.id
    ));
    output.print(&format!("{}\n", token.secret))
}

fn list(args: &ListArgs, output: &Output) -> anyhow::Result<()> {
    let users = Users::read(&args.place.path())?;
    let users = users.map_or_else(Vec::new, |users| users.users);
    let now = clock::wall_millis();
    if args.json {
        let users: Vec<Json> = users.iter().map(to_json).collect();
        return output.print_json(&json!({ "version": 1, "users": users }));
    }
    if users.is_empty() {
        output.say("there are no users: headwater users add NAME --role ROLE");
    }
    let mut text = String::new();
    for user in &users {
        let password = match user.password {
            Some(_) => "with a password",
            None => "without a password",
        };
        text.push_str(&format!("{} {} {password}\n", user.name, user.role));
        for token in &user.tokens {
            let until = match token.expires {
                None => "valid until it is removed".to_owned(),
                Some(at) if at <= now => format!("expired {}", clock::timestamp(at)),
                Some(at) => format!("valid until {}", clock::timestamp(at)),
            };
            text.push_str(&format!("  token {} {} {until}\n", token.id, token.role));
        }
    }
    output.print(&text)
}

fn to_json(user: &User) -> Json {
    let tokens = user.tokens.iter().map(|token| {
        json!({
            "id": token.id,
            "role": token.role.name(),
            "created": clock::timestamp(token.created),
            "expires": token.expires.map(clock::timestamp),
        })
    });
    json!({
        "name": user.name,
        "role": user.role.name(),
        "hasPassword": user.password.is_some(),
        "tokens": tokens.collect::<Vec<Json>>(),
    })
}

/// Before anybody types a password in vain.
fn known(path: &Path, name: &str) -> anyhow::Result<()> {
    let mut users = Users::read(path)?.unwrap_or_default();
    users.of_name(name)?;
    Ok(())
}

/// A line of standard input; on a terminal it is asked for, twice, and not shown.
fn read_password(output: &Output) -> anyhow::Result<String> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return read_line();
    }
    let shown = hide_typing()?;
    output.say("new password:");
    let first = read_line();
    output.say("again:");
    let second = read_line();
    rustix::termios::tcsetattr(stdin, rustix::termios::OptionalActions::Now, &shown)?;
    let first = first?;
    if first != second? {
        let message = "the two passwords differ: nothing is changed".to_owned();
        return Err(server::Error::Refused(message).into());
    }
    Ok(first)
}

/// Switches the echo of the terminal off; what it was set to before.
pub(super) fn hide_typing() -> anyhow::Result<rustix::termios::Termios> {
    use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
    let stdin = std::io::stdin();
    let shown = tcgetattr(&stdin)?;
    let mut hidden = shown.clone();
    hidden.local_modes.remove(LocalModes::ECHO);
    tcsetattr(&stdin, OptionalActions::Now, &hidden)?;
    Ok(shown)
}

pub(super) fn read_line() -> anyhow::Result<String> {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

/// `12h`, `30d`, in milliseconds.
fn parse_validity(text: &str) -> Result<i64, String> {
    const UNITS: [(char, i64); 3] = [('m', 60_000), ('h', 3_600_000), ('d', 86_400_000)];
    let form = || "write a time such as 30m, 12h or 30d".to_owned();
    let (number, unit) = UNITS
        .iter()
        .find_map(|(unit, millis)| Some((text.strip_suffix(*unit)?, millis)))
        .ok_or_else(form)?;
    let number: i64 = number.trim().parse().map_err(|_| form())?;
    match number.checked_mul(*unit) {
        Some(millis) if (1..=3650 * 86_400_000).contains(&millis) => Ok(millis),
        _ => Err("must be between 1m and 3650d".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_validity_has_its_unit() {
        assert_eq!(parse_validity("30d"), Ok(2_592_000_000));
        assert_eq!(parse_validity("12h"), Ok(43_200_000));
        for text in ["", "30", "0d", "-1d", "9999999999999999999d", "99999d", "d"] {
            assert!(parse_validity(text).is_err(), "{text}");
        }
    }
}
