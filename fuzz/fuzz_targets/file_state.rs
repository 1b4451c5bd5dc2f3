//! Positions and the journal of file functions, torn or forged: read or refused, and what is read is
//! written and read again the same.
#![no_main]

use headwater_connectors::file::effects::Effects;
use headwater_connectors::file::position::Position;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(position) = Position::read(bytes) {
        let mut again = Vec::new();
        position.write(&mut again);
        assert_eq!(Position::read(&again).expect("it was just written"), position);
    }
    let state = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(state.path().join("effects.journal"), bytes).expect("it takes the bytes");
    if let Ok(effects) = Effects::open(state.path()) {
        drop(effects);
        // What was torn is cut off, so the second time nothing is.
        Effects::open(state.path()).expect("it was open before");
    }
});
