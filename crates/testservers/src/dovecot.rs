//! Dovecot: mailboxes for IMAP. Any user is let in who has the password, and has an empty mailbox.
//!
//! The client's port speaks in the clear, unless `tls` of the order names a PEM file with key and
//! certificate; `password` is the one that is asked for (`pass` without it).

use std::path::Path;
use std::process::Command;

use rustix::process::geteuid;

use crate::debian::program;
use crate::ready::greets;
use crate::{Error, Place, Recipe, run, version_line};

pub(crate) const DOVECOT: Dovecot = Dovecot;

pub(crate) struct Dovecot;

const PACKAGE: &str = "dovecot-imapd";

/// As root, mailboxes belong to the account that the package has made.
const ACCOUNT: &str = "dovecot";

impl Recipe for Dovecot {
    fn name(&self) -> &'static str {
        "dovecot"
    }

    fn about(&self) -> &'static str {
        "Dovecot, a server of mailboxes"
    }

    fn packages(&self) -> &'static [&'static str] {
        &[PACKAGE]
    }

    fn edition(&self) -> &'static str {
        "debian"
    }

    fn install(&self, into: &Path) -> Result<(), Error> {
        self.version(into).map(|_| ())
    }

    fn version(&self, _installed: &Path) -> Result<String, Error> {
        let program = program("dovecot", PACKAGE)?;
        let line = version_line(&program.to_string_lossy(), &["--version"])?;
        let version = line.split(' ').next().unwrap_or_default();
        Ok(format!("Dovecot {version}"))
    }

    fn account(&self) -> Option<&'static str> {
        Some(ACCOUNT)
    }

    fn launch(&self, place: &Place) -> Result<Command, Error> {
        let user = match geteuid().is_root() {
            true => ACCOUNT.to_owned(),
            false => run(Command::new("id").arg("-un"))?.trim().to_owned(),
        };
        let path = place.write("dovecot.conf", &configuration(place, &user))?;
        let mut command = Command::new(program("dovecot", PACKAGE)?);
        command.args(["-F", "-c"]).arg(path);
        Ok(command)
    }

    fn ready(&self, place: &Place) -> Result<(), String> {
        greets(place, b"* OK")
    }
}

fn configuration(place: &Place, user: &str) -> String {
    let folder = place.folder().display();
    let data = place.data();
    let data = data.display();
    let password = place.setting("password").unwrap_or("pass");
    let tls = match place.setting("tls") {
        None => "ssl = no\n".to_owned(),
        Some(pem) => format!("ssl = required\nssl_cert = <{pem}\nssl_key = <{pem}\n"),
    };
    let of_port = match place.setting("tls") {
        None => "",
        Some(_) => "ssl = yes",
    };
    format!(
        "base_dir = {folder}/run
state_dir = {folder}/state
log_path = /dev/stderr
protocols = imap
listen = 127.0.0.1
default_internal_user = {user}
default_internal_group = {user}
default_login_user = {user}
first_valid_uid = 1
mail_location = maildir:{data}/%u
mail_uid = {user}
mail_gid = {user}
disable_plaintext_auth = no
{tls}passdb {{
  driver = static
  args = password={password}
}}
userdb {{
  driver = static
  args = uid={user} gid={user} home={data}/%u
}}
service imap-login {{
  chroot =
  inet_listener imap {{
    port = {port}
    {of_port}
  }}
  inet_listener imaps {{
    port = 0
  }}
}}
service anvil {{
  chroot =
}}
service stats {{
  chroot =
}}
",
        port = place.port(),
    )
}
