//! Packets that enter: one logic as XDP and as TC classifier.

use aya_ebpf::{
    bindings::{TC_ACT_UNSPEC, xdp_action},
    macros::{classifier, xdp},
    programs::{TcContext, XdpContext},
};
use probe_common::{counters::Program, observation::Direction, parse::LinkLayer};

use crate::follow;

#[xdp(frags)]
fn nvaprobe_xdp(context: XdpContext) -> u32 {
    follow::packet(&context, Program::Xdp, Direction::Ingress, LinkLayer::Ethernet);
    xdp_action::XDP_PASS
}

#[classifier]
fn nvaprobe_in(context: TcContext) -> i32 {
    follow::packet(&context, Program::TcIngress, Direction::Ingress, LinkLayer::Ethernet);
    TC_ACT_UNSPEC
}

/// For devices without an Ethernet header.
#[classifier]
fn nvaprobe_in_l3(context: TcContext) -> i32 {
    follow::packet(&context, Program::TcIngress, Direction::Ingress, LinkLayer::Raw);
    TC_ACT_UNSPEC
}
