//! Streams of the apps, into which scripts put rows.

use std::time::{Duration, Instant};

use event::{Batch, Chunks, Column, Times, Type};

use crate::ask::Asker;
use crate::clock;
use crate::inject::{BATCH_ROWS_MAX, Target, Unsent, streams_of};

/// Time for the apps to take the rows that are sent at once.
const SEND_MAX: Duration = Duration::from_secs(60);

/// The streams of all apps that run.
#[derive(Clone)]
pub struct Streams {
    asker: Asker,
}

/// The streams of one name, and where the columns of rows go in each.
pub struct OpenStreams {
    targets: Vec<(Target, Vec<usize>)>,
}

impl Streams {
    pub(super) fn new(asker: Asker) -> Streams {
        Streams { asker }
    }

    /// The streams of this name, in whatever app: each gets all rows. A name with dots is that of a stream with
    /// underscores. `attributes` are found by name in any order, and all attributes of a stream must be there.
    ///
    /// # Errors
    /// No app has such a stream, or one has other attributes; in words for who wrote the script.
    pub fn open(&self, stream: &str, attributes: &[(&str, Type)]) -> Result<OpenStreams, String> {
        let name = stream.replace('.', "_");
        let apps = self.asker.apps();
        let mut targets = Vec::new();
        for app in apps.iter() {
            let found = streams_of(app).find(|s| s.name.eq_ignore_ascii_case(&name));
            let Some(schema) = found else { continue };
            let places = schema.attributes.iter().map(|attribute| {
                let mut given = attributes.iter();
                given.position(|(name, ty)| {
                    name.eq_ignore_ascii_case(&attribute.name) && *ty == attribute.ty
                })
            });
            let places = places.collect::<Option<Vec<usize>>>();
            let places = places.filter(|places| places.len() == attributes.len());
            let Some(places) = places else {
                let own = schema.attributes.iter();
                let own: Vec<String> = own.map(|a| format!("{} {}", a.name, a.ty)).collect();
                return Err(format!(
                    "stream '{}' of app '{}' has other attributes: {}",
                    schema.name,
                    app.name,
                    own.join(", ")
                ));
            };
            let target = Target::find(&self.asker, Some(&app.name), &schema.name);
            let target = target.map_err(|_| format!("app '{}' has just ended", app.name))?;
            targets.push((target, places));
        }
        match targets.is_empty() {
            true => Err(format!(
                "no app that runs has a stream '{name}': define it in one"
            )),
            false => Ok(OpenStreams { targets }),
        }
    }
}

impl OpenStreams {
    /// Waits until the apps have taken so many rows. They have the time of now.
    ///
    /// Must run where it may block, on a thread of a tokio runtime.
    ///
    /// # Errors
    /// Not all are known to be taken: which app, and why.
    pub fn send(&self, columns: &[Column], rows: usize) -> Result<(), String> {
        let until = Instant::now() + SEND_MAX;
        let now = clock::wall_millis();
        for (target, places) in &self.targets {
            let mut batches = Vec::with_capacity(rows.div_ceil(BATCH_ROWS_MAX));
            for start in (0..rows).step_by(BATCH_ROWS_MAX) {
                let len = BATCH_ROWS_MAX.min(rows - start);
                let own = places.iter().map(|at| columns[*at].slice(start, len));
                batches.push(Batch::new(
                    own.collect(),
                    len,
                    Times::per_row(vec![now; len]),
                    Chunks::EachRow,
                    engine::UNSTAMPED,
                ));
            }
            let sending = target.send(batches, until);
            let (_, unsent) = tokio::runtime::Handle::current().block_on(sending);
            let app = target.app();
            return Err(match unsent {
                None => continue,
                Some(Unsent::Full) => {
                    format!("app '{app}' has been full for {} s", SEND_MAX.as_secs())
                }
                Some(Unsent::Gone) => format!("app '{app}' has ended, or is being reloaded"),
                Some(Unsent::Late) => {
                    format!("app '{app}' has not saved them in {} s", SEND_MAX.as_secs())
                }
            });
        }
        Ok(())
    }
}
