//! What lies in a state directory, as JSON: the same from a directory and from a running server.

use serde_json::{Value as Json, json};

use super::{Content, GroupSurvey, Survey};
use crate::rejected::{LogContent, Why};
use crate::upkeep::backup::Manifest;

impl Survey {
    /// `{"version":1,"directory":…,"groups":[…],"backups":[…]}`; times are milliseconds since 1970.
    pub fn to_json(&self) -> Json {
        to_json(self)
    }
}

fn to_json(survey: &Survey) -> Json {
    let backups = survey.backups.iter().map(|(name, manifest)| {
        json!({
            "name": name,
            "time": manifest.as_ref().map(|m| m.taken),
            "bytes": manifest.as_ref().map(Manifest::bytes),
            "damaged": manifest.is_none(),
        })
    });
    json!({
        "version": 1,
        "directory": survey.root.display().to_string(),
        "id": survey.id,
        "backup": survey.manifest.as_ref().map(|m| json!({
            "time": m.taken,
            "headwater": m.version,
        })),
        "groups": survey.groups.iter().map(group_json).collect::<Vec<Json>>(),
        "backups": backups.collect::<Vec<Json>>(),
    })
}

fn group_json(group: &GroupSurvey) -> Json {
    let snapshots = group.snapshots.iter().map(|snapshot| {
        json!({
            "epoch": snapshot.epoch,
            "current": group.current == Some(snapshot.epoch),
            "full": snapshot.before == 0,
            "changes_since": (snapshot.before > 0).then_some(snapshot.before),
            "bytes": snapshot.bytes,
            "time": snapshot.saved_at,
        })
    });
    let damage = group
        .damage
        .iter()
        .map(|damage| json!({ "file": damage.path.display().to_string(), "cause": damage.cause }));
    json!({
        "group": group.name,
        "directory": group.path.display().to_string(),
        "apps": group.apps,
        "current": group.current,
        "snapshots": snapshots.collect::<Vec<Json>>(),
        "content": group.content.as_ref().map(content_json),
        "rejected": log_json(&group.rejected),
        "undelivered": log_json(&group.undelivered),
        "damage": damage.collect::<Vec<Json>>(),
        "refused": group.refusal,
    })
}

fn log_json(log: &LogContent) -> Json {
    let missing = |why: Why| -> u64 {
        let missing = log.missing.iter().filter(|m| m.why == why);
        missing.map(|m| m.events).sum()
    };
    json!({
        "events": log.events,
        "bytes": log.bytes,
        "damaged": missing(Why::Damaged),
        "set_aside": missing(Why::SetAside),
        "dropped": missing(Why::Dropped),
    })
}

fn content_json(content: &Content) -> Json {
    let sources = content.sources.iter().map(|source| {
        json!({
            "app": source.app,
            "source": source.key,
            "position": source.position.to_json(),
        })
    });
    let apps = content.apps.iter().map(|app| {
        let elements = app.elements.iter().map(|element| {
            json!({
                "element": element.name,
                "keeps": element.parts,
                "rows": element.rows,
                "bytes": element.bytes,
            })
        });
        json!({
            "app": app.name,
            "bytes": app.bytes,
            "elements": elements.collect::<Vec<Json>>(),
        })
    });
    json!({
        "epoch": content.epoch,
        "sources": sources.collect::<Vec<Json>>(),
        "apps": apps.collect::<Vec<Json>>(),
        "pending_calls": content.pending_calls,
    })
}
