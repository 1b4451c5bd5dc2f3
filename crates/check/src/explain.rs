//! The plan of an app as text: what comes in, who receives it in which order, where it goes, what
//! is kept, and what does not run yet.
//!
//! Promises: order is that of the plan, so that two runs give the same text. Never: how the engine
//! runs it; that is added by whoever knows.

use event::Schema;

use lang::ast::{EventType, JoinKind, JoinTrigger, RateKind};
use plan::spec::ConnectorKind;
use plan::text::{Names, call, expr, handlers, millis, pattern, shortened, source};
use plan::{
    Async, Expr, From, Input, Join, OnError, Output, PartitionBy, Plan, Query, QueryId, RateEvery,
    Selector, Single, Store, Stream, StreamId, StreamKind, Transport, TriggerAt,
};

use crate::Catalog;
use crate::secret;

macro_rules! put {
    ($out:expr, $($arg:tt)*) => { $out.push_str(&format!($($arg)*)) };
}

macro_rules! put_line {
    ($out:expr, $($arg:tt)*) => {{
        $out.push_str(&format!($($arg)*));
        $out.push('\n');
    }};
}

/// The plan of an app for people. The catalog tells which arguments of functions are secrets.
pub fn plan(plan: &Plan, catalog: &Catalog) -> String {
    let mut out = format!("app '{}'\n", plan.name);
    if let Some(playback) = plan.options.playback {
        out.push_str("  clock: that of the events (@app:playback)");
        if let Some((idle, increment)) = playback.idle {
            put!(
                out,
                ", {} more after {} of quiet",
                millis(increment),
                millis(idle)
            );
        }
        out.push('\n');
    }
    if plan.options.compat {
        out.push_str("  defects of Siddhi 5.1 are reproduced (@app:compat)\n");
    }
    section(&mut out, "streams", plan.streams.len());
    for (id, stream) in plan.streams.iter().enumerate() {
        self::stream(&mut out, plan, id, stream, catalog);
    }
    section(&mut out, "tables", plan.tables.len());
    for table in &plan.tables {
        put_line!(out, "  {}", signature(&table.schema));
        if !table.primary_key.is_empty() {
            put_line!(
                out,
                "    primary key {}",
                names(&table.schema, &table.primary_key)
            );
        }
        for index in &table.indexes {
            put_line!(out, "    index {}", names(&table.schema, index));
        }
        match &table.store {
            Some(store) => self::store(&mut out, store, catalog),
            None => out.push_str("    kept in memory\n"),
        }
    }
    section(&mut out, "named windows", plan.windows.len());
    for window in &plan.windows {
        let inputs = [(window.schema.name.as_str(), &window.schema)];
        let call = call(
            &window.window.name,
            &window.window.args,
            &Names::new(plan, &inputs),
        );
        put_line!(out, "  {}", signature(&window.schema));
        put_line!(out, "    {call}, gives {}", events(window.output));
    }
    section(&mut out, "aggregations", plan.aggregations.len());
    for aggregation in &plan.aggregations {
        let schema = Schema {
            name: aggregation.name.clone(),
            ..aggregation.schema.clone()
        };
        put_line!(out, "  {}", signature(&schema));
        put_line!(out, "    from {}", single(plan, &aggregation.input, None));
        let durations: Vec<String> = aggregation
            .durations
            .iter()
            .map(|d| format!("{d:?}").to_lowercase())
            .collect();
        put_line!(out, "    every {}", durations.join(", "));
        if let Some(store) = &aggregation.store {
            self::store(&mut out, store, catalog);
        }
    }
    section(&mut out, "triggers", plan.triggers.len());
    for trigger in &plan.triggers {
        let at = match &trigger.at {
            TriggerAt::Start => "at start".to_owned(),
            TriggerAt::EveryMillis(period) => format!("every {}", millis(*period)),
            TriggerAt::Cron(cron) => format!("by cron '{cron}'"),
        };
        put_line!(out, "  {} {at}", trigger.name);
    }
    section(&mut out, "script functions", plan.functions.len());
    for function in &plan.functions {
        put_line!(
            out,
            "  {}[{}] -> {}",
            function.name,
            function.language,
            function.returns
        );
    }
    section(&mut out, "queries", plan.elements.len());
    for element in &plan.elements {
        match element {
            plan::Element::Query(id) => query(&mut out, plan, *id, "  "),
            plan::Element::Partition(id) => partition(&mut out, plan, *id),
        }
    }
    section(&mut out, "does not run yet", plan.not_runnable.len());
    let mut said: Vec<&str> = Vec::new();
    for (what, _) in &plan.not_runnable {
        if !said.contains(&what.as_str()) {
            said.push(what);
            let times = plan.not_runnable.iter().filter(|(w, _)| w == what).count();
            match times {
                1 => put_line!(out, "  {what}"),
                _ => put_line!(out, "  {what} ({times} times)"),
            };
        }
    }
    out
}

