//! Where a database server is and how it is logged in to, from the JDBC URLs and options that apps
//! have for Connector/J, MariaDB's connector and pgJDBC; those of SQL Server are read in
//! [`sqlserver`], those of Oracle in [`oracle`].

mod oracle;
mod sqlserver;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// How long a connection may take to be made where nothing else is said (HikariCP waits as long for
/// one of its pool).
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Silence of the network after which a server counts as gone.
pub const SILENCE_MAX: Duration = Duration::from_secs(3);

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ServerKind {
    /// MariaDB as well.
    MySql,
    Postgres,
    Oracle,
    SqlServer,
}

/// What an app's options say besides the URL.
#[derive(Clone, Copy, Default)]
pub struct Login<'a> {
    pub user: Option<&'a str>,
    pub password: Option<&'a str>,
    /// `pool.properties`.
    pub pool: Option<&'a str>,
}

impl Login<'_> {
    /// `connectionTimeout` of the pool's properties, `key:value,key:value`, in milliseconds; no longer
    /// than [`CONNECT_TIMEOUT`].
    pub(super) fn connect_timeout(&self) -> Option<Duration> {
        let value = self.pool?.split(',').find_map(|pair| {
            let (key, value) = pair.split_once(':')?;
            let is_named = key.trim().eq_ignore_ascii_case("connectionTimeout");
            is_named.then_some(value)
        });
        let ms = value?.trim().parse().ok().filter(|ms| *ms > 0)?;
        Some(Duration::from_millis(ms).min(CONNECT_TIMEOUT))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Tls {
    Off,
    /// Where the server offers it; certificates are not judged.
    Prefer,
    /// Always; certificates are not judged.
    Require,
    /// Always; the certificate must be trusted, for whatever name.
    VerifyCa,
    /// Always; the certificate must be trusted and name the host.
    VerifyFull,
}

/// Its `Debug` and `Display` never show the password.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Server {
    pub kind: ServerKind,
    /// Tried in order.
    pub hosts: Vec<(String, u16)>,
    pub database: String,
    pub user: String,
    pub password: String,
    pub tls: Tls,
    /// Certificates to trust, PEM.
    pub root_certificates: Option<PathBuf>,
    pub connect_timeout: Duration,
    /// Longest wait for an answer; none by default, since statements may take their time.
    pub silence: Option<Duration>,
    /// The other properties of the URL.
    pub properties: Vec<(String, String)>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Server({self})")
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            ServerKind::MySql => "mysql",
            ServerKind::Postgres => "postgresql",
            ServerKind::Oracle => "oracle",
            ServerKind::SqlServer => "sqlserver",
        };
        let hosts = self
            .hosts
            .iter()
            .map(|(host, port)| format!("{host}:{port}"));
        let hosts: Vec<String> = hosts.collect();
        write!(f, "{kind}://{}/{}", hosts.join(","), self.database)
    }
}

