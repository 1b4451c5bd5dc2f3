//! What somebody uses who learns the language, or mends an app: `eval`, `check --fix`, reports for other
//! programs, manual pages, the examples.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value as Json;

use crate::network::{piped, text};

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
    command.args(args).env("TZ", "").env_remove("HEADWATER_LOG");
    command
}

fn run(args: &[&str]) -> Output {
    command(args).output().expect("the binary starts")
}

fn json(output: &Output) -> Json {
    serde_json::from_slice(&output.stdout).expect("one document")
}

#[test]
fn an_expression_has_a_value_and_a_type() {
    let printed = |args: &[&str]| {
        let output = run(&[&["eval"], args].concat());
        assert_eq!(
            output.status.code(),
            Some(0),
            "{args:?} {}",
            text(&output.stderr)
        );
        text(&output.stdout)
    };
    assert_eq!(printed(&["str:concat(\"a\", 1)"]), "'a1'  string\n");
    assert_eq!(printed(&["7 / 2", "7 / 2.0"]), "3  int\n3.5  double\n");
    let price = [
        "price * number > 100",
        "--with",
        "price=2.5",
        "--with",
        "number=50",
    ];
    assert_eq!(printed(&price), "true  bool\n");
    assert_eq!(
        printed(&["sum(x)", "--each", "x=1,2,3"]),
        "1  long\n3  long\n6  long\n"
    );
    assert_eq!(printed(&["-5"]), "-5  int\n");
    assert_eq!(printed(&["x", "--with", "x:string=null"]), "null  string\n");
    let zone = ["time:dateFormat(0L, 'HH')", "--timezone", "Asia/Tokyo"];
    assert_eq!(printed(&zone), "'09'  string\n");
    let input = b"1 + 1\n-- a comment\n\n'it''s'\n2L * 3\n";
    let lines = piped(&mut command(&["eval", "-"]), input);
    assert_eq!(lines.status.code(), Some(1), "a quote is too many");
    assert_eq!(
        text(&lines.stdout),
        "2  int\n6  long\n",
        "the others have a value"
    );
}

#[test]
fn what_is_wrong_with_an_expression_is_shown_at_its_place() {
    let said = |args: &[&str], code: i32| {
        let output = run(&[&["eval"], args].concat());
        assert_eq!(output.status.code(), Some(code), "{args:?}");
        assert_eq!(text(&output.stdout), "");
        text(&output.stderr)
    };
    let missing = said(&["str:concat('a', nam)", "--with", "name=x"], 1);
    assert!(
        missing.contains("\n 1 | str:concat('a', nam)\n   |                 ^^^ "),
        "{missing}"
    );
    assert!(missing.contains("did you mean 'name'?"), "{missing}");
    assert!(said(&["str:conact('a')"], 1).contains("did you mean 'str:concat'?"));
    assert!(said(&["1 as x insert into Other; from S select 1"], 1).contains("E0110"));
    assert!(said(&["1 +"], 1).contains("expected a value"));
    let failed = said(&["time:extract('year', 'in May', 'yyyy-MM-dd')"], 1);
    assert!(failed.contains("does not have the date format"), "{failed}");
    assert!(said(&["x", "--with", "x"], 2).contains("has no '='"));
    assert!(said(&["x", "--each", "x=1,2", "--each", "y=1,2,3"], 2).contains("2 values"));
    let output = run(&["eval", "1 + 1", "nope", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let document = json(&output);
    assert_eq!(document["version"], 1);
    assert_eq!(document["results"][0]["values"][0], 2);
    assert_eq!(document["results"][0]["type"], "int");
    assert_eq!(document["results"][1]["diagnostics"][0]["code"], "E0203");
}

#[test]
fn an_expression_may_use_the_functions_of_an_app() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let app = dir.path().join("shop.siddhi");
    let function = "define function twice[javascript] return double { return data[0] * 2; };\n\
                    define stream S (a int);\n";
    fs::write(&app, function).expect("it can be written");
    let app = app.display().to_string();
    let output = run(&["eval", "twice(1.25)", "--functions", &app]);
    assert_eq!(
        text(&output.stdout),
        "2.5  double\n",
        "{}",
        text(&output.stderr)
    );
}

const BROKEN: &str = "@app:name('Shop')\n\
    @store(type='rdbms', jdbc.url='jdbc:sqlite:x.db', username='u', password='hidden')\n\
    define table T (symbol string);\n\
    define stream Trades (symbol string, price double);\n\
    from Trade[pric > 1.0] select symbl as symbol insert into T\n";

fn broken() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let app = dir.path().join("shop.siddhi");
    fs::write(&app, BROKEN).expect("it can be written");
    (dir, app)
}

