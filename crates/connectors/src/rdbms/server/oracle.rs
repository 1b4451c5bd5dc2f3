//! JDBC URLs of Oracle: of its thin driver and of the one that is built on its client library.

use crate::rdbms::server::{CONNECT_TIMEOUT, Login, Server, ServerKind, Tls, host};

const PORT: u16 = 1521;

/// Property that holds what the client library takes as it is: a descriptor, or an alias of
/// `tnsnames.ora`.
const DESCRIPTOR: &str = "descriptor";

/// Property that holds the name of an instance, where no service is named.
const SID: &str = "sid";

const FORMS: &str = "write jdbc:oracle:thin:@//HOST:PORT/SERVICE";

impl Server {
    /// `place` is what follows `jdbc:oracle:`. The error shows no secret.
    pub fn parse_oracle(place: &str, login: &Login<'_>) -> Result<Server, String> {
        let (driver, place) = place.split_once(':').ok_or(FORMS)?;
        if !["thin", "oci", "oci8"].contains(&driver) {
            return Err(FORMS.into());
        }
        // A password may have an '@' of its own, a place none.
        let (own_login, place) = place.rsplit_once('@').ok_or(FORMS)?;
        let (own_user, own_password) = own_login.split_once('/').unwrap_or((own_login, ""));
        let of_login = |option: Option<&str>, own: &str| {
            let option = option.filter(|text| !text.is_empty());
            option.unwrap_or(own).to_owned()
        };
        let mut server = Server {
            kind: ServerKind::Oracle,
            hosts: Vec::new(),
            database: String::new(),
            user: of_login(login.user, own_user),
            password: of_login(login.password, own_password),
            tls: Tls::Off,
            root_certificates: None,
            connect_timeout: login.connect_timeout().unwrap_or(CONNECT_TIMEOUT),
            silence: None,
            properties: Vec::new(),
        };
        server.read_place(place.trim())?;
        Ok(server)
    }

    fn read_place(&mut self, place: &str) -> Result<(), String> {
        if place.is_empty() {
            return Err(FORMS.into());
        }
        if place.starts_with('(') {
            self.hosts = hosts_of(place);
            self.keep(DESCRIPTOR, place);
            return Ok(());
        }
        let (place, query) = place.split_once('?').unwrap_or((place, ""));
        if !query.is_empty() {
            return Err(
                "properties after '?' are not supported: name the folder of tnsnames.ora or of a \
                 wallet in the environment variable TNS_ADMIN, or write a descriptor, \
                 (DESCRIPTION=…)"
                    .into(),
            );
        }
        let place = match place.split_once("//") {
            None => place,
            Some(("tcps:", rest)) => {
                self.tls = Tls::VerifyFull;
                rest
            }
            Some(("" | "tcp:", rest)) => rest,
            Some(_) => return Err(FORMS.into()),
        };
        // HOST:PORT/SERVICE, or the older HOST:PORT:SID.
        if let Some((hosts, service)) = place.split_once('/') {
            // A kind of server may follow: SERVICE:DEDICATED.
            let service = service.split([':', '/']).next().unwrap_or(service);
            self.database = name(service)?.to_owned();
            for text in hosts.split(',') {
                self.hosts.push(checked(host(text, PORT)?)?);
            }
            return Ok(());
        }
        match place.rsplit_once(':') {
            Some((at, sid)) if at.contains(':') => {
                self.hosts.push(checked(host(at, PORT)?)?);
                self.database = name(sid)?.to_owned();
                self.keep(SID, sid);
            }
            Some(_) => return Err(FORMS.into()),
            // An alias of tnsnames.ora.
            None => self.keep(DESCRIPTOR, name(place)?),
        }
        Ok(())
    }

    fn keep(&mut self, property: &str, value: &str) {
        self.properties.push((property.into(), value.into()));
    }

    /// Where the client library connects to.
    #[cfg(any(test, feature = "oracle"))]
    pub(crate) fn oracle_descriptor(&self) -> String {
        use std::fmt::Write as _;

        if let Some(descriptor) = self.property(DESCRIPTOR) {
            return descriptor.to_owned();
        }
        let seconds = self
            .connect_timeout
            .max(std::time::Duration::from_secs(1))
            .as_secs();
        let protocol = match self.tls {
            Tls::Off => "TCP",
            _ => "TCPS",
        };
        let mut text = format!(
            "(DESCRIPTION=(CONNECT_TIMEOUT={seconds})(TRANSPORT_CONNECT_TIMEOUT={seconds})\
             (ADDRESS_LIST="
        );
        for (host, port) in &self.hosts {
            write!(
                text,
                "(ADDRESS=(PROTOCOL={protocol})(HOST={host})(PORT={port}))"
            )
            .expect("writing to a string cannot fail");
        }
        let database = match self.property(SID) {
            Some(sid) => format!("SID={sid}"),
            None => format!("SERVICE_NAME={}", self.database),
        };
        format!("{text})(CONNECT_DATA=({database})))")
    }
}

/// The addresses in a descriptor, for what is shown of it.
fn hosts_of(descriptor: &str) -> Vec<(String, u16)> {
    let value = |text: &str, key: &str| {
        let upper = text.to_ascii_uppercase();
        let rest = &text[upper.find(key)? + key.len()..];
        let rest = rest.trim_start().strip_prefix('=')?;
        Some(rest.split(')').next()?.trim().to_owned())
    };
    let upper = descriptor.to_ascii_uppercase();
    let addresses = upper
        .match_indices("(ADDRESS")
        .map(|(at, _)| &descriptor[at..]);
    addresses
        .filter(|address| !address.to_ascii_uppercase().starts_with("(ADDRESS_LIST"))
        .filter_map(|address| {
            let port = value(address, "(PORT").and_then(|port| port.parse().ok());
            Some((value(address, "(HOST")?, port.unwrap_or(PORT)))
        })
        .collect()
}

fn checked((host, port): (String, u16)) -> Result<(String, u16), String> {
    name(&host)?;
    Ok((host, port))
}

/// What stands in a descriptor must not end it.
fn name(text: &str) -> Result<&str, String> {
    let is_name = |c: char| c.is_alphanumeric() || "._-$#:".contains(c);
    match !text.is_empty() && text.chars().all(is_name) {
        true => Ok(text),
        false => Err(FORMS.into()),
    }
}
