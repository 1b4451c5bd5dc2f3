//! Options of connectors that attach to a topic of the gateway.

use plan::spec::{Fact, OptionSpec, Rule, int, list, text};

const HEARD: &str = "headwater::gateway::a_stream_is_heard_at_the_topics_of_its_connectors";

/// Those of a sink and of a source.
pub(crate) const API: OptionSpec = text(
    "api",
    "Attaches it to a topic of this API of the gateway (`--gateway`) instead of a port of its own (an extension).",
)
.test(HEARD);

pub(crate) const VERSION: OptionSpec = text(
    "version",
    "Version of the API; by default that of its document, else 1.0.0 (an extension).",
)
.test(HEARD);

pub(crate) const TOPIC: OptionSpec = text(
    "topic",
    "Address of the topic, such as `/symbols/{symbol}`; an attribute of the stream gives the parameter of its name \
     (an extension).",
)
.test(HEARD);

pub(crate) const PARAMETER: OptionSpec = text(
    "topic.*",
    "What gives a parameter of the address, where no attribute has its name: `topic.symbol='{{sym}}'` (an extension).",
)
.dynamic()
.test(HEARD);

pub(crate) const SCOPES: OptionSpec = list(
    "scopes",
    "Scopes that a client's token must have (an extension).",
)
.test(HEARD);

pub(crate) const PLANS: OptionSpec =
    list("plans", "Plans on which the API is offered (an extension).").test(HEARD);

pub(crate) const HISTORY: OptionSpec = int(
    "history.events",
    "1000",
    "Events that are kept of each address for clients that come back (an extension).",
)
.range(0, 1_000_000)
.test(HEARD);

pub(crate) const SLOW: OptionSpec = text(
    "slow",
    "What becomes of a client that has fallen behind all that is kept: `drop-oldest` (the default), `latest`, \
     `disconnect` or `wait` (an extension).",
)
.test(HEARD);

pub(crate) const TOGETHER: Rule = Rule::Together(&["api", "topic"]);

/// What says where a port is, beside an API.
pub(crate) const fn no_port(names: &'static [&'static str], given: &'static [Fact]) -> Rule {
    Rule::Never {
        when: Fact::All(given),
        at: names,
        message: "'api' attaches it to the gateway, which has an address of its own",
        help: "leave one of the two out",
    }
}
