//! Where observations come from. `live` is the kernel, the only place that knows aya.

pub mod instance;
pub mod live;
pub mod object;
pub mod privileges;
