//! A build with the feature `history`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use connect::shared::Shared;
use jiff::tz::TimeZone;
use serde_json::{Value as Json, json};
use server::capp::Capp;
use server::clock::{utc_text, wall_millis};
use server::http::store::{StoreKeeper, StoreRefusal, StoreUpkeep, StoreWatch, StoreWork};
use server::scripts::{BatchScript, ScriptDefinition, ScriptOutcome, Stop, Streams};
use store::EventStore;
use store::error::Error;
use store::upkeep::{self, About, Damage, Names, PurgeFile, Purged, Version, Watch};

use super::order::{Order, wrong};
use super::{NO_STORE, check_folder};
use crate::cli::store::CopyArgs;
use crate::search::Searching;

/// A store in which house is kept.
pub struct Place {
    dir: PathBuf,
    /// That of the server whose apps have it open.
    server: Option<(Arc<Shared>, Searching)>,
    zone: TimeZone,
}

impl Place {
    /// A folder; what changes it needs that no server uses it.
    ///
    /// # Errors
    /// It is no folder of a store.
    pub fn of_folder(dir: &Path) -> anyhow::Result<Place> {
        check_folder(dir)?;
        Ok(Place {
            dir: dir.to_owned(),
            server: None,
            zone: zone_of(&crate::command::run::zone(None)?),
        })
    }

    /// That of a server, where it has one.
    pub fn of_server(
        store: Option<&Path>,
        shared: &Arc<Shared>,
        search: &Searching,
        zone: &str,
    ) -> StoreUpkeep {
        let Some(dir) = store else {
            return StoreUpkeep::absent(NO_STORE);
        };
        StoreUpkeep::new(Arc::new(Place {
            dir: dir.to_owned(),
            server: Some((Arc::clone(shared), search.clone())),
            zone: zone_of(zone),
        }))
    }

    fn open(&self) -> Result<Arc<EventStore>, StoreRefusal> {
        match &self.server {
            Some((shared, _)) => EventStore::of_server(shared, &self.dir).map_err(failed),
            None => EventStore::open(&self.dir).map(Arc::new).map_err(|error| {
                StoreRefusal::Failed(format!(
                    "{}; through a server: leave --store out and name it with --url",
                    chain(&error)
                ))
            }),
        }
    }

    fn purge(&self, order: &Order, watch: &Watch<'_>) -> Result<Json, StoreRefusal> {
        let before = order
            .before
            .ok_or_else(|| wrong("say which rows: 'before' or 'olderThan'"))?;
        let (mut tables, mut rows) = (Vec::new(), 0);
        let mut each = |table: &str, purged: &Purged| {
            rows += purged.rows;
            tables.push(purged_json(table, purged));
        };
        let done = match order.is_dry {
            true => upkeep::purgeable(&self.dir, &order.names, before, watch, &mut each),
            false => self.open()?.purge(&order.names, before, watch, &mut each),
        };
        done.map_err(|error| partly(error, &tables))?;
        Ok(
            json!({ "before": utc_text(before), "dryRun": order.is_dry, "rows": rows, "tables": tables }),
        )
    }

    fn vacuum(&self, order: &Order) -> Result<Json, StoreRefusal> {
        let (mut tables, mut files, mut bytes) = (Vec::new(), 0, 0);
        let done = self.open()?.vacuum(
            &order.names,
            order.grace,
            order.is_dry,
            &mut |table, vacuumed| {
                files += vacuumed.files;
                bytes += vacuumed.bytes;
                tables.push(json!({
                    "table": table,
                    "files": vacuumed.files,
                    "bytes": vacuumed.bytes,
                    "kept": vacuumed.kept,
                }));
            },
        );
        done.map_err(|error| partly(error, &tables))?;
        Ok(json!({ "dryRun": order.is_dry, "files": files, "bytes": bytes, "tables": tables }))
    }

    fn reindex(&self, order: &Order, watch: &StoreWatch) -> Result<Json, StoreRefusal> {
        let (has, goes_on) = (|table: &str| order.names.has(table), || !watch.is_stopped());
        match &self.server {
            Some((_, search)) => search.reindex(&has, &goes_on),
            None => {
                // Nobody writes to the store meanwhile, and so nobody else keeps its indexes.
                let _open = self.open()?;
                let search = Searching::keeping(&self.dir)
                    .map_err(|error| StoreRefusal::Failed(format!("{error:#}")))?;
                search.reindex(&has, &goes_on)
            }
        }
    }

