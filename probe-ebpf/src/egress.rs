//! Packets that leave.

use aya_ebpf::{bindings::TC_ACT_UNSPEC, macros::classifier, programs::TcContext};
use probe_common::{counters::Program, observation::Direction, parse::LinkLayer};

use crate::follow;

#[classifier]
fn nvaprobe_out(context: TcContext) -> i32 {
    follow::packet(&context, Program::TcEgress, Direction::Egress, LinkLayer::Ethernet);
    TC_ACT_UNSPEC
}

/// For devices without an Ethernet header.
#[classifier]
fn nvaprobe_out_l3(context: TcContext) -> i32 {
    follow::packet(&context, Program::TcEgress, Direction::Egress, LinkLayer::Raw);
    TC_ACT_UNSPEC
}
