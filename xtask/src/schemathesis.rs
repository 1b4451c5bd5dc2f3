//! `cargo xtask schemathesis [--seed N] [--examples N]`: requests made by chance from the OpenAPI document of a
//! running server, and whether the answers are what it says.
//!
//! Twice: a server without users, whose apps nobody names; and one with users, asked with the token of an
//! admin, and by the names of its apps. Schemathesis comes from PyPI into an environment of its own below the
//! build folder. The seed is that of the commit.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use testservers::sample::Sample;

use crate::cargo;

const VERSION: &str = "4.32.5";

/// Requests of each kind to each path, unless `--examples` says otherwise.
const EXAMPLES: u32 = 25;

const START_MAX: Duration = Duration::from_secs(30);

/// An answer without an end is nothing to wait for.
const ENDLESS: &str = "/siddhi-apps/{app}/tap";

const SHOP: &str = "@app:name('Shop')
@source(type='inMemory', topic='sales', @map(type='passThrough'))
define stream Sales (item string, amount double, number int);
@OnError(action='STORE')
define stream Checked (item string, rate int);
@primaryKey('item') define table Stock (item string, number int);
from Sales select item, number update or insert into Stock on Stock.item == item;
from Sales select item, 100 / number as rate insert into Checked;
";

const HELLO: &str = "@app:name('Hello')
define stream In (word string);
define window Last (word string) length(10) output all events;
from In insert into Last;
";

/// Requests that may be refused with 400 though they fit the schema: what no schema can say decides.
const BEYOND_SCHEMAS: &[(&str, &str, &str)] = &[
    ("/siddhi-apps", "POST", "whether a text is an app"),
    ("/siddhi-apps", "PUT", "whether a text is an app"),
    ("/stores/query", "POST", "whether a text is a query"),
    (
        "/simulation/feed",
        "POST",
        "whether `min` is above `max`, and one time after another",
    ),
    ("/simulation/feed/{name}", "PUT", "the same"),
    (
        "/error-handler/erroneous-events",
        "DELETE",
        "whether one of two parameters is there",
    ),
    (
        "/siddhi-apps/{app}/streams/{stream}/events",
        "POST",
        "whether a row fits the stream",
    ),
];

pub fn run(args: &[String]) -> anyhow::Result<bool> {
    let (mut seed, mut examples) = (None, EXAMPLES);
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let number = rest.next().and_then(|number| number.parse::<u32>().ok());
        let number = number.with_context(|| format!("{arg} needs a number"))?;
        match arg.as_str() {
            "--seed" => seed = Some(number),
            "--examples" => examples = number,
            other => bail!(
                "no option '{other}'; usage: cargo xtask schemathesis [--seed N] [--examples N]"
            ),
        }
    }
    let seed = match seed {
        Some(seed) => seed,
        None => Sample::of_commit()?.seed(),
    };
    let messages = cargo::build(&["build", "--package", "headwater"])?;
    let binary = messages
        .iter()
        .filter(|message| message["target"]["name"] == "headwater")
        .find_map(|message| message["executable"].as_str())
        .context("cargo says not where it has put 'headwater'")?;
    let fuzzer = installed()?;
    println!("schemathesis {VERSION}, again with --seed {seed}");
    let mut is_sound = true;
    for has_users in [false, true] {
        let served = Served::start(Path::new(binary), has_users)?;
        is_sound &= fuzz(&fuzzer, &served, seed, examples)?;
        served.stop()?;
    }
    Ok(is_sound)
}

/// The program, installed once.
fn installed() -> anyhow::Result<PathBuf> {
    let folder = cargo::target_folder().join(format!("schemathesis-{VERSION}"));
    let program = std::path::absolute(folder.join("bin/schemathesis"))?;
    if !program.is_file() {
        println!("installing schemathesis {VERSION} from PyPI");
        let mut make = Command::new("python3");
        let made = make.args(["-m", "venv"]).arg(&folder).status();
        ensure!(made.context("python3 is needed")?.success(), "no venv");
        let mut pip = Command::new(folder.join("bin/pip"));
        pip.args(["install", "--quiet", "--disable-pip-version-check"]);
        pip.arg(format!("schemathesis=={VERSION}"));
        ensure!(pip.status()?.success(), "schemathesis cannot be installed");
    }
    Ok(program)
}

/// A server with two apps; killed when it is dropped.
struct Served {
    child: Child,
    dir: tempfile::TempDir,
    url: String,
    /// Of an admin, where there are users.
    token: Option<String>,
}

