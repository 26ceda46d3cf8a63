//! Frames kept for a closer look, or for a capture file.

use std::time::SystemTime;

/// A frame on the wire between the fabric and its NIC.
#[derive(Clone, Debug)]
pub struct Recorded {
    pub at: SystemTime,
    /// From the fabric to the NIC.
    pub to_nic: bool,
    pub frame: Vec<u8>,
}

#[derive(Debug, Default)]
pub(super) struct Recorder {
    limit: usize,
    pub(super) frames: Vec<Recorded>,
}

impl Recorder {
    pub(super) fn start(&mut self, limit: usize) {
        self.limit = limit;
    }

    pub(super) fn take(&mut self, frame: &[u8], to_nic: bool) {
        if self.frames.len() < self.limit {
            self.frames.push(Recorded { at: SystemTime::now(), to_nic, frame: frame.to_vec() });
        }
    }
}