#[test]
fn errors_with_a_known_fix_are_fixed_in_the_file() {
    let (dir, app) = broken();
    let path = app.display().to_string();
    let dry = run(&["check", &path, "--fix", "--dry-run"]);
    assert_eq!(dry.status.code(), Some(0), "{}", text(&dry.stderr));
    let shown = text(&dry.stderr);
    assert!(shown.contains("would fix"), "{shown}");
    assert!(
        shown.contains("\n    5 - from Trade[pric > 1.0] select symbl as"),
        "{shown}"
    );
    assert!(
        shown.contains("\n    5 + from Trades[price > 1.0] select symbol as"),
        "{shown}"
    );
    assert!(shown.contains("no errors: Shop"), "{shown}");
    assert_eq!(fs::read_to_string(&app).expect("it is there"), BROKEN);

    let folder = dir.path().display().to_string();
    let fixed = run(&["check", &folder, "--fix", "--json"]);
    assert_eq!(fixed.status.code(), Some(0), "{}", text(&fixed.stderr));
    let document = json(&fixed);
    let codes = document["fixes"][0]["fixed"]
        .as_array()
        .expect("a list")
        .iter();
    let codes: Vec<&str> = codes.filter_map(|fix| fix["code"].as_str()).collect();
    assert!(
        codes.contains(&"E0201") && codes.contains(&"E0203"),
        "{codes:?}"
    );
    let after = fs::read_to_string(&app).expect("it is there");
    assert!(
        after.contains("from Trades[price > 1.0] select symbol as symbol"),
        "{after}"
    );
    assert_eq!(run(&["check", &path]).status.code(), Some(0));
    let again = run(&["check", &path, "--fix"]);
    assert_eq!(text(&again.stderr), "no errors: Shop\n");
}

