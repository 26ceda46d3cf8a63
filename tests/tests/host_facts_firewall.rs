//! Firewalls as people set them up, read back and judged; and what the judge says against what the kernel does.

use std::{
    fmt::Write as _,
    net::{SocketAddr, TcpListener},
    time::Duration,
};

use nvaprobe_tests::namespace::{in_namespace, run, sh};
use probe_user::host::{
    Facts,
    firewall::{CtState, Device, Hook, Outcome, Owner, Packet, Place, Verdict, blocking, passing},
};
use probe_user::lab::{netlink::End, netns::Namespace};

const PAIR: &str = "ip link set lo up
ip link add eth1 type veth peer name p1
ip link set eth1 up && ip link set p1 up";

fn read() -> Facts {
    let facts = run(Facts::read()).expect("facts");
    assert_eq!(facts.unread, []);
    facts
}

fn eth1() -> Device {
    Device { index: 3, name: "eth1".to_owned() }
}

fn syn(hook: Hook) -> Packet {
    Packet::syn(hook, eth1(), "168.63.129.16:50000".parse().unwrap(), "10.4.3.101:8008".parse().unwrap())
}

fn syn_ack(hook: Hook) -> Packet {
    let (from, to) = ("10.4.3.101:8008".parse().unwrap(), "168.63.129.16:50000".parse().unwrap());
    Packet { owner: Owner::User(0), ..Packet::syn_ack(hook, eth1(), from, to) }
}

/// The first place that surely stops the packet, in words.
fn stopped(facts: &Facts, packet: &Packet) -> Option<String> {
    blocking(&facts.firewall, packet).iter().find_map(Verdict::stops).map(Place::text)
}

fn all_accept(facts: &Facts, packet: &Packet) -> bool {
    blocking(&facts.firewall, packet).iter().all(|verdict| verdict.outcome == Outcome::Accepts)
}

/// The agent's lock-down of the wire server (S26, S27), by both kinds of iptables.
#[test]
fn the_security_table_is_found_by_both_iptables() {
    let drop = "-t security -A OUTPUT -d 168.63.129.16 -p tcp -j DROP";
    let by_state = "-t security -A OUTPUT -d 168.63.129.16 -p tcp -m conntrack --ctstate INVALID,NEW -j DROP";
    let by_owner = "-t security -A OUTPUT -d 168.63.129.16 -p tcp -m owner --uid-owner 0 -j ACCEPT";
    for (tool, place) in [
        ("iptables-legacy", "iptables -t security, chain OUTPUT, rule 1: "),
        ("iptables-nft", "nft table ip security, chain OUTPUT, handle "),
    ] {
        in_namespace(&[PAIR, &format!("{tool} {drop}")], || {
            let place = stopped(&read(), &syn_ack(Hook::Output)).filter(|text| text.starts_with(place));
            assert!(place.is_some_and(|text| text.contains("168.63.129.16")), "{tool}");
        });
        in_namespace(&[PAIR, &format!("{tool} {by_state}")], || {
            let facts = read();
            assert!(all_accept(&facts, &syn_ack(Hook::Output)), "{:#?}", facts.firewall);
            for state in [CtState::New, CtState::Invalid] {
                let stray = Packet { ct_state: Some(state), ..syn_ack(Hook::Output) };
                assert!(stopped(&facts, &stray).is_some_and(|text| text.starts_with(place)), "{tool}");
            }
        });
        in_namespace(&[PAIR, &format!("{tool} {by_owner} && {tool} {drop}")], || {
            let facts = read();
            assert_eq!(stopped(&facts, &syn_ack(Hook::Output)), None);
            let reset = Packet { owner: Owner::Nobody, ..syn_ack(Hook::Output) };
            assert!(stopped(&facts, &reset).is_some());
        });
    }
}

