//! One device's attachments.

use aya::programs::{
    LinkOrder, ProgramError, TcAttachType, XdpMode,
    tc::{SchedClassifierLink, TcAttachOptions},
    xdp::XdpLink,
};
use rtnetlink::Handle;
use thiserror::Error;

use super::{
    clsact::{self, ClsactError},
    guardian::Guardian,
    load::{LoadError, Loaded},
    mode::{self, Ingress, IngressChoice, Tc, TcChoice, Traits},
};
use crate::host::qdisc::Side;

#[derive(Debug, Error)]
pub enum AttachError {
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error("{device}: {reason}")]
    Ingress { device: String, reason: String },
    #[error("{device}: TC {side:?} cannot be attached: {reason}")]
    Tc { device: String, side: Side, reason: String },
    #[error("cannot start the process that cleans up clsact filters: {0}")]
    Guardian(std::io::Error),
}

/// A device to attach to.
#[derive(Clone, Debug)]
pub struct Target {
    pub ifindex: u32,
    pub name: String,
    /// Judged NICs may get XDP; every other device gets TC on both sides.
    pub judged: bool,
    pub traits: Traits,
}

/// What holds a program in place; dropping it detaches.
#[derive(Debug)]
#[expect(dead_code, reason = "held for their Drop")]
enum Held {
    Xdp(XdpLink),
    Tc(SchedClassifierLink),
}

/// What is attached to one device. Dropping it detaches our programs.
#[derive(Debug)]
pub struct Attachment {
    pub ifindex: u32,
    pub name: String,
    pub judged: bool,
    pub ingress: Ingress,
    pub tc: Tc,
    /// Why these modes.
    pub note: String,
    /// Foreign filters that stand in front of ours: side and preference.
    pub behind: Vec<(Side, u16)>,
    /// Whether the clsact qdisc is ours.
    pub created_clsact: bool,
    held: Vec<Held>,
}

/// How TC programs get attached, found out on the first device and kept.
pub(super) struct TcHook<'a> {
    pub choice: TcChoice,
    /// Set once TCX was refused.
    pub tcx_refused: &'a mut Option<String>,
    pub handle: &'a Handle,
    pub guardian: &'a mut Option<Guardian>,
    /// The binary that can run the guardian.
    pub guardian_binary: Option<&'a std::path::Path>,
}

/// Attaches to one device: egress first, so that no probe is seen whose reply is not.
pub(super) async fn attach(
    loaded: &mut Loaded,
    target: &Target,
    choice: IngressChoice,
    tc: &mut TcHook<'_>,
) -> Result<Attachment, AttachError> {
    let mut attachment = Attachment {
        ifindex: target.ifindex,
        name: target.name.clone(),
        judged: target.judged,
        ingress: Ingress::Tc,
        tc: Tc::Tcx,
        note: String::new(),
        behind: Vec::new(),
        created_clsact: false,
        held: Vec::new(),
    };
    let wanted = if target.judged { choice } else { IngressChoice::Tc };
    let (ingress, mut note) = mode::decide(wanted, &target.traits)
        .map_err(|reason| AttachError::Ingress { device: target.name.clone(), reason })?;
    if !target.judged {
        "not judged: watched for packets from and to a source only".clone_into(&mut note);
    }
    let ethernet = target.traits.ethernet;
    let program = if ethernet { "nvaprobe_out" } else { "nvaprobe_out_l3" };
    attach_tc(loaded, &mut attachment, program, Side::Egress, tc).await?;
    attachment.ingress = ingress;
    if ingress != Ingress::Tc {
        match attach_xdp(loaded, target, ingress) {
            Ok(link) => attachment.held.push(Held::Xdp(link)),
            Err(reason) if choice == IngressChoice::Auto => {
                attachment.ingress = Ingress::Tc;
                note = format!("XDP refused ({reason})");
            }
            Err(reason) => {
                return Err(AttachError::Ingress {
                    device: target.name.clone(),
                    reason: format!("{ingress} refused: {reason}; use --ingress tc or auto"),
                });
            }
        }
    }
    if attachment.ingress == Ingress::Tc {
        let program = if ethernet { "nvaprobe_in" } else { "nvaprobe_in_l3" };
        attach_tc(loaded, &mut attachment, program, Side::Ingress, tc).await?;
    }
    if attachment.tc == Tc::Clsact
        && let (TcChoice::Auto, Some(reason)) = (tc.choice, tc.tcx_refused.as_ref())
    {
        note = format!("{note}; no TCX ({reason})");
    }
    attachment.note = note;
    Ok(attachment)
}

