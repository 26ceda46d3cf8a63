//! What nvaprobe says. `document` is the contract; every other file is one format of it.

pub mod document;
mod endpoint;
pub mod event;
pub mod json;
pub mod schema;
pub mod style;
pub mod text;
pub mod time;
