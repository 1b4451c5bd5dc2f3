//! What is measured: an app, the events it gets, and the factor over siddhi-core that is aimed at.

use event::Value;

use crate::data::Varied;

pub struct Scenario {
    pub name: &'static str,
    /// SiddhiQL, the same for both engines.
    pub app: &'static str,
    /// The stream whose events are looked at, or the table whose rows are when all is done.
    pub output: &'static str,
    /// Rows come out in an order that the language promises; those of a table do not.
    pub is_ordered: bool,
    pub events: u64,
    /// Events per CPU-second, as a multiple of siddhi-core's.
    pub goal: f64,
    /// Stream, timestamp and values of the event with this number.
    pub generate: fn(u64, &mut Varied) -> (&'static str, i64, Vec<Value>),
}

/// The first timestamp, milliseconds.
const START: i64 = 1_700_000_000_000;

/// Events that follow each other on one stream before the other takes its turn.
const TURN: u64 = 500;

/// Ten trades a millisecond, of a hundred symbols.
fn trade(number: u64, varied: &mut Varied) -> (&'static str, i64, Vec<Value>) {
    (
        "Trades",
        START + (number / 10) as i64,
        vec![
            Value::str(&format!("S{:02}", varied.draw() % 100)),
            Value::Double((varied.draw() % 10_000) as f64 / 100.0),
            Value::Long((varied.draw() % 200) as i64),
        ],
    )
}

/// The same of ten thousand symbols.
fn trade_of_many(number: u64, varied: &mut Varied) -> (&'static str, i64, Vec<Value>) {
    let (stream, time, mut values) = trade(number, varied);
    values[0] = Value::str(&format!("S{:04}", varied.draw() % 10_000));
    (stream, time, values)
}

/// Orders of five hundred customers, then their payments in another order.
fn order_or_payment(number: u64, varied: &mut Varied) -> (&'static str, i64, Vec<Value>) {
    let turn = number / TURN;
    let at = number % TURN;
    let is_order = turn.is_multiple_of(2);
    // A step that shares no factor with 500 visits every customer once a turn.
    let customer = if is_order {
        at
    } else {
        (at * 241 + turn) % TURN
    };
    (
        if is_order { "Orders" } else { "Payments" },
        START + number as i64,
        vec![
            Value::str(&format!("C{customer:03}")),
            Value::Double((varied.draw() % 10_000) as f64 / 100.0),
        ],
    )
}

/// In the order in which they are measured.
pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "filter",
        app: concat!(
            "define stream Trades (symbol string, price double, volume long);\n",
            "from Trades[price > 50.0 and volume > 100] select symbol, price, volume insert into Out;\n"
        ),
        output: "Out",
        is_ordered: true,
        events: 2_000_000,
        goal: 30.0,
        generate: trade,
    },
    Scenario {
        name: "projection",
        app: concat!(
            "define stream Trades (symbol string, price double, volume long);\n",
            "from Trades select symbol, price * volume as value insert into Out;\n"
        ),
        output: "Out",
        is_ordered: true,
        events: 2_000_000,
        goal: 30.0,
        generate: trade,
    },
    Scenario {
        name: "timeBatch count",
        app: concat!(
            "@app:playback\n",
            "define stream Trades (symbol string, price double, volume long);\n",
            "from Trades#window.timeBatch(1 sec) select count() as trades insert into Out;\n"
        ),
        output: "Out",
        is_ordered: true,
        events: 2_000_000,
        goal: 30.0,
        generate: trade,
    },
    Scenario {
        name: "length sum group by",
        app: concat!(
            "define stream Trades (symbol string, price double, volume long);\n",
            "from Trades#window.length(1000) select symbol, sum(price) as total group by symbol ",
            "insert into Out;\n"
        ),
        output: "Out",
        is_ordered: true,
        events: 1_000_000,
        goal: 30.0,
        generate: trade,
    },
    Scenario {
        name: "pattern A -> B",
        app: concat!(
            "define stream Orders (customer string, amount double);\n",
            "define stream Payments (customer string, amount double);\n",
            "from every e1=Orders -> e2=Payments[customer == e1.customer] ",
            "select e1.customer as customer, e1.amount as ordered, e2.amount as paid insert into Out;\n"
        ),
        output: "Out",
        is_ordered: true,
        events: 100_000,
        goal: 100.0,
        generate: order_or_payment,
    },
    Scenario {
        name: "window join",
        app: concat!(
            "define stream Orders (customer string, amount double);\n",
            "define stream Payments (customer string, amount double);\n",
            "from Orders#window.length(500) as o join Payments#window.length(500) as p ",
            "on o.customer == p.customer ",
            "select o.customer as customer, o.amount as ordered, p.amount as paid insert into Out;\n"
        ),
        output: "Out",
        is_ordered: true,
        events: 100_000,
        goal: 20.0,
        generate: order_or_payment,
    },
    Scenario {
        name: "table upsert",
        app: concat!(
            "define stream Trades (symbol string, price double, volume long);\n",
            "@PrimaryKey('symbol') define table Last (symbol string, price double, volume long);\n",
            "from Trades select symbol, price, volume update or insert into Last ",
            "set Last.price = price, Last.volume = volume on Last.symbol == symbol;\n"
        ),
        output: "Last",
        is_ordered: false,
        events: 500_000,
        goal: 20.0,
        generate: trade_of_many,
    },
];