impl Served {
    fn start(binary: &Path, has_users: bool) -> anyhow::Result<Served> {
        let dir = tempfile::tempdir()?;
        let (apps, state) = (dir.path().join("apps"), dir.path().join("state"));
        fs::create_dir(&apps)?;
        fs::write(apps.join("shop.siddhi"), SHOP)?;
        fs::write(apps.join("hello.siddhi"), HELLO)?;
        let mut token = None;
        if has_users {
            let users = |args: &[&str]| {
                let mut command = Command::new(binary);
                command.arg("users").args(args).arg("--state").arg(&state);
                command.stdin(Stdio::null()).stderr(Stdio::inherit());
                let output = command.output()?;
                ensure!(output.status.success(), "'users {}' failed", args.join(" "));
                anyhow::Ok(String::from_utf8(output.stdout)?.trim().to_owned())
            };
            users(&["add", "fuzzer", "--role", "admin"])?;
            token = Some(users(&["token", "fuzzer"])?);
        }
        let address = format!("127.0.0.1:{}", testservers::free_port()?);
        let log = fs::File::create(dir.path().join("log"))?;
        let child = Command::new(binary)
            .arg("run")
            .arg(&apps)
            .arg("--state")
            .arg(&state)
            .args(["--http", &address])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .context("cannot start headwater")?;
        let mut served = Served {
            child,
            dir,
            url: format!("http://{address}"),
            token,
        };
        let until = Instant::now() + START_MAX;
        while std::net::TcpStream::connect(&address).is_err() {
            ensure!(
                Instant::now() < until && served.child.try_wait()?.is_none(),
                "the server does not listen:\n{}",
                served.log()
            );
            std::thread::park_timeout(Duration::from_millis(20));
        }
        Ok(served)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    /// It must still run, and end in order.
    fn stop(mut self) -> anyhow::Result<()> {
        let pid = self.child.id().to_string();
        ensure!(
            Command::new("kill")
                .args(["-TERM", &pid])
                .status()?
                .success(),
            "the server has ended:\n{}",
            self.log()
        );
        let status = self.child.wait()?;
        ensure!(status.success(), "it ended with {status}:\n{}", self.log());
        ensure!(!self.log().contains("panicked"), "{}", self.log());
        Ok(())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Whether nothing was found.
fn fuzz(fuzzer: &Path, served: &Served, seed: u32, examples: u32) -> anyhow::Result<bool> {
    let config = served.dir.path().join("schemathesis.toml");
    fs::write(&config, configuration(served.token.is_some()))?;
    let mut command = Command::new(fuzzer);
    command.arg("--config-file").arg(&config);
    command
        .arg("run")
        .arg(format!("{}/openapi.json", served.url));
    command.args(["--exclude-path", ENDLESS]);
    command.args(["--phases", "examples,coverage,fuzzing"]);
    command.args(["--continue-on-failure", "--no-color", "--warnings", "off"]);
    command.arg(format!("--max-examples={examples}"));
    command.arg(format!("--seed={seed}"));
    if let Some(token) = &served.token {
        command.arg("--header");
        command.arg(format!("Authorization: Bearer {token}"));
        // The app that the others are asked about would go.
        command.args([
            "--exclude-by",
            "path == '/siddhi-apps/{app}' and method == 'DELETE'",
        ]);
    }
    command.current_dir(served.dir.path()).stdin(Stdio::null());
    Ok(command.status()?.success())
}

/// What schemathesis cannot know.
fn configuration(has_names: bool) -> String {
    // Every body has a bound, which is refused before what is in it is looked at.
    let forbidden =
        r#"["400", "401", "403", "404", "405", "406", "409", "413", "415", "422", "429"]"#;
    let allowed = r#"["2xx", "3xx", "401", "403", "404", "409", "413", "429", "5xx"]"#;
    let mut text = format!(
        "[checks]\nnegative_data_rejection.expected-statuses = {forbidden}\n\
         positive_data_acceptance.expected-statuses = {allowed}\n"
    );
    if has_names {
        // Who guesses is made to wait, and told so by 429; without a login each path is refused in the
        // tests of roles.
        text += "ignored_auth.enabled = false\n\n";
        text += "[parameters]\n\"path.app\" = \"Shop\"\n\"path.stream\" = \"Sales\"\n\n";
    }
    let taken = r#"["2xx", "3xx", "400", "401", "403", "404", "409", "413", "429", "5xx"]"#;
    for (path, method, why) in BEYOND_SCHEMAS {
        write!(
            text,
            "# Decides: {why}.\n[[operations]]\ninclude-path = \"{path}\"\ninclude-method = \"{method}\"\n\
             checks.positive_data_acceptance.expected-statuses = {taken}\n\n"
        )
        .ok();
    }
    text
}
