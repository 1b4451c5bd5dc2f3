//! A mail server that keeps what it takes: aiosmtpd.
//!
//! Each mail is a file `N.eml` in the data folder, its envelope before it in lines `X-From` and `X-To`.
//! Recipients with `nobody` are refused, those with `later` are wanted later.
//!
//! Settings of an order: `user` is a `name:password` that alone may send, `tls` a PEM file with key and
//! certificate, by which the port speaks TLS, `starttls` the same for connections that begin in the
//! clear.

use std::path::Path;
use std::process::Command;

use crate::debian::program;
use crate::ready::greets;
use crate::{Error, Place, Recipe, run};

pub(crate) const SMTP: Smtp = Smtp;

pub(crate) struct Smtp;

const PACKAGE: &str = "python3-aiosmtpd";

const SCRIPT: &str = r#"
import asyncio, os, ssl, sys
from aiosmtpd.smtp import SMTP, AuthResult

port, data, user, tls, starttls = sys.argv[1:6]

class Keeper:
    async def handle_RCPT(self, server, session, envelope, address, options):
        if 'nobody' in address:
            return '550 there is nobody of that name'
        if 'later' in address:
            return '451 come back later'
        envelope.rcpt_tos.append(address)
        return '250 welcome'

    async def handle_DATA(self, server, session, envelope):
        number = len([name for name in os.listdir(data) if name.endswith('.eml')]) + 1
        path = os.path.join(data, '%d.eml' % number)
        with open(path + '.part', 'wb') as file:
            file.write(b'X-From: %s\r\n' % envelope.mail_from.encode())
            for to in envelope.rcpt_tos:
                file.write(b'X-To: %s\r\n' % to.encode())
            file.write(envelope.content)
        os.rename(path + '.part', path)
        return '250 kept as %d' % number

def judge(server, session, envelope, mechanism, login):
    given = login.login + b':' + login.password
    is_right = given == user.encode()
    # Otherwise the server says nothing to who is wrong.
    return AuthResult(success=is_right, handled=is_right)

def context(path):
    if not path:
        return None
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(path)
    return made

def serve():
    return SMTP(Keeper(), enable_SMTPUTF8=True, authenticator=judge, auth_required=bool(user),
                auth_require_tls=False, tls_context=context(starttls), hostname='test')

async def main():
    server = await asyncio.get_running_loop().create_server(
        serve, '127.0.0.1', int(port), ssl=context(tls))
    await server.serve_forever()

asyncio.run(main())
"#;

impl Recipe for Smtp {
    fn name(&self) -> &'static str {
        "smtp"
    }

    fn about(&self) -> &'static str {
        "aiosmtpd, a mail server that keeps what it takes"
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
        let mut ask = Command::new(program("python3", PACKAGE)?);
        ask.args(["-c", "import aiosmtpd; print(aiosmtpd.__version__)"]);
        let said = run(&mut ask).map_err(|_| {
            let remedy = format!("apt-get install {PACKAGE} brings it");
            Error::missing("there is no aiosmtpd", remedy)
        })?;
        Ok(format!("aiosmtpd {}", said.trim()))
    }

    fn launch(&self, place: &Place) -> Result<Command, Error> {
        let script = place.write("serve.py", SCRIPT)?;
        let mut command = Command::new(program("python3", PACKAGE)?);
        command
            .arg(script)
            .arg(place.port().to_string())
            .arg(place.data());
        for key in ["user", "tls", "starttls"] {
            command.arg(place.setting(key).unwrap_or_default());
        }
        Ok(command)
    }

    fn ready(&self, place: &Place) -> Result<(), String> {
        greets(place, b"220")
    }
}
