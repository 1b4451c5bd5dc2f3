//! What text tests cannot say about the engine. One program, so that it is linked once; what asks the
//! allocator is another (`allocations.rs`), because it counts what all threads of its process allocate.

mod app;
mod changes;
mod edits;
mod joins;
mod sliding;
mod taps;
mod timers;