fn section(out: &mut String, title: &str, count: usize) {
    if count > 0 {
        put!(out, "\n{title}\n");
    }
}

// ---- streams ----

fn stream(out: &mut String, plan: &Plan, id: StreamId, stream: &Stream, catalog: &Catalog) {
    let how = match (stream.is_defined, stream.kind) {
        (_, StreamKind::Inner(_)) => " inside its partition",
        (_, StreamKind::Fault(_)) => " of failed events",
        (_, StreamKind::Trigger) => " of a trigger",
        (true, StreamKind::Plain) => "",
        (false, StreamKind::Plain) => " made by the first insert",
    };
    let schema = Schema {
        name: stream.display_name(),
        ..stream.schema.clone()
    };
    put_line!(out, "  {}{how}", signature(&schema));
    if let Some(Async {
        workers,
        batch_size_max,
        ..
    }) = stream.deferred
    {
        put!(out, "    deferred, {workers} workers");
        if let Some(max) = batch_size_max {
            put!(out, ", at most {max} rows at a time");
        }
        out.push('\n');
    }
    for source in &stream.sources {
        put_line!(out, "    in: {}", transport(source, catalog));
        explained(out, source, ConnectorKind::Source, catalog);
    }
    let receivers = receivers(plan, id);
    if !receivers.is_empty() {
        put_line!(out, "    received by {}", receivers.join(", "));
    }
    for sink in &stream.sinks {
        put_line!(out, "    out: {}", transport(sink, catalog));
        explained(out, sink, ConnectorKind::Sink, catalog);
    }
    match stream.on_error {
        OnError::Log => {}
        OnError::Stream(fault) => {
            let name = plan
                .streams
                .get(fault)
                .map_or_else(String::new, Stream::display_name);
            put_line!(out, "    failed events go to {name}");
        }
        OnError::Store => out.push_str("    failed events are kept\n"),
    }
}

/// What a connector says of its options.
fn explained(out: &mut String, transport: &Transport, kind: ConnectorKind, catalog: &Catalog) {
    let spec = catalog.connector(kind, &transport.ty);
    if let Some(said) = spec.and_then(|spec| spec.explains?(transport)) {
        put_line!(out, "      {said}");
    }
}

/// Who gets the chunks of a stream, in order: aggregations, then queries and partitions.
pub fn receivers(plan: &Plan, id: StreamId) -> Vec<String> {
    let mut found: Vec<String> = plan
        .aggregations
        .iter()
        .filter(|a| a.input.from == From::Stream(id))
        .map(|a| a.name.clone())
        .collect();
    for element in &plan.elements {
        match element {
            plan::Element::Query(query) => {
                if reads(&plan.queries[*query], id) {
                    found.push(plan.queries[*query].name.clone());
                }
            }
            plan::Element::Partition(partition) => {
                let partition = &plan.partitions[*partition];
                let inside: Vec<&str> = partition
                    .queries
                    .iter()
                    .map(|q| &plan.queries[*q])
                    .filter(|q| reads(q, id))
                    .map(|q| q.name.as_str())
                    .collect();
                if !inside.is_empty() {
                    found.push(format!("{} ({})", partition.name, inside.join(", ")));
                }
            }
        }
    }
    found
}

