//! nvaprobe: ties a load-balancer probe's ingress NIC to its reply's egress NIC, live, and says why a
//! probe fails on a healthy appliance.
//!
//! Data flows one way: [`capture`] (and [`lab`], which makes traffic) → observations → [`probe`] models →
//! [`diagnose`] with facts from [`host`] → [`report`].

pub mod capture;
pub mod cli;
pub mod config;
pub mod diagnose;
pub mod fix;
pub mod host;
pub mod lab;
pub mod monitor;
pub mod predict;
pub mod probe;
pub mod profile;
pub mod replay;
pub mod report;
pub mod source;
