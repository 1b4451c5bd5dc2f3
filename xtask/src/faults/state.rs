//! Saved state that was damaged where it lay.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, ensure};

use super::bench::{Bench, finish};

/// Files of saved state of the copier, oldest first.
fn snapshots(bench: &Bench) -> anyhow::Result<Vec<PathBuf>> {
    let mut snapshots = Vec::new();
    for entry in fs::read_dir(bench.path("state/Copier"))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let epoch = name.strip_prefix("snapshot-").map(str::parse::<u64>);
        if let Some(Ok(epoch)) = epoch {
            snapshots.push((epoch, path));
        }
    }
    snapshots.sort();
    Ok(snapshots.into_iter().map(|(_, path)| path).collect())
}

/// How often each row is in the table.
fn counts(bench: &Bench) -> anyhow::Result<Vec<String>> {
    let query = "select id || ' ' || count(*) from T group by id order by id";
    bench.sql(&bench.path("out.db"), query)
}

/// Two runs, so that there are two saves: the rows of both are in the table, once.
fn two_saves(bench: &Bench) -> anyhow::Result<[PathBuf; 2]> {
    let app = format!(
        "@app:name('Copier')\n\
         @source(type='file', mode='line', dir.uri='file:{}', tailing='false', action.after.process='keep', @map(type='csv'))\n\
         define stream Lines (id string, amount double);\n\
         @store(type='rdbms', jdbc.url='jdbc:sqlite:{}')\n\
         define table T (id string, amount double);\n\
         from Lines select id, amount insert into T;\n",
        bench.path("in").display(),
        bench.path("out.db").display()
    );
    fs::write(bench.path("copier.siddhi"), app)?;
    fs::create_dir(bench.path("in"))?;
    for name in ["a", "b"] {
        fs::write(bench.path("in").join(name), format!("{name},1.5\n"))?;
        bench.run(&bench.path("copier.siddhi"))?.ended(0)?;
    }
    ensure!(counts(bench)? == ["a 1", "b 1"]);
    snapshots(bench)?
        .try_into()
        .ok()
        .context("two saves are kept")
}

/// The start is refused with these words, and nothing was written. Allowed, it goes on with what is
/// sound, for good: how often each row is in the table then.
fn refused(bench: &Bench, words: &[&str]) -> anyhow::Result<Vec<String>> {
    let app = bench.path("copier.siddhi");
    let ran = bench.run(&app)?;
    ran.ended(1)?;
    ran.said(words)?;
    ran.said(&["lost would be", "restore a copy", "--drop-state"])?;
    ensure!(counts(bench)? == ["a 1", "b 1"], "something was written");
    let allowed = finish(bench.start(&app, &["--drop-state"])?)?;
    allowed.ended(0)?;
    allowed.said(&["rows may"])?;
    let rows = counts(bench)?;
    bench.run(&app)?.ended(0)?;
    ensure!(counts(bench)? == rows, "it was not dropped for good");
    Ok(rows)
}

pub fn newest(bench: &Bench) -> anyhow::Result<()> {
    let [_, newest] = two_saves(bench)?;
    let mut bytes = fs::read(&newest)?;
    *bytes.last_mut().context("a payload")? ^= 1;
    fs::write(&newest, bytes)?;
    let name = newest.display().to_string();
    let words = [&name, "checksum", "which the stores have committed"];
    let rows = refused(bench, &words)?;
    // The save before it may have been made when the second file was read, or before.
    ensure!(rows == ["a 1", "b 1"] || rows == ["a 1", "b 2"], "{rows:?}");
    Ok(())
}

pub fn all(bench: &Bench) -> anyhow::Result<()> {
    let saves = two_saves(bench)?;
    for save in &saves {
        let bytes = fs::read(save)?;
        fs::write(save, &bytes[..bytes.len() - 1])?;
    }
    let [older, newest] = saves.map(|save| save.display().to_string());
    let rows = refused(
        bench,
        &[&older, &newest, "it is incomplete", "would start empty"],
    )?;
    ensure!(rows == ["a 2", "b 2"], "{rows:?}");
    Ok(())
}
