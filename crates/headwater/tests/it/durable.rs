//! What somebody was told is safe is there after a crash, and what has changed on the disk meanwhile
//! is said.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::network::{Running, free_port};

fn headwater(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_headwater"))
        .args(args)
        .output()
        .expect("headwater starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn an_answered_write_is_there_after_a_crash() {
    let dir = tempfile::tempdir().expect("a folder");
    let app = dir.path().join("stock.siddhi");
    let source = format!(
        "@app:name('Stock')\n\
         @source(type='http', receiver.url='http://127.0.0.1:{}/in', @map(type='json'))\n\
         define stream Sales (item string, number int);\n\
         @PrimaryKey('item') define table T (item string, number int);\n\
         from Sales select item, number insert into T;\n",
        free_port()
    );
    fs::write(&app, source).expect("writes");
    let (app, state) = (app.display().to_string(), dir.path().join("state"));
    let address = format!("127.0.0.1:{}", free_port());
    let url = format!("http://{address}");
    let start = || {
        let state = state.display().to_string();
        // A save by itself comes much later than this test ends.
        let args = [
            &app,
            "--http",
            &address,
            "--state",
            &state,
            "--state-interval",
            "600s",
        ];
        Running::connected(&args, 1)
    };
    let ask = |query: &str| {
        let output = headwater(&["query", "--url", &url, query]);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{query}: {out} {err}");
        out
    };
    for round in 0..3 {
        let run = start();
        ask(&format!(
            "select 'tea' as item, {round} as number update or insert into T set T.number = number on T.item == item"
        ));
        ask(&format!(
            "select 'k{round}' as item, 1 as number insert into T"
        ));
        run.kill();
        let run = start();
        let rows = ask("from T select item, number");
        for row in ["tea", &format!("k{round}")] {
            assert!(
                rows.contains(row),
                "'{row}' is gone in round {round}: {rows}"
            );
        }
        ask(&format!("delete T on T.item == 'k{round}'"));
        run.kill();
    }
    let run = start();
    let rows = ask("from T select item, number");
    assert!(rows.contains("tea") && !rows.contains('k'), "{rows}");
    run.kill();
}

/// Copies lines into SQLite, once.
fn copier(dir: &Path) -> String {
    let app = format!(
        "@app:name('Copier')\n\
         @source(type='file', mode='line', dir.uri='file:{0}/in', tailing='false', action.after.process='keep', @map(type='csv'))\n\
         define stream Lines (id string, amount double);\n\
         @store(type='rdbms', jdbc.url='jdbc:sqlite:{0}/out.db')\n\
         define table T (id string, amount double);\n\
         from Lines select id, amount insert into T;\n",
        dir.display()
    );
    let path = dir.join("copier.siddhi");
    fs::write(&path, app).expect("writes");
    fs::create_dir(dir.join("in")).expect("creates");
    fs::write(dir.join("in/a.csv"), "a,1.5\nb,much\nc,2.5\n").expect("writes");
    path.display().to_string()
}

#[test]
fn a_store_that_knows_another_directory_refuses_the_start() {
    let dir = tempfile::tempdir().expect("a folder");
    let app = copier(dir.path());
    let state = dir.path().join("state");
    let state_text = state.display().to_string();
    let args = ["run", &app, "--until-done", "--state", &state_text];
    assert_eq!(headwater(&args).status.code(), Some(4));
    // Any flip of the id is damage.
    let id = fs::read(state.join("id")).expect("reads");
    for at in [0, 5, 16, 20, id.len() - 2] {
        let mut flipped = id.clone();
        flipped[at] ^= 1;
        fs::write(state.join("id"), flipped).expect("writes");
        let output = headwater(&args);
        assert_eq!(output.status.code(), Some(1), "byte {at}");
        let said = text(&output.stderr);
        assert!(
            said.contains("damaged") && said.contains("restore a copy"),
            "{said}"
        );
    }
    // Without it, and under another one.
    fs::remove_file(state.join("id")).expect("removes");
    let output = headwater(&args);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for words in ["another state directory", "restore a copy", "--drop-state"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    fs::write(state.join("id"), id).expect("writes");
    assert_eq!(headwater(&args).status.code(), Some(0));
}

#[test]
fn damage_in_the_log_of_rejected_events_is_said() {
    let dir = tempfile::tempdir().expect("a folder");
    let app = copier(dir.path());
    let lines: String = (0..200).map(|i| format!("k{i},much\n")).collect();
    fs::write(dir.path().join("in/a.csv"), lines).expect("writes");
    let state = dir.path().join("state");
    let state_text = state.display().to_string();
    let args = ["run", &app, "--until-done", "--state", &state_text];
    assert_eq!(headwater(&args).status.code(), Some(4));
    let log = state.join("Copier/rejected");
    let mut bytes = fs::read(&log).expect("reads");
    bytes[3000] ^= 4;
    fs::write(&log, &bytes).expect("writes");
    let list = || {
        let output = headwater(&["errors", "list", &state_text, "--each", "--limit", "0"]);
        assert_eq!(output.status.code(), Some(0));
        (text(&output.stdout).lines().count(), text(&output.stderr))
    };
    let (count, said) = list();
    assert_eq!(count, 199);
    assert!(said.contains("is damaged: 1 rejected events"), "{said}");
    let output = headwater(&args);
    let said = text(&output.stderr);
    assert!(
        said.contains("rejected.damaged-1") && said.contains("1 of them are lost"),
        "{said}"
    );
    let (count, said) = list();
    assert_eq!(count, 199);
    assert!(said.contains("was damaged: 1 rejected events"), "{said}");
    let output = headwater(&["errors", "list", "--json", &state_text]);
    let list: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one document");
    assert_eq!(list["missing"][0]["events"], 1);
    assert_eq!(list["missing"][0]["why"], "set aside");
}
