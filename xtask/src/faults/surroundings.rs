//! Folders, disks and databases that are not as an app needs them: it says so, waits or ends, and loses
//! nothing.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};

use super::bench::{Bench, Lock, finish, kill, read_until};

pub fn missing_folder(bench: &Bench) -> anyhow::Result<()> {
    let app = format!(
        "@app:name('Watcher')\n\
         @source(type='file', mode='line', dir.uri='file:{}', tailing='false', action.after.process='keep', @map(type='csv'))\n\
         define stream Lines (id string, amount double);\n\
         from Lines select id insert into Out;\n",
        bench.path("nowhere").display()
    );
    let path = bench.path("watcher.siddhi");
    fs::write(&path, app)?;
    let ran = bench.run(&path)?;
    ran.ended(3)?;
    ran.said(&["nowhere", "Lines"])
}

/// 20,000 rows, and what the table must hold.
fn many_rows(bench: &Bench) -> anyhow::Result<u64> {
    let rows = 20_000;
    let text: String = (0..rows).map(|i| format!("r{i},{i}.5\n")).collect();
    fs::write(bench.path("in.csv"), text)?;
    Ok(rows)
}

pub fn locked_database(bench: &Bench) -> anyhow::Result<()> {
    let rows = many_rows(bench)?;
    let database = bench.path("out.db");
    let app = bench.copier(&database)?;
    let lock = Lock::take(&database)?;
    let mut child = bench.start(&app, &[])?;
    let said = lock.wait_for(&mut child)?;
    lock.release()?;
    let ran = finish(child)?;
    ran.ended(0).context(said)?;
    ensure!(bench.rows(&database)?.len() as u64 == rows);
    Ok(())
}

pub fn full_disk(bench: &Bench) -> anyhow::Result<()> {
    let mount = bench.path("small");
    fs::create_dir(&mount)?;
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"])
        .arg(&mount)
        .stderr(Stdio::null())
        .status()?;
    if !mounted.success() {
        bench.skip("this machine does not let us mount (RLIMIT_FSIZE is tested)");
        return Ok(());
    }
    let result = fill_and_free(bench, &mount);
    Command::new("umount").arg(&mount).status()?;
    result
}

fn fill_and_free(bench: &Bench, mount: &Path) -> anyhow::Result<()> {
    let rows = many_rows(bench)?;
    let ballast = mount.join("ballast");
    fs::write(&ballast, vec![0; 900 << 10])?;
    let database = mount.join("out.db");
    let app = bench.copier(&database)?;
    let mut child = bench.start(&app, &[])?;
    let said = read_until(child.stderr.as_mut().context("no standard error")?, "full")?;
    fs::remove_file(&ballast)?;
    Command::new("mount")
        .args(["-o", "remount,size=64m"])
        .arg(mount)
        .status()?;
    let ran = finish(child)?;
    ran.ended(0).context(said)?;
    ensure!(
        bench.rows(&database)?.len() as u64 == rows,
        "rows were lost or written twice"
    );
    Ok(())
}

pub fn file_size_limit(bench: &Bench) -> anyhow::Result<()> {
    let rows = many_rows(bench)?;
    let database = bench.path("out.db");
    let app = bench.copier(&database)?;
    // 256 blocks of 512 bytes: too small for the rows.
    let child = Command::new("sh")
        .arg("-c")
        .arg("ulimit -f 256; exec \"$0\" run \"$1\" --until-done --json")
        .arg(&bench.binary)
        .arg(&app)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let id = child.id();
    let mut child = child;
    read_until(
        child.stderr.as_mut().context("no standard error")?,
        "out.db",
    )?;
    kill(id, "TERM")?;
    let ran = finish(child)?;
    ensure!(
        ran.code > 0 && ran.code < 101,
        "exit {}:\n{}",
        ran.code,
        ran.stderr
    );
    // The same command with room again brings every row, once.
    fs::remove_file(&database).ok();
    let again = bench.run(&app)?;
    again.ended(0)?;
    ensure!(bench.rows(&database)?.len() as u64 == rows);
    Ok(())
}

pub fn move_target_exists(bench: &Bench) -> anyhow::Result<()> {
    fs::create_dir(bench.path("in"))?;
    fs::create_dir(bench.path("moved"))?;
    fs::write(bench.path("in/a.csv"), "a,1.5\n")?;
    fs::write(bench.path("moved/a.csv"), "an older one\n")?;
    let app = format!(
        "@app:name('Mover')\n\
         @source(type='file', mode='line', dir.uri='file:{}', tailing='false', action.after.process='move', move.after.process='file:{}', @map(type='csv'))\n\
         define stream Lines (id string, amount double);\n\
         @store(type='rdbms', jdbc.url='jdbc:sqlite:{}')\n\
         define table T (id string, amount double);\n\
         from Lines select id, amount insert into T;\n",
        bench.path("in").display(),
        bench.path("moved").display(),
        bench.path("out.db").display()
    );
    let path = bench.path("mover.siddhi");
    fs::write(&path, app)?;
    let ran = bench.run(&path)?;
    ran.said(&["a.csv", "exists", "move.if.exist.mode"])?;
    ensure!(
        fs::read_to_string(bench.path("moved/a.csv"))? == "an older one\n",
        "overwritten"
    );
    ensure!(bench.path("in/a.csv").exists(), "the file is gone");
    ensure!(
        bench.rows(&bench.path("out.db"))? == ["a,1.5"],
        "read more than once, or not at all"
    );
    Ok(())
}
