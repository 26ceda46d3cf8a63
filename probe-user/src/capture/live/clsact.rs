//! The fallback below Linux 6.6: a netlink filter on the clsact qdisc.
//!
//! clsact and foreign filters are somebody else's property: a qdisc that was there stays, a qdisc of ours goes
//! only when nobody else has put a filter on it, and our filter takes the lowest free preference.

use aya::programs::{
    SchedClassifier, TcAttachType,
    tc::{self, NlOptions, SchedClassifierLink, TcAttachOptions},
};
use rtnetlink::Handle;
use thiserror::Error;

use crate::host::qdisc::{self, Filter, IngressQdisc, Side};

/// Programs with this prefix are ours.
pub const OURS: &str = "nvaprobe_";

#[derive(Debug, Error)]
pub enum ClsactError {
    #[error("the classic ingress qdisc is there and excludes clsact: egress cannot be observed")]
    Classic,
    #[error("cannot list qdiscs and filters: {0}")]
    List(rtnetlink::Error),
    #[error("cannot add the clsact qdisc: {0}")]
    Qdisc(#[from] aya::programs::tc::TcError),
    #[error("cannot attach the filter: {0}")]
    Attach(#[from] aya::programs::ProgramError),
    #[error("every preference up to 65535 is taken")]
    Full,
}

/// The attach point of one side.
pub const fn attach_type(side: Side) -> TcAttachType {
    match side {
        Side::Ingress => TcAttachType::Ingress,
        Side::Egress => TcAttachType::Egress,
    }
}

/// Whether clsact must be added first; it is ours then.
pub async fn needed(handle: &Handle, ifindex: u32) -> Result<bool, ClsactError> {
    match qdisc::ingress_qdisc(handle, ifindex).await.map_err(ClsactError::List)? {
        IngressQdisc::Classic => Err(ClsactError::Classic),
        IngressQdisc::Clsact => Ok(false),
        IngressQdisc::None => Ok(true),
    }
}

/// Adds clsact.
pub fn add(name: &str) -> Result<(), ClsactError> {
    Ok(tc::qdisc_add_clsact(name)?)
}

/// Attaches with the lowest free preference. Also tells the preference of a foreign filter in front, if there is one: it
/// may end the chain before ours.
pub async fn attach(
    handle: &Handle,
    program: &mut SchedClassifier,
    name: &str,
    ifindex: u32,
    side: Side,
) -> Result<(SchedClassifierLink, Option<u16>), ClsactError> {
    let filters = qdisc::filters(handle, ifindex, side).await.map_err(ClsactError::List)?;
    let priority = lowest_free(&filters).ok_or(ClsactError::Full)?;
    let in_front = filters.iter().map(|filter| filter.priority).filter(|other| *other < priority).min();
    let options = TcAttachOptions::Netlink(NlOptions { priority, ..NlOptions::default() });
    let id = program.attach_with_options(name, attach_type(side), options)?;
    Ok((program.take_link(id)?, in_front))
}

fn lowest_free(filters: &[Filter]) -> Option<u16> {
    (1..=u16::MAX).find(|candidate| filters.iter().all(|filter| filter.priority != *candidate))
}

/// Removes every filter of ours from the device, and clsact too when `created` and nobody uses it.
/// A device that is gone has nothing left to remove.
pub async fn clean(handle: &Handle, name: &str, ifindex: u32, created: bool) -> Result<(), rtnetlink::Error> {
    let mut foreign = false;
    for side in [Side::Ingress, Side::Egress] {
        let Ok(filters) = qdisc::filters(handle, ifindex, side).await else { continue };
        for filter in filters {
            // A filter's preference has a handle-less head entry besides its instances (cls_api.c); only
            // instances carry a program.
            match filter.bpf_name.as_deref() {
                Some(program) if program.starts_with(OURS) => {
                    // Errors here mean that it is gone already.
                    let _ = tc::qdisc_detach_program(name, attach_type(side), program);
                }
                Some(_) => foreign = true,
                None => foreign |= filter.kind != "bpf",
            }
        }
    }
    if created && !foreign {
        qdisc::delete_clsact(handle, ifindex).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(priority: u16) -> Filter {
        Filter { priority, kind: "bpf".to_owned(), bpf_name: None }
    }

    #[test]
    fn the_lowest_free_preference_is_taken() {
        assert_eq!(lowest_free(&[]), Some(1));
        assert_eq!(lowest_free(&[at(1), at(2), at(49152)]), Some(3));
        assert_eq!(lowest_free(&[at(5)]), Some(1));
    }
}
