//! `headwater explain --state`: what an edited app would take back, before it is deployed.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn headwater(args: &[&str], app: &Path, state: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_headwater"))
        .args(args)
        .arg(app)
        .arg("--state")
        .arg(state)
        .output()
        .expect("the binary starts")
}

fn text(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&both).into_owned()
}

const APP: &str = "@app:name('Edited')
@source(type='file', mode='line', file.uri='file:{dir}/in.csv', tailing='false',
    file.read.wait.timeout='1', action.after.process='keep', @map(type='csv'))
define stream S (k string, v long);
define table T (k string, v long);
@info(name='sums') from S#window.length(100) select k, sum(v) as s group by k insert into Sums;
@info(name='kept') from S select k, v insert into T;
";

#[test]
fn what_survives_an_edit_is_named_before_it_is_deployed() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (app, state) = (dir.path().join("app.siddhi"), dir.path().join("state"));
    let own = APP.replace("{dir}", &dir.path().display().to_string());
    fs::write(&app, &own).expect("the folder can be written");
    fs::write(dir.path().join("in.csv"), "a,1\nb,2\n").expect("the folder can be written");
    let explain = || headwater(&["explain"], &app, &state);
    fs::create_dir(&state).expect("a folder");
    assert!(text(&explain()).contains("no state of this app is saved"));
    let run = headwater(&["run", "--until-done"], &app, &state);
    assert_eq!(run.status.code(), Some(0), "{}", text(&run));

    let output = explain();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let said = text(&output);
    assert!(said.contains("survives"), "{said}");
    assert!(!said.contains("is dropped"), "{said}");

    fs::write(&app, own.replace("length(100)", "length(50)")).expect("the app is edited");
    let output = explain();
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for part in [
        "is dropped    app 'Edited': query 'sums' (window length(100)",
        "begins empty  app 'Edited': query 'sums' (window length(50)",
        "survives      app 'Edited': table 'T'",
        "run refuses to start with this state, unless given --drop-state",
    ] {
        assert!(said.contains(part), "{part} in {said}");
    }
    // It reads only: the run says the same and goes on once it may.
    assert_eq!(
        headwater(&["run", "--until-done"], &app, &state)
            .status
            .code(),
        Some(1)
    );
    let dropped = headwater(&["run", "--until-done", "--drop-state"], &app, &state);
    assert_eq!(dropped.status.code(), Some(0), "{}", text(&dropped));
}
