//! Who reads what, and which streams may pass a batch whole.
//!
//! Siddhi hands each chunk to all receivers of a stream, depth first, before the next. Handing a
//! whole batch to the first receiver and then to the second gives the same only if nothing
//! downstream can see both and nothing feeds back: a stream is *lockstep* if the sets of what two of
//! its receivers reach meet, or if a receiver lies on a cycle itself. A cycle further down makes only
//! its own entrance lockstep.

use plan::{
    AggregationId, Element, Expr, ExprKind, From, Handler, Input, OnError, Output, PartitionId,
    Plan, Query, QueryId, Single, StreamId, TableId, WindowId,
};

/// One receiver of a stream, in the order of the text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Receiver {
    /// `side` is 1 for the right side of a join, and the number of the input of a pattern.
    Query { query: QueryId, side: u16 },
    /// The queries of a partition that read the stream, as one.
    Partition(PartitionId),
    /// Comes before all others.
    Aggregation(AggregationId),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Readers {
    pub receivers: Vec<Receiver>,
    /// Why a batch goes through chunk by chunk; `None`: whole.
    pub lockstep: Option<String>,
    /// A deferred stream lies behind this one, and something could see whether its queue is drained
    /// after every chunk or after the batch: it is drained after every chunk.
    pub feeds_deferred: bool,
}

/// Readers of each stream, and for each partition and stream those inside.
pub(crate) struct Graph {
    pub streams: Vec<Readers>,
    pub inside: Vec<Vec<(StreamId, Readers)>>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Node {
    Stream(StreamId),
    Query(QueryId),
    /// A partition seen from one stream.
    Entrance(PartitionId, StreamId),
    Table(TableId),
    Aggregation(AggregationId),
    /// Type and address of a sink.
    Destination(String),
}

struct Edges {
    nodes: Vec<Node>,
    next: Vec<Vec<usize>>,
}

impl Edges {
    fn node(&mut self, node: Node) -> usize {
        if let Some(at) = self.nodes.iter().position(|n| *n == node) {
            return at;
        }
        self.nodes.push(node);
        self.next.push(Vec::new());
        self.nodes.len() - 1
    }

    fn edge(&mut self, from: Node, to: Node) {
        let (from, to) = (self.node(from), self.node(to));
        if !self.next[from].contains(&to) {
            self.next[from].push(to);
        }
    }

    /// Everything behind a node; the node itself only if it lies on a cycle.
    fn behind(&self, from: usize) -> Vec<bool> {
        self.behind_up_to(from, &[])
    }

    /// What is behind a node without going on through `walls`, which are left out themselves.
    fn behind_up_to(&self, from: usize, walls: &[usize]) -> Vec<bool> {
        let mut seen = vec![false; self.nodes.len()];
        let mut open: Vec<usize> = self.next[from].clone();
        while let Some(at) = open.pop() {
            if !walls.contains(&at) && !std::mem::replace(&mut seen[at], true) {
                open.extend(&self.next[at]);
            }
        }
        seen
    }
}

impl Graph {
    pub fn new(plan: &Plan, links: &[(StreamId, StreamId)]) -> Graph {
        let junctions = plan.streams.len() + plan.windows.len();
        let mut streams = vec![Readers::default(); junctions];
        let mut inside: Vec<Vec<(StreamId, Readers)>> = vec![Vec::new(); plan.partitions.len()];
        for (id, aggregation) in plan.aggregations.iter().enumerate() {
            if let From::Stream(stream) = aggregation.input.from {
                streams[stream].receivers.push(Receiver::Aggregation(id));
            }
        }
        for element in &plan.elements {
            match *element {
                Element::Query(query) => {
                    for (stream, side) in streams_of(plan, &plan.queries[query]) {
                        let receiver = Receiver::Query { query, side };
                        streams[stream].receivers.push(receiver);
                    }
                }
                Element::Partition(partition) => {
                    for &query in &plan.partitions[partition].queries {
                        for (stream, side) in streams_of(plan, &plan.queries[query]) {
                            let all = &mut inside[partition];
                            let at = all.iter().position(|(s, _)| *s == stream);
                            let at = at.unwrap_or_else(|| {
                                all.push((stream, Readers::default()));
                                if !is_inner(plan, stream) {
                                    let receiver = Receiver::Partition(partition);
                                    streams[stream].receivers.push(receiver);
                                }
                                all.len() - 1
                            });
                            let receiver = Receiver::Query { query, side };
                            all[at].1.receivers.push(receiver);
                        }
                    }
                }
            }
        }
        // Inner streams are delivered inside their partition.
        for all in &mut inside {
            for (stream, readers) in all.iter().filter(|(s, _)| is_inner(plan, *s)) {
                streams[*stream].receivers.clone_from(&readers.receivers);
            }
            all.retain(|(s, _)| !is_inner(plan, *s));
        }
        let mut graph = Graph { streams, inside };
        let mut edges = graph.edges(plan);
        for &(from, to) in links {
            edges.edge(Node::Stream(from), Node::Stream(to));
        }
        graph.judge(plan, &edges);
        graph
    }

