//! Warnings for apps that Siddhi 5.1 runs with another output: the defects that Headwater mends, as
//! far as they can be seen in the text of an app. The numbers are those of `COMPAT.md`.
//!
//! Promises: no warning where the output is the same, whatever the events; none for what
//! `@app:compat('siddhi-5.1')` brings back when the app has it. Never: a warning for what only
//! failed in Siddhi, since nobody can lean on that.

use crate::Checker;
use crate::codes::check as code;
use crate::index_rulings::{RowConditions, TABLE_ROW};
use crate::report::warning;
use lang::ast::{
    Annotation, App, BinaryOp, Call, Element, EventType, Expr, ExprKind, Handler, Input, JoinInput,
    JoinTrigger, LogicalOp, Output, PatternElement, PatternInput, PatternKind, Query, RateKind,
    Selector, SetItem, SingleInput, StreamName, TableDef,
};
use lang::diagnostic::Kind;
use lang::span::Span;

/// One ruling: its number, what Siddhi does, what Headwater does, and whether the old form is there.
pub(super) struct Ruling {
    code: &'static str,
    number: &'static str,
    label: &'static str,
    siddhi: &'static str,
    headwater: &'static str,
    has_old_form: bool,
}

const BATCHES_IN_JOIN: Ruling = Ruling {
    code: code::RULING_BATCHES_IN_JOIN,
    number: "28",
    label: "searched by the other side",
    siddhi: "a join finds all batches since the start here",
    headwater: "finds the last batch",
    has_old_form: true,
};
const SEQUENCE_COUNT: Ruling = Ruling {
    code: code::RULING_SEQUENCE_COUNT,
    number: "30",
    label: "counts here",
    siddhi: "this count never matches in a sequence",
    headwater: "gathers the events and continues once there are enough",
    has_old_form: true,
};
const EMPTY_COUNT: Ruling = Ruling {
    code: code::RULING_EMPTY_COUNT,
    number: "32",
    label: "may take nothing",
    siddhi: "after a match without this event there is no other match",
    headwater: "begins again after every match",
    has_old_form: true,
};
const LONE_AND: Ruling = Ruling {
    code: code::RULING_LONE_AND,
    number: "33",
    label: "all of the pattern",
    siddhi: "matches whose left side comes last are lost",
    headwater: "has them",
    has_old_form: true,
};
const WITHIN_AT_START: Ruling = Ruling {
    code: code::RULING_WITHIN_AT_START,
    number: "34",
    label: "the first element",
    siddhi: "after this element 'within' expires nothing, or gives matches twice after an expiry",
    headwater: "counts the age from the first event and gives each match once",
    has_old_form: true,
};
const BATCH_PER_KEY: Ruling = Ruling {
    code: code::RULING_BATCH_PER_KEY,
    number: "23",
    label: "in a partition",
    siddhi: "the timer of this window flushes one key, and the others later or never",
    headwater: "flushes every key when its time has come",
    has_old_form: true,
};
const SET_BY_KEY: Ruling = Ruling {
    code: code::RULING_SET_BY_KEY,
    number: "38",
    label: "the condition is the primary key",
    siddhi: "'set' is ignored here and the whole row is replaced by the selected one",
    headwater: "changes what 'set' names",
    has_old_form: true,
};
const HANDLED_AGGREGATION: Ruling = Ruling {
    code: code::RULING_HANDLED_AGGREGATION,
    number: "44",
    label: "in front of the aggregation",
    siddhi: "an aggregation with a filter or function in 'from' receives nothing",
    headwater: "applies it",
    has_old_form: true,
};
const SHARED_BY_GROUPS: Ruling = Ruling {
    code: code::RULING_SHARED_BY_GROUPS,
    number: "55",
    label: "one state for all groups in Siddhi",
    siddhi: "the values of all groups and keys are mixed here",
    headwater: "keeps those of each group apart",
    has_old_form: false,
};
const CONDITION_PER_KEY: Ruling = Ruling {
    code: code::RULING_CONDITION_PER_KEY,
    number: "70",
    label: "in a partition",
    siddhi: "the condition of this window has one state for all keys",
    headwater: "has one for each key",
    has_old_form: false,
};
const RUNNING_BUCKET: Ruling = Ruling {
    code: code::RULING_RUNNING_BUCKET,
    number: "71",
    label: "an aggregation, in a partition",
    siddhi: "the bucket that is being filled is not found here, and an empty one may be",
    headwater: "finds it",
    has_old_form: true,
};
const SHARED_ABSENCE: Ruling = Ruling {
    code: code::RULING_SHARED_ABSENCE,
    number: "72",
    label: "reads the stream of the last element",
    siddhi: "an event that ends several matches gives only the first of them",
    headwater: "gives them all",
    has_old_form: false,
};
const KEY_CHANGED: Ruling = Ruling {
    code: code::RULING_KEY_CHANGED,
    number: "73",
    label: "may change one of several primary keys",
    siddhi: "a row stays under its old keys here, and is not deleted any more",
    headwater: "moves it to its new ones",
    has_old_form: false,
};
const SET_BY_ROW: Ruling = Ruling {
    code: code::RULING_SET_BY_ROW,
    number: "74",
    label: "reads the row of a table with a key or an index",
    siddhi: "the row's attributes are null here",
    headwater: "gives their values",
    has_old_form: true,
};