#[test]
fn every_legacy_table_and_both_ip_versions_are_read() {
    let rules = "for table in filter mangle raw security nat; do
  iptables-legacy -t $table -A OUTPUT -d 192.0.2.1 -j ACCEPT
done
ip6tables-legacy -t raw -A PREROUTING -s fe80::/10 -p tcp --dport 8008 -j DROP
iptables-legacy -P FORWARD DROP";
    in_namespace(&[PAIR, rules], || {
        let facts = read();
        let tables: Vec<_> =
            blocking(&facts.firewall, &Packet { ct_state: Some(CtState::New), ..syn_ack(Hook::Output) })
                .into_iter()
                .map(|verdict| (verdict.table, verdict.priority))
                .collect();
        let expected = [("raw", -300), ("mangle", -150), ("nat", -100), ("filter", 0), ("security", 50)];
        assert_eq!(tables, expected.map(|(table, priority)| (table.to_owned(), priority)));
        let v6 = Packet::syn(
            Hook::Prerouting,
            eth1(),
            "[fe80::1234:5678:9abc]:50000".parse().unwrap(),
            "[fd00:3::65]:8008".parse().unwrap(),
        );
        let place =
            "ip6tables -t raw, chain PREROUTING, rule 1: -s fe80::/10 -p tcp -m tcp --dport 8008 -j DROP";
        assert_eq!(stopped(&facts, &v6).as_deref(), Some(place));
        let forwarded = Packet { forwarded: true, oif: Some(eth1()), ..syn(Hook::Forward) };
        let policy = "iptables -t filter, chain FORWARD: policy DROP".to_lowercase();
        assert_eq!(stopped(&facts, &forwarded).map(|text| text.to_lowercase()), Some(policy));
    });
}

#[test]
fn nft_drops_are_named_by_table_chain_and_handle() {
    let rules = r#"nft -f - <<'N'
table inet fw {
  set probers { type ipv4_addr; flags interval; elements = { 168.63.129.16, 169.254.0.0/16 } }
  chain input {
    type filter hook input priority filter; policy drop;
    iifname "eth0" tcp dport 8008 accept
    ip saddr @probers jump probes
  }
  chain probes { tcp dport { 22, 8008 } counter drop; }
}
table netdev early { chain in { type filter hook ingress device "eth1" priority 0; ip saddr 168.63.129.16 tcp dport 9000 drop; }; }
table ip off { flags dormant; chain o { type filter hook output priority 5; policy drop; }; }
N
"#;
    in_namespace(&[PAIR, rules], || {
        let facts = read();
        let place = stopped(&facts, &syn(Hook::Input)).expect("dropped");
        assert!(place.starts_with("nft table inet fw, chain probes, handle "), "{place}");
        assert!(place.ends_with(": tcp dport { 22, 8008 } counter packets 0 bytes 0 drop"), "{place}");
        let other = Packet { to_port: 80, ..syn(Hook::Input) };
        assert_eq!(stopped(&facts, &other).as_deref(), Some("nft table inet fw, chain input: policy drop"));
        let eth0 = Packet { iif: Some(Device { index: 9, name: "eth0".to_owned() }), ..syn(Hook::Input) };
        assert_eq!(stopped(&facts, &eth0), None);
        let early = Packet { to_port: 9000, ..syn(Hook::Ingress) };
        assert!(stopped(&facts, &early).is_some_and(|place| place.contains("netdev early")));
        assert_eq!(blocking(&facts.firewall, &Packet { iif: eth0.iif, ..early }), []);
        // Switched off: it does nothing.
        assert_eq!(blocking(&facts.firewall, &syn_ack(Hook::Output)), []);
    });
}

#[test]
fn a_host_without_rules_needs_no_tool() {
    in_namespace(&[PAIR], || {
        let facts = read();
        assert_eq!((facts.firewall.chains.len(), facts.firewall.unread.len()), (0, 0));
        assert_eq!(blocking(&facts.firewall, &syn(Hook::Input)), []);
    });
}

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        // Knuth's MMIX constants.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.roll(from.len())]
    }

    fn some(&mut self, most: usize, from: &[&str]) -> String {
        (0..self.roll(most + 1)).map(|_| self.pick(from).to_owned() + " ").collect()
    }
}

/// What became of a connection from 10.4.3.1 to 10.4.3.101:8008.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    Open,
    Refused,
    Lost,
}

