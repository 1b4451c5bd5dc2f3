//! Who asks a server over HTTP, and what each may do.
//!
//! Never here: HTTP (see [`crate::http`]).

pub mod audit;
mod door;
mod limiter;
pub(crate) mod logins;
mod role;
pub mod users;

use std::net::IpAddr;
use std::sync::Arc;

pub use door::Door;
pub use role::Role;

/// Who sent a request, as far as it is known. Handlers find it among the extensions of the request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Caller {
    /// The user; `None` where nobody has to log in.
    pub user: Option<Arc<str>>,
    /// `None`: not logged in, which a path that is open to anyone allows.
    pub role: Option<Role>,
    /// The address of the connection's other end.
    pub address: IpAddr,
}

impl Caller {
    /// May it do what needs this role?
    pub fn has(&self, role: Role) -> bool {
        self.role.is_some_and(|own| own >= role)
    }
}
