//! What the tests of tables in other stores share: an app that does everything with a table.

use crate::broker::Apps;
use crate::network::Running;

/// Five rows go in; the last of them has all else done. `{store}` is the annotation of the table,
/// `{seen}` what one update does besides, `{more}` a query into `Part`.
const EVERY: &str = "@app:name('Every')
@source(type='file', mode='line', file.uri='file:{dir}/in.csv', tailing='false', file.read.wait.timeout='1', action.after.process='keep', @map(type='csv'))
define stream In (n long, text string);
{store} @PrimaryKey('n')
define table T (n long, text string, parity string, d double, b bool);
@sink(type='log', prefix='found')
define stream Found (n long, other long, text string, d double, b bool);
@sink(type='log', prefix='there')
define stream There (n long);
@sink(type='log', prefix='part')
define stream Part (n long, other long);
@info(name='a') from In select n, text, ifThenElse(n % 2L == 0L, 'even', 'odd') as parity, convert(n, 'double') / 2.0 as d, n > 2L as b insert into T;
@info(name='b') from In[n == 4L] delete T on T.n == 3L;
@info(name='c') from In[n == 4L] select n, 'changed' as text update T set T.text = text, T.parity = 'none' on T.parity == 'odd';
@info(name='d') from In[n == 4L] select 9L as n, 'new' as text, 'odd' as parity, 1.0E10 as d, true as b update or insert into T set T.d = d on T.n == n;
@info(name='e') from In[n == 4L] select n, 'seen' as text update T set T.text = text{seen} on T.n == n;
@info(name='f') from In[n == 4L] join T on T.d > 0.4 and T.n != 9L select In.n as n, T.n as other, T.text as text, T.d as d, T.b as b insert into Found;
@info(name='g') from In[(T.n == n and T.parity == 'even') in T] select n insert into There;
{more}";

pub struct Every<'a> {
    pub store: &'a str,
    pub seen: &'a str,
    pub more: &'a str,
    /// What the last row is when it is joined.
    pub last: &'a str,
}

impl Every<'_> {
    pub fn text(&self) -> String {
        EVERY
            .replace("{store}", self.store)
            .replace("{seen}", self.seen)
            .replace("{more}", self.more)
    }

    /// Runs it to its end, with a state or without, and looks at what it found; what else it said.
    #[track_caller]
    pub fn run(&self, apps: &Apps, has_state: bool) -> String {
        let app = apps.write("every", &self.text(), "");
        let folder = apps.path("state");
        let mut args = vec![app.as_str(), "--until-done"];
        if has_state {
            args.extend(["--state", &folder]);
        }
        let run = Running::start(&args);
        run.out_has("\"type\":\"summary\"", 1);
        let out = run.out();
        let (code, summary) = run.end();
        assert_eq!(code, Some(0), "{summary}");
        let found = [
            "4, 1, changed, 0.5, false",
            "4, 2, row 2 é, 1.0, false",
            self.last,
        ];
        for row in found {
            assert!(out.contains(&format!("data=[{row}]")), "{row} in {out}");
        }
        let joined = out.lines().filter(|line| line.contains("found : "));
        let events: usize = joined.map(|line| line.matches("Event{").count()).sum();
        assert_eq!(events, found.len(), "{out}");
        for n in [0, 2, 4] {
            assert!(out.contains(&format!("data=[{n}], ")), "{n} in {out}");
        }
        out
    }
}
