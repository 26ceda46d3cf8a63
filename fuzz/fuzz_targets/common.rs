use std::{io::Cursor, sync::LazyLock};

use probe_user::{
    replay::{Input, Settings, run},
    source::{Profile, collect},
};

static SETTINGS: LazyLock<Settings> = LazyLock::new(|| {
    let sources = collect(Profile::AzureLb, false, &[]).expect("the profile has sources");
    Settings { sources, ..Settings::default() }
});

/// Replays a file; every packet must be counted exactly once.
pub(crate) fn replay(file: Vec<u8>) {
    let size = file.len();
    let inputs = vec![Input { file: "fuzz.pcap".to_owned(), nic: None, source: Box::new(Cursor::new(file)) }];
    if let Ok(replayed) = run(&SETTINGS, inputs) {
        assert!(replayed.tally.counters.reconciles(), "{:?}", replayed.tally);
        assert!(!replayed.nics.is_empty() && replayed.tally.counters.seen as usize <= size.max(1) * 1100);
    }
}