const SEARCHED_STAYS: Ruling = Ruling {
    code: code::RULING_SEARCHED_STAYS,
    number: "79",
    label: "searched by the other side",
    siddhi: "events that a join has looked through here never expire",
    headwater: "lets them expire with their batch",
    has_old_form: true,
};
pub(super) const FOUND_AND_KEPT: Ruling = Ruling {
    code: code::RULING_FOUND_AND_KEPT,
    number: "80",
    label: "asks for an index and for what has none",
    siddhi: "such a condition deletes no row",
    headwater: "deletes the rows that satisfy it",
    has_old_form: true,
};
const LOST_END: Ruling = Ruling {
    code: code::RULING_LOST_END,
    number: "82",
    label: "may delete the last row and leave others",
    siddhi: "rows that are inserted after that are lost",
    headwater: "keeps them",
    has_old_form: false,
};
const STAYS_IN_PICTURE: Ruling = Ruling {
    code: code::RULING_STAYS_IN_PICTURE,
    number: "83",
    label: "compared with what it was when the row came",
    siddhi: "rows stay in the snapshot once they have left the window",
    headwater: "takes them out",
    has_old_form: true,
};
pub(super) const PROBED_BACKWARDS: Ruling = Ruling {
    code: code::RULING_PROBED_BACKWARDS,
    number: "81",
    label: "compares a key or an index",
    siddhi: "'<=' is looked for as '>=' here, and the other way round",
    headwater: "evaluates the condition as written",
    has_old_form: true,
};
pub(super) const UNTIMED_LOOKUP: Ruling = Ruling {
    code: code::RULING_UNTIMED_LOOKUP,
    number: "78",
    label: "where rows are looked up",
    siddhi: "this is always -1",
    headwater: "gives the time of the event",
    has_old_form: true,
};
pub(super) const RETENTION_KEPT: Ruling = Ruling {
    code: code::RULING_RETENTION_KEPT,
    number: "77",
    label: "its next longer duration is not aggregated",
    siddhi: "rows of this duration are kept for ever, or as long as those of the shorter one",
    headwater: "deletes them when the period is over",
    has_old_form: true,
};

