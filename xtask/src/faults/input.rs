//! Input that is not what an app expects: the bad part is named and kept, its neighbours are taken.

use std::fs;
use std::io::Write as _;

use anyhow::ensure;

use super::bench::Bench;

pub fn too_few_columns(bench: &Bench) -> anyhow::Result<()> {
    fs::write(bench.path("in.csv"), "a,1.5\nb\nc,2.5\n")?;
    let ran = bench.run(&bench.copier(&bench.path("out.db"))?)?;
    ran.ended(4)?;
    ensure!(ran.rejected() == 1, "{} rejected", ran.rejected());
    ensure!(bench.rows(&bench.path("out.db"))? == ["a,1.5", "c,2.5"]);
    ran.said(&["in.csv", "line 2"])?;
    ensure!(
        bench.kept()?.contains("line 2"),
        "not in the error store: {}",
        bench.kept()?
    );
    Ok(())
}

pub fn wrong_type(bench: &Bench) -> anyhow::Result<()> {
    fs::write(bench.path("in.csv"), "a,1.5\nb,much\nc,2.5\n")?;
    let ran = bench.run(&bench.copier(&bench.path("out.db"))?)?;
    ran.ended(4)?;
    ensure!(ran.rejected() == 1, "{} rejected", ran.rejected());
    ensure!(bench.rows(&bench.path("out.db"))? == ["a,1.5", "c,2.5"]);
    ran.said(&["in.csv", "line 2", "amount", "much"])
}

pub fn torn_lines(bench: &Bench) -> anyhow::Result<()> {
    fs::write(bench.path("in.csv"), "a,1.5\nb,2.5\nc")?;
    let ran = bench.run(&bench.copier(&bench.path("out.db"))?)?;
    ran.ended(4)?;
    ensure!(ran.rejected() == 1, "{} rejected", ran.rejected());
    ensure!(bench.rows(&bench.path("out.db"))? == ["a,1.5", "b,2.5"]);
    ran.said(&["line 3"])
}

pub fn torn_xml(bench: &Bench) -> anyhow::Result<()> {
    fs::write(
        bench.path("in.xml"),
        "<osm>\n<node id=\"a\" lat=\"1\"/>\n<node id=\"b\" lat=\"2\"/>\n<node id=\"c\" la",
    )?;
    let app = format!(
        "@app:name('Nodes')\n\
         @source(type='file', mode='line', file.uri='file:{}', tailing='false', action.after.process='keep',\n\
           @map(type='xml', enclosing.element='/osm/node', enable.streaming.xml.content='true', @attributes(id='/node/@id', amount='/node/@lat')))\n\
         define stream Nodes (id string, amount double);\n\
         @store(type='rdbms', jdbc.url='jdbc:sqlite:{}')\n\
         define table T (id string, amount double);\n\
         from Nodes select id, amount insert into T;\n",
        bench.path("in.xml").display(),
        bench.path("out.db").display()
    );
    let path = bench.path("nodes.siddhi");
    fs::write(&path, app)?;
    let ran = bench.run(&path)?;
    ran.ended(4)?;
    ensure!(bench.rows(&bench.path("out.db"))? == ["a,1.0", "b,2.0"]);
    ran.said(&["in.xml"])
}

pub fn other_encoding(bench: &Bench) -> anyhow::Result<()> {
    fs::write(bench.path("in.csv"), b"a,1.5\nm\xfcller,2.5\nc,3.5\n")?;
    let ran = bench.run(&bench.copier(&bench.path("out.db"))?)?;
    ran.ended(4)?;
    ensure!(ran.rejected() == 1, "{} rejected", ran.rejected());
    ensure!(bench.rows(&bench.path("out.db"))? == ["a,1.5", "c,3.5"]);
    ran.said(&["line 2", "UTF-8"])
}

pub fn utf16(bench: &Bench) -> anyhow::Result<()> {
    let mut bytes = vec![0xff, 0xfe];
    bytes.extend("a,1.5\nb,2.5\n".encode_utf16().flat_map(u16::to_le_bytes));
    fs::write(bench.path("in.csv"), bytes)?;
    let ran = bench.run(&bench.copier(&bench.path("out.db"))?)?;
    ran.ended(4)?;
    ran.said(&["UTF-16"])
}

pub fn huge_line(bench: &Bench) -> anyhow::Result<()> {
    let mut file = std::io::BufWriter::new(fs::File::create(bench.path("in.csv"))?);
    file.write_all(b"a,1.5\n")?;
    let block = vec![b'x'; 1 << 20];
    for _ in 0..1024 {
        file.write_all(&block)?;
    }
    file.write_all(b"\nc,2.5\n")?;
    file.flush()?;
    drop(file);
    let ran = bench.run(&bench.copier(&bench.path("out.db"))?)?;
    ran.ended(4)?;
    ensure!(ran.rejected() == 1, "{} rejected", ran.rejected());
    ensure!(bench.rows(&bench.path("out.db"))? == ["a,1.5", "c,2.5"]);
    ran.said(&["line 2", "too long"])?;
    let peak = ran.summary["peak_rss_bytes"].as_u64().unwrap_or(u64::MAX);
    ensure!(peak < 256 << 20, "{} MB of memory at the peak", peak >> 20);
    Ok(())
}