    fn verify(&self, watch: &Watch<'_>) -> Result<Json, StoreRefusal> {
        let verified = upkeep::verify(&self.dir, watch).map_err(failed)?;
        for damage in &verified.damage {
            tracing::error!(
                file = %damage.path.display(),
                table = damage.table,
                rows = damage.rows,
                cause = damage.message,
                "the event store is damaged"
            );
        }
        let damage: Vec<Json> = verified
            .damage
            .iter()
            .map(|damage| damage_json(&self.dir, damage))
            .collect();
        Ok(json!({
            "tables": verified.tables,
            "files": verified.files,
            "rows": verified.rows,
            "bytes": verified.bytes,
            "logBytes": verified.log_bytes,
            "damage": damage,
        }))
    }
}

impl StoreKeeper for Place {
    fn tables(&self) -> Result<Json, StoreRefusal> {
        let tables = upkeep::about(&self.dir).map_err(failed)?;
        let tables: Vec<Json> = tables.iter().map(about_json).collect();
        Ok(json!({ "tables": tables }))
    }

    fn versions(&self, table: &str) -> Result<Json, StoreRefusal> {
        let versions = upkeep::versions(&self.dir, table).map_err(failed)?;
        let versions: Vec<Json> = versions.iter().map(version_json).collect();
        Ok(json!({ "table": table, "versions": versions }))
    }

    fn work(
        &self,
        work: StoreWork,
        order: &Json,
        watch: &StoreWatch,
    ) -> Result<Json, StoreRefusal> {
        let order = Order::read(order, &self.zone, wall_millis())?;
        let (is_stopped, note) = (
            || watch.is_stopped(),
            |file: &Path, bytes| watch.note(file, bytes),
        );
        let watched = Watch {
            is_stopped: &is_stopped,
            note: &note,
        };
        match work {
            StoreWork::Purge => self.purge(&order, &watched),
            StoreWork::Vacuum => self.vacuum(&order),
            StoreWork::Reindex => self.reindex(&order, watch),
            StoreWork::Verify => self.verify(&watched),
        }
    }
}

/// Copies tables of a folder into another.
///
/// # Errors
/// What is wrong; the other folder then is no store.
pub fn copy(args: &CopyArgs, watch: &StoreWatch) -> Result<Json, StoreRefusal> {
    let names = Names::new(&args.tables).map_err(failed)?;
    let (is_stopped, note) = (
        || watch.is_stopped(),
        |file: &Path, bytes| watch.note(file, bytes),
    );
    let watched = Watch {
        is_stopped: &is_stopped,
        note: &note,
    };
    let mut tables = Vec::new();
    let done = upkeep::copy(
        &args.store,
        &names,
        args.version,
        &args.to,
        &watched,
        &mut |copied| {
            tables.push(json!({
                "table": copied.table,
                "version": copied.version,
                "files": copied.files,
                "rows": copied.rows,
                "bytes": copied.bytes,
            }));
        },
    );
    done.map_err(failed)?;
    Ok(json!({ "tables": tables }))
}

fn zone_of(name: &str) -> TimeZone {
    // An unknown zone is refused before a server starts.
    TimeZone::get(name).unwrap_or(TimeZone::UTC)
}

fn chain(error: &Error) -> String {
    connect::error::chain(error)
}

fn failed(error: Error) -> StoreRefusal {
    match error {
        Error::Refused(message) => StoreRefusal::Wrong(message),
        error => StoreRefusal::Failed(chain(&error)),
    }
}

/// An error of one table, with those that were done before it.
fn partly(error: Error, done: &[Json]) -> StoreRefusal {
    let names: Vec<&str> = done
        .iter()
        .filter_map(|table| table["table"].as_str())
        .collect();
    let with = |message: String| match names.is_empty() {
        true => message,
        false => format!("{message} (done before: {})", names.join(", ")),
    };
    match failed(error) {
        StoreRefusal::Wrong(message) => StoreRefusal::Wrong(with(message)),
        StoreRefusal::Failed(message) => StoreRefusal::Failed(with(message)),
    }
}

fn purged_json(table: &str, purged: &Purged) -> Json {
    json!({
        "table": table,
        "rows": purged.rows,
        "files": purged.files,
        "rewritten": purged.rewritten,
        "bytes": purged.bytes,
        "inMemory": purged.in_memory,
        "version": purged.version,
    })
}

fn about_json(about: &About) -> Json {
    let columns: Vec<Json> = about
        .columns
        .iter()
        .map(|(name, ty)| json!({ "name": name, "type": ty }))
        .collect();
    json!({
        "table": about.name,
        "columns": columns,
        "primaryKey": about.key,
        "version": about.version,
        "files": about.files,
        "bytes": about.bytes,
        "rows": about.rows,
        "rowsOfLog": about.rows_of_log,
        "first": about.times.map(|(first, _)| utc_text(first)),
        "last": about.times.map(|(_, last)| utc_text(last)),
    })
}

