//! Java's regular expressions and JSONPath, as mappers and functions read them: a result or a
//! refusal, for any pattern on any text.
#![no_main]

use std::cell::RefCell;

use headwater_connect::component::Payload;
use headwater_connect::rows::Properties;
use headwater_javatext::regex::{Groups, Regex};
use headwater_engine::{App, Input, NoHost, Outputs, Setup};
use headwater_event::{Batch, Chunks, Value};
use headwater_fuzz::map::try_decoder;
use headwater_check::{CheckConfig, check};
use libfuzzer_sys::fuzz_target;

const APP: &str = "define stream S (pattern string, text string);
from S select str:regexp(text, pattern) as found insert into A;
from S select str:replaceAll(text, pattern, 'x') as replaced insert into B;
from S select regex:find(pattern, text) as found insert into C;
from S select json:getString(text, pattern) as value insert into D;
from S select json:isExists(text, pattern) as there insert into E;
from S select json:setElement(text, pattern, 'new') as changed insert into F;";

thread_local! {
    static RUNNING: RefCell<App> = RefCell::new({
        let parsed = headwater_lang::parse(APP);
        let catalog = headwater_catalog::full();
        let checked = check(&parsed.app, &catalog, &CheckConfig::default());
        let plan = checked.plan.expect("the app is right");
        let mut app = App::new(&plan, Setup::default()).expect("every part of the app runs");
        app.step(0, 0, Input::Start, &mut NoHost, &mut Outputs::default());
        app
    });
}

fuzz_target!(|input: (&str, &str)| {
    let (pattern, text) = input;
    if let Ok(compiled) = Regex::new(pattern) {
        let mut groups = Groups::default();
        if compiled.find_at(text, 0, &mut groups) == Ok(true) {
            let whole = groups.get(0).expect("a match has a place");
            assert!(text.get(whole).is_some());
        }
        // Too many steps are an answer as well.
        compiled.replace(text, pattern, true).ok();
    }
    if let Some(mut decoder) = try_decoder("json", &[], &["a string"], &[pattern]) {
        decoder.map(Payload::Text(text), &Properties::none());
    }
    RUNNING.with_borrow_mut(|app| {
        let schema = headwater_event::Schema {
            name: "S".to_owned(),
            attributes: ["pattern", "text"]
                .map(|name| headwater_event::Attribute {
                    name: name.to_owned(),
                    ty: headwater_event::Type::String,
                })
                .into(),
        };
        let row = vec![Value::str(pattern), Value::str(text)];
        let batch = Batch::from_rows(&schema, &[(1, row)], Chunks::One, 1);
        app.step(1, 1, Input::Batch(0, batch), &mut NoHost, &mut Outputs::default());
    });
});