fn connect(from: SocketAddr, to: SocketAddr, patience: Duration) -> Fate {
    run(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(from).unwrap();
        match tokio::time::timeout(patience, socket.connect(to)).await {
            Ok(Ok(_)) => Fate::Open,
            Ok(Err(error)) if error.kind() == std::io::ErrorKind::ConnectionRefused => Fate::Refused,
            Ok(Err(error)) => panic!("{error}"),
            Err(_) => Fate::Lost,
        }
    })
}

/// What the judge says about the SYN of that connection, and about the SYN-ACK; `None` when it cannot tell.
fn foretold(facts: &Facts, from: SocketAddr, to: SocketAddr) -> Option<Fate> {
    let eth1 = facts.links.by_name("eth1").unwrap();
    let eth1 = || Device { index: eth1.index, name: eth1.name.clone() };
    let syn = Packet { mark: Some(0), to_local: Some(true), ..Packet::syn(Hook::Ingress, eth1(), from, to) };
    let (there, arrived) = passing(&facts.firewall, &syn, &[Hook::Ingress, Hook::Prerouting, Hook::Input]);
    for verdict in there {
        match verdict.outcome {
            Outcome::Accepts => {}
            Outcome::Drops(_) => return Some(Fate::Lost),
            Outcome::Rejects(_) => return Some(Fate::Refused),
            Outcome::Translates(_) | Outcome::CannotTell { .. } => return None,
        }
    }
    let answer = Packet { mark: Some(0), owner: Owner::User(0), ..arrived.answer(Hook::Output, eth1()) };
    for verdict in passing(&facts.firewall, &answer, &[Hook::Output, Hook::Postrouting]).0 {
        match verdict.outcome {
            Outcome::Accepts => {}
            // Who is told about a reply that is rejected is this host itself.
            Outcome::Drops(_) | Outcome::Rejects(_) => return Some(Fate::Lost),
            Outcome::Translates(_) | Outcome::CannotTell { .. } => return None,
        }
    }
    Some(Fate::Open)
}

/// Many rulesets made by `rules`, each loaded, judged and tried.
fn compare(cases: u16, mut rules: impl FnMut(&mut Dice) -> (String, String) + Send) {
    let (mut told, mut seen) = (0, [0; 3]);
    in_namespace(&["ip link set lo up"], || {
        let client = Namespace::new("client").unwrap();
        let end = |name: &str, last| End { name: name.to_owned(), mac: [2, 0, 0, 0, 0, last], mtu: 1500 };
        let server = Namespace::current("server").unwrap();
        server.netlink(|netlink| netlink.veth(&end("eth1", 1), &end("p1", 2), &client)).unwrap();
        sh("ip addr add 10.4.3.101/24 dev eth1 && ip link set eth1 up");
        client.run(|| sh("ip addr add 10.4.3.1/24 dev p1 && ip link set p1 up")).unwrap();
        let to = SocketAddr::from(([10, 4, 3, 101], 8008));
        let _listener = TcpListener::bind(to).unwrap();

        let mut dice = Dice(7);
        for case in 0..cases {
            let (load, unload) = rules(&mut dice);
            sh(&load);
            let facts = read();
            let from = SocketAddr::from(([10, 4, 3, 1], 20_000 + case));
            if let Some(expected) = foretold(&facts, from, to) {
                // What is lost is lost soon; what comes may take a busy machine its time.
                let patience = Duration::from_millis(if expected == Fate::Lost { 100 } else { 5000 });
                let fate = client.run(|| connect(from, to, patience)).unwrap();
                assert_eq!(expected, fate, "case {case}\n{load}\n{}", sh("nft -a list ruleset"));
                told += 1;
                seen[fate as usize] += 1;
            }
            sh(&unload);
        }
    });
    println!("told {told} of {cases}: open, refused, lost {seen:?}");
    assert!(told * 2 > cases && seen.iter().all(|count| *count >= 2), "{told} of {cases}, {seen:?}");
}

