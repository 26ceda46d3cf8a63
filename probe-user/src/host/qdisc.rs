//! Queueing disciplines and filters of a device's clsact hook.

use futures_util::TryStreamExt;
use rtnetlink::{
    Handle,
    packet_route::tc::{TcAttribute, TcFilterBpfOption, TcHandle, TcMessage, TcOption},
};

/// One side of clsact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Ingress,
    Egress,
}

/// What sits at `ffff:` of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IngressQdisc {
    None,
    Clsact,
    /// The classic `ingress` qdisc: no egress side, and it excludes clsact.
    Classic,
}

/// One TC filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// The preference; the lowest is asked first.
    pub priority: u16,
    pub kind: String,
    /// Name of a BPF filter's program.
    pub bpf_name: Option<String>,
}

/// The filters on one side, in no particular order. One with several handles may be listed more than once.
pub async fn filters(handle: &Handle, ifindex: u32, side: Side) -> Result<Vec<Filter>, rtnetlink::Error> {
    let request = handle.traffic_filter(ifindex as i32).get();
    let request = match side {
        Side::Ingress => request.ingress(),
        Side::Egress => request.egress(),
    };
    let messages: Vec<TcMessage> = request.execute().try_collect().await?;
    Ok(messages.iter().map(filter).collect())
}

fn filter(message: &TcMessage) -> Filter {
    // tcm_info of a filter: preference in the upper half, protocol in the lower (linux/rtnetlink.h).
    let mut filter =
        Filter { priority: (message.header.info >> 16) as u16, kind: String::new(), bpf_name: None };
    for attribute in &message.attributes {
        match attribute {
            TcAttribute::Kind(kind) => filter.kind.clone_from(kind),
            TcAttribute::Options(options) => {
                for option in options {
                    if let TcOption::Bpf(TcFilterBpfOption::ProgName(name)) = option {
                        filter.bpf_name = Some(name.clone());
                    }
                }
            }
            _ => {}
        }
    }
    filter
}

/// Which qdisc holds the device's ingress hook.
pub async fn ingress_qdisc(handle: &Handle, ifindex: u32) -> Result<IngressQdisc, rtnetlink::Error> {
    let messages: Vec<TcMessage> = handle.qdisc().get().index(ifindex as i32).execute().try_collect().await?;
    let mut found = IngressQdisc::None;
    for message in messages {
        if message.header.index != ifindex as i32 {
            continue;
        }
        for attribute in &message.attributes {
            if let TcAttribute::Kind(kind) = attribute {
                match kind.as_str() {
                    "clsact" => found = IngressQdisc::Clsact,
                    "ingress" => found = IngressQdisc::Classic,
                    _ => {}
                }
            }
        }
    }
    Ok(found)
}

/// Deletes the device's clsact qdisc and with it every filter: only for one that we created and that is empty.
pub async fn delete_clsact(handle: &Handle, ifindex: u32) -> Result<(), rtnetlink::Error> {
    let mut request = handle.qdisc().del(ifindex as i32);
    let message = request.message_mut();
    message.header.parent = TcHandle::CLSACT;
    message.header.handle = TcHandle { major: 0xffff, minor: 0 };
    request.execute().await
}
