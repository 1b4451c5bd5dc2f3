//! JDBC URLs of SQL Server: Microsoft's driver's and jTDS's.

use std::path::PathBuf;
use std::time::Duration;

use crate::rdbms::server::{CONNECT_TIMEOUT, Login, Server, ServerKind, Tls, host};

const PORT: u16 = 1433;

impl Server {
    /// `place` is what follows `jdbc:sqlserver:` or `jdbc:jtds:`. The error shows no secret.
    pub fn parse_sqlserver(kind: &str, place: &str, login: &Login<'_>) -> Result<Server, String> {
        let place = match kind {
            "jtds" => place
                .strip_prefix("sqlserver:")
                .ok_or("write jdbc:jtds:sqlserver://HOST:PORT/DATABASE")?,
            _ => place,
        };
        let rest = place
            .strip_prefix("//")
            .ok_or("write jdbc:sqlserver://HOST:PORT;databaseName=DATABASE")?;
        let (hosts, list) = rest.split_once(';').unwrap_or((rest, ""));
        let (hosts, own_database) = hosts.split_once('/').unwrap_or((hosts, ""));
        let properties = list.split(';').filter(|entry| !entry.trim().is_empty());
        let properties: Vec<(String, String)> = properties
            .map(|entry| {
                let (name, value) = entry.split_once('=').unwrap_or((entry, ""));
                let value = value.trim();
                let braced = value.strip_prefix('{').and_then(|v| v.strip_suffix('}'));
                (name.trim().to_owned(), braced.unwrap_or(value).to_owned())
            })
            .collect();
        let property = |names: &[&str]| {
            let mut found = properties.iter();
            let is_named =
                |name: &str| names.iter().any(|wanted| name.eq_ignore_ascii_case(wanted));
            found
                .rfind(|(name, _)| is_named(name))
                .map(|(_, value)| value.as_str())
        };
        let is_true = |names: &[&str]| {
            property(names).is_some_and(|v| ["true", "yes"].contains(&&*v.to_lowercase()))
        };
        if is_true(&["integratedSecurity", "useNTLMv2"]) || property(&["domain"]).is_some() {
            return Err("Windows logins are not supported: give 'username' and 'password'".into());
        }
        let port = property(&["port", "portNumber"]).map(|text| {
            text.parse::<u16>()
                .map_err(|_| "property 'portNumber' is not a port".to_owned())
        });
        let port = port.transpose()?.unwrap_or(PORT);
        let server = match hosts {
            "" => property(&["serverName", "server"]).unwrap_or_default(),
            hosts => hosts,
        };
        let (server, instance) = server.split_once('\\').unwrap_or((server, ""));
        let (instance, own_port) = instance.split_once(':').unwrap_or((instance, ""));
        let is_named = !instance.is_empty() || property(&["instanceName", "instance"]).is_some();
        let has_port = !own_port.is_empty() || property(&["port", "portNumber"]).is_some();
        if is_named && !has_port {
            return Err("write the port of the instance: HOST:PORT instead of its name".into());
        }
        let place = match own_port {
            "" => host(server, port)?,
            own => host(&format!("{server}:{own}"), port)?,
        };
        let database = property(&["databaseName", "database"]).unwrap_or(own_database);
        let of_login = |own: Option<&str>, names: &[&str]| {
            let own = own.filter(|text| !text.is_empty());
            own.or(property(names)).unwrap_or_default().to_owned()
        };
        // As Microsoft's driver does since its version 10: encrypted, unless the URL says otherwise.
        let is_jtds = kind == "jtds";
        let trusts = is_true(&["trustServerCertificate"]);
        let encrypt = property(&["encrypt", "ssl"]).map(str::to_lowercase);
        let tls = match encrypt.as_deref() {
            Some("false" | "no" | "optional" | "off") => Tls::Off,
            None if is_jtds => Tls::Off,
            Some("request" | "require") => Tls::Require,
            Some("strict") => {
                return Err(
                    "property 'encrypt' is strict, which is not supported: write true".into(),
                );
            }
            _ if trusts => Tls::Require,
            _ => Tls::VerifyFull,
        };
        let root_certificates = property(&["serverCertificate", "trustStore"]).map(PathBuf::from);
        if root_certificates.as_ref().is_some_and(|path| {
            let end = path.extension().and_then(|e| e.to_str());
            !matches!(end, Some("pem" | "crt" | "cer" | "der"))
        }) {
            return Err(
                "property 'trustStore' is no PEM or DER file: export the certificate from the store"
                    .into(),
            );
        }
        let seconds = property(&["loginTimeout"]).and_then(|text| text.parse().ok());
        let connect_timeout = seconds
            .filter(|seconds| *seconds > 0)
            .map(Duration::from_secs)
            .or(login.connect_timeout())
            .map_or(CONNECT_TIMEOUT, |timeout| timeout.min(CONNECT_TIMEOUT));
        Ok(Server {
            kind: ServerKind::SqlServer,
            hosts: vec![place],
            database: database.to_owned(),
            user: of_login(login.user, &["user", "userName"]),
            password: of_login(login.password, &["password"]),
            tls,
            root_certificates,
            connect_timeout,
            silence: None,
            properties,
        })
    }
}
