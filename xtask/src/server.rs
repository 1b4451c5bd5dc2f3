//! `cargo xtask server NAME`: a real server, as tests start it, for as long as somebody works with it.

use std::io::{BufRead as _, Write as _};

use testservers::{Order, SERVERS};

/// `server NAME [--port N] [KEY=VALUE…]` runs until a line is read or the input ends; `server
/// --install` fetches what all of them need, and `server --packages` names the Debian packages.
pub fn run(args: &[String]) -> anyhow::Result<bool> {
    let mut order = Order::new();
    let mut name = None;
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--help" | "-h" => {
                usage();
                return Ok(true);
            }
            "--install" => return Ok(install()),
            "--packages" => return Ok(packages()),
            "--port" => {
                let port = args.next().and_then(|port| port.parse().ok());
                order = order.port(port.ok_or_else(|| anyhow::anyhow!("--port needs a number"))?);
            }
            arg => match arg.split_once('=') {
                Some((key, value)) => order = order.with(key, value),
                None => name = Some(arg.to_owned()),
            },
        }
    }
    let Some(name) = name else {
        usage();
        return Ok(false);
    };
    let mut running = order.start(&name)?;
    println!("{}", running.endpoint());
    std::io::stdout().flush()?;
    eprintln!(
        "{} with its files in {}; it stops at a line or the end of the input",
        running.version(),
        running.place().folder().display()
    );
    std::io::stdin().lock().read_line(&mut String::new())?;
    running.stop();
    Ok(true)
}

fn usage() {
    println!(
        "usage: cargo xtask server NAME [--port N] [KEY=VALUE…] | --install | --packages\n\n\
         It runs until a line is read from standard input, or that ends. In the background of a\n\
         script: sleep infinity | cargo xtask server kafka &\n"
    );
    for recipe in SERVERS {
        println!("  {:<14}{}", recipe.name(), recipe.about());
    }
}

/// Whatever is missing is said, and is no failure: tests that need it are skipped.
fn install() -> bool {
    for recipe in SERVERS {
        match testservers::install(*recipe) {
            Ok(version) => println!("{:<14}{version}", recipe.name()),
            Err(error) => println!("{:<14}skipped: {error}", recipe.name()),
        }
    }
    true
}

fn packages() -> bool {
    let mut all: Vec<&str> = SERVERS.iter().flat_map(|r| r.packages()).copied().collect();
    all.sort_unstable();
    all.dedup();
    println!("{}", all.join(" "));
    true
}