fn version_json(version: &Version) -> Json {
    json!({
        "version": version.version,
        "time": version.time.map(utc_text),
        "operation": version.operation,
        "engine": version.engine,
        "added": version.added,
        "removed": version.removed,
    })
}

fn damage_json(dir: &Path, damage: &Damage) -> Json {
    let path = damage.path.strip_prefix(dir).unwrap_or(&damage.path);
    json!({
        "path": path.display().to_string(),
        "table": damage.table,
        "rows": damage.rows,
        "firstId": damage.ids.map(|(first, _)| first),
        "lastId": damage.ids.map(|(_, last)| last),
        "first": damage.times.map(|(first, _)| utc_text(first)),
        "last": damage.times.map(|(_, last)| utc_text(last)),
        "message": damage.message,
    })
}

/// Purges at their times, as WSO2 DAS has them in its configuration.
pub struct PurgeFiles(Vec<(String, PurgeFile)>);

impl PurgeFiles {
    /// Reads the files that are named, and those of CApps.
    ///
    /// # Errors
    /// A file cannot be read, or is not right.
    pub fn read(files: &[PathBuf], capps: &[Capp]) -> anyhow::Result<PurgeFiles> {
        let usage = server::Error::Usage;
        let named = files.iter().map(|file| {
            let text = std::fs::read_to_string(file);
            let failed = |cause| usage(format!("cannot read '{}': {cause}", file.display()));
            Ok((file.clone(), text.map_err(failed)?))
        });
        let of_capps = capps.iter().flat_map(|capp| &capp.purges);
        let of_capps = of_capps.map(|(file, text)| Ok((PathBuf::from(file), text.clone())));
        let texts = named.chain(of_capps);
        let mut purges = Vec::new();
        for (file, text) in texts.collect::<anyhow::Result<Vec<(PathBuf, String)>>>()? {
            let shown = file.display();
            let purge =
                PurgeFile::read(&text).map_err(|message| usage(format!("{shown}: {message}")))?;
            let name = file
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            purges.push((name, purge));
        }
        Ok(PurgeFiles(purges))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those that are turned on.
    pub fn definitions(
        self,
        dir: &Path,
        shared: &Arc<Shared>,
        zone: &str,
    ) -> Vec<ScriptDefinition> {
        let mut definitions = Vec::new();
        for (name, purge) in self.0 {
            if !purge.ignored.is_empty() {
                let settings = purge.ignored.join(", ");
                tracing::warn!(
                    purge = name,
                    settings,
                    "these settings of WSO2 DAS have no meaning here"
                );
            }
            if !purge.is_enabled {
                tracing::info!(purge = name, "purge is turned off by 'purging-enable'");
                continue;
            }
            definitions.push(ScriptDefinition {
                name,
                cron: Some(purge.cron.clone()),
                script: Arc::new(Purge {
                    purge,
                    dir: dir.to_owned(),
                    shared: Arc::clone(shared),
                    zone: zone_of(zone),
                }),
            });
        }
        definitions
    }
}

/// One of them, in a server.
struct Purge {
    purge: PurgeFile,
    dir: PathBuf,
    shared: Arc<Shared>,
    zone: TimeZone,
}

impl BatchScript for Purge {
    fn run(
        &self,
        _: &Streams,
        stop: &Stop,
        each: &mut dyn FnMut(ScriptOutcome),
    ) -> Result<(), Json> {
        let said = |message: String| json!({ "message": message });
        let before = self.purge.before(wall_millis(), &self.zone);
        let before =
            before.ok_or_else(|| said("the time of the system is out of range".to_owned()))?;
        let store = EventStore::of_server(&self.shared, &self.dir);
        let store = store.map_err(|error| said(chain(&error)))?;
        let is_stopped = || *stop.borrow();
        let watch = Watch {
            is_stopped: &is_stopped,
            note: &|_, _| {},
        };
        // A pattern may be for tables that are still to come.
        let names = self.purge.names.clone().that_may_be_idle();
        let purged = store.purge(&names, before, &watch, &mut |table, purged| {
            let mut json = purged_json(table, purged);
            json["purged"] = true.into();
            each(ScriptOutcome {
                rows: purged.rows,
                json,
            });
        });
        purged.map_err(|error| said(chain(&error)))
    }
}
