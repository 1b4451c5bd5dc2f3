//! `headwater errors`: the rejected events of a running server, or below a state directory.
//!
//! They are read one by one: a million of them take no more memory than one.

mod args;
mod edit;
mod export;
mod list;
mod origin;
mod purge;
mod replay;
mod show;

use args::ErrorsAction;
pub use args::ErrorsArgs;

use crate::output::Output;

pub fn run(action: ErrorsAction, output: &Output) -> anyhow::Result<u8> {
    match action {
        ErrorsAction::List(args) => list::run(&args, output),
        ErrorsAction::Show(args) => show::run(&args, output),
        ErrorsAction::Edit(args) => edit::run(&args, output),
        ErrorsAction::Replay(args) => replay::run(&args, output),
        ErrorsAction::Purge(args) => purge::run(&args, output),
        ErrorsAction::Export(args) => export::run(&args, output),
    }
}