impl Checker<'_> {
    /// Looks at a whole app.
    pub(super) fn rulings(&mut self, app: &App) {
        let tables: Vec<&TableDef> = app
            .elements
            .iter()
            .filter_map(|e| match e {
                Element::Table(table) => Some(table),
                _ => None,
            })
            .collect();
        for element in &app.elements {
            match element {
                Element::Query(query) => self.ruled_query(query, &tables, false),
                Element::Partition(partition) => {
                    for query in &partition.queries {
                        self.ruled_query(query, &tables, true);
                        self.ruled_aggregation_join(query, app);
                    }
                }
                Element::Aggregation(aggregation) => {
                    if let Some(handler) = aggregation.input.handlers.first() {
                        self.ruled(&HANDLED_AGGREGATION, handler_span(handler));
                    }
                }
                _ => {}
            }
        }
        self.ruled_deletes();
        self.ruled_snapshots();
    }

    /// `output snapshot` with several aggregators, of which Siddhi takes some for other values.
    fn ruled_snapshots(&mut self) {
        let queries = self.plan.queries.iter();
        let compared: Vec<Span> = queries
            .filter(|query| {
                query.rate.is_some_and(|r| r.kind == RateKind::Snapshot) && query.has_window()
            })
            .filter_map(|query| {
                let (all, items) = (query.aggregates(), &query.selector.items);
                let left_out = query.aggregates_left_out()?;
                let mut compared = all.iter().filter(|at| !left_out.contains(at));
                let at = *compared.next().filter(|_| all.len() < items.len())?;
                Some(items[at].0.span)
            })
            .collect();
        for span in compared {
            self.ruled(&STAYS_IN_PICTURE, span);
        }
    }

    /// Lists that are cut at their end, where a query fills them afterwards.
    fn ruled_deletes(&mut self) {
        let outputs = || self.plan.queries.iter().map(|query| &query.output);
        let is_filled = |id| {
            outputs().any(|output| match output {
                plan::Output::Table(table) | plan::Output::UpdateOrInsert { table, .. } => {
                    *table == id
                }
                _ => false,
            })
        };
        let cut: Vec<Span> = outputs()
            .filter_map(|output| match output {
                plan::Output::Delete { table, on } if is_filled(*table) => {
                    let list = RowConditions::new(&self.plan.tables[*table], TABLE_ROW)?;
                    list.may_lose_end(on).then_some(on.span)
                }
                _ => None,
            })
            .collect();
        for span in cut {
            self.ruled(&LOST_END, span);
        }
    }

    pub(super) fn ruled(&mut self, ruling: &Ruling, span: Span) {
        if ruling.has_old_form && self.plan.options.compat {
            return;
        }
        let message = format!(
            "in Siddhi 5.1 {}; Headwater {} (ruling {} of COMPAT.md)",
            ruling.siddhi, ruling.headwater, ruling.number
        );
        let help = match ruling.has_old_form {
            true => "@app:compat('siddhi-5.1') restores the old output, for the whole app",
            false => "the old output is not available",
        };
        self.report(
            warning(
                ruling.code,
                Kind::Compatibility,
                span,
                message,
                ruling.label,
            )
            .help(help),
        );
    }

    fn ruled_query(&mut self, query: &Query, tables: &[&TableDef], in_partition: bool) {
        match &query.input {
            Input::Single(single) if in_partition => self.ruled_window(single),
            Input::Single(_) => {}
            Input::Join(join) => {
                self.ruled_join(join, &query.output);
                if in_partition {
                    self.ruled_window(&join.left);
                    self.ruled_window(&join.right);
                }
            }
            Input::Pattern(pattern) => self.ruled_pattern(pattern),
            Input::Anonymous(inner) => self.ruled_query(inner, tables, in_partition),
        }
        if in_partition || !query.selector.group_by.is_empty() {
            self.ruled_selector(&query.selector);
        }
        if let Output::UpdateOrInsert { table, set, on, .. } = &query.output
            && let Some(table) = tables.iter().find(|t| t.name.name.text == table.name.text)
            && !is_whole_row(set, table)
            && is_primary_key(on, table)
        {
            self.ruled(&SET_BY_KEY, on.span);
        }
        if let Output::Update { table, set, on, .. } | Output::UpdateOrInsert { table, set, on, .. } =
            &query.output
            && let Some(table) = tables.iter().find(|t| t.name.name.text == table.name.text)
        {
            if changes_key(set, on, table) {
                self.ruled(&KEY_CHANGED, on.span);
            }
            let is_indexed = |a: &Annotation| a.is("PrimaryKey") || a.is("Index");
            if table.annotations.iter().any(is_indexed)
                && let Some(span) = set.iter().find_map(|item| row_read(&item.value, table))
            {
                self.ruled(&SET_BY_ROW, span);
            }
        }
    }

    fn ruled_window(&mut self, single: &SingleInput) {
        for call in single.handlers.iter().filter_map(window) {
            if is_core(call, &["timeBatch"]) {
                self.ruled(&BATCH_PER_KEY, call.span);
            } else if is_core(call, &["expression", "expressionBatch"]) {
                self.ruled(&CONDITION_PER_KEY, call.span);
            }
        }
    }

    fn ruled_join(&mut self, join: &JoinInput, output: &Output) {
        let is_current = matches!(events(output), None | Some(EventType::Current));
        let searched = [
            (JoinTrigger::Left, &join.left),
            (JoinTrigger::Right, &join.right),
        ];
        for (trigger, side) in searched {
            if join.trigger == trigger {
                continue;
            }
            for call in side.handlers.iter().filter_map(window) {
                if is_current && is_core(call, &["lengthBatch", "timeBatch"]) {
                    self.ruled(&BATCHES_IN_JOIN, call.span);
                }
                if is_core(call, &["expressionBatch"]) {
                    self.ruled(&SEARCHED_STAYS, call.span);
                }
            }
        }
    }

    /// A query of a partition.
    fn ruled_aggregation_join(&mut self, query: &Query, app: &App) {
        let Input::Join(join) = &query.input else {
            return;
        };
        let is_aggregation = |side: &&SingleInput| {
            app.elements.iter().any(|element| {
                matches!(element, Element::Aggregation(a) if a.name.text == side.stream.name.text)
            })
        };
        let sides = [&join.left, &join.right];
        if let Some(side) = sides.into_iter().find(is_aggregation) {
            self.ruled(&RUNNING_BUCKET, side.span);
        }
    }

    fn ruled_pattern(&mut self, pattern: &PatternInput) {
        let (root, is_every) = match &pattern.root {
            PatternElement::Every(inner, _) => (&**inner, true),
            root => (root, false),
        };
        let elements = match root {
            PatternElement::Chain(elements, _) => &elements[..],
            one => std::slice::from_ref(one),
        };
        match pattern.kind {
            PatternKind::Sequence => self.ruled_counts(elements),
            PatternKind::Pattern => self.ruled_absences(root),
        }
        let (first, is_every) = match elements.first() {
            Some(PatternElement::Every(inner, _)) => (&**inner, true),
            Some(first) => (first, is_every),
            None => return,
        };
        match first {
            PatternElement::Logical {
                left,
                op: LogicalOp::And,
                right,
                span,
            } if elements.len() == 1 && is_stream(left) && is_stream(right) => {
                self.ruled(&LONE_AND, *span);
            }
            PatternElement::Count { min: 0, span, .. }
                if is_every && elements.len() > 1 && pattern.kind == PatternKind::Pattern =>
            {
                self.ruled(&EMPTY_COUNT, *span);
            }
            _ => {}
        }
        let is_logical = matches!(first, PatternElement::Logical { .. }) && is_every;
        if pattern.within.is_some() && elements.len() > 1 && (is_logical || waits(first)) {
            self.ruled(&WITHIN_AT_START, element_span(first));
        }
    }

    fn ruled_counts(&mut self, elements: &[PatternElement]) {
        for (index, element) in elements.iter().enumerate() {
            let element = match element {
                PatternElement::Every(inner, _) => &**inner,
                element => element,
            };
            let is_last = index + 1 == elements.len();
            if let PatternElement::Count { min, span, .. } = element
                && (*min >= 2 || *min >= 1 && is_last)
            {
                self.ruled(&SEQUENCE_COUNT, *span);
            }
        }
    }

    /// `X and not S[..]` behind the first element, where the last reads `S` as well: the event that
    /// does not pass the filter takes the list of matches apart (`AbsentLogicalPreStateProcessor`).
    fn ruled_absences(&mut self, root: &PatternElement) {
        let flat = flat(root);
        let Some((last, before)) = flat.split_last() else {
            return;
        };
        // Of a first element that does not repeat there is one match.
        let repeats = match root {
            PatternElement::Every(..) => true,
            PatternElement::Chain(elements, _) => {
                matches!(elements.first(), Some(PatternElement::Every(..)))
            }
            _ => false,
        };
        for element in before.iter().skip(usize::from(!repeats)) {
            let PatternElement::Logical {
                left,
                op: LogicalOp::And,
                right,
                ..
            } = element
            else {
                continue;
            };
            for side in [left, right] {
                if let PatternElement::Absent {
                    stream,
                    wait: None,
                    span,
                } = &**side
                    && !stream.handlers.is_empty()
                    && reads(last, &stream.stream)
                {
                    self.ruled(&SHARED_ABSENCE, *span);
                }
            }
        }
    }

    fn ruled_selector(&mut self, selector: &Selector) {
        // The checker has seen the expressions, so their depth is bounded.
        let mut left: Vec<&Expr> = selector.items.iter().map(|item| &item.expr).collect();
        while let Some(expr) = left.pop() {
            match &expr.kind {
                ExprKind::Call(call) => {
                    let namespace = call.namespace.as_ref().map(|n| n.text.as_str());
                    let shared = [
                        (Some("math"), "percentile"),
                        (Some("json"), "groupAsObject"),
                    ];
                    if shared.contains(&(namespace, call.name.text.as_str())) {
                        self.ruled(&SHARED_BY_GROUPS, call.span);
                    }
                    if let lang::ast::Args::List(args) = &call.args {
                        left.extend(args);
                    }
                }
                ExprKind::Not(inner) => left.push(inner),
                ExprKind::Binary(_, a, b) => left.extend([&**a, &**b]),
                _ => {}
            }
        }
    }
}