fn reads(query: &Query, id: StreamId) -> bool {
    match &query.input {
        Input::Single(single) => single.from == From::Stream(id),
        Input::Join(join) => [join.left.from, join.right.from].contains(&From::Stream(id)),
        Input::Pattern(pattern) => pattern
            .references
            .iter()
            .any(|r| r.from == From::Stream(id)),
    }
}

fn transport(transport: &Transport, catalog: &Catalog) -> String {
    let mut text = transport.ty.clone();
    text.push_str(&options(&transport.options, catalog));
    put!(text, ", mapped by {}", transport.map.ty);
    if let Some(distribution) = &transport.distribution {
        put!(
            text,
            ", {} over {} destinations",
            distribution.strategy,
            distribution.destinations.len()
        );
    }
    text
}

/// ` (k='v', …)`; secrets are not for reading.
fn options(options: &[(String, String)], catalog: &Catalog) -> String {
    let shown: Vec<String> = options
        .iter()
        .map(|(key, value)| match secret::is_secret(key) {
            true => format!("{key}=…"),
            false => format!("{key}='{}'", shortened(&secret::hidden(value, catalog))),
        })
        .collect();
    match shown.as_slice() {
        [] => String::new(),
        shown => format!(" ({})", shown.join(", ")),
    }
}

fn store(out: &mut String, store: &Store, catalog: &Catalog) {
    put!(out, "    kept by {}", store.ty);
    out.push_str(&options(&store.options, catalog));
    if store.cache.is_some() {
        out.push_str(", with a cache");
    }
    out.push('\n');
}

fn signature(schema: &Schema) -> String {
    let attributes: Vec<String> = schema
        .attributes
        .iter()
        .map(|a| format!("{} {}", a.name, a.ty))
        .collect();
    format!("{} ({})", schema.name, attributes.join(", "))
}

fn names(schema: &Schema, attributes: &[usize]) -> String {
    let names: Vec<&str> = attributes
        .iter()
        .filter_map(|a| schema.attributes.get(*a))
        .map(|a| a.name.as_str())
        .collect();
    names.join(", ")
}

// ---- queries ----

fn partition(out: &mut String, plan: &Plan, id: usize) {
    let partition = &plan.partitions[id];
    put_line!(out, "  {}: for each", partition.name);
    for key in &partition.keys {
        let inputs = [("", plan.schema_of(key.from))];
        let inputs = Names::new(plan, &inputs);
        let by = match &key.by {
            PartitionBy::Value(value) => expr(value, &inputs),
            PartitionBy::Ranges(ranges) => ranges
                .iter()
                .map(|(condition, name)| format!("'{name}' where {}", expr(condition, &inputs)))
                .collect::<Vec<_>>()
                .join(" or "),
        };
        put_line!(out, "    {by} of {}", source(plan, key.from));
    }
    for query in &partition.queries {
        self::query(out, plan, *query, "    ");
    }
}