impl Server {
    /// `kind` is what stands behind `jdbc:`, `place` what follows it. The error shows no secret.
    pub fn parse(kind: &str, place: &str, login: &Login<'_>) -> Result<Server, String> {
        let server_kind = match kind {
            "sqlserver" | "jtds" => return Server::parse_sqlserver(kind, place, login),
            "oracle" => return Server::parse_oracle(place, login),
            "postgresql" => ServerKind::Postgres,
            _ => ServerKind::MySql,
        };
        let (place, query) = place.split_once('?').unwrap_or((place, ""));
        let properties = properties(query)?;
        let property = |names: &[&str]| {
            let mut found = properties
                .iter()
                .filter(|(name, _)| names.iter().any(|wanted| name.eq_ignore_ascii_case(wanted)));
            found.next_back().map(|(_, value)| value.as_str())
        };
        let default_port = match server_kind {
            ServerKind::Postgres => 5432,
            _ => 3306,
        };
        // `loadbalance:`, `replication:` and the like choose among hosts; here they are tried in order.
        let (hosts, database) = match place.split_once("//") {
            Some((_, rest)) => rest.split_once('/').unwrap_or((rest, "")),
            None if server_kind == ServerKind::Postgres => ("", place.trim_start_matches('/')),
            None => return Err(format!("write jdbc:{kind}://HOST:PORT/DATABASE")),
        };
        let hosts = hosts
            .split(',')
            .map(|text| host(text, default_port))
            .collect::<Result<Vec<_>, String>>()?;
        let user = login
            .user
            .filter(|user| !user.is_empty())
            .or(property(&["user"]))
            .unwrap_or_default()
            .to_owned();
        let password = login
            .password
            .filter(|password| !password.is_empty())
            .or(property(&["password"]))
            .unwrap_or_default()
            .to_owned();
        let database = match database {
            "" if server_kind == ServerKind::Postgres => user.clone(),
            database => decoded(database)?,
        };
        let tls = match server_kind {
            ServerKind::Postgres => postgres_tls(&property)?,
            _ => mysql_tls(kind, &property)?,
        };
        let root_certificates = property(&["serverSslCert", "sslrootcert"])
            .map(|path| PathBuf::from(path.strip_prefix("file:").unwrap_or(path)));
        // Connector/J counts milliseconds, pgJDBC seconds, and so does the pool (milliseconds).
        let unit = match server_kind {
            ServerKind::Postgres => Duration::from_secs(1),
            _ => Duration::from_millis(1),
        };
        let number = |text: &str| text.trim().parse::<u32>().ok().filter(|n| *n > 0);
        let connect_timeout = property(&["connectTimeout", "loginTimeout"])
            .and_then(number)
            .map(|count| unit * count)
            .or(login.connect_timeout())
            .map_or(CONNECT_TIMEOUT, |timeout| timeout.min(CONNECT_TIMEOUT));
        Ok(Server {
            kind: server_kind,
            hosts,
            database,
            user,
            password,
            tls,
            root_certificates,
            connect_timeout,
            silence: None,
            properties,
        })
    }

    pub fn property(&self, name: &str) -> Option<&str> {
        let mut found = self.properties.iter();
        found
            .rfind(|(own, _)| own.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }
}

/// `a=b&c=d`, decoded.
fn properties(query: &str) -> Result<Vec<(String, String)>, String> {
    query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((decoded(name)?, decoded(value)?))
        })
        .collect()
}

fn decoded(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [rest.next(), rest.next()];
        let value = digits.into_iter().try_fold(0, |value, digit| {
            Some(value * 16 + char::from(digit?).to_digit(16)?)
        });
        bytes.push(value.ok_or("a '%' is not followed by two hexadecimal digits")? as u8);
    }
    String::from_utf8(bytes).map_err(|_| "the escape after '%' is not UTF-8".to_owned())
}