fn window(handler: &Handler) -> Option<&Call> {
    match handler {
        Handler::Window(call) => Some(call),
        _ => None,
    }
}

fn handler_span(handler: &Handler) -> Span {
    match handler {
        Handler::Filter(condition) => condition.span,
        Handler::Function(call) | Handler::Window(call) => call.span,
    }
}

fn is_core(call: &Call, names: &[&str]) -> bool {
    call.namespace.is_none() && names.contains(&call.name.text.as_str())
}

fn events(output: &Output) -> Option<EventType> {
    match output {
        Output::Insert { events, .. }
        | Output::Delete { events, .. }
        | Output::Update { events, .. }
        | Output::UpdateOrInsert { events, .. }
        | Output::Return { events, .. } => *events,
    }
}

/// The elements in their order, without the groups around them.
fn flat(root: &PatternElement) -> Vec<&PatternElement> {
    let (mut left, mut flat) = (vec![root], Vec::new());
    while let Some(element) = left.pop() {
        match element {
            PatternElement::Every(inner, _) => left.push(inner),
            PatternElement::Chain(elements, _) => left.extend(elements.iter().rev()),
            element => flat.push(element),
        }
    }
    flat
}

fn reads(element: &PatternElement, name: &StreamName) -> bool {
    let is_it = |input: &SingleInput| {
        input.stream.name.text == name.name.text && input.stream.kind == name.kind
    };
    match element {
        PatternElement::Stream(stream) | PatternElement::Count { stream, .. } => {
            is_it(&stream.stream)
        }
        PatternElement::Absent { stream, .. } => is_it(stream),
        PatternElement::Logical { left, right, .. } => reads(left, name) || reads(right, name),
        PatternElement::Every(..) | PatternElement::Chain(..) => false,
    }
}