fn query(out: &mut String, plan: &Plan, id: QueryId, indent: &str) {
    let query = &plan.queries[id];
    put_line!(out, "{indent}{}", query.name);
    let mut line = |text: String| {
        put_line!(out, "{indent}  {text}");
    };
    let inputs: Vec<(&str, &Schema)> = match &query.input {
        Input::Single(single) => vec![("", &single.schema)],
        Input::Join(join) => vec![
            (join.left.schema.name.as_str(), &join.left.schema),
            (join.right.schema.name.as_str(), &join.right.schema),
        ],
        Input::Pattern(pattern) => pattern
            .references
            .iter()
            .map(|r| (r.name.as_str(), &r.schema))
            .collect(),
    };
    let inputs = Names {
        output: Some(&query.selector.schema),
        ..Names::new(plan, &inputs)
    };
    match &query.input {
        Input::Single(single) => line(format!("from {}", self::single(plan, single, None))),
        Input::Join(join) => line(self::join(plan, join, &inputs)),
        Input::Pattern(pattern) => line(self::pattern(pattern, &inputs)),
    }
    selector(&query.selector, &inputs)
        .into_iter()
        .for_each(&mut line);
    if let Some(rate) = query.rate {
        let kind = match rate.kind {
            RateKind::All => "all",
            RateKind::First => "the first",
            RateKind::Last => "the last",
            RateKind::Snapshot => "a snapshot",
        };
        line(match rate.every {
            RateEvery::Events(n) => format!("lets out {kind} of every {n} events"),
            RateEvery::Millis(every) => format!("lets out {kind} every {}", millis(every)),
        });
    }
    line(output(plan, query));
}

fn single(plan: &Plan, single: &Single, label: Option<&str>) -> String {
    let inputs = [("", &single.schema)];
    let inputs = Names::new(plan, &inputs);
    let mut text = source(plan, single.from);
    if let Some(label) = label {
        text = format!("{label} = {text}");
    }
    handlers(&mut text, &single.handlers, &inputs);
    text
}

fn join(plan: &Plan, join: &Join, inputs: &Names) -> String {
    let kind = match join.kind {
        JoinKind::Inner => "join",
        JoinKind::LeftOuter => "left outer join",
        JoinKind::RightOuter => "right outer join",
        JoinKind::FullOuter => "full outer join",
    };
    let started = match join.trigger {
        JoinTrigger::Both => "",
        JoinTrigger::Left => ", started by the left side",
        JoinTrigger::Right => ", started by the right side",
    };
    let mut text = format!(
        "from {} {kind} {}{started}",
        single(plan, &join.left, None),
        single(plan, &join.right, None)
    );
    if let Some(on) = &join.on {
        put!(text, " on {}", expr(on, inputs));
    }
    if let Some((start, end)) = &join.within {
        put!(text, " within {}", expr(start, inputs));
        if let Some(end) = end {
            put!(text, ", {}", expr(end, inputs));
        }
    }
    if let Some(per) = &join.per {
        put!(text, " per {}", expr(per, inputs));
    }
    text
}

fn selector(selector: &Selector, inputs: &Names) -> Vec<String> {
    let items: Vec<String> = selector
        .items
        .iter()
        .map(|(value, name)| {
            let text = expr(value, inputs);
            if text == *name {
                text
            } else {
                format!("{text} as {name}")
            }
        })
        .collect();
    let mut lines = vec![format!("select {}", items.join(", "))];
    let list = |list: &[Expr]| {
        list.iter()
            .map(|e| expr(e, inputs))
            .collect::<Vec<_>>()
            .join(", ")
    };
    if !selector.group_by.is_empty() {
        lines.push(format!("group by {}", list(&selector.group_by)));
    }
    if let Some(having) = &selector.having {
        lines.push(format!("having {}", expr(having, inputs)));
    }
    if !selector.order_by.is_empty() {
        let keys: Vec<String> = selector
            .order_by
            .iter()
            .map(|(key, down)| format!("{}{}", expr(key, inputs), if *down { " desc" } else { "" }))
            .collect();
        lines.push(format!("order by {}", keys.join(", ")));
    }
    if let Some(limit) = selector.limit {
        lines.push(format!("limit {limit}"));
    }
    if let Some(offset) = selector.offset {
        lines.push(format!("offset {offset}"));
    }
    lines
}

fn events(events: EventType) -> &'static str {
    match events {
        EventType::Current => "current events",
        EventType::Expired => "expired events",
        EventType::All => "all events",
    }
}

