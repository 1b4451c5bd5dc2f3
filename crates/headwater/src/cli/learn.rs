//! Arguments of the commands for learning: `new`, `eval`, `man`.

use std::path::PathBuf;

use clap::Args;

/// Create an app from a template
///
/// Without arguments the templates are listed. Each comes with data, a test and a README.md with the commands
/// that run it. Files that exist are never overwritten.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headwater new                              list the templates\n  \
    headwater new file-etl                     into the folder file-etl\n  \
    headwater new windows sensors              into the folder sensors\n  \
    cd sensors && headwater run . --until-done")]
pub struct NewArgs {
    /// The template
    #[arg(value_name = "TEMPLATE")]
    pub template: Option<String>,
    /// Where to create it; by default in a folder with the name of the template
    #[arg(value_name = "DIR", requires = "template")]
    pub dir: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Compute expressions of SiddhiQL, as a query would
///
/// Prints the value and the type of each. What is wrong with an expression is shown at its place, as
/// `check` does.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headwater eval 'str:concat(\"a\", 1)'                 'a1'  string\n  \
    headwater eval '7 / 2' '7 / 2.0'                    as in Java: 3 int, 3.5 double\n  \
    headwater eval 'price * number > 100' --with price=2.5 --with number=50\n  \
    headwater eval 'convert(n, \"long\")' --with n:string=12\n  \
    headwater eval 'sum(x)' 'avg(x)' --each x=1,2,3      aggregators: one line for each event\n  \
    headwater eval 'discount(5.0)' --functions shop.siddhi\n  \
    headwater eval - < expressions.txt                   one for each line\n  \
    headwater connectors str:concat                      what a function takes and gives\n\n\
    Exit codes: 0 all computed; 1 an expression is wrong or fails; 2 usage.")]
pub struct EvalArgs {
    /// The expressions, or - to read them from standard input, one for each line
    #[arg(
        value_name = "EXPRESSION|-",
        required = true,
        allow_negative_numbers = true
    )]
    pub expressions: Vec<String>,
    /// An attribute and its value: 5 is an int, 5L a long, 2.5 a double, true a bool, all else text
    #[arg(long = "with", value_name = "NAME[:TYPE]=VALUE")]
    pub with: Vec<String>,
    /// An attribute that differs from event to event
    #[arg(long, value_name = "NAME[:TYPE]=VALUE,VALUE…")]
    pub each: Vec<String>,
    /// Use the script functions that this app defines
    #[arg(long, value_name = "APP")]
    pub functions: Option<PathBuf>,
    /// Time zone of the time:* functions, such as Europe/Berlin
    #[arg(long, value_name = "ZONE")]
    pub timezone: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Write the manual pages
///
/// One page for headwater and one for each command, in section 1. Without a folder the page of headwater is
/// printed.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headwater man | man -l -\n  \
    headwater man /usr/local/share/man/man1")]
pub struct ManArgs {
    /// Where to write headwater.1, headwater-run.1 and so on; it is created if it does not exist
    #[arg(value_name = "DIR")]
    pub dir: Option<PathBuf>,
}
