//! Which ingress hook a NIC gets, and why: a pure decision table.

use std::fmt;

/// What the user asked for with `--ingress`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum IngressChoice {
    /// Native XDP where attaching is free of side effects, TC ingress elsewhere.
    #[default]
    Auto,
    /// Native XDP, or fail.
    Xdp,
    /// Generic XDP, or fail.
    XdpGeneric,
    /// TC ingress.
    Tc,
}

/// What the user asked for with `--tc`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum TcChoice {
    /// TCX where the kernel has it (6.6 on), a clsact filter otherwise.
    #[default]
    Auto,
    /// TCX, or fail.
    Tcx,
    /// A netlink filter on clsact.
    Clsact,
}

/// The ingress hook in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ingress {
    XdpNative,
    XdpGeneric,
    Tc,
}

impl fmt::Display for Ingress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::XdpNative => "xdp-native",
            Self::XdpGeneric => "xdp-generic",
            Self::Tc => "tc",
        })
    }
}

/// How the TC programs are attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tc {
    Tcx,
    Clsact,
}

impl fmt::Display for Tc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Tcx => "tcx",
            Self::Clsact => "clsact",
        })
    }
}

/// What the decision needs to know of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traits {
    /// Whether frames start with an Ethernet header; XDP is used only then.
    pub ethernet: bool,
    /// Driver or kind, as the kernel names it.
    pub driver: Option<String>,
    /// Program id of an XDP program that is there already: never replaced.
    pub foreign_xdp: Option<u32>,
}

/// Drivers on which attaching native XDP changes nothing for traffic.
/// veth: no rings to reset (drivers/net/veth.c); virtio_net: queues are set up for XDP at probe time
/// (drivers/net/virtio_net.c `virtnet_xdp_set`).
const HARMLESS: [&str; 2] = ["veth", "virtio_net"];

/// Drivers on which attaching native XDP disturbs traffic, with the reason.
const DISTURBED: [(&str, &str); 4] = [
    ("hv_netvsc", "with XDP every packet is copied and large frames are dropped (netvsc_bpf.c)"),
    ("mlx5_core", "switching XDP on reopens all channels (mlx5e 86994156c736)"),
    ("mlx4_en", "switching XDP on restarts the port"),
    ("mana", "attaching limits the MTU, and newer drivers re-create the queues (mana_xdp_set)"),
];

/// The hook to try, with a sentence that says why. `Err` when the demand cannot be met.
pub fn decide(choice: IngressChoice, device: &Traits) -> Result<(Ingress, String), String> {
    let blocked = if device.ethernet {
        device.foreign_xdp.map(|id| format!("XDP program {id} of somebody else is attached"))
    } else {
        Some("no Ethernet header".to_owned())
    };
    match (choice, blocked) {
        (IngressChoice::Tc, _) => Ok((Ingress::Tc, "asked for".to_owned())),
        (IngressChoice::Xdp | IngressChoice::XdpGeneric, Some(reason)) => {
            Err(format!("{reason}; use --ingress tc or auto"))
        }
        (IngressChoice::Xdp, None) => Ok((Ingress::XdpNative, "asked for".to_owned())),
        (IngressChoice::XdpGeneric, None) => Ok((Ingress::XdpGeneric, "asked for".to_owned())),
        (IngressChoice::Auto, Some(reason)) => Ok((Ingress::Tc, reason)),
        (IngressChoice::Auto, None) => Ok(automatic(device.driver.as_deref())),
    }
}

fn automatic(driver: Option<&str>) -> (Ingress, String) {
    let Some(driver) = driver else {
        return (Ingress::Tc, "driver unknown: TC ingress is free of side effects".to_owned());
    };
    if HARMLESS.contains(&driver) {
        return (Ingress::XdpNative, format!("{driver}: native XDP is free of side effects"));
    }
    match DISTURBED.iter().find(|(name, _)| *name == driver) {
        Some((_, reason)) => (Ingress::Tc, format!("{driver}: {reason}")),
        None => (Ingress::Tc, format!("{driver}: native XDP untried on this driver")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ethernet(driver: &str) -> Traits {
        Traits { ethernet: true, driver: Some(driver.to_owned()), foreign_xdp: None }
    }

    #[test]
    fn auto_takes_native_xdp_only_where_it_is_free_of_side_effects() {
        for (driver, expected) in [
            ("veth", Ingress::XdpNative),
            ("virtio_net", Ingress::XdpNative),
            ("hv_netvsc", Ingress::Tc),
            ("mlx5_core", Ingress::Tc),
            ("mlx4_en", Ingress::Tc),
            ("mana", Ingress::Tc),
            ("e1000e", Ingress::Tc),
        ] {
            let (mode, note) = decide(IngressChoice::Auto, &ethernet(driver)).expect("auto always decides");
            assert_eq!(mode, expected, "{driver}");
            assert!(note.starts_with(driver), "{note}");
        }
    }

    #[test]
    fn a_foreign_program_is_never_replaced() {
        let taken = Traits { foreign_xdp: Some(7), ..ethernet("veth") };
        assert_eq!(decide(IngressChoice::Auto, &taken).map(|(mode, _)| mode), Ok(Ingress::Tc));
        for demand in [IngressChoice::Xdp, IngressChoice::XdpGeneric] {
            let refusal = decide(demand, &taken).expect_err("the hook is taken");
            assert!(refusal.contains("program 7"), "{refusal}");
        }
    }

    #[test]
    fn devices_without_ethernet_header_get_tc() {
        let tun = Traits { ethernet: false, driver: Some("tun".to_owned()), foreign_xdp: None };
        assert_eq!(decide(IngressChoice::Auto, &tun).map(|(mode, _)| mode), Ok(Ingress::Tc));
        assert!(decide(IngressChoice::Xdp, &tun).is_err());
    }
}
