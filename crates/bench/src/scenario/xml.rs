//! `bench xml`: OSM-shaped nodes through the published NodesConvertor.

use super::{Command, Done, Scenario, Verified, app, logged_total};
use crate::data;
use crate::site::Site;

pub(super) struct Xml;

const APP: &str = r#"@app:name("NodesConvertor")
@source(type = 'file', file.uri = "file:input.xml", mode = "line", tailing = "false", action.after.process = 'keep',
    @map(type = 'xml', enclosing.element = "/osm/node", enable.streaming.xml.content = "true", fail.on.missing.attribute = "false",
        @attributes(id = "/node/@id", lat = "/node/@lat", lon = "/node/@lon", version = "/node/@version", timestamp = "/node/@timestamp", changeset = "/node/@changeset")))
define stream FooStream (id string, lat string, lon string, version string, timestamp string, changeset string);

from FooStream#window.timeBatch(1 sec)
select count() as throughput
insert into OutputStream;

from OutputStream#log('TPS: ')
insert into TempStream;
"#;

impl Scenario for Xml {
    fn name(&self) -> &'static str {
        "xml"
    }

    fn about(&self) -> &'static str {
        "OSM-shaped nodes of 350 bytes from a file, six attributes decoded, counted each second"
    }

    fn events(&self) -> u64 {
        3_000_000
    }

    fn published(&self) -> Option<(f64, &'static str, &'static str)> {
        Some((
            40_000.0,
            "events/s",
            "WSO2 Streaming Integrator 4.0 performance report, 4 cores",
        ))
    }

    fn prepare(&self, site: &Site, events: u64) -> anyhow::Result<()> {
        data::osm_nodes(&site.dir.join("input.xml"), events)?;
        Ok(())
    }

    fn command(&self, site: &Site) -> anyhow::Result<Command> {
        let (path, app) = app(site, "NodesConvertor.siddhi", APP)?;
        let set = format!(
            "FooStream.source.file.uri=file:{}",
            site.dir.join("input.xml").display()
        );
        Ok(Command {
            args: vec![path.display().to_string(), "--set".into(), set],
            app,
        })
    }

    fn verify(&self, _: &Site, events: u64, done: &Done) -> anyhow::Result<Verified> {
        let mut verified = Verified::new();
        verified.equal("nodes_counted", events, logged_total(&done.lines, "TPS: "));
        Ok(verified)
    }
}
