//! Where observations come from. `live` is the kernel, the only place that knows aya; `file` reads stored captures.

pub mod file;
pub mod instance;
pub mod live;
pub mod object;
pub mod privileges;