    fn edges(&self, plan: &Plan) -> Edges {
        let mut edges = Edges {
            nodes: Vec::new(),
            next: Vec::new(),
        };
        for (stream, readers) in self.streams.iter().enumerate() {
            edges.node(Node::Stream(stream));
            for receiver in &readers.receivers {
                edges.edge(Node::Stream(stream), node_of(*receiver, stream));
            }
            for destination in destinations(plan, stream) {
                edges.edge(Node::Stream(stream), Node::Destination(destination));
            }
        }
        for (partition, entrances) in self.inside.iter().enumerate() {
            for (stream, readers) in entrances {
                for receiver in &readers.receivers {
                    let entrance = Node::Entrance(partition, *stream);
                    edges.edge(entrance, node_of(*receiver, *stream));
                }
            }
        }
        for (id, aggregation) in plan.aggregations.iter().enumerate() {
            for &table in &aggregation.tables {
                edges.edge(Node::Aggregation(id), Node::Table(table));
            }
        }
        for (id, query) in plan.queries.iter().enumerate() {
            let own = Node::Query(id);
            if let Input::Join(join) = &query.input {
                for single in [&join.left, &join.right] {
                    if let From::Aggregation(aggregation) = single.from {
                        edges.edge(Node::Aggregation(aggregation), own.clone());
                    }
                }
            }
            match &query.output {
                Output::Stream(stream) => edges.edge(own.clone(), Node::Stream(*stream)),
                Output::Table(table)
                | Output::Delete { table, .. }
                | Output::Update { table, .. }
                | Output::UpdateOrInsert { table, .. } => {
                    edges.edge(own.clone(), Node::Table(*table));
                }
                Output::Window(window) => {
                    let junction = plan.junction_of(*window);
                    edges.edge(own.clone(), Node::Stream(junction));
                }
                Output::Return => {}
            }
            for window in windows_searched(query) {
                edges.edge(Node::Stream(plan.junction_of(window)), own.clone());
            }
            for table in tables_read(query) {
                edges.edge(Node::Table(table), own.clone());
            }
            for (stream, _) in streams_of(plan, query) {
                if let Some(source) = plan.streams.get(stream)
                    && let OnError::Stream(fault) = source.on_error
                {
                    edges.edge(own.clone(), Node::Stream(fault));
                }
            }
        }
        edges
    }