#[test]
fn the_kernel_does_with_nftables_what_the_judge_says() {
    let conditions = [
        "ip saddr 10.4.3.1",
        "ip saddr != 10.4.0.0/16",
        "ip saddr { 192.168.0.0/16, 10.4.3.1-10.4.3.9 }",
        "ip saddr @some",
        "ip daddr != @some",
        "ip6 saddr ::1",
        "ip6 saddr != ::1",
        "tcp dport 8008",
        "tcp dport != { 22, 80-90 }",
        "tcp dport >= 1024",
        "tcp dport < 1024",
        "tcp sport 20000-20040",
        "udp dport 8008",
        "udp dport != 53",
        "th dport 8008",
        "iifname \"eth1\"",
        "iifname \"eth*\"",
        "iif eth1",
        "iifname != \"eth1\"",
        "oifname \"eth1\"",
        "oifname != \"eth1\"",
        "meta nfproto ipv4",
        "meta nfproto ipv6",
        "ip6 daddr fe80::/10",
        "meta nfproto ipv6",
        "meta protocol ip",
        "meta l4proto tcp",
        "meta l4proto { udp, icmp }",
        "ip protocol tcp",
        "ip6 nexthdr tcp",
        "ct state new",
        "ct state invalid",
        "ct state established,related",
        "ct state != established",
        "ct state { new, untracked }",
        "meta mark 1",
        "meta mark & 0xf == 0",
        "meta mark != 2",
        "ip saddr . tcp dport { 10.4.3.1 . 8008, 10.0.0.1 . 1 }",
        "ip saddr . tcp dport != { 10.4.0.0/16 . 1-9000 }",
        "tcp flags syn",
        "tcp flags & (syn | ack) == syn",
        "tcp flags ! ack",
        "fib daddr type local",
        "fib daddr type != local",
        "icmp type echo-request",
        "meta skuid 0",
        "meta skuid != 0",
        "meta pkttype host",
        "ip dscp cs1",
        "limit rate 1/second",
        "ip daddr & 255.0.0.0 == 10.0.0.0",
        "ip frag-off & 0x1fff != 0",
    ];
    let ends = [
        "accept",
        "accept",
        "accept",
        "drop",
        "drop",
        "reject",
        "reject with tcp reset",
        "jump own",
        "goto own",
        "return",
        "counter",
        "continue",
        "meta mark set 1",
        "meta mark set 2",
        "tcp dport vmap { 22 : drop, 8000-9000 : jump own }",
        "ct state vmap { new : goto own, invalid : drop }",
        "ip saddr vmap { 10.4.0.0/16 : return, 192.168.0.0/16 : drop }",
        "meta mark vmap @marks",
        "notrack",
        "log",
    ];
    compare(60, |dice| {
        let mut script = String::from(TABLE);
        let mut add = |dice: &mut Dice, chain: &str| {
            let mut end = dice.pick(&ends);
            if chain == "own" && end.contains("own") || end == "notrack" {
                end = "drop";
            }
            // Some conditions exclude each other; nft does not take such a rule.
            let rule = format!("{}{end}", dice.some(3, &conditions));
            let _ = writeln!(script, "nft 'add rule inet t {chain} {rule}' 2>/dev/null || true");
        };
        for _ in 0..=dice.roll(3) {
            add(dice, "own");
        }
        let mut chains = String::new();
        for (name, hook) in HOOKS {
            if dice.roll(2) == 0 {
                continue;
            }
            let policy = dice.pick(&["accept", "accept", "drop"]);
            let notrack = if name == "a" && dice.roll(8) == 0 { "notrack;" } else { "" };
            // Only the SYN and its answer are judged: everything that comes after them passes.
            let judged = if name == "e" { "(syn | ack)" } else { "syn" };
            let _ = writeln!(
                chains,
                "chain {name} {{ type filter hook {hook}; policy {policy}; meta l4proto != tcp accept; \
                 tcp flags & (syn | ack) != {judged} accept; {notrack} }}"
            );
            for _ in 0..=dice.roll(4) {
                add(dice, name);
            }
        }
        (script.replace("CHAINS", &chains), "nft flush ruleset".to_owned())
    });
}

