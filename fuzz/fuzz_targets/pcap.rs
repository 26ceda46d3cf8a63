//! A whole replay of a classic capture: the header is sound, the records are anything.
#![no_main]

mod common;

use libfuzzer_sys::fuzz_target;
use probe_user::capture::file::{Order, write::PcapWriter};

const LINKS: [u32; 8] = [1, 101, 113, 276, 0, 108, 228, 229];

fuzz_target!(|data: &[u8]| {
    let Some((choice, records)) = data.split_first() else { return };
    let order = if choice & 1 == 0 { Order::Little } else { Order::Big };
    let link = LINKS[usize::from(choice >> 2) % LINKS.len()];
    let Ok(writer) = PcapWriter::new(Vec::new(), order, choice & 2 == 0, link) else { return };
    let mut file = writer.into_inner();
    file.extend(records);
    common::replay(file);
});
