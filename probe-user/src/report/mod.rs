//! What nvaprobe says. `document` is the contract; every other file is one format of it.

pub mod document;
