//! Servers that do the same work: ours, and those that a user would pick instead.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use super::crowd::Publisher;
use crate::process::Process;

/// How long a server may take to listen.
const START_MAX: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Peer {
    Headwater,
    /// nginx with nchan, by server-sent events or by WebSocket.
    Nchan,
    /// nginx as a reverse proxy.
    Nginx,
    Bun,
    /// wrk posting the same bytes to the same receiver.
    Wrk,
}

impl Peer {
    pub fn name(self) -> &'static str {
        match self {
            Peer::Headwater => "Headwater",
            Peer::Nchan => "nchan",
            Peer::Nginx => "nginx",
            Peer::Bun => "Bun",
            Peer::Wrk => "wrk",
        }
    }

    /// The program, or what is missing and how it is got.
    ///
    /// # Errors
    /// It is not on this machine and cannot be fetched.
    pub fn program(self, ours: &Path) -> anyhow::Result<PathBuf> {
        Ok(match self {
            Peer::Headwater => ours.to_owned(),
            Peer::Nchan | Peer::Nginx => testservers::nginx_with_nchan()?,
            Peer::Bun => testservers::bun()?,
            Peer::Wrk => testservers::wrk()?,
        })
    }
}

/// A server that runs, with its folder.
pub(super) struct Site {
    pub address: SocketAddr,
    pub process: Process,
    dir: PathBuf,
}

/// A port of this machine that nobody listens at.
pub(super) fn free_address() -> anyhow::Result<SocketAddr> {
    let port = testservers::free_port()?;
    Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
}

impl Site {
    fn start(mut command: Command, address: SocketAddr, dir: &Path) -> anyhow::Result<Site> {
        let said = File::create(dir.join("said.txt"))?;
        command
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(said);
        let process = Process::start(&mut command)?;
        let deadline = Instant::now() + START_MAX;
        while TcpStream::connect(address).is_err() {
            ensure!(
                Instant::now() < deadline,
                "{} does not listen: {}",
                command.get_program().to_string_lossy(),
                fs::read_to_string(dir.join("said.txt")).unwrap_or_default()
            );
            std::thread::park_timeout(Duration::from_millis(5));
        }
        Ok(Site {
            address,
            process,
            dir: dir.to_owned(),
        })
    }

    /// Headwater with these files beside it, as `name` and text.
    pub fn headwater(binary: &Path, dir: &Path, files: &[(&str, &str)]) -> anyhow::Result<Site> {
        let address = free_address()?;
        let mut command = Command::new(binary);
        command.arg("run");
        for (name, text) in files {
            fs::write(dir.join(name), text)?;
            command.arg(name);
        }
        // The address for administration is the next free one; `admin` has it for the commands of an operator.
        let admin = free_address()?;
        fs::write(dir.join("admin"), admin.to_string())?;
        command.args(["--state", "state", "--gateway", &address.to_string()]);
        command.args(["--http", &admin.to_string()]);
        Site::start(command, address, dir)
    }

    /// What a command of an operator prints, asked of the running server.
    pub fn command(&self, binary: &Path, args: &[&str]) -> anyhow::Result<String> {
        let admin = fs::read_to_string(self.dir.join("admin"))?;
        let output = Command::new(binary)
            .args(args)
            .args(["--url", &format!("http://{admin}")])
            .current_dir(&self.dir)
            .output()?;
        ensure!(
            output.status.success(),
            "'{}' fails: {}",
            args.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8(output.stdout)?)
    }

    /// nginx with one worker: a topic of nchan, and a proxy to `backend`.
    pub fn nginx(program: &Path, dir: &Path, backend: Option<SocketAddr>) -> anyhow::Result<Site> {
        let address = free_address()?;
        let proxy = backend.map_or_else(String::new, |backend| {
            format!(
                "location /proxy {{ proxy_pass http://{backend}/; proxy_http_version 1.1; \
                 proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $connection_upgrade; \
                 proxy_buffering off; proxy_read_timeout 1h; }}"
            )
        });
        let at = dir.display();
        let config = format!(
            "load_module modules/ngx_nchan_module.so;\n\
             daemon off; worker_processes 1; worker_rlimit_nofile 20000; pid {at}/pid; error_log {at}/error.log;\n\
             events {{ worker_connections 19000; }}\n\
             http {{ access_log off; client_body_temp_path {at}/t1; proxy_temp_path {at}/t2; \
             fastcgi_temp_path {at}/t3; uwsgi_temp_path {at}/t4; scgi_temp_path {at}/t5; keepalive_requests 1000000;\n\
             map $http_upgrade $connection_upgrade {{ default upgrade; '' ''; }}\n\
             server {{ listen {address} backlog=4096;\n\
             location = /pub {{ nchan_publisher; nchan_channel_id t; nchan_message_buffer_length 2000; \
             nchan_message_timeout 10m; }}\n\
             location = /sse {{ nchan_subscriber eventsource; nchan_channel_id t; \
             nchan_subscriber_first_message newest; }}\n\
             location = /ws {{ nchan_subscriber websocket; nchan_channel_id t; \
             nchan_subscriber_first_message newest; }}\n\
             {proxy} }} }}\n"
        );
        fs::write(dir.join("nginx.conf"), config)?;
        let mut command = Command::new(program);
        command.arg("-c").arg(dir.join("nginx.conf"));
        command.arg("-p").arg("/usr/share/nginx/");
        Site::start(command, address, dir)
    }

    /// A server of a dozen lines, as its documentation shows publish and subscribe.
    pub fn bun(program: &Path, dir: &Path) -> anyhow::Result<Site> {
        let address = free_address()?;
        let script = format!(
            "const server = Bun.serve({{ hostname: '127.0.0.1', port: {}, async fetch(request, server) {{\n\
             if (request.method === 'POST') {{ server.publish('t', await request.text()); \
             return new Response(null, {{ status: 202 }}); }}\n\
             if (server.upgrade(request)) return; return new Response('?', {{ status: 400 }}); }},\n\
             websocket: {{ open(ws) {{ ws.subscribe('t') }}, message() {{}}, perMessageDeflate: false, \
             idleTimeout: 0, backpressureLimit: 64 << 20 }} }});\n",
            address.port()
        );
        fs::write(dir.join("server.js"), script)?;
        let mut command = Command::new(program);
        command.args(["run", "server.js"]);
        Site::start(command, address, dir)
    }

    /// A connection that publishes to `path`.
    pub fn publisher(&self, path: &str) -> anyhow::Result<Publisher> {
        Publisher::connect(self.address, path, "").context("the publisher cannot connect")
    }
}

/// What a client asks by server-sent events.
pub(super) fn sse_request(address: SocketAddr, path: &str, headers: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nAccept: text/event-stream\r\n{headers}\r\n")
}

/// What a client asks to speak WebSocket.
pub(super) fn websocket_request(address: SocketAddr, path: &str, headers: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{headers}\r\n"
    )
}
