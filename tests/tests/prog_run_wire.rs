//! What `BPF_PROG_RUN` cannot make: tags that the kernel takes out of the frame before TC ingress, and packets whose
//! headers cannot be read directly. On a veth pair in namespaces of their own; what the programs observe must be what
//! the same code makes of the same bytes in userspace.

use std::{
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    time::{Duration, Instant},
};

use aya::programs::{TcAttachType, XdpMode};
use nix::net::if_::if_nametoindex;
use nvaprobe_tests::{
    kernel::{Effect, HOOKS, Hook, Kernel, Shadow, timeless},
    packets::*,
};
use probe_common::{
    counters::{Outcome, Program},
    observation::Role,
};
use probe_user::lab::{netlink::End, netns::Namespace};

const XDP: Hook = HOOKS[0];
const IN: Hook = HOOKS[1];
const OUT: Hook = HOOKS[2];

const MTU: u32 = 9000;
const NEAR: &str = "near";
const FAR: &str = "far";

/// A veth pair, each end in a namespace.
struct Wire {
    near: Namespace,
    far: Namespace,
}

impl Wire {
    fn new() -> Self {
        let near = Namespace::new("wire near").expect("a namespace (as root)");
        let far = Namespace::new("wire far").expect("a namespace");
        let end = |name: &str, last| End { name: name.to_owned(), mac: [2, 0, 0, 0, 0, last], mtu: MTU };
        near.netlink(|netlink| netlink.veth(&end(NEAR, 1), &end(FAR, 2), &far)).expect("a veth pair");
        far.netlink(|netlink| netlink.up(FAR)).expect("the far end comes up");
        near.netlink(|netlink| netlink.up(NEAR)).expect("the near end comes up");
        Self { near, far }
    }

    /// What `hook`, attached to the near end, does with a frame that crosses it. `linear` is how much of the frame can
    /// be read directly; the rest lies in pages of its own.
    fn effect(&self, hook: Hook, mode: XdpMode, frame: &[u8], linear: usize) -> (Effect, Effect) {
        let namespace = if hook == OUT { &self.near } else { &self.far };
        let device = if hook == OUT { NEAR } else { FAR };
        let sender = namespace.run(|| Sender::open(device)).expect("a thread in the namespace");
        self.near
            .run(|| {
                let mut kernel = Kernel::load();
                let device = if_nametoindex(NEAR).expect("the near end is here");
                if hook.program == Program::Xdp {
                    let xdp = kernel.loaded.xdp().expect("the XDP program loads");
                    xdp.attach_to_if_index(device, mode).expect("XDP attaches to veth");
                } else {
                    let side = if hook == OUT { TcAttachType::Egress } else { TcAttachType::Ingress };
                    let classifier = kernel.loaded.classifier(hook.name).expect("the classifier loads");
                    classifier.attach(NEAR, side).expect("the classifier attaches to veth");
                }
                sender.send(frame, linear);
                let effect = wait(&mut kernel, hook);
                let expected = Shadow::default().effect(hook, &kernel.sources, device, frame);
                (timeless(effect), expected)
            })
            .expect("a thread in the namespace")
    }
}

