//! A whole replay of any bytes: pcapng, gzip, and whatever is none of them. Blocks are made from the input, or are the
//! input.
#![no_main]

mod common;

use libfuzzer_sys::fuzz_target;
use probe_user::capture::file::{Order, write::PcapngWriter};

fuzz_target!(|data: &[u8]| {
    let Some((choice, rest)) = data.split_first() else { return };
    if choice & 1 == 0 {
        common::replay(rest.to_vec());
        return;
    }
    let order = if choice & 2 == 0 { Order::Little } else { Order::Big };
    let mut file = blocks(order, rest).unwrap_or_default();
    // Lengths that lie.
    if choice & 4 != 0
        && let Some((at, value)) = rest.first().zip(rest.last())
    {
        let at = 28 + usize::from(*at) % file.len().saturating_sub(28).max(1);
        if let Some(byte) = file.get_mut(at) {
            *byte = *value;
        }
    }
    common::replay(file);
});

/// A block for each chunk: its first byte says of what kind.
fn blocks(order: Order, mut rest: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut writer = PcapngWriter::new(Vec::new(), order)?;
    while let Some(([kind, length], more)) = rest.split_first_chunk() {
        let (body, more) = more.split_at(usize::from(*length).min(more.len()));
        rest = more;
        match kind % 8 {
            0 => writer.section(if kind & 8 == 0 { Order::Little } else { Order::Big })?,
            1 => writer.interface(
                [1, 101, 113, 276][usize::from(kind >> 3) % 4],
                0,
                &[(2, body), (9, &[*kind])],
            )?,
            2 => writer.packet(u32::from(kind >> 5), 1 << 60, body, body.len(), Some(u32::from(*kind)))?,
            3 => writer.simple(body, body.len())?,
            4 => writer.obsolete(0, 1 << 60, body, body.len(), None)?,
            5 => writer.statistics(0, 1)?,
            other => writer.block(u32::from(other), body)?,
        }
    }
    Ok(writer.into_inner())
}