fn attach_xdp(loaded: &mut Loaded, target: &Target, ingress: Ingress) -> Result<XdpLink, String> {
    let mode = if ingress == Ingress::XdpNative { XdpMode::Driver } else { XdpMode::Skb };
    let program = loaded.xdp().map_err(|error| error.to_string())?;
    let id = program.attach_to_if_index(target.ifindex, mode).map_err(|error| root_cause(&error))?;
    program.take_link(id).map_err(|error| error.to_string())
}

async fn attach_tc(
    loaded: &mut Loaded,
    attachment: &mut Attachment,
    program: &'static str,
    side: Side,
    tc: &mut TcHook<'_>,
) -> Result<(), AttachError> {
    let failed = |attachment: &Attachment, reason: String| AttachError::Tc {
        device: attachment.name.clone(),
        side,
        reason,
    };
    let classifier = loaded.classifier(program)?;
    if tc.choice != TcChoice::Clsact && tc.tcx_refused.is_none() {
        let hook: TcAttachType = clsact::attach_type(side);
        // The head of the chain: a foreign terminal verdict cannot hide packets from us.
        let head = TcAttachOptions::TcxOrder(LinkOrder::first());
        match classifier.attach_with_options(&attachment.name, hook, head) {
            Ok(id) => {
                let link =
                    classifier.take_link(id).map_err(|error| failed(attachment, root_cause(&error)))?;
                attachment.tc = Tc::Tcx;
                attachment.held.push(Held::Tc(link));
                return Ok(());
            }
            Err(error) if tc.choice == TcChoice::Auto && tcx_unknown(&error) => {
                *tc.tcx_refused = Some(root_cause(&error));
            }
            Err(error) => return Err(failed(attachment, root_cause(&error))),
        }
    }
    attachment.tc = Tc::Clsact;
    if tc.guardian.is_none()
        && let Some(binary) = tc.guardian_binary
    {
        *tc.guardian = Some(Guardian::start(binary).map_err(AttachError::Guardian)?);
    }
    let needed = clsact::needed(tc.handle, attachment.ifindex).await;
    let needed = needed.map_err(|error: ClsactError| failed(attachment, error.to_string()))?;
    attachment.created_clsact |= needed;
    // The guardian knows before anything is there that it may have to remove.
    if let Some(guardian) = tc.guardian.as_mut() {
        guardian
            .watch(&attachment.name, attachment.ifindex, attachment.created_clsact)
            .map_err(AttachError::Guardian)?;
    }
    if needed {
        clsact::add(&attachment.name).map_err(|error| failed(attachment, error.to_string()))?;
    }
    let (link, in_front) = clsact::attach(tc.handle, classifier, &attachment.name, attachment.ifindex, side)
        .await
        .map_err(|error| failed(attachment, error.to_string()))?;
    attachment.behind.extend(in_front.map(|priority| (side, priority)));
    attachment.held.push(Held::Tc(link));
    Ok(())
}

/// Before 6.6 `bpf_link_create` does not know the attach type (EINVAL); a kernel built without
/// CONFIG_NET_XGRESS answers the same.
fn tcx_unknown(error: &ProgramError) -> bool {
    matches!(error, ProgramError::SyscallError(syscall)
        if matches!(syscall.io_error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP | libc::ENOSYS)))
}

/// The innermost message: the kernel's own word.
pub(super) fn root_cause(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
