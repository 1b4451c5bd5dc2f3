//! Pages of the documentation whose commands are run as they stand, in a folder of their own.
//!
//! Blocks marked `sh` are one session of bash, in the order of the page. A block marked `output` shows
//! what the one before it prints, standard error included; `...` alone on a line stands for any lines,
//! `[..]` for anything within one. A block marked `sh exit=N` ends with that code, every other one with 0;
//! one marked `sh no-run` needs more than there is here.
//!
//! Two comments tell what a reader does by itself: `<!-- wait: FILE TEXT -->` waits until a file has a text,
//! and the ports in `<!-- ports: 9090 8280 -->` are replaced by free ones.

mod pages;
mod templates;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use crate::network::free_port;

/// Longest time for all commands of a page.
const PAGE_MAX: Duration = Duration::from_secs(240);

/// What stands before the exit code of a block.
const END: &str = "@@ end of block ";

/// A block of a page.
#[derive(PartialEq, Debug)]
struct Block {
    /// Line of the page, from 1.
    line: usize,
    commands: String,
    exit: i32,
    output: Option<String>,
}

fn blocks(page: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut lines = page.lines().zip(1..);
    while let Some((line, number)) = lines.next() {
        if let Some((file, text)) = comment(line, "wait").and_then(|c| c.split_once(' ')) {
            blocks.push(Block {
                line: number,
                // Whoever writes to the file is in the session, and so is tail.
                commands: format!("grep -qm1 '{text}' <(tail -n +1 -F {file} 2>&-)"),
                exit: 0,
                output: None,
            });
        }
        let Some(kind) = line.strip_prefix("```").filter(|kind| !kind.is_empty()) else {
            continue;
        };
        let body: Vec<&str> = lines
            .by_ref()
            .map(|(line, _)| line)
            .take_while(|line| *line != "```")
            .collect();
        let body = body.join("\n");
        let mut words = kind.split(' ');
        match (words.next(), words.next()) {
            (Some("sh"), Some("no-run")) => {}
            (Some("sh"), exit) => {
                let exit = exit.and_then(|word| word.strip_prefix("exit="));
                blocks.push(Block {
                    line: number,
                    commands: body,
                    exit: exit.map_or(0, |code| code.parse().expect("exit=N")),
                    output: None,
                });
            }
            (Some("output"), _) => {
                let before = blocks.last_mut().expect("a block of commands before it");
                before.output = Some(body);
            }
            _ => {}
        }
    }
    blocks
}

/// What a comment of this name says.
fn comment<'l>(line: &'l str, name: &str) -> Option<&'l str> {
    line.strip_prefix(&format!("<!-- {name}: "))?
        .strip_suffix(" -->")
}

/// Does `shown`, with its wildcards, describe `printed`?
fn matches(shown: &[&str], printed: &[&str]) -> bool {
    match shown {
        [] => printed.is_empty(),
        ["..."] => true,
        ["...", rest @ ..] => (0..=printed.len()).any(|skip| matches(rest, &printed[skip..])),
        [line, rest @ ..] => match printed {
            [first, others @ ..] => line_matches(line, first) && matches(rest, others),
            [] => false,
        },
    }
}

fn line_matches(shown: &str, printed: &str) -> bool {
    let (first, rest) = match shown.split_once("[..]") {
        None => return shown.trim_end() == printed.trim_end(),
        Some(parts) => parts,
    };
    let Some(behind) = printed.strip_prefix(first) else {
        return false;
    };
    let starts = behind.char_indices().map(|(at, _)| at);
    starts
        .chain([behind.len()])
        .any(|at| line_matches(rest, &behind[at..]))
}

/// bash with what it starts, all of which ends with it.
struct Session {
    bash: Child,
    lines: Receiver<String>,
}

impl Drop for Session {
    fn drop(&mut self) {
        // The group has the number of its first process; servers of the page are in it.
        let group = format!("-{}", self.bash.id());
        Command::new("kill")
            .args(["-KILL", "--", &group])
            .status()
            .ok();
        self.bash.wait().ok();
    }
}