/// `HOST`, `HOST:PORT` or `[IPV6]:PORT`; nothing is this machine.
pub(super) fn host(text: &str, default_port: u16) -> Result<(String, u16), String> {
    let text = text.trim();
    if text.contains(['@', '(']) {
        return Err("write HOST:PORT, and the login in options 'username' and 'password'".into());
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or("a '[' is not closed")?;
            (host, port.strip_prefix(':'))
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let port = match port {
        None | Some("") => default_port,
        Some(port) => port
            .parse()
            .map_err(|_| format!("'{port}' is not a port"))?,
    };
    let host = if host.is_empty() { "localhost" } else { host };
    Ok((host.to_owned(), port))
}

type Property<'a> = dyn Fn(&[&str]) -> Option<&'a str> + 'a;

/// Connector/J prefers TLS, MariaDB's connector does without.
fn mysql_tls(kind: &str, property: &Property<'_>) -> Result<Tls, String> {
    let is = |name: &str| property(&[name]).map(|value| value.eq_ignore_ascii_case("true"));
    if let Some(mode) = property(&["sslMode", "ssl-mode"]) {
        return match mode.to_ascii_uppercase().replace('-', "_").as_str() {
            "DISABLED" | "DISABLE" => Ok(Tls::Off),
            "PREFERRED" => Ok(Tls::Prefer),
            "REQUIRED" | "TRUST" => Ok(Tls::Require),
            "VERIFY_CA" => Ok(Tls::VerifyCa),
            "VERIFY_IDENTITY" | "VERIFY_FULL" => Ok(Tls::VerifyFull),
            _ => Err(
                "property 'sslMode' is none of DISABLED, PREFERRED, REQUIRED, VERIFY_CA and \
                      VERIFY_IDENTITY"
                    .into(),
            ),
        };
    }
    Ok(match (is("useSSL"), is("verifyServerCertificate")) {
        (Some(false), _) => Tls::Off,
        (Some(true), Some(true)) => Tls::VerifyCa,
        (Some(true), _) => Tls::Require,
        _ if is("requireSSL") == Some(true) => Tls::Require,
        _ if kind == "mariadb" => Tls::Off,
        _ => Tls::Prefer,
    })
}

fn postgres_tls(property: &Property<'_>) -> Result<Tls, String> {
    match property(&["sslmode"])
        .map(str::to_ascii_lowercase)
        .as_deref()
    {
        Some("disable") => Ok(Tls::Off),
        Some("allow" | "prefer") => Ok(Tls::Prefer),
        Some("require") => Ok(Tls::Require),
        Some("verify-ca") => Ok(Tls::VerifyCa),
        Some("verify-full") => Ok(Tls::VerifyFull),
        Some(_) => Err(
            "property 'sslmode' is none of disable, allow, prefer, require, verify-ca \
                        and verify-full"
                .into(),
        ),
        None => match property(&["ssl"]) {
            Some(value) if value.is_empty() || value.eq_ignore_ascii_case("true") => {
                Ok(Tls::VerifyFull)
            }
            _ => Ok(Tls::Prefer),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(kind: &str, place: &str) -> Result<Server, String> {
        let login = Login {
            user: Some("root"),
            password: Some("s3cret"),
            pool: None,
        };
        Server::parse(kind, place, &login)
    }

    #[track_caller]
    fn check(kind: &str, place: &str, shown: &str, tls: Tls) {
        let server = parse(kind, place).unwrap();
        assert_eq!(server.to_string(), shown);
        assert_eq!(server.tls, tls);
        assert!(!format!("{server:?}").contains("s3cret"));
    }

    #[test]
    fn urls_of_servers() {
        check("mysql", "//h:3307/shop", "mysql://h:3307/shop", Tls::Prefer);
        check(
            "mysql",
            "//h/shop?useSSL=false&serverTimezone=UTC",
            "mysql://h:3306/shop",
            Tls::Off,
        );
        check(
            "mysql",
            "loadbalance://a,b:1/d?sslMode=VERIFY_IDENTITY",
            "mysql://a:3306,b:1/d",
            Tls::VerifyFull,
        );
        check("mariadb", "//[::1]:9/d", "mysql://::1:9/d", Tls::Off);
        check(
            "mariadb",
            "//h/d?sslMode=trust",
            "mysql://h:3306/d",
            Tls::Require,
        );
        check("postgresql", "//h/d", "postgresql://h:5432/d", Tls::Prefer);
        check(
            "postgresql",
            "d%20x",
            "postgresql://localhost:5432/d x",
            Tls::Prefer,
        );
        check(
            "postgresql",
            "//h/",
            "postgresql://h:5432/root",
            Tls::Prefer,
        );
        check(
            "postgresql",
            "//h/d?ssl=true",
            "postgresql://h:5432/d",
            Tls::VerifyFull,
        );
        check(
            "postgresql",
            "//h/d?sslmode=require",
            "postgresql://h:5432/d",
            Tls::Require,
        );
    }

    #[test]
    fn what_is_wrong_with_a_url_is_said_without_secrets() {
        for (kind, place) in [
            ("mysql", "h/d"),
            ("mysql", "//root:s3cret@h/d"),
            ("mysql", "//h/d?x=s3cret%"),
            ("mysql", "//h/d?sslMode=s3cret"),
            ("postgresql", "//h/d?sslmode=s3cret"),
        ] {
            let error = parse(kind, place).unwrap_err();
            assert!(!error.contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn the_login_may_stand_in_the_url() {
        let place = "//h/d?user=u&password=p%26q&connectTimeout=2";
        let server = Server::parse("postgresql", place, &Login::default()).unwrap();
        assert_eq!(
            (server.user.as_str(), server.password.as_str()),
            ("u", "p&q")
        );
        assert_eq!(server.connect_timeout, Duration::from_secs(2));
        let own = parse("postgresql", place).unwrap();
        assert_eq!(own.user, "root");
        let pool = Some("maximumPoolSize:5, connectionTimeout:1500");
        let login = Login {
            pool,
            ..Login::default()
        };
        let pooled = Server::parse("mysql", "//h/d", &login).unwrap();
        assert_eq!(pooled.connect_timeout, Duration::from_millis(1500));
    }
}
