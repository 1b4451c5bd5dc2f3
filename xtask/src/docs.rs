//! `cargo xtask docs [--check]`: writes `docs/reference` from the catalog; with `--check` only says
//! whether what is there is what would be written.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use catalog::pages;

pub fn run(args: &[String]) -> anyhow::Result<bool> {
    let only_check = match args {
        [] => false,
        [flag] if flag == "--check" => true,
        _ => bail!("usage: cargo xtask docs [--check]"),
    };
    let catalog = crate::catalog();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference");
    let mut stale: Vec<PathBuf> = Vec::new();
    for (name, content) in pages::reference(&catalog) {
        let path = folder.join(name);
        let is_current = fs::read_to_string(&path).is_ok_and(|old| old == content);
        if is_current {
            continue;
        }
        if only_check {
            stale.push(path);
        } else {
            fs::create_dir_all(&folder)
                .with_context(|| format!("cannot make folder '{}'", folder.display()))?;
            fs::write(&path, content)
                .with_context(|| format!("cannot write '{}'", path.display()))?;
            println!("written: docs/reference/{name}");
        }
    }
    for path in &stale {
        println!("out of date: {}", path.display());
    }
    if !stale.is_empty() {
        println!("run `cargo xtask docs`");
    }
    Ok(stale.is_empty())
}
