//! The file source against a server that only records: order, resume at every post, bad neighbours.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use event::{Schema, Value};
use lang::span::Span;
use plan::{Mapping, Transport};

use super::effects::Effects;
use super::source::FileSource;
use connect::component::{
    Connection, Environment, Finished, Payload, Room, Sequence, Signal, Source, SourceLink,
    SourceSetup, Waker,
};
use connect::effect::EffectJournal as _;
use connect::error::Error;
use connect::rows::{Lines, Properties, Rejected};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Acks {
    AtOnce,
    Never,
}

/// A server that takes everything. Time passes only by waiting.
struct Recorder {
    now: i64,
    batch: usize,
    waiting: Vec<String>,
    /// Rows and position of each post.
    posts: Vec<(Vec<String>, Vec<u8>)>,
    rejected: Vec<Rejected>,
    acks: Acks,
    acked: Sequence,
    /// Posts after which the server is gone.
    posts_max: usize,
    idle: u32,
    /// Called at each wait with its number.
    script: Box<dyn FnMut(u32, &[(Vec<String>, Vec<u8>)])>,
    waits: u32,
    waits_max: u32,
    reports: Vec<Connection>,
}

impl Recorder {
    fn new() -> Recorder {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        Recorder {
            now: now.as_millis() as i64,
            batch: 3,
            waiting: Vec::new(),
            posts: Vec::new(),
            rejected: Vec::new(),
            acks: Acks::AtOnce,
            acked: 0,
            posts_max: usize::MAX,
            idle: 0,
            script: Box::new(|_, _| {}),
            waits: 0,
            waits_max: 1000,
            reports: Vec::new(),
        }
    }

    fn rows(&self) -> Vec<String> {
        self.posts
            .iter()
            .flat_map(|(rows, _)| rows.clone())
            .collect()
    }

    fn take(&mut self, text: &str, properties: &Properties) -> Room {
        let path = properties.get("file.path").as_str().unwrap();
        let name = Path::new(path)
            .file_name()
            .unwrap()
            .to_string_lossy()
            .into_owned();
        let eof = if *properties.get("eof") == Value::str("true") {
            "!"
        } else {
            ""
        };
        self.waiting.push(format!("{name}:{text}{eof}"));
        if self.waiting.len() >= self.batch {
            Room::Full
        } else {
            Room::More
        }
    }
}

impl SourceLink for Recorder {
    fn waker(&self) -> Arc<dyn Waker> {
        unreachable!("a file source has no connections")
    }

    fn listen(&mut self, timeout: Duration, _: bool) -> Signal {
        self.wait(timeout)
    }

    fn map(&mut self, payload: Payload<'_>, properties: &Properties) -> Room {
        match payload {
            Payload::Text(text) => self.take(text, properties),
            Payload::Bytes(bytes) => {
                let number = properties
                    .get("sequence.number")
                    .as_str()
                    .unwrap_or("")
                    .to_owned();
                self.take(&format!("{number}{bytes:?}"), properties)
            }
            _ => panic!("a file source gives text and bytes"),
        }
    }

    fn map_lines(&mut self, lines: &mut Lines<'_>, properties: &Properties) -> Room {
        while self.waiting.len() < self.batch {
            let Some(line) = lines.next_line() else {
                return Room::More;
            };
            self.take(line, properties);
        }
        Room::Full
    }

    fn end_of_input(&mut self) {}

    fn post(&mut self, position: &[u8]) -> Result<Sequence, Error> {
        if self.posts.len() == self.posts_max {
            return Err(Error::Stopped);
        }
        self.posts
            .push((std::mem::take(&mut self.waiting), position.to_vec()));
        self.idle = 0;
        Ok(self.posts.len() as Sequence)
    }

    fn wait(&mut self, timeout: Duration) -> Signal {
        self.waits += 1;
        (self.script)(self.waits, &self.posts);
        if self.waits > self.waits_max {
            return Signal::Stop;
        }
        let posted = self.posts.len() as Sequence;
        if self.acks == Acks::AtOnce && self.acked < posted {
            self.acked = posted;
            self.idle = 0;
            return Signal::Acked(posted);
        }
        self.now += timeout.as_millis() as i64;
        Signal::Timeout
    }