fn is_stream(element: &PatternElement) -> bool {
    matches!(element, PatternElement::Stream(_))
}

/// Is it, or has it, an absence with a time?
fn waits(element: &PatternElement) -> bool {
    let is_absent = |e: &PatternElement| matches!(e, PatternElement::Absent { wait: Some(_), .. });
    match element {
        PatternElement::Logical { left, right, .. } => is_absent(left) || is_absent(right),
        element => is_absent(element),
    }
}

fn element_span(element: &PatternElement) -> Span {
    match element {
        PatternElement::Every(_, span) | PatternElement::Chain(_, span) => *span,
        PatternElement::Stream(stream) => stream.span,
        PatternElement::Count { span, .. }
        | PatternElement::Logical { span, .. }
        | PatternElement::Absent { span, .. } => *span,
    }
}

/// Does `set` give every column the value of the selected attribute of its name? That is what
/// replacing the row does. Without `set` it is what happens anyway.
fn is_whole_row(set: &[SetItem], table: &TableDef) -> bool {
    let is_own = |item: &SetItem| match &item.value.kind {
        ExprKind::Attribute(value) => {
            value.stream.is_none() && value.name.text == item.target.name.text
        }
        _ => false,
    };
    let is_set = |name: &str| set.iter().any(|item| item.target.name.text == name);
    let keys = primary_key(table);
    set.is_empty()
        || set.iter().all(is_own)
            && table.attributes.iter().all(|attribute| {
                is_set(&attribute.name.text) || keys.contains(&attribute.name.text.as_str())
            })
}