impl Session {
    fn start(script: &str, dir: &Path) -> Session {
        let script_file = dir.join(".page.sh");
        fs::write(&script_file, script).expect("it can be written");
        let binary = Path::new(env!("CARGO_BIN_EXE_headwater"));
        let own = binary.parent().expect("a file is in a folder").display();
        let path = std::env::var("PATH").unwrap_or_default();
        let mut bash = Command::new("bash")
            .arg(&script_file)
            .current_dir(dir)
            .env("PATH", format!("{own}:{path}"))
            .env("TZ", "")
            .env_remove("HEADWATER_LOG")
            .env_remove("HEADWATER_TOKEN")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .expect("bash is installed");
        let from = BufReader::new(bash.stdout.take().expect("piped"));
        let (to, lines) = sync_channel(1000);
        std::thread::spawn(move || {
            // Nobody waits for more when the session is over.
            from.lines()
                .map_while(Result::ok)
                .all(|line| to.send(line).is_ok());
        });
        Session { bash, lines }
    }

    /// What the next block prints, and its exit code; `None` where bash has ended or time is up.
    fn block(&self, until: Instant) -> (Vec<String>, Option<i32>) {
        let mut printed = Vec::new();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                // A last line without its end is before the mark.
                Ok(line) => match line.split_once(END) {
                    None => printed.push(line),
                    Some((rest, code)) => {
                        if !rest.is_empty() {
                            printed.push(rest.to_owned());
                        }
                        return (printed, code.parse().ok());
                    }
                },
                Err(RecvTimeoutError::Disconnected | RecvTimeoutError::Timeout) => {
                    return (printed, None);
                }
            }
        }
    }
}

/// Runs the commands of a page in `dir`.
#[track_caller]
fn run_page(name: &str, page: &str, dir: &Path) {
    let (page, http) = with_free_ports(page);
    let blocks = blocks(&page);
    assert!(!blocks.is_empty(), "{name} has no commands");
    // Commands that talk to a server find it at the port that took the place of the usual one.
    let mut script = format!("exec 2>&1\nexport HEADWATER_URL=http://127.0.0.1:{http}\n");
    for block in &blocks {
        script.push_str(&format!("{}\necho \"{END}$?\"\n", block.commands));
    }
    let session = Session::start(&script, dir);
    let until = Instant::now() + PAGE_MAX;
    for block in &blocks {
        let (printed, code) = session.block(until);
        let place = format!("{name}:{}\n{}", block.line, block.commands);
        let all = printed.join("\n");
        assert_eq!(code, Some(block.exit), "exit code of {place}\n{all}");
        if let Some(output) = &block.output {
            let shown: Vec<&str> = output.lines().collect();
            let printed: Vec<&str> = all.trim_end().lines().collect();
            assert!(
                matches(&shown, &printed),
                "{place}\nis to print\n{output}\nand prints\n{all}"
            );
        }
    }
}

/// The page with free ports, and the one that stands for 9090.
fn with_free_ports(page: &str) -> (String, String) {
    let ports = page.lines().find_map(|line| comment(line, "ports"));
    let (mut page, mut http) = (page.to_owned(), "9090".to_owned());
    for port in ports.unwrap_or_default().to_owned().split_whitespace() {
        let free = free_port().to_string();
        page = page.replace(port, &free);
        if port == "9090" {
            http = free;
        }
    }
    (page, http)
}

#[test]
fn blocks_of_a_page_are_found_with_their_output() {
    let page = "text\n```sh\na\nb\n```\n```output\nc\n```\n```siddhi\nx\n```\n```sh exit=1\nd\n```\n\
                ```sh no-run\ne\n```\n";
    let found = blocks(page);
    assert_eq!(found.len(), 2);
    assert_eq!((found[0].line, found[0].commands.as_str()), (2, "a\nb"));
    assert_eq!(found[0].output.as_deref(), Some("c"));
    assert_eq!((found[1].exit, found[1].output.as_deref()), (1, None));
}

#[test]
fn wildcards_stand_for_parts_of_lines_and_for_lines() {
    let check = |shown: &str, printed: &str| {
        let shown: Vec<&str> = shown.lines().collect();
        matches(&shown, &printed.lines().collect::<Vec<_>>())
    };
    assert!(check("a\n...\nd", "a\nb\nc\nd") && check("...", "") && check("a [..] c", "a b c"));
    assert!(check("[..]b[..]", "abc") && check("x", "x  "));
    assert!(!check("a", "a\nb") && !check("a\n...\nd", "a\nb") && !check("a[..]x", "abc"));
}
