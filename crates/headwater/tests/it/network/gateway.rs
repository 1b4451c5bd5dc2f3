//! A server with a gateway, an admin API and a state of its own, as the commands see it.

use std::process::Command;

use super::{Running, free_port, piped, text};
use crate::broker::Apps;

/// A run of our binary with `--gateway`, `--http` and `--state`.
pub struct Server {
    pub apps: Apps,
    pub run: Running,
    pub http: u16,
    files: Vec<String>,
}

impl Server {
    /// Serves files that are given by their names and texts.
    pub fn start(files: &[(&str, &str)]) -> Server {
        Server::at(Apps::new(free_port(), 0), files)
    }

    /// The same on the port, and in the folder, of `apps`.
    pub fn at(apps: Apps, files: &[(&str, &str)]) -> Server {
        let write = |(name, text): &(&str, &str)| {
            let path = apps.path(name);
            std::fs::write(&path, text).expect("it can be written");
            path
        };
        let files: Vec<String> = files.iter().map(write).collect();
        let http = free_port();
        let run = Server::run(&apps, &files, http);
        Server {
            apps,
            run,
            http,
            files,
        }
    }

    fn run(apps: &Apps, files: &[String], http: u16) -> Running {
        let gateway = format!("127.0.0.1:{}", apps.port());
        let http = format!("127.0.0.1:{http}");
        let state = apps.path("state");
        let mut args: Vec<&str> = files.iter().map(String::as_str).collect();
        args.extend(["--gateway", &gateway, "--http", &http, "--state", &state]);
        let run = Running::start(&args);
        run.err_has("gateway is listening", 1);
        run.err_has("ready in", 1);
        run
    }

    /// Killed, and started again with the same command.
    pub fn crash(self) -> Server {
        self.run.kill();
        let run = Server::run(&self.apps, &self.files, self.http);
        Server { run, ..self }
    }

    /// The URL of a path of the gateway.
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.apps.port())
    }

    /// Exit code, standard output and standard error of `headwater gateway`.
    pub fn command(&self, args: &[&str]) -> (Option<i32>, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
        let url = format!("127.0.0.1:{}", self.http);
        let output = piped(command.arg("gateway").args(args).args(["--url", &url]), b"");
        (
            output.status.code(),
            text(&output.stdout),
            text(&output.stderr),
        )
    }

    /// What a command prints that is done.
    #[track_caller]
    pub fn does(&self, args: &[&str]) -> String {
        let (code, out, err) = self.command(args);
        assert_eq!((code, err.as_str()), (Some(0), ""), "{args:?}");
        out.trim_end().to_owned()
    }

    /// The same with `--json`.
    #[track_caller]
    pub fn json(&self, args: &[&str]) -> serde_json::Value {
        let said = self.does(&[args, &["--json"]].concat());
        serde_json::from_str(&said).expect("JSON")
    }
}