fn primary_key(table: &TableDef) -> Vec<&str> {
    let key = table.annotations.iter().find(|a| a.is("PrimaryKey"));
    let elements = key.iter().flat_map(|a| &a.elements);
    elements.map(|e| e.value.text.as_str()).collect()
}

/// May the write give one of several primary keys another value than the one it is found by?
fn changes_key(set: &[SetItem], on: &Expr, table: &TableDef) -> bool {
    let keys = primary_key(table);
    let is_kept = |key: &str| {
        let is_sought = finds_by_own(on, table, key);
        match set.iter().find(|item| item.target.name.text == key) {
            Some(item) => is_sought && is_attribute(&item.value, None, key),
            None => is_sought || !set.is_empty(),
        }
    };
    keys.len() > 1 && !keys.iter().all(|key| is_kept(key))
}

/// Is `T.key == key` a part of the condition that must hold?
fn finds_by_own(on: &Expr, table: &TableDef, key: &str) -> bool {
    let name = Some(table.name.name.text.as_str());
    let mut left = vec![on];
    while let Some(expr) = left.pop() {
        match &expr.kind {
            ExprKind::Binary(BinaryOp::And, a, b) => left.extend([&**a, &**b]),
            ExprKind::Binary(BinaryOp::Equal, a, b)
                if is_attribute(a, name, key) && is_attribute(b, None, key)
                    || is_attribute(b, name, key) && is_attribute(a, None, key) =>
            {
                return true;
            }
            _ => {}
        }
    }
    false
}

/// Where an expression reads the row of a table.
fn row_read(expr: &Expr, table: &TableDef) -> Option<Span> {
    let mut left = vec![expr];
    while let Some(expr) = left.pop() {
        match &expr.kind {
            ExprKind::Attribute(reference) => {
                let of = reference.stream.as_ref();
                if of.is_some_and(|of| of.stream.name.text == table.name.name.text) {
                    return Some(expr.span);
                }
            }
            ExprKind::Call(call) => {
                if let lang::ast::Args::List(args) = &call.args {
                    left.extend(args);
                }
            }
            ExprKind::Not(inner) => left.push(inner),
            ExprKind::Binary(_, a, b) => left.extend([&**a, &**b]),
            _ => {}
        }
    }
    None
}

fn is_attribute(expr: &Expr, stream: Option<&str>, name: &str) -> bool {
    let ExprKind::Attribute(reference) = &expr.kind else {
        return false;
    };
    let of = reference
        .stream
        .as_ref()
        .map(|s| s.stream.name.text.as_str());
    of == stream && reference.name.text == name
}

/// Equations that give each attribute of the primary key one value, and nothing else?
fn is_primary_key(on: &Expr, table: &TableDef) -> bool {
    let column = |e: &Expr| match &e.kind {
        ExprKind::Attribute(reference) => reference
            .stream
            .as_ref()
            .filter(|s| s.stream.name.text == table.name.name.text)
            .map(|_| reference.name.text.clone()),
        _ => None,
    };
    let (mut left, mut found) = (vec![on], Vec::new());
    while let Some(expr) = left.pop() {
        match &expr.kind {
            ExprKind::Binary(BinaryOp::And, a, b) => left.extend([&**a, &**b]),
            ExprKind::Binary(BinaryOp::Equal, a, b) => match (column(a), column(b)) {
                (Some(name), None) | (None, Some(name)) => found.push(name),
                _ => return false,
            },
            _ => return false,
        }
    }
    let keys = primary_key(table);
    !keys.is_empty()
        && found.len() == keys.len()
        && keys.iter().all(|k| found.iter().any(|f| f == k))
}