    fn idle(&mut self, pause: Duration) -> Signal {
        self.idle += 1;
        if self.idle >= 2 {
            Signal::End
        } else {
            self.wait(pause)
        }
    }

    fn report(&mut self, state: Connection) {
        self.reports.push(state);
    }

    fn reject(&mut self, rejected: Rejected) {
        self.rejected.push(rejected);
    }

    fn now(&self) -> i64 {
        self.now
    }
}

fn source_with(options: &[(&str, &str)], effects: &Arc<Effects>) -> Result<FileSource, Error> {
    let transport = Transport {
        ty: "file".into(),
        options: options
            .iter()
            .map(|(k, v)| ((*k).into(), (*v).into()))
            .collect(),
        map: Mapping {
            ty: "text".into(),
            options: Vec::new(),
            attributes: Vec::new(),
            payload: Vec::new(),
            span: Span::default(),
        },
        distribution: None,
        span: Span::default(),
    };
    let schema = Schema {
        name: "S".into(),
        attributes: Vec::new(),
    };
    let environment = Environment::new("A");
    environment.shared.insert(Arc::clone(effects));
    FileSource::new(&SourceSetup {
        transport: &transport,
        schema: &schema,
        environment: &environment,
    })
}

fn source(options: &[(&str, &str)]) -> FileSource {
    source_with(options, &Arc::new(Effects::none())).unwrap()
}

/// A directory with files, old enough to be read at once.
struct Files {
    directory: tempfile::TempDir,
}

impl Files {
    fn new(files: &[(&str, &[u8])]) -> Files {
        let all = Files {
            directory: tempfile::tempdir().unwrap(),
        };
        fs::create_dir(all.path("in")).unwrap();
        files
            .iter()
            .for_each(|(name, content)| all.write(name, content));
        all
    }