/// The effect of the first packet that is no stranger's: the kernel's own multicasts may come before it.
fn wait(kernel: &mut Kernel, hook: Hook) -> Effect {
    let end = Instant::now() + Duration::from_secs(5);
    let strangers = [Outcome::IgnoredForeign, Outcome::IgnoredNotIp];
    loop {
        let counters = kernel.counters(hook.program);
        assert!(counters.reconciles() || Instant::now() < end, "{counters:?}");
        let ours = Outcome::ALL.into_iter().find(|o| !strangers.contains(o) && counters.outcome(*o) > 0);
        if let Some(outcome) = ours {
            return Effect { returned: hook.pass, outcome, observed: kernel.drain() };
        }
        assert!(Instant::now() < end, "{}: the packet did not come: {counters:?}", hook.name);
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A raw socket that says how much of a frame is linear.
struct Sender(OwnedFd);

impl Sender {
    fn open(device: &str) -> Self {
        let index = if_nametoindex(device).expect("the device is here");
        // SAFETY: a plain system call without pointers.
        let raw = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        assert!(raw >= 0, "a raw socket: {}", std::io::Error::last_os_error());
        // SAFETY: the descriptor is new and nobody else's.
        let fd = unsafe { OwnedFd::from_raw_fd(raw) };
        let on: libc::c_int = 1;
        // SAFETY: the value is an int of the length given, and outlives the call.
        let set = unsafe {
            libc::setsockopt(
                fd.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_VNET_HDR,
                (&raw const on).cast(),
                size_of_val(&on) as libc::socklen_t,
            )
        };
        assert_eq!(set, 0, "PACKET_VNET_HDR: {}", std::io::Error::last_os_error());
        // SAFETY: an all-zero sockaddr_ll is valid.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_ifindex = index as i32;
        // SAFETY: the address is a filled sockaddr_ll of the length given, and outlives the call.
        let bound = unsafe {
            libc::bind(fd.as_raw_fd(), (&raw const address).cast(), size_of_val(&address) as libc::socklen_t)
        };
        assert_eq!(bound, 0, "bind: {}", std::io::Error::last_os_error());
        Self(fd)
    }

    fn send(&self, frame: &[u8], linear: usize) {
        // struct virtio_net_hdr: flags, GSO type, header length, GSO size, checksum start and offset. The kernel makes
        // the skb linear up to the header length if the frame does not fit into a page (packet_alloc_skb).
        let [low, high] = (linear as u16).to_le_bytes();
        let bytes = [&[0, 0, low, high, 0, 0, 0, 0, 0, 0], frame].concat();
        let sent = nix::unistd::write(&self.0, &bytes).expect("the frame is sent");
        assert_eq!(sent, bytes.len());
    }
}

/// The prober's SYN in a frame with tags, whose data fill `length` bytes.
fn probe(tags: &[(u16, u16)], length: usize) -> Vec<u8> {
    ethernet(tags, 0x0800, &in4(&Tcp { payload: vec![b'x'; length], ..syn() }))
}

#[test]
fn tags_are_seen_in_the_frame_and_out_of_it() {
    let wire = Wire::new();
    for tags in [vec![(0x8100, 0x6005)], vec![(0x88a8, 7), (0x8100, 5)], vec![(0x8100, 0)]] {
        for (hook, mode) in [(XDP, XdpMode::Driver), (XDP, XdpMode::Skb), (IN, XdpMode::Default)] {
            let (effect, expected) = wire.effect(hook, mode, &probe(&tags, 0), 14);
            let context = format!("{} {mode:?} {tags:?}", hook.name);
            assert_eq!(effect, expected, "{context}");
            let [observation] = effect.observed.as_slice() else { panic!("{context}: {effect:?}") };
            assert_eq!(observation.role(), Some(Role::Probe), "{context}");
            for (index, (_, tci)) in tags.iter().enumerate() {
                assert_eq!(observation.vlan[index], tci & 0x0fff | 0x1000, "{context}");
            }
        }
    }
}

#[test]
fn three_tags_are_too_many_wherever_they_are() {
    let wire = Wire::new();
    let frame = probe(&[(0x88a8, 7), (0x8100, 5), (0x8100, 6)], 0);
    for hook in [XDP, IN] {
        let (effect, expected) = wire.effect(hook, XdpMode::default(), &frame, 14);
        assert_eq!(effect, expected, "{}", hook.name);
        assert_eq!(effect.outcome, Outcome::FailedTooDeep, "{}", hook.name);
    }
}

#[test]
fn headers_that_cannot_be_read_directly_are_copied() {
    let wire = Wire::new();
    // 14 bytes: not even the IP header is linear; 40: the TCP header is not.
    for linear in [14, 40] {
        for hook in [XDP, IN, OUT] {
            let tcp = Tcp { payload: (0..6000u16).map(|n| n as u8).collect(), ..reply(RST | ACK) };
            let packet = if hook == OUT {
                // Forwarded: no connection need be known.
                frame(&ip4(PROBER4, LOCAL4, 6, &tcp.bytes()))
            } else {
                probe(&[], 6000)
            };
            let (effect, expected) = wire.effect(hook, XdpMode::default(), &packet, linear);
            let context = format!("{} with {linear} linear bytes", hook.name);
            assert_eq!(effect, expected, "{context}");
            assert_eq!(effect.outcome, Outcome::Followed, "{context}");
            let [observation] = effect.observed.as_slice() else { panic!("{context}: {effect:?}") };
            assert_eq!((observation.payload_length, observation.captured), (6000, 128), "{context}");
        }
    }
}