#[test]
fn standard_input_is_fixed_to_standard_output() {
    let fixed = piped(&mut command(&["check", "-", "--fix"]), BROKEN.as_bytes());
    assert_eq!(fixed.status.code(), Some(0), "{}", text(&fixed.stderr));
    let after = text(&fixed.stdout);
    assert!(after.starts_with("@app:name('Shop')\n"), "{after}");
    assert!(after.contains("from Trades[price > 1.0]"), "{after}");
    let refused = run(&["check", "x.siddhi", "--fix", "--set", "A.b=c"]);
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn what_cannot_be_fixed_stays_as_it_is() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let app = dir.path().join("a.siddhi");
    let hopeless = "define stream S (a int);\nfrom S select qqqqqq insert into Out;\n";
    fs::write(&app, hopeless).expect("it can be written");
    let output = run(&["check", &app.display().to_string(), "--fix"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        !text(&output.stderr).contains("fixed"),
        "{}",
        text(&output.stderr)
    );
    assert_eq!(fs::read_to_string(&app).expect("it is there"), hopeless);
}

/// What the schema of SARIF 2.1.0 asks of what is here, by hand: its file is not ours to copy.
fn assert_sarif(log: &Json) {
    assert_eq!(log["version"], "2.1.0");
    let run = &log["runs"][0];
    let rules = run["tool"]["driver"]["rules"].as_array().expect("rules");
    let text = |json: &Json| {
        assert!(
            json["text"].as_str().is_some_and(|t| !t.is_empty()),
            "{json}"
        )
    };
    for rule in rules {
        assert!(rule["id"].is_string());
        text(&rule["shortDescription"]);
        text(&rule["help"]);
    }
    for result in run["results"].as_array().expect("results") {
        text(&result["message"]);
        let index = result["ruleIndex"].as_u64().expect("a number") as usize;
        assert_eq!(rules[index]["id"], result["ruleId"]);
        let level = result["level"].as_str().expect("a level");
        assert!(["error", "warning", "note"].contains(&level));
        for location in result["locations"].as_array().into_iter().flatten() {
            let place = &location["physicalLocation"];
            assert!(place["artifactLocation"]["uri"].is_string());
            let number = |name: &str| place["region"][name].as_u64().expect("a number");
            assert!(number("startLine") >= 1 && number("startColumn") >= 1);
            let (start, end) = (number("startLine"), number("endLine"));
            assert!((end, number("endColumn")) >= (start, number("startColumn")));
        }
        for fix in result["fixes"].as_array().into_iter().flatten() {
            for change in fix["artifactChanges"].as_array().expect("changes") {
                let replacement = &change["replacements"][0];
                assert!(replacement["deletedRegion"]["startLine"].as_u64() >= Some(1));
                assert!(replacement["insertedContent"]["text"].is_string());
            }
        }
    }
}

#[test]
fn findings_are_reported_for_code_scanning_and_pull_requests() {
    let (_dir, app) = broken();
    let path = app.display().to_string();
    let output = run(&["check", &path, "--format", "sarif"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stderr), "");
    let log = json(&output);
    assert_sarif(&log);
    let first = &log["runs"][0]["results"][0];
    assert_eq!(first["ruleId"], "E0201");
    let place = &first["locations"][0]["physicalLocation"];
    assert_eq!(place["region"]["startLine"], 5);
    assert_eq!(place["region"]["startColumn"], 6);
    let uri = place["artifactLocation"]["uri"].as_str().expect("a URI");
    assert!(
        uri.starts_with("file:///") && uri.ends_with("/shop.siddhi"),
        "{uri}"
    );

    let output = run(&["check", &path, "--format", "github"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stdout);
    let line = said.lines().next().expect("a line");
    assert!(line.starts_with("::error file="), "{line}");
    let place = "shop.siddhi,line=5,col=6,endLine=5,endColumn=11,title=E0201::";
    assert!(line.contains(place), "{line}");
}

#[test]
fn every_command_has_a_manual_page() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let pages = dir.path().join("man1");
    let output = run(&["man", &pages.display().to_string()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let page = |name: &str| fs::read_to_string(pages.join(name)).expect("the page is there");
    assert!(page("headwater.1").contains(".TH headwater 1"));
    let run_page = page("headwater-run.1");
    for part in ["until\\-done", "Examples:", "headwater run apps/"] {
        assert!(run_page.contains(part), "{part}: {run_page}");
    }
    assert!(page("headwater-errors-list.1").contains("headwater errors list"));
    let printed = run(&["man"]);
    assert_eq!(text(&printed.stdout), page("headwater.1"));
}

#[test]
fn a_command_by_another_name_is_named() {
    let said = |name: &str| {
        let output = run(&[name]);
        assert_eq!(output.status.code(), Some(2));
        text(&output.stderr)
    };
    assert!(
        said("simulate").contains("'headwater send' does this"),
        "{}",
        said("simulate")
    );
    assert!(said("rnu").contains("'run'"), "{}", said("rnu"));
}

/// Those that need no server of another kind also run.
#[test]
fn examples_run_from_any_folder() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let dir = tempfile::tempdir().expect("a temporary directory");
    let ends_well = |args: &[&str], from: &Path| {
        let output = command(args).current_dir(from).output();
        let output = output.expect("the binary starts");
        let said = text(&output.stderr) + &text(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {said}");
        said
    };
    for entry in fs::read_dir(&root).expect("the folder is there") {
        let example = entry.expect("an entry").path();
        let folder = example.display().to_string();
        ends_well(&["check", &folder, "--runnable"], dir.path());
        let mut files = fs::read_dir(&example).expect("it is there").flatten();
        if files.any(|file| file.path().extension().is_some_and(|e| e == "test")) {
            ends_well(&["test", &folder], dir.path());
        }
    }
    let hello = root.join("hello");
    for (example, from) in [
        (hello.display().to_string().as_str(), dir.path()),
        (".", &hello),
    ] {
        let said = ends_well(&["run", example, "--until-done"], from);
        assert!(said.contains("apple, 2, 6.5"), "{said}");
    }
}
