//! What a user may do.

use std::fmt;
use std::str::FromStr;

/// Each role includes those before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Role {
    /// Read: metrics, statistics, tables, what runs.
    Read,
    /// Change what running apps hold: send events, write to tables, set levels.
    Operate,
    /// Change which apps run.
    Deploy,
    /// Change who may do what.
    Admin,
}

impl Role {
    /// From the least to the most.
    pub const ALL: [Role; 4] = [Role::Read, Role::Operate, Role::Deploy, Role::Admin];

    /// The names, for messages.
    pub const NAMES: &str = "read, operate, deploy or admin";

    pub fn name(self) -> &'static str {
        match self {
            Role::Read => "read",
            Role::Operate => "operate",
            Role::Deploy => "deploy",
            Role::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Role, String> {
        let found = Role::ALL.into_iter().find(|role| role.name() == text);
        found.ok_or_else(|| format!("there is no role '{text}': write {}", Role::NAMES))
    }
}