const TABLE: &str = "nft -f - <<'N'
table inet t {
set some { type ipv4_addr; flags interval; elements = { 10.4.3.1, 192.168.0.0/16 }; }
map marks { type mark : verdict; elements = { 1 : drop, 2 : accept }; }
chain own { }
CHAINS
}
N
";

const HOOKS: [(&str, &str); 5] = [
    ("a", "prerouting priority -300"),
    ("b", "prerouting priority -150"),
    ("c", "input priority 0"),
    ("d", "input priority 10"),
    ("e", "output priority 50"),
];

#[test]
fn the_kernel_does_with_both_iptables_what_the_judge_says() {
    let conditions = [
        "-s 10.4.3.1",
        "! -s 10.4.0.0/16",
        "-d 10.4.3.101/255.255.255.0",
        "-i eth1",
        "-i eth+",
        "! -i eth1",
        "-m mark --mark 1",
        "-m mark ! --mark 0/0xf",
        "-m conntrack --ctstate NEW",
        "-m conntrack ! --ctstate NEW,ESTABLISHED",
        "-m state --state INVALID",
        "-m multiport --dports 22,8000:9000",
        "-m multiport ! --sports 1:1024",
        "-m tcp --dport 8008",
        "-m tcp ! --dport 1:1024",
        "-m tcp --sport 20000:20020",
        "-m tcp --syn",
        "-m iprange --src-range 10.4.3.1-10.4.3.3",
        "-m addrtype --dst-type LOCAL",
        "-m comment --comment \"it is\"",
        "-m limit --limit 1/s",
        "-m pkttype --pkt-type unicast",
    ];
    let ends =
        ["ACCEPT", "ACCEPT", "DROP", "REJECT", "REJECT --reject-with tcp-reset", "own", "RETURN", "LOG"];
    let replies = [
        "-o eth1",
        "! -o eth1",
        "-d 10.4.3.1",
        "-m conntrack --ctstate INVALID,NEW",
        "-m conntrack --ctstate ESTABLISHED",
        "-m owner --uid-owner 0",
        "-m owner ! --uid-owner 0",
        "-m owner --uid-owner 1-9",
        "-m tcp --sport 8008",
    ];
    for tool in ["iptables-legacy", "iptables-nft"] {
        compare(25, |dice| {
            let mut commands = format!(
                "{tool} -N own\n{tool} -A INPUT -p tcp ! --syn -j ACCEPT\n{tool} -A INPUT ! -p tcp -j ACCEPT\n"
            );
            for chain in ["own", "own", "INPUT", "INPUT", "INPUT"] {
                let end = dice.pick(&ends);
                let end = if chain == "own" && end == "own" { "DROP" } else { end };
                let rule = format!("{chain} -p tcp {}-j {end}", dice.some(2, &conditions));
                let _ = writeln!(commands, "{tool} -A {rule} 2>/dev/null || true");
            }
            for _ in 0..=dice.roll(2) {
                let rule = format!("OUTPUT -p tcp --tcp-flags SYN,ACK SYN,ACK {}", dice.some(1, &replies));
                let end = dice.pick(&["ACCEPT", "DROP", "REJECT"]);
                let _ = writeln!(
                    commands,
                    "{tool} -t {} -A {rule} -j {end} 2>/dev/null || true",
                    dice.pick(&["filter", "security"])
                );
            }
            let when = dice.pick(&["", "", "-m state --state INVALID ", "-m mark --mark 5 "]);
            let end = dice.pick(&["DROP", "ACCEPT", "ACCEPT", "CT --notrack"]);
            let _ = writeln!(commands, "{tool} -t raw -A PREROUTING -p tcp --syn {when}-j {end}");
            let mark = dice.pick(&["1", "0x10/0xff", "2"]);
            let _ =
                writeln!(commands, "{tool} -t mangle -A PREROUTING -p tcp --syn -j MARK --set-mark {mark}");
            let unload =
                format!("for t in filter raw mangle security; do {tool} -t $t -F; {tool} -t $t -X; done");
            (commands, unload)
        });
    }
}
