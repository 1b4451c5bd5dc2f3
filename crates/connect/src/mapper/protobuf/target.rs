//! URLs of gRPC: which method of which service, and where.

use crate::url::split_port;

/// How Siddhi's own service is called in URLs, and on the wire.
const EVENT_SERVICE: &str = "org.wso2.grpc.EventService";
pub const EVENT_SERVICE_PATH: &str = "org.wso2.grpc.eventservice.EventService";

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    pub host: String,
    pub port: u16,
    pub service: Service,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Service {
    /// Siddhi's own. The sequence is told in the header `sequence`.
    Events {
        method: Option<String>,
        sequence: Option<String>,
    },
    Own {
        service: String,
        method: String,
    },
}

impl Target {
    /// `grpc://host:port/<sequence>`, or `grpc://host:port/<service>/<method>`, with a sequence behind
    /// the method of Siddhi's own service. The message of the error is for the person who wrote it.
    pub fn parse(url: &str) -> Result<Target, String> {
        let wrong = |cause: &str| {
            format!(
                "'{url}' is not a gRPC URL: {cause}; write grpc://host:port/<service>/<method>, or \
                 grpc://host:port/<sequence>"
            )
        };
        let rest = url.trim().strip_prefix("grpc://");
        let rest = rest.ok_or_else(|| wrong("it does not begin with 'grpc://'"))?;
        let (authority, path) = rest
            .split_once('/')
            .ok_or_else(|| wrong("it has no path"))?;
        let (host, Some(port)) =
            split_port(authority).ok_or_else(|| wrong("its port is not a number"))?
        else {
            return Err(wrong("it has no port"));
        };
        if host.is_empty() {
            return Err(wrong("it has no host"));
        }
        let parts: Vec<&str> = path.split('/').collect();
        if parts
            .iter()
            .any(|part| part.is_empty() || part.contains(char::is_whitespace))
        {
            return Err(wrong("a part of its path is empty"));
        }
        let is_own = |service: &str| service != EVENT_SERVICE && service != EVENT_SERVICE_PATH;
        let service = match parts[..] {
            [sequence] if is_own(sequence) => Service::Events {
                method: None,
                sequence: Some(sequence.to_owned()),
            },
            [service, method] if is_own(service) => Service::Own {
                service: service.to_owned(),
                method: method.to_owned(),
            },
            [service, method] if !is_own(service) => Service::Events {
                method: Some(method.to_owned()),
                sequence: None,
            },
            [service, method, sequence] if !is_own(service) => Service::Events {
                method: Some(method.to_owned()),
                sequence: Some(sequence.to_owned()),
            },
            _ => return Err(wrong("its path has too many or too few parts")),
        };
        Ok(Target {
            host: host.to_owned(),
            port,
            service,
        })
    }

    /// Service and method, where it is not Siddhi's own.
    pub fn own_service(&self) -> Option<(&str, &str)> {
        match &self.service {
            Service::Events { .. } => None,
            Service::Own { service, method } => Some((service, method)),
        }
    }

    /// What stands in the request; `usual` is the method of Siddhi's own service where the URL names none.
    pub fn path(&self, usual: &str) -> String {
        match &self.service {
            Service::Events { method, .. } => {
                format!(
                    "/{EVENT_SERVICE_PATH}/{}",
                    method.as_deref().unwrap_or(usual)
                )
            }
            Service::Own { service, method } => format!("/{service}/{method}"),
        }
    }

    pub fn sequence(&self) -> Option<&str> {
        match &self.service {
            Service::Events { sequence, .. } => sequence.as_deref(),
            Service::Own { .. } => None,
        }
    }

    /// `host:port`.
    pub fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_a_method_or_a_sequence() {
        let shown = |url| {
            let target = Target::parse(url).expect(url);
            let sequence = target.sequence().unwrap_or("-").to_owned();
            format!(
                "{} {} {sequence}",
                target.authority(),
                target.path("consume")
            )
        };
        let own = "org.wso2.grpc.eventservice.EventService";
        assert_eq!(shown("grpc://h:1/seq"), format!("h:1 /{own}/consume seq"));
        assert_eq!(
            shown("grpc://h:1/org.wso2.grpc.EventService/process"),
            format!("h:1 /{own}/process -")
        );
        assert_eq!(
            shown(" grpc://[::1]:1/org.wso2.grpc.EventService/consume/seq "),
            format!("[::1]:1 /{own}/consume seq")
        );
        assert_eq!(shown("grpc://h:1/a.Rows/take"), "h:1 /a.Rows/take -");
        for bad in [
            "",
            "h:1/a/b",
            "http://h:1/a/b",
            "grpc://h:1",
            "grpc://h:1/",
            "grpc://h:1/a//b",
            "grpc://h:1/a/b/c",
            "grpc://h:1/org.wso2.grpc.EventService",
            "grpc://h/a/b",
            "grpc://:1/a/b",
            "grpc://h:x/a/b",
        ] {
            assert!(Target::parse(bad).is_err(), "{bad}");
        }
    }
}
