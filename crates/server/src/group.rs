//! Which apps run on one executor and are saved together: those linked by an in-memory topic or by a
//! database.

use std::collections::HashMap;
use std::sync::Arc;

use connect::registry::Registry;
use plan::{Plan, Transport};

/// Apps by group, in the order of the first app of each; within a group in the given order.
pub(crate) fn groups(plans: &[Arc<Plan>], registry: &Registry) -> Vec<Vec<usize>> {
    let mut owner: Vec<usize> = (0..plans.len()).collect();
    let mut by_link: HashMap<String, usize> = HashMap::new();
    for (app, plan) in plans.iter().enumerate() {
        for link in links(plan, registry) {
            let other = *by_link.entry(link).or_insert(app);
            join(&mut owner, app, other);
        }
    }
    link_dynamic_topics(plans, &mut owner);
    let mut groups: Vec<(usize, Vec<usize>)> = Vec::new();
    for app in 0..plans.len() {
        let root = find(&owner, app);
        match groups.iter_mut().find(|(r, _)| *r == root) {
            Some((_, apps)) => apps.push(app),
            None => groups.push((root, vec![app])),
        }
    }
    groups.into_iter().map(|(_, apps)| apps).collect()
}

/// A sink whose topic depends on the event may reach every reader of a topic.
fn link_dynamic_topics(plans: &[Arc<Plan>], owner: &mut [usize]) {
    let is_dynamic = |t: &&Transport| is_topic(t) && t.option("topic").unwrap_or("").contains("{{");
    let sinks = |plan: &Plan| {
        plan.streams
            .iter()
            .flat_map(|s| &s.sinks)
            .any(|t| is_dynamic(&t))
    };
    let reads = |plan: &Plan| plan.streams.iter().flat_map(|s| &s.sources).any(is_topic);
    for writer in (0..plans.len()).filter(|&app| sinks(&plans[app])) {
        for reader in (0..plans.len()).filter(|&app| reads(&plans[app])) {
            join(owner, writer, reader);
        }
    }
}

fn find(owner: &[usize], mut app: usize) -> usize {
    while owner[app] != app {
        app = owner[app];
    }
    app
}

fn join(owner: &mut [usize], a: usize, b: usize) {
    let (a, b) = (find(owner, a), find(owner, b));
    owner[a.max(b)] = a.min(b);
}

/// What an app shares with others, as text that is equal for both.
fn links(plan: &Plan, registry: &Registry) -> Vec<String> {
    let mut links = Vec::new();
    for stream in &plan.streams {
        let all = stream.sources.iter().chain(&stream.sinks);
        for transport in all.filter(|t| is_topic(t)) {
            let topic = transport.option("topic").unwrap_or("");
            links.push(format!("topic {topic}"));
        }
    }
    for table in &plan.tables {
        if let Some(store) = &table.store {
            links.push(format!("store {}", registry.shared_by(table, store)));
        }
    }
    links
}

pub(crate) fn is_topic(transport: &Transport) -> bool {
    transport.ty == "inMemory"
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::Schema;
    use lang::span::Span;
    use plan::{Mapping, OnError, Store, Stream, StreamKind, Table};

    fn transport(topic: &str) -> Transport {
        Transport {
            ty: "inMemory".into(),
            options: vec![("topic".into(), topic.into())],
            map: Mapping {
                ty: "passThrough".into(),
                options: Vec::new(),
                attributes: Vec::new(),
                payload: Vec::new(),
                span: Span::default(),
            },
            distribution: None,
            span: Span::default(),
        }
    }

    fn plan(reads: &[&str], writes: &[&str], url: Option<&str>) -> Arc<Plan> {
        let stream = Stream {
            schema: Schema::default(),
            kind: StreamKind::Plain,
            on_error: OnError::Log,
            deferred: None,
            sources: reads.iter().map(|t| transport(t)).collect(),
            sinks: writes.iter().map(|t| transport(t)).collect(),
            is_defined: true,
            span: Span::default(),
        };
        let table = url.map(|url| Table {
            schema: Schema::default(),
            primary_key: Vec::new(),
            indexes: Vec::new(),
            index_details: Vec::new(),
            store: Some(Store {
                ty: "rdbms".into(),
                options: vec![("jdbc.url".into(), url.into())],
                cache: None,
                selects: true,
                span: Span::default(),
            }),
            span: Span::default(),
        });
        Arc::new(Plan {
            streams: vec![stream],
            tables: table.into_iter().collect(),
            ..Plan::default()
        })
    }

    #[test]
    fn topics_and_databases_link_apps() {
        let plans = [
            plan(&[], &["a"], None),
            plan(&[], &[], Some("jdbc:sqlite:x")),
            plan(&["a"], &["b"], None),
            plan(&[], &[], None),
            plan(&[], &[], Some("jdbc:sqlite:x")),
            plan(&["b"], &[], None),
        ];
        assert_eq!(
            groups(&plans, &Registry::EMPTY),
            [vec![0, 2, 5], vec![1, 4], vec![3]]
        );
    }

    #[test]
    fn two_readers_of_one_topic_run_together_and_others_do_not() {
        let plans = [
            plan(&["a"], &[], None),
            plan(&["b"], &[], None),
            plan(&["a"], &[], None),
        ];
        assert_eq!(groups(&plans, &Registry::EMPTY), [vec![0, 2], vec![1]]);
    }
}