    fn write(&self, name: &str, content: &[u8]) {
        let path = self.path("in").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        let old = SystemTime::now() - Duration::from_secs(60);
        fs::File::options()
            .append(true)
            .open(&path)
            .unwrap()
            .set_modified(old)
            .unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn uri(&self, name: &str) -> String {
        format!("file:{}", self.path(name).display())
    }

    fn names(&self, directory: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(directory)) else {
            return Vec::new();
        };
        let mut names: Vec<String> = entries
            .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

/// Rows of a directory read to the end with these options.
fn check(files: &[(&str, &[u8])], options: &[(&str, &str)], expect: &[&str]) -> Recorder {
    let files = Files::new(files);
    let uri = files.uri("in");
    let mut all = vec![("dir.uri", uri.as_str()), ("tailing", "false")];
    all.extend(options);
    let mut link = Recorder::new();
    assert_eq!(source(&all).run(&mut link).unwrap(), Finished::Ended);
    assert_eq!(link.rows(), expect);
    link
}

// shows: source file open, order
#[test]
fn files_in_the_order_of_their_names_lines_in_theirs() {
    let link = check(
        &[
            ("b", b"3\n4"),
            ("a", b" 1 \r\n\r\n2\r\n"),
            ("c/d", b"5\n\n"),
        ],
        &[],
        &["a:1", "a:2!", "b:3", "b:4!", "d:5!"],
    );
    assert!(link.rejected.is_empty());
    let waited = link.now - Recorder::new().now;
    assert!(
        waited <= 1000,
        "old files are read at once, one pause before the end: {waited}"
    );
}

#[test]
fn header_and_trailer_options() {
    let file: &[(&str, &[u8])] = &[("a", b"\nh\n\ng\n1\n2\nt\n\n")];
    let header = ("header.present", "true");
    check(file, &[header], &["a:g", "a:1", "a:2", "a:t!"]);
    check(
        file,
        &[header, ("header.line.count", "2")],
        &["a:1", "a:2", "a:t!"],
    );
    check(file, &[header, ("header.line.count", "9")], &[]);
    check(file, &[("read.only.header", "true")], &["a:h!"]);
    check(file, &[("read.only.trailer", "true")], &["a:t!"]);
    check(
        file,
        &[("skip.trailer", "true"), header],
        &["a:g", "a:1", "a:2!"],
    );
    check(&[("a", b"h\n")], &[header], &[]);
    check(&[("a", b"")], &[], &[]);
}

// shows: source file bad
#[test]
fn bad_lines_are_rejected_with_their_place_and_the_others_go_on() {
    let link = check(
        &[("a", b"\xef\xbb\xbf1\n2\xff2\r\n3\n\xe9\n")],
        &[],
        &["a:1", "a:3"],
    );
    let places: Vec<_> = link
        .rejected
        .iter()
        .map(|r| (r.place.line.unwrap(), r.place.byte.unwrap()))
        .collect();
    assert_eq!(places, [(2, 5), (4, 12)]);
    let link = check(&[("a", b"\xff\xfe1\0\n\0"), ("b", b"1")], &[], &["b:1!"]);
    assert!(link.rejected[0].remedy.contains("iconv"));
}

#[test]
fn names_that_match_and_the_other_modes() {
    let files: &[(&str, &[u8])] = &[("a.csv", b"1\n2"), ("a.txt", b"3"), ("xa.csv.part", b"4")];
    check(
        files,
        &[("file.name.pattern", "a.*csv")],
        &["a.csv:1", "a.csv:2!"],
    );
    check(
        files,
        &[("mode", "TEXT.FULL"), ("file.name.pattern", "a.csv")],
        &["a.csv:1\n2!"],
    );
    check(
        files,
        &[("mode", "regex"), ("file.name.pattern", "a.txt")],
        &["a.txt:3!"],
    );
    let bytes = [("mode", "binary.full"), ("file.name.pattern", "a.txt")];
    check(files, &bytes, &["a.txt:[51]!"]);
    let pieces = [
        ("mode", "binary.chunked"),
        ("buffer.size", "2"),
        ("file.name.pattern", "a.csv"),
    ];
    check(files, &pieces, &["a.csv:1[49, 10]", "a.csv:2[50]!"]);
    let records = [("mode", "regex"), ("begin.regex", "<"), ("end.regex", ">")];
    check(&[("a", b"x<1>y<2\n>")], &records, &["a:<1>", "a:<2\n>!"]);
    check(&[("a.bin", b"1\n2\n")], &[], &["a.bin:1\n2\n!"]);
}

#[test]
fn a_file_is_moved_when_what_it_gave_is_taken() {
    let files = Files::new(&[("a", b"1\n2\n"), ("b", b"3")]);
    let (uri, to) = (files.uri("in"), files.uri("done/deep"));
    let options = [
        ("dir.uri", uri.as_str()),
        ("tailing", "false"),
        ("action.after.process", "MOVE"),
        ("move.after.process", to.as_str()),
    ];
    let mut link = Recorder {
        acks: Acks::Never,
        waits_max: 20,
        ..Recorder::new()
    };
    assert_eq!(source(&options).run(&mut link).unwrap(), Finished::Stopped);
    assert_eq!((link.rows().len(), files.names("in").len()), (3, 2));

    // A restart from the last position only does what is left to do.
    let position = link.posts.last().unwrap().1.clone();
    let mut again = source(&options);
    again.restore(&position).unwrap();
    let mut link = Recorder::new();
    assert_eq!(again.run(&mut link).unwrap(), Finished::Ended);
    assert_eq!(link.rows(), Vec::<String>::new());
    assert_eq!(files.names("done/deep"), ["a", "b"]);
    assert!(files.names("in").is_empty());

    // The same name with another content is a new file.
    files.write("a", b"9\n");
    let mut link = Recorder::new();
    assert_eq!(again.run(&mut link).unwrap(), Finished::Ended);
    assert_eq!(link.rows(), ["a:9!"]);
    // Its target exists: it stays, with a report, and is not read again.
    assert_eq!(files.names("in"), ["a"]);
    assert!(
        link.rejected[0].cause.contains("exists"),
        "{:?}",
        link.rejected
    );
    let mut link = Recorder::new();
    assert_eq!(again.run(&mut link).unwrap(), Finished::Ended);
    assert_eq!(link.rows(), Vec::<String>::new());
}

/// Stops after every number of posts, restarts from the last position, and expects every row once.
fn check_resume(options: &[(&str, &str)], content: &[(&str, &[u8])]) {
    let run = |posts_max: usize| -> (Vec<String>, usize, Vec<String>) {
        let files = Files::new(content);
        let (uri, to) = (files.uri("in"), files.uri("done"));
        let mut all = vec![("dir.uri", uri.as_str()), ("tailing", "false")];
        all.extend(options);
        if options.iter().any(|(_, value)| *value == "move") {
            all.push(("move.after.process", to.as_str()));
        }
        let mut link = Recorder {
            posts_max,
            batch: 2,
            ..Recorder::new()
        };
        let finished = source(&all).run(&mut link).unwrap();
        let mut rows = link.rows();
        if finished == Finished::Stopped {
            let mut again = source(&all);
            if let Some((_, position)) = link.posts.last() {
                again.restore(position).unwrap();
            }
            let mut rest = Recorder {
                batch: 2,
                ..Recorder::new()
            };
            assert_eq!(again.run(&mut rest).unwrap(), Finished::Ended);
            rows.extend(rest.rows());
        }
        (rows, link.posts.len(), files.names("in"))
    };
    let (expect, posts, left) = run(usize::MAX);
    assert!(posts > 3);
    for posts_max in 0..posts {
        let (rows, _, left_now) = run(posts_max);
        assert_eq!(rows, expect, "after {posts_max} posts with {options:?}");
        assert_eq!(left_now, left);
    }
}

// shows: source file resume
#[test]
fn it_goes_on_from_every_post() {
    let content: &[(&str, &[u8])] = &[
        ("a", b"h\n1\n\n2\r\n3\n4\n5\n"),
        ("b", b"h\n"),
        ("c", b"h\n6\n7\xff\n8\n"),
    ];
    let header = ("header.present", "true");
    for action in ["keep", "move", "delete"] {
        check_resume(&[("action.after.process", action), header], content);
        check_resume(
            &[
                ("action.after.process", action),
                header,
                ("skip.trailer", "true"),
            ],
            content,
        );
        let pieces = [("mode", "binary.chunked"), ("buffer.size", "2")];
        check_resume(
            &[pieces[0], pieces[1], ("action.after.process", action)],
            content,
        );
    }
    let records = [
        ("mode", "regex"),
        ("begin.regex", "#"),
        ("action.after.process", "move"),
    ];
    check_resume(&records, &[("a", b"#1\n#2#3\n##4"), ("b", b"x#5#6#7")]);
}

#[test]
fn a_file_that_the_app_moved_away_is_read_on_under_its_old_path() {
    let files = Files::new(&[("a", b"1\n2\n3\n4\n5\n"), ("b", b"6\n7\n")]);
    let uri = files.uri("in");
    let options = [("dir.uri", uri.as_str()), ("tailing", "false")];
    let journal = files.path("state");
    let mut link = Recorder {
        posts_max: 1,
        ..Recorder::new()
    };
    source(&options).run(&mut link).unwrap();
    let position = link.posts[0].1.clone();

    let effects = Effects::open(&journal).unwrap();
    effects.restored(0).unwrap();
    let function = super::functions::find("file:move").unwrap();
    for name in ["a", "b"] {
        let path = files.path("in").join(name);
        let arguments = [
            Value::str(&path.to_string_lossy()),
            Value::str(&files.path("out").to_string_lossy()),
        ];
        assert_eq!(
            effects.call("A", function, &arguments),
            Ok(vec![Value::Bool(true)])
        );
    }
    drop(effects);

    let effects = Arc::new(Effects::open(&journal).unwrap());
    effects.restored(0).unwrap();
    let mut again = source_with(&options, &effects).unwrap();
    again.restore(&position).unwrap();
    let mut link = Recorder::new();
    assert_eq!(again.run(&mut link).unwrap(), Finished::Ended);
    assert_eq!(link.rows(), ["a:4", "a:5!", "b:6", "b:7!"]);

    // A checkpoint that covers the moves has their rows: nothing is read.
    effects.checkpoint(1).unwrap();
    let mut again = source_with(&options, &effects).unwrap();
    again.restore(&link.posts.last().unwrap().1).unwrap();
    let mut link = Recorder::new();
    assert_eq!(again.run(&mut link).unwrap(), Finished::Ended);
    assert_eq!(link.rows(), Vec::<String>::new());
}

#[test]
fn one_file_is_read_once_and_moved_to_its_new_path() {
    let files = Files::new(&[("a", b"1\n2\n")]);
    let (uri, to) = (files.uri("in/a"), files.uri("b"));
    let options = [
        ("file.uri", uri.as_str()),
        ("tailing", "false"),
        ("action.after.process", "move"),
        ("move.after.process", to.as_str()),
    ];
    let mut link = Recorder::new();
    assert_eq!(source(&options).run(&mut link).unwrap(), Finished::Ended);
    assert_eq!(link.rows(), ["a:1", "a:2!"]);
    assert_eq!(fs::read(files.path("b")).unwrap(), b"1\n2\n");

    let mut again = source(&options);
    again.restore(&link.posts.last().unwrap().1).unwrap();
    let mut link = Recorder::new();
    assert_eq!(again.run(&mut link).unwrap(), Finished::Ended);
    assert!(link.rows().is_empty());
}

// shows: source file lost
#[test]
fn a_missing_file_or_directory_is_unavailable_until_it_is_there() {
    let files = Files::new(&[]);
    let missing = files.uri("in/later");
    for option in ["dir.uri", "file.uri"] {
        let error = source(&[(option, missing.as_str()), ("tailing", "false")])
            .run(&mut Recorder::new())
            .unwrap_err();
        assert!(
            error.is_unavailable() && error.to_string().contains("later"),
            "{error}"
        );
    }
    let mut late = source(&[("file.uri", missing.as_str()), ("tailing", "false")]);
    assert!(late.run(&mut Recorder::new()).is_err());
    files.write("later", b"1\n");
    let mut link = Recorder::new();
    assert_eq!(late.run(&mut link).unwrap(), Finished::Ended);
    assert_eq!(
        (link.rows(), link.reports.len()),
        (vec!["later:1!".to_owned()], 1)
    );
}

#[test]
fn intervals_between_two_looks() {
    let files = Files::new(&[("a", b"1\n")]);
    let (directory, file) = (files.uri("in"), files.uri("in/a"));
    let check = |options: &[(&str, &str)], waits: u32, pause: i64| {
        let mut link = Recorder::new();
        link.waits_max = waits;
        let begin = link.now;
        source(options).run(&mut link).unwrap();
        let waited = link.now - begin;
        assert!(waited >= pause, "{options:?}: {waited}");
    };
    check(
        &[
            ("dir.uri", directory.as_str()),
            ("tailing", "false"),
            ("dir.polling.interval", "70000"),
        ],
        10,
        70_000,
    );
    check(
        &[
            ("file.uri", file.as_str()),
            ("file.polling.interval", "90000"),
        ],
        50,
        90_000,
    );
}

#[test]
fn a_fresh_file_is_waited_for() {
    let files = Files::new(&[]);
    fs::write(files.path("in/a"), "1\n").unwrap();
    let uri = files.uri("in");
    let options = [
        ("dir.uri", uri.as_str()),
        ("tailing", "false"),
        ("file.read.wait.timeout", "5000"),
    ];
    let mut link = Recorder::new();
    let begin = link.now;
    assert_eq!(source(&options).run(&mut link).unwrap(), Finished::Ended);
    assert_eq!(link.rows(), ["a:1!"]);
    assert!(link.now - begin >= 4900, "{}", link.now - begin);
}

#[test]
fn a_followed_file_over_rotation_and_truncation() {
    let files = Files::new(&[("a", b"1\n2")]);
    let uri = files.uri("in/a");
    let path = files.path("in/a");
    let mut link = Recorder {
        waits_max: 40,
        ..Recorder::new()
    };
    let rotated = files.path("in/a.1");
    link.script = Box::new(move |wait, posts| {
        let append = |text: &str| {
            use std::io::Write;
            let mut file = fs::File::options().append(true).open(&path).unwrap();
            file.write_all(text.as_bytes()).unwrap();
        };
        match wait {
            4 => append("2\n3"),
            8 => {
                fs::rename(&path, &rotated).unwrap();
                fs::write(&path, "4\n").unwrap();
            }
            16 => fs::write(&path, "5").unwrap(),
            20 => append("6\n"),
            _ => {}
        }
        let _ = posts;
    });
    let mut followed = source(&[("file.uri", uri.as_str())]);
    assert!(!followed.ends());
    assert_eq!(followed.run(&mut link).unwrap(), Finished::Stopped);
    assert_eq!(link.rows(), ["a:1", "a:22", "a:3!", "a:4", "a:56"]);

    let position = link.posts.last().unwrap().1.clone();
    let mut again = source(&[("file.uri", uri.as_str())]);
    again.restore(&position).unwrap();
    let mut link = Recorder {
        waits_max: 5,
        ..Recorder::new()
    };
    assert_eq!(again.run(&mut link).unwrap(), Finished::Stopped);
    assert_eq!(link.rows(), Vec::<String>::new());
}

#[test]
fn cron_reads_at_its_times_only() {
    let files = Files::new(&[("a", b"1\n")]);
    let (uri, to) = (files.uri("in"), files.uri("done"));
    let options = [
        ("dir.uri", uri.as_str()),
        ("tailing", "false"),
        ("action.after.process", "move"),
        ("move.after.process", to.as_str()),
        ("cron.expression", "0 0 * * * ?"),
    ];
    let mut link = Recorder::new();
    assert_eq!(source(&options).run(&mut link).unwrap(), Finished::Ended);
    assert_eq!(link.rows(), ["a:1!"]);
    assert_eq!(link.now / 1000 % 3600, 0);
}

#[test]
fn a_target_inside_the_directory_is_not_read_again() {
    let files = Files::new(&[("a", b"1\n"), ("sub/b", b"2\n")]);
    let (uri, to) = (files.uri("in"), files.uri("in/done"));
    let options = [
        ("dir.uri", uri.as_str()),
        ("tailing", "false"),
        ("action.after.process", "move"),
        ("move.after.process", to.as_str()),
    ];
    let mut link = Recorder::new();
    assert_eq!(source(&options).run(&mut link).unwrap(), Finished::Ended);
    assert_eq!(link.rows(), ["a:1!", "b:2!"]);
    assert_eq!(files.names("in/done"), ["a", "b"]);
}

#[test]
fn a_name_that_is_not_utf_8_comes_back_after_a_restart() {
    use std::os::unix::ffi::OsStrExt;
    let files = Files::new(&[]);
    let path = files.path("in").join(std::ffi::OsStr::from_bytes(b"a\xff"));
    fs::write(&path, "1\n2\n3\n4\n5\n").unwrap();
    let uri = files.uri("in");
    let options = [
        ("dir.uri", uri.as_str()),
        ("tailing", "false"),
        ("file.read.wait.timeout", "0"),
    ];
    let mut link = Recorder {
        posts_max: 1,
        ..Recorder::new()
    };
    source(&options).run(&mut link).unwrap();
    let mut again = source(&options);
    again.restore(&link.posts[0].1).unwrap();
    let mut link = Recorder::new();
    assert_eq!(again.run(&mut link).unwrap(), Finished::Ended);
    assert_eq!(link.rows().len(), 2, "{:?}", link.rows());
}

#[test]
fn options_that_cannot_be_used() {
    let refused = |options: &[(&str, &str)]| {
        let Err(error) = source_with(options, &Arc::new(Effects::none())) else {
            panic!("{options:?} should be refused")
        };
        error.to_string()
    };
    assert!(refused(&[("dir.uri", "sftp://u:pw@h/in")]).contains("does not run here"));
    assert!(refused(&[("dir.uri", "/in"), ("file.name.pattern", "(")]).contains("pattern"));
    assert!(refused(&[("dir.uri", "/in"), ("file.read.wait.timeout", "1s")]).contains("1s"));
    assert!(refused(&[("dir.uri", "/in"), ("cron.expression", "x")]).contains("cron"));
}