fn output(plan: &Plan, query: &Query) -> String {
    let kind = match query.events {
        EventType::Current => String::new(),
        other => format!("{} ", events(other)),
    };
    let table = |id: usize| &plan.tables[id].schema;
    let write = |what: &str, id: usize, set: &[(usize, Expr)], on: &Expr| {
        let inputs = [
            ("", &query.selector.schema),
            (table(id).name.as_str(), table(id)),
        ];
        let inputs = Names::new(plan, &inputs);
        let mut text = format!("{kind}{what} table {}", table(id).name);
        for (i, (attribute, value)) in set.iter().enumerate() {
            let name = table(id)
                .attributes
                .get(*attribute)
                .map_or("", |a| a.name.as_str());
            let lead = if i == 0 { " set" } else { "," };
            put!(text, "{lead} {name} = {}", expr(value, &inputs));
        }
        put!(text, " on {}", expr(on, &inputs));
        text
    };
    match &query.output {
        Output::Stream(id) => format!("insert {kind}into {}", plan.streams[*id].display_name()),
        Output::Table(id) => format!("insert {kind}into table {}", table(*id).name),
        Output::Window(id) => format!("insert {kind}into window {}", plan.windows[*id].schema.name),
        Output::Delete { table, on } => write("delete from", *table, &[], on),
        Output::Update { table, set, on } => write("update", *table, set, on),
        Output::UpdateOrInsert { table, set, on } => {
            write("update or insert into", *table, set, on)
        }
        Output::Return => format!("return {kind}to callbacks"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CheckConfig, check};

    #[test]
    fn a_plan_for_people() {
        let app = "@app:name('Shop') @app:playback
            @async(buffer.size='64', batch.size.max='100')
            @source(type='inMemory', topic='in')
            define stream Orders (id int, item string, price double);
            @PrimaryKey('item') define table Stock (item string, left int);
            @sink(type='log') define stream Sold (item string, total double);
            @info(name='stock')
            from Orders[price > 1.0 and (id + 1) * 2 > 4] join Stock on Orders.item == Stock.item
            select id, Orders.item as item, price insert into Known;
            partition with (item of Known) begin
              @info(name='sum') from Known#window.length(5)
              select item, sum(price) as total group by item having total > 5.0
              order by total desc limit 3 insert into Sold;
            end;
            from Known[(Stock.item == item) in Stock] select item, id as left
            update Stock set Stock.left = Stock.left - 1 on Stock.item == item;";
        let parsed = lang::parse(app);
        let catalog = crate::testing::catalog();
        let checked = check(&parsed.app, &catalog, &CheckConfig::default());
        let mut made = checked.plan.expect("the app is right");
        made.not_runnable
            .retain(|(what, _)| !what.starts_with('\''));
        let text = plan(&made, &catalog);
        let expected = "\
app 'Shop'
  clock: that of the events (@app:playback)

streams
  Orders (id int, item string, price double)
    deferred, 1 workers, at most 100 rows at a time
    in: inMemory (topic='in'), mapped by passThrough
    received by stock
  Sold (item string, total double)
    out: log, mapped by passThrough
  Known (id int, item string, price double) made by the first insert
    received by partition_1 (sum), query_3

tables
  Stock (item string, left int)
    primary key item
    kept in memory

queries
  stock
    from Orders [price > 1.0 and (id + 1) * 2 > 4] join table Stock on Orders.item == Stock.item
    select Orders.id as id, Orders.item as item, Orders.price as price
    insert into Known
  partition_1: for each
    item of Known
    sum
      from Known #window.length(5)
      select item, sum(price) as total
      group by item
      having total > 5.0
      order by total desc
      limit 3
      insert into Sold
  query_3
    from Known [(Stock.item == item) in Stock]
    select item, id as left
    update table Stock set left = Stock.left - 1 on Stock.item == item
";
        assert_eq!(text, expected);
    }
}
