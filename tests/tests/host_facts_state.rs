//! What `host` reads besides links and routes, against a real kernel: neighbours, settings, sockets, counters, IPsec.

use std::{
    net::{IpAddr, SocketAddr, TcpListener},
    time::{Duration, Instant},
};

use nix::sys::socket::{Backlog, listen, setsockopt, sockopt::BindToDevice};
use nvaprobe_tests::namespace::{in_namespace, run, sh};
use probe_user::host::{
    self, Facts,
    counters::{self, Counters},
    neighbours::{self, Resolution},
    sockets::{Detail, Listener, Reach},
    xfrm::{self, Direction, Flow},
};

/// eth0 and its peer p0 in one namespace.
const PAIR: &str = "ip link set lo up
ip link add eth0 type veth peer name p0
ip link set eth0 up && ip link set p0 up
ip addr add 10.4.2.101/24 dev eth0
ip addr add fd00:2::65/64 dev eth0 nodad";

fn read() -> Facts {
    let facts = run(Facts::read()).expect("facts");
    assert_eq!(facts.unread, []);
    facts
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn neighbours_are_read_with_their_states() {
    let neighbours = "ip neigh add 10.4.2.1 lladdr 12:34:56:78:9a:bc dev eth0 nud permanent
ip neigh add 10.4.2.2 dev eth0 nud failed
ip neigh add 10.4.2.3 lladdr 02:00:00:00:00:03 dev eth0 nud stale
ip neigh add fd00:2::1 lladdr 12:34:56:78:9a:bc dev eth0 nud reachable router";
    in_namespace(&[PAIR, neighbours], || {
        let facts = read();
        let eth0 = facts.links.by_name("eth0").unwrap().index;
        let state = |address: &str| {
            let found = neighbours::find(&facts.neighbours, eth0, ip(address));
            found.map(|found| (found.state, found.mac, found.router))
        };
        let azure = Some([0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc]);
        assert_eq!(state("10.4.2.1"), Some((Resolution::Permanent, azure, false)));
        assert_eq!(state("10.4.2.2"), Some((Resolution::Failed, None, false)));
        assert_eq!(state("10.4.2.3"), Some((Resolution::Stale, Some([2, 0, 0, 0, 0, 3]), false)));
        assert_eq!(state("fd00:2::1"), Some((Resolution::Reachable, azure, true)));
        assert_eq!(state("10.4.2.9"), None);
        // A packet to somebody who is not there: the kernel asks, in vain.
        assert!(std::net::UdpSocket::bind("10.4.2.101:0").unwrap().send_to(b"x", "10.4.2.9:9").is_ok());
        let now = run(host::neighbours()).unwrap();
        let found = neighbours::find(&now, eth0, ip("10.4.2.9")).expect("asked for");
        assert!(found.state.is_unresolved(), "{found:?}");
    });
}

#[test]
fn settings_are_those_of_this_namespace() {
    let settings = "cd /proc/sys/net
echo 0 > ipv4/conf/all/rp_filter && echo 2 > ipv4/conf/eth0/rp_filter
echo 1 > ipv4/conf/all/src_valid_mark && echo 1 > ipv4/conf/p0/accept_local
echo 1 > ipv4/ip_forward && echo 1 > ipv6/conf/all/forwarding && echo 0 > ipv4/tcp_timestamps
echo 1 > ipv4/fwmark_reflect && echo 1 > ipv4/ip_nonlocal_bind && echo 7 > core/somaxconn";
    in_namespace(&[PAIR], || {
        assert_eq!(read().sysctls.v4_forwarding, Some(false));
        sh(settings);
        let sysctls = read().sysctls;
        assert_eq!((sysctls.rp_filter("eth0"), sysctls.rp_filter("eth9")), (Some(2), None));
        assert_eq!(sysctls.src_valid_mark("eth0"), Some(true));
        assert_eq!((sysctls.accept_local("eth0"), sysctls.accept_local("p0")), (Some(false), Some(true)));
        assert_eq!((sysctls.v4_forwarding, sysctls.v6_forwarding), (Some(true), Some(true)));
        assert_eq!((sysctls.tcp_timestamps, sysctls.fwmark_reflect), (Some(0), Some(true)));
        assert_eq!((sysctls.v4_nonlocal_bind, sysctls.somaxconn), (Some(true), Some(7)));
        assert_eq!(sysctls.tcp_syncookies, Some(1));
    });
}

fn only(port: u16) -> Listener {
    let found = host::listeners(&[port].into()).expect("listeners");
    let [found] = &*found else { panic!("{found:#?}") };
    found.clone()
}

#[test]
fn listeners_tell_device_backlog_and_queue() {
    in_namespace(&[PAIR], || {
        let listener = TcpListener::bind("0.0.0.0:8008").unwrap();
        listen(&listener, Backlog::new(1).unwrap()).unwrap();
        setsockopt(&listener, BindToDevice, &"lo".into()).unwrap();
        let lo = read().links.by_name("lo").unwrap().index;
        let detail = |queue| Detail { device: Some(lo), queue, backlog: 1, v6_only: None, uid: 0 };
        assert_eq!(only(8008).detail, Some(detail(0)));
        assert!(only(8008).process.is_some());

        let to = SocketAddr::from(([127, 0, 0, 1], 8008));
        let before = Counters::read().unwrap();
        // One more than the backlog fits in; the next is not answered.
        let _first = std::net::TcpStream::connect(to).unwrap();
        let _second = std::net::TcpStream::connect(to).unwrap();
        assert!(std::net::TcpStream::connect_timeout(&to, Duration::from_millis(200)).is_err());
        assert_eq!((only(8008).detail, only(8008).is_full()), (Some(detail(2)), Some(true)));
        let rose = Counters::read().unwrap().since(&before);
        assert!(rose.rose(counters::LISTEN_OVERFLOWS) && rose.rose(counters::LISTEN_DROPS), "{rose:?}");
        assert_eq!(rose.get(counters::OUT_NO_ROUTES), Some(0));

        assert_eq!(only(8008).hears(ip("127.0.0.1"), lo, None, None), Reach::Yes);
        assert_eq!(only(8008).hears(ip("127.0.0.1"), lo + 1, None, None), Reach::OtherDevice);
    });
}

#[test]
fn both_ip_versions_are_told_apart() {
    in_namespace(&[PAIR], || {
        let _dual = TcpListener::bind("[::]:8008").unwrap();
        let _bound = TcpListener::bind("10.4.2.101:8009").unwrap();
        let eth0 = read().links.by_name("eth0").unwrap().index;
        assert_eq!(only(8008).detail.unwrap().v6_only, Some(false));
        assert_eq!(only(8008).hears(ip("10.4.2.101"), eth0, None, None), Reach::Yes);
        assert_eq!(only(8009).hears(ip("10.4.3.101"), eth0, None, None), Reach::OtherAddress);
        sh("echo 1 > /proc/sys/net/ipv6/bindv6only");
        let _v6_only = TcpListener::bind("[::]:8010").unwrap();
        assert_eq!(only(8010).hears(ip("10.4.2.101"), eth0, None, None), Reach::OtherAddress);
        assert_eq!(only(8010).hears(ip("fd00:2::65"), eth0, None, None), Reach::Yes);
    });
}

#[test]
fn half_open_requests_are_found_by_tuple() {
    // The answer is lost on its way out: the request stays half open.
    let drop = "nft 'table ip t { chain o { type filter hook output priority security; tcp flags syn,ack / syn,ack drop; }; }'";
    in_namespace(&[PAIR, drop], || {
        let _listener = TcpListener::bind("0.0.0.0:8008").unwrap();
        let to = SocketAddr::from(([10, 4, 2, 101], 8008));
        assert!(std::net::TcpStream::connect_timeout(&to, Duration::from_millis(100)).is_err());
        let found = host::requests(&["10.4.2.101/32".parse().unwrap()]).unwrap();
        let [request] = &*found else { panic!("{found:#?}") };
        assert_eq!((request.local, request.remote.ip()), (to, ip("10.4.2.101")));
        assert_eq!(read().requests, found);
        assert_eq!(host::requests(&["10.9.0.0/16".parse().unwrap()]), Ok(Vec::new()));
    });
}

#[test]
fn counters_tell_why_packets_are_lost() {
    in_namespace(&[PAIR], || {
        let before = read().counters;
        let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
        assert!(socket.send_to(b"x", "192.0.2.1:9").is_err());
        let rose = read().counters.since(&before);
        assert_eq!(rose.get(counters::OUT_NO_ROUTES), Some(1));
        assert_eq!(rose.get(counters::REVERSE_PATH_FILTER), Some(0));
        assert_eq!(rose.get(counters::OUT6_NO_ROUTES), Some(0));
        assert_eq!(rose.get(counters::IN6_ADDR_ERRORS), Some(0));
    });
}

#[test]
fn policies_read_as_ip_prints_them() {
    let policies = "ip xfrm policy add src 10.4.2.0/24 dst 168.63.129.16/32 proto tcp dport 80 dir out priority 9 mark 1 mask 0xff \
tmpl src 10.4.2.101 dst 192.0.2.1 proto esp mode tunnel
ip xfrm policy add src fd00:2::/64 dst ::/0 dir out action block
ip xfrm policy add src 10.0.0.0/8 dst 10.4.2.0/24 dev eth0 dir in priority 3 tmpl proto esp mode transport";
    in_namespace(&[PAIR], || {
        assert_eq!(read().xfrm, []);
        sh(policies);
        let facts = read();
        let mut texts: Vec<_> = facts.xfrm.iter().map(|policy| policy.text(&facts.links)).collect();
        texts.sort();
        assert_eq!(
            texts,
            [
                "src 10.0.0.0/8 dst 10.4.2.0/24 dev eth0 dir in priority 3 tmpl proto esp mode transport",
                "src 10.4.2.0/24 dst 168.63.129.16 proto tcp dport 80 dir out priority 9 mark 0x1/0xff tmpl src 10.4.2.101 dst 192.0.2.1 proto esp mode tunnel",
                "src fd00:2::/64 dst ::/0 dir out action block",
            ]
        );
        let eth0 = facts.links.by_name("eth0").map(|link| link.index);
        assert!(facts.xfrm.iter().any(|policy| policy.direction == Direction::In && policy.device == eth0));
        let flow = Flow {
            from: ip("10.4.2.101"),
            to: ip("168.63.129.16"),
            protocol: 6,
            from_port: 8008,
            to_port: 80,
            device: eth0,
            mark: 1,
        };
        assert!(xfrm::deciding(&facts.xfrm, Direction::Out, &flow).expect("captured").captures());
        assert_eq!(xfrm::deciding(&facts.xfrm, Direction::Out, &Flow { mark: 2, ..flow }), None);
    });
}

#[test]
fn everything_is_read_within_a_fifth_of_a_second() {
    let busy = "nft 'table inet t { chain i { type filter hook input priority 0; policy accept; }; }'
for number in $(seq 1 500); do echo \"add rule inet t i ip saddr 10.0.0.$((number % 250)) tcp dport $number counter accept\"; done | nft -f -
iptables-legacy -A INPUT -p tcp --dport 22 -j ACCEPT";
    in_namespace(&[PAIR, busy], || {
        let times = (0..5).map(|_| {
            let start = Instant::now();
            assert_eq!(read().firewall.chains.len(), 4);
            start.elapsed()
        });
        let best = times.min().unwrap();
        println!("everything read in {best:?}");
        assert!(best < Duration::from_millis(200), "{best:?}");
    });
}