    fn judge(&mut self, plan: &Plan, edges: &Edges) {
        let at = |node: &Node| edges.nodes.iter().position(|n| n == node);
        for stream in 0..self.streams.len() {
            let own = at(&Node::Stream(stream)).expect("every stream is a node");
            let mut receivers: Vec<usize> = edges.next[own].clone();
            receivers.dedup();
            self.streams[stream].lockstep =
                lockstep(plan, edges, &receivers).or_else(|| self.searches_source(plan, stream));
            let behind = edges.behind(own);
            let deferred: Vec<usize> = (0..plan.streams.len())
                .filter(|&other| plan.streams[other].deferred.is_some())
                .filter_map(|other| at(&Node::Stream(other)))
                .filter(|&node| behind[node])
                .collect();
            self.streams[stream].feeds_deferred = is_drain_visible(edges, own, &deferred);
        }
        for (partition, entrances) in self.inside.iter_mut().enumerate() {
            for (stream, readers) in entrances {
                let own = at(&Node::Entrance(partition, *stream));
                let receivers = own.map_or_else(Vec::new, |own| edges.next[own].clone());
                readers.lockstep = lockstep(plan, edges, &receivers);
            }
        }
    }
}

impl Graph {
    /// A query reads a named window and looks into it: it must find what the window held when the
    /// chunk at hand came out of it.
    fn searches_source(&self, plan: &Plan, stream: StreamId) -> Option<String> {
        let window = stream.checked_sub(plan.streams.len())?;
        let own = self.streams[stream].receivers.iter();
        let inside = self.inside.iter().flatten();
        let inside = inside.filter(|(s, _)| *s == stream);
        let all = own.chain(inside.flat_map(|(_, readers)| &readers.receivers));
        all.filter_map(|receiver| match *receiver {
            Receiver::Query { query, .. } => Some(&plan.queries[query]),
            Receiver::Partition(_) | Receiver::Aggregation(_) => None,
        })
        .find(|query| windows_searched(query).contains(&window))
        .map(|query| format!("query '{}' looks into what it reads", query.name))
    }
}

/// Can anything behind `own` tell a drain after every chunk from one after the batch? Only where
/// what lies behind a deferred stream meets itself, another deferred stream's part, or what is
/// reached on the way there.
fn is_drain_visible(edges: &Edges, own: usize, deferred: &[usize]) -> bool {
    let mut reached = edges.behind_up_to(own, deferred);
    for &node in deferred {
        let mut behind = edges.behind(node);
        let is_on_cycle = std::mem::replace(&mut behind[node], true);
        let nodes = behind.iter().enumerate().filter(|(_, b)| **b);
        for (at, _) in nodes {
            if is_on_cycle || std::mem::replace(&mut reached[at], true) {
                return true;
            }
        }
    }
    false
}

fn lockstep(plan: &Plan, edges: &Edges, receivers: &[usize]) -> Option<String> {
    let mut reached_by: Vec<Option<usize>> = vec![None; edges.nodes.len()];
    for &receiver in receivers {
        let mut behind = edges.behind(receiver);
        if behind[receiver] {
            let name = describe(plan, &edges.nodes[receiver]);
            return Some(format!("{name} feeds back into itself"));
        }
        behind[receiver] = true;
        for (node, _) in behind.iter().enumerate().filter(|(_, b)| **b) {
            if let Some(other) = reached_by[node].replace(receiver)
                && other != receiver
            {
                return Some(format!(
                    "{} and {} meet at {}",
                    describe(plan, &edges.nodes[other]),
                    describe(plan, &edges.nodes[receiver]),
                    describe(plan, &edges.nodes[node]),
                ));
            }
        }
    }
    None
}

fn describe(plan: &Plan, node: &Node) -> String {
    match node {
        Node::Stream(s) => match plan.streams.get(*s) {
            Some(stream) => format!("stream '{}'", stream.display_name()),
            None => format!("window '{}'", plan.junction_name(*s)),
        },
        Node::Query(q) => format!("query '{}'", plan.queries[*q].name),
        Node::Entrance(p, _) => format!("partition '{}'", plan.partitions[*p].name),
        Node::Table(t) => format!("table '{}'", plan.tables[*t].schema.name),
        Node::Aggregation(a) => format!("aggregation '{}'", plan.aggregations[*a].name),
        Node::Destination(name) => format!("sink '{name}'"),
    }
}

fn node_of(receiver: Receiver, stream: StreamId) -> Node {
    match receiver {
        Receiver::Query { query, .. } => Node::Query(query),
        Receiver::Partition(partition) => Node::Entrance(partition, stream),
        Receiver::Aggregation(aggregation) => Node::Aggregation(aggregation),
    }
}

fn is_inner(plan: &Plan, stream: StreamId) -> bool {
    let stream = plan.streams.get(stream);
    stream.is_some_and(|s| matches!(s.kind, plan::StreamKind::Inner(_)))
}

/// Streams and junctions of named windows that a query reads, each with its side.
pub(crate) fn streams_of(plan: &Plan, query: &Query) -> Vec<(StreamId, u16)> {
    let of = |single: &Single, side| Some((plan.junction_read(single.from)?, side));
    match &query.input {
        Input::Single(single) => of(single, 0).into_iter().collect(),
        Input::Join(join) => {
            // In a partition a named window is looked into and never triggers (Siddhi's
            // `PartitionRuntimeImpl` subscribes to streams alone).
            let is_mute = |single: &Single| {
                query.partition.is_some() && matches!(single.from, From::Window(_))
            };
            let side = |single, side| of(single, side).filter(|_| !is_mute(single));
            let both = [side(&join.left, 0), side(&join.right, 1)];
            // A stream joined with itself is one receiver: left, then right, row by row.
            match both {
                [Some((a, _)), Some((b, _))] if a == b => vec![(a, 0)],
                both => both.into_iter().flatten().collect(),
            }
        }
        Input::Pattern(pattern) => {
            let inputs = crate::pattern::inputs(pattern).into_iter().enumerate();
            inputs
                .filter_map(|(number, from)| Some((plan.junction_read(from)?, number as u16)))
                .collect()
        }
    }
}

/// Named windows that a query looks into.
fn windows_searched(query: &Query) -> Vec<WindowId> {
    let Input::Join(join) = &query.input else {
        return Vec::new();
    };
    let sides = [join.left.from, join.right.from].into_iter();
    let windows = sides.filter_map(|from| match from {
        From::Window(window) => Some(window),
        From::Stream(_) | From::Table(_) | From::Aggregation(_) => None,
    });
    windows.collect()
}

/// Tables that a query looks into.
fn tables_read(query: &Query) -> Vec<TableId> {
    let mut tables = Vec::new();
    let singles: Vec<&Single> = match &query.input {
        Input::Single(single) => vec![single],
        Input::Join(join) => vec![&join.left, &join.right],
        Input::Pattern(_) => Vec::new(),
    };
    for single in singles {
        if let From::Table(table) = single.from {
            tables.push(table);
        }
        probed_by(&single.handlers, &mut tables);
    }
    if let Input::Pattern(pattern) = &query.input {
        for reference in &pattern.references {
            probed_by(&reference.handlers, &mut tables);
        }
    }
    let selector = &query.selector;
    selector
        .items
        .iter()
        .for_each(|(e, _)| probes(e, &mut tables));
    selector.having.iter().for_each(|e| probes(e, &mut tables));
    tables
}

fn probed_by(handlers: &[Handler], tables: &mut Vec<TableId>) {
    for handler in handlers {
        match handler {
            Handler::Filter(expr) => probes(expr, tables),
            Handler::Function(call) => call.args.iter().for_each(|a| probes(a, tables)),
            Handler::Window(call) => call.args.iter().for_each(|a| probes(a, tables)),
        }
    }
}

fn probes(expr: &Expr, tables: &mut Vec<TableId>) {
    match &expr.kind {
        ExprKind::In {
            condition, table, ..
        } => {
            tables.push(*table);
            probes(condition, tables);
        }
        ExprKind::Arithmetic(_, a, b)
        | ExprKind::Compare(_, a, b)
        | ExprKind::And(a, b)
        | ExprKind::Or(a, b) => {
            probes(a, tables);
            probes(b, tables);
        }
        ExprKind::Not(a) | ExprKind::IsNull(a) => probes(a, tables),
        ExprKind::Call { args, .. }
        | ExprKind::Script { args, .. }
        | ExprKind::Aggregate { args, .. } => args.iter().for_each(|a| probes(a, tables)),
        ExprKind::Constant(_) | ExprKind::Attribute { .. } | ExprKind::IsNoEvent { .. } => {}
    }
}

/// Where the sinks of a stream write; two streams of one destination must interleave. `log` is none.
fn destinations(plan: &Plan, stream: StreamId) -> Vec<String> {
    const ADDRESSES: [&str; 8] = [
        "topic",
        "file.uri",
        "publisher.url",
        "url",
        "destination",
        "queue",
        "receiver.url",
        "to",
    ];
    let sinks = plan.streams.get(stream).map(|s| s.sinks.iter());
    sinks
        .into_iter()
        .flatten()
        .filter(|sink| !sink.ty.eq_ignore_ascii_case("log"))
        .map(|sink| {
            let address = ADDRESSES.iter().find_map(|name| sink.option(name));
            format!("{}:{}", sink.ty, address.unwrap_or(""))
        })
        .collect()
}
