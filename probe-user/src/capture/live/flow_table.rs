//! The kernel's table of flows, read a batch at a time. aya 0.14 reads maps entry by entry, at two system calls each.

use std::{
    io,
    os::fd::{AsFd as _, AsRawFd as _},
};

use aya::maps::MapData;
use probe_common::flow::{Flow, FlowKey};

/// Commands of bpf(2), `enum bpf_cmd` (include/uapi/linux/bpf.h).
const BPF_MAP_DELETE_ELEM: libc::c_long = 3;
/// Linux 5.6, for hash tables of every kind.
const BPF_MAP_LOOKUP_BATCH: libc::c_long = 24;

/// Entries asked for at once: 200 KiB, and far more than a bucket of the kernel's table holds.
const BATCH: usize = 1024;

/// `union bpf_attr` of the batch commands.
#[repr(C)]
struct BatchAttr {
    in_batch: u64,
    out_batch: u64,
    keys: u64,
    values: u64,
    count: u32,
    map_fd: u32,
    elem_flags: u64,
    flags: u64,
}

/// `union bpf_attr` of the commands for one entry.
#[repr(C)]
struct ElementAttr {
    map_fd: u32,
    pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// The map `FLOWS`.
pub struct FlowTable(MapData);

impl FlowTable {
    pub(super) const fn new(map: MapData) -> Self {
        Self(map)
    }

    /// Every entry. The programs go on meanwhile: an entry that moves may be missed, none is told twice.
    pub fn read(&self) -> io::Result<Vec<(FlowKey, Flow)>> {
        let mut all: Vec<(FlowKey, Flow)> = Vec::new();
        let mut size = BATCH;
        let mut keys = vec![FlowKey::default(); size];
        let mut values = vec![Flow::default(); size];
        // Where to go on: the number of a bucket.
        let mut place: u32 = 0;
        let mut begun = false;
        loop {
            let mut next: u32 = 0;
            let mut attr = BatchAttr {
                in_batch: if begun { (&raw const place) as u64 } else { 0 },
                out_batch: (&raw mut next) as u64,
                keys: keys.as_mut_ptr() as u64,
                values: values.as_mut_ptr() as u64,
                count: size as u32,
                map_fd: self.fd(),
                elem_flags: 0,
                flags: 0,
            };
            // SAFETY: the attribute and the buffers that it names live through the call; the buffers have room for `count`
            // keys and values of the sizes that the map was made with, of types for which every bit pattern is valid.
            let result = unsafe {
                libc::syscall(libc::SYS_bpf, BPF_MAP_LOOKUP_BATCH, &raw mut attr, size_of::<BatchAttr>())
            };
            let error = (result != 0).then(io::Error::last_os_error);
            match error.as_ref().map(io::Error::raw_os_error) {
                // A bucket with more entries than were asked for.
                Some(Some(libc::ENOSPC)) if size < usize::MAX / 2 => {
                    size *= 2;
                    keys.resize(size, FlowKey::default());
                    values.resize(size, Flow::default());
                    continue;
                }
                None | Some(Some(libc::ENOENT)) => {}
                Some(_) => return Err(error.unwrap_or_else(|| io::ErrorKind::Other.into())),
            }
            let count = (attr.count as usize).min(size);
            all.extend(keys[..count].iter().copied().zip(values[..count].iter().copied()));
            if error.is_some() {
                // ENOENT: that was the last one.
                return Ok(all);
            }
            place = next;
            begun = true;
        }
    }

    /// Takes an entry out; false when it is not there any more.
    pub fn remove(&self, key: &FlowKey) -> io::Result<bool> {
        let mut attr = ElementAttr {
            map_fd: self.fd(),
            pad: 0,
            key: std::ptr::from_ref(key) as u64,
            value: 0,
            flags: 0,
        };
        // SAFETY: the attribute and the key live through the call, and the key has the size that the map was made with.
        let result = unsafe {
            libc::syscall(libc::SYS_bpf, BPF_MAP_DELETE_ELEM, &raw mut attr, size_of::<ElementAttr>())
        };
        if result == 0 {
            return Ok(true);
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() == Some(libc::ENOENT) { Ok(false) } else { Err(error) }
    }

    fn fd(&self) -> u32 {
        // An open file descriptor is never negative.
        self.0.fd().as_fd().as_raw_fd().unsigned_abs()
    }
}
