//! `bench lines`: a file to typed columns to `count()`, on one core.

use super::{Command, Done, Scenario, Verified, logged_total};
use crate::data;
use crate::site::Site;

pub(super) struct Lines;

const APP: &str = r#"@app:name('Lines')
@source(type='file', mode='line', file.uri='file:lines.txt', tailing='false', header.present='true', action.after.process='keep',
    @map(type='csv', delimiter='|', @attributes(code = '0', serialNo = '1', amount = '2', fileName = 'trp:file.path', eof = 'trp:eof')))
define stream Rows (code string, serialNo string, amount double, fileName string, eof string);

@sink(type='log', prefix='counted')
define stream Counts (rows long);

from Rows#window.timeBatch(1 sec)
select count() as rows
insert into Counts;
"#;

impl Scenario for Lines {
    fn name(&self) -> &'static str {
        "lines"
    }

    fn about(&self) -> &'static str {
        "lines of 20 bytes from a file, all five attributes decoded, counted each second"
    }

    fn events(&self) -> u64 {
        20_000_000
    }

    fn published(&self) -> Option<(f64, &'static str, &'static str)> {
        None
    }

    fn prepare(&self, site: &Site, events: u64) -> anyhow::Result<()> {
        data::etl_lines(&site.dir.join("lines.txt"), events)?;
        std::fs::write(site.dir.join("lines.siddhi"), APP)?;
        Ok(())
    }

    fn command(&self, site: &Site) -> anyhow::Result<Command> {
        let set = format!(
            "Rows.source.file.uri=file:{}",
            site.dir.join("lines.txt").display()
        );
        Ok(Command {
            args: vec![
                site.dir.join("lines.siddhi").display().to_string(),
                "--set".into(),
                set,
            ],
            app: "lines.siddhi".into(),
        })
    }

    fn verify(&self, _: &Site, events: u64, done: &Done) -> anyhow::Result<Verified> {
        let mut verified = Verified::new();
        verified.equal("rows_counted", events, logged_total(&done.lines, "counted"));
        Ok(verified)
    }
}
