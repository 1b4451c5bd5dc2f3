//! Servers that a gateway is measured beside: programs alone, whose configuration the measurement writes.

use std::path::PathBuf;
use std::process::Command;

use crate::debian::program;
use crate::place::kept;
use crate::{Error, answers, run};

const NCHAN: &str = "/usr/lib/nginx/modules/ngx_nchan_module.so";

const BUN: &str = "1.4.5";

/// nginx of Debian, with a module for publish and subscribe.
///
/// # Errors
/// [`Error::Missing`] with the packages that bring it.
pub fn nginx_with_nchan() -> Result<PathBuf, Error> {
    let nginx = program("nginx", "nginx")?;
    if !PathBuf::from(NCHAN).is_file() {
        let remedy = "apt-get install libnginx-mod-nchan brings it";
        return Err(Error::missing("nginx has no module nchan", remedy));
    }
    Ok(nginx)
}

/// wrk of Debian, which sends HTTP requests as fast as they are answered.
///
/// # Errors
/// [`Error::Missing`] with the package that brings it.
pub fn wrk() -> Result<PathBuf, Error> {
    program("wrk", "wrk")
}

/// Bun, a JavaScript runtime whose WebSocket server is that of uWebSockets, from npm.
///
/// # Errors
/// [`Error::Missing`] without npm, or on another processor than x86-64.
pub fn bun() -> Result<PathBuf, Error> {
    if cfg!(not(target_arch = "x86_64")) {
        return Err(Error::missing(
            "bun is fetched for x86-64 only",
            "measure on such a machine",
        ));
    }
    let at = kept("bun", BUN, |into| {
        if !answers("npm", &["--version"]) {
            return Err(Error::missing(
                "there is no 'npm'",
                "apt-get install npm brings it",
            ));
        }
        run(Command::new("npm")
            .args(["install", "--no-audit", "--no-fund", "--prefix"])
            .arg(into)
            .arg(format!("@oven/bun-linux-x64@{BUN}")))?;
        Ok(())
    })?;
    Ok(at.join("node_modules/@oven/bun-linux-x64/bin/bun"))
}
