//! Probes that are translated, forwarded or proxied: group D of the scenarios.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use ipnet::IpNet;
use nvaprobe_tests::{
    fault::{assert_shows, nft, probe, probe_at, rejected, silent},
    observe::{EVERY, PORT, Seen, look},
    process::tool,
};
use probe_user::{
    lab::{
        backend::Backend,
        listener::{Listener, Serve},
        prober::Probe,
        route::Route,
        topology::{Plan, Topology},
    },
    report::document::{Finding, Severity, Verdict},
};

/// TB: the service is on the workload's port 80.
fn behind(ipv6: bool) -> Topology {
    let topology = Topology::build(&Plan { backend: true, ipv6, ..Plan::default() }).expect("a topology");
    topology.primary_route().expect("a route");
    topology.policy_routing(1).expect("policy routing");
    topology
}

fn backend(topology: &Topology) -> &Backend {
    topology.backend.as_ref().expect("the plan has one")
}

fn dnat(topology: &Topology, to: &str) {
    nft(
        &topology.nva,
        &format!(
            "table ip translate {{
               chain in {{ type nat hook prerouting priority dstnat; tcp dport 8008 dnat to {to}; }}
             }}"
        ),
    );
}

fn proxied(seen: &Seen) -> &Finding {
    let found: Vec<_> = seen.report.findings.iter().filter(|finding| finding.code == "PROXIED").collect();
    let [finding] = found.as_slice() else { panic!("one PROXIED: {:#?}", seen.report.findings) };
    finding
}

#[test]
fn s47_a_probe_is_translated_to_a_machine_behind() {
    let topology = behind(false);
    dnat(&topology, "10.9.0.10:80");
    let _service = backend(&topology).listen(80, Serve::Hold).expect("a listener");
    let _own = topology.listen(8009, Serve::Hold).expect("a listener");
    let probers = probe(&topology, &[(0, PORT), (1, 8009)]);
    let seen = look(&topology);
    seen.assert_faults(&[], &[("eth0", PORT), ("eth1", 8009)], &["PROXIED"]);
    let finding = proxied(&seen);
    assert_eq!((finding.nic.as_deref(), finding.port), (Some("eth0"), Some(PORT)), "{finding:#?}");
    assert_shows(finding, &["eth2", "10.9.0.10"]);
    assert!(probers[0].answered() >= 4);
}

/// What several vendors print in their guides: the metadata service answers for the firewall.
#[test]
fn s47_a_probe_is_translated_to_the_metadata_service() {
    let topology = behind(false);
    let metadata = IpNet::from(IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)));
    let workload = backend(&topology);
    workload.namespace.netlink(|netlink| netlink.address_add("lo", metadata)).expect("an address");
    topology.route(&Route::to(metadata).via(workload.address).dev(&workload.nic)).expect("a route");
    dnat(&topology, "169.254.169.254:80");
    let _service = workload.listen(80, Serve::Hold).expect("a listener");
    let _probers = probe(&topology, &[(0, PORT)]);
    let seen = look(&topology);
    seen.assert_faults(&[], &[("eth0", PORT)], &[]);
    let finding = proxied(&seen);
    assert_eq!(finding.severity, Severity::Info, "{finding:#?}");
    assert_shows(finding, &["169.254.169.254"]);
}

/// The machine behind is dead: the appliance is not, and does not look so.
#[test]
fn s47_nobody_serves_behind() {
    let topology = behind(false);
    dnat(&topology, "10.9.0.10:80");
    let _probers = probe(&topology, &[(0, PORT)]);
    let seen = look(&topology);
    let series = seen.assert_verdict("eth0", PORT, Verdict::Refused, None);
    assert_eq!(series.attempts, series.counts.values().sum::<u64>());
    assert_eq!(seen.errors().len(), 1, "{:#?}", seen.errors());
    assert_eq!(seen.warnings(), ["PROXIED"], "{:#?}", seen.report.findings);
    assert_shows(proxied(&seen), &["10.9.0.10"]);
}

#[test]
fn s28_a_rule_drops_the_reply_that_is_forwarded() {
    let topology = behind(false);
    dnat(&topology, "10.9.0.10:80");
    tool(&topology.nva, "iptables -w -A FORWARD -d 168.63.129.16/32 -p tcp -j DROP");
    let _service = backend(&topology).listen(80, Serve::Hold).expect("a listener");
    let _own = topology.listen(8009, Serve::Hold).expect("a listener");
    let _probers = probe(&topology, &[(0, PORT), (1, 8009)]);
    let seen = look(&topology);
    let fault = silent("eth0", PORT, "forward-drop").shows(&["FORWARD", "filter", "eth2"]);
    seen.assert_faults(&[fault], &[("eth1", 8009)], &["PROXIED"]);
}

/// The probe itself does not get through.
#[test]
fn s28_a_policy_drops_the_probe_that_is_forwarded() {
    let topology = behind(false);
    dnat(&topology, "10.9.0.10:80");
    nft(
        &topology.nva,
        "table inet filter { chain through { type filter hook forward priority filter; policy drop; }; }",
    );
    let _service = backend(&topology).listen(80, Serve::Hold).expect("a listener");
    let _probers = probe(&topology, &[(0, PORT)]);
    let seen = look(&topology);
    let fault = silent("eth0", PORT, "forward-drop").shows(&["through", "policy"]);
    seen.assert_faults(&[fault], &[], &[]);
}

#[test]
fn s21_a_link_local_probe_cannot_be_forwarded() {
    let topology = behind(true);
    nft(
        &topology.nva,
        "table ip6 translate {
           chain in { type nat hook prerouting priority dstnat; tcp dport 8008 dnat to [fd00:9::10]:80; }
         }",
    );
    let _service = backend(&topology).listen(80, Serve::Hold).expect("a listener");
    let _own = topology.listen(8009, Serve::Hold).expect("a listener");
    let target = |nic, port| topology.target6(nic, port).expect("an IPv6 address");
    let _probers = [probe_at(&topology, 0, target(0, PORT)), probe_at(&topology, 1, target(1, 8009))];
    let seen = look(&topology);
    let fault = rejected("eth0", PORT, "link-local-forwarded").shows(&["beyond scope"]);
    seen.assert_faults(&[fault], &[("eth1", 8009)], &[]);
}

/// A transparent proxy takes the probe: the answer is its own, whoever listens on the probed port.
#[test]
fn s32_a_transparent_proxy_steals_the_probe() {
    let topology = behind(false);
    nft(
        &topology.nva,
        "table ip divert {
           chain in {
             type filter hook prerouting priority mangle;
             tcp dport 8001 tproxy to 127.0.0.1:3129 meta mark set 1 accept
             tcp dport 8002 tproxy to 127.0.0.1:3130 meta mark set 1 accept
             tcp dport 8003 tproxy to 127.0.0.1:3131 meta mark set 1 accept
           }
         }",
    );
    tool(&topology.nva, "ip rule add fwmark 1 lookup 100 && ip route add local default dev lo table 100");
    let proxy = |port, serve| {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Listener::transparent(&topology.nva, address, serve).expect("a listener")
    };
    let _proxies = [proxy(3129, Serve::status(403)), proxy(3130, Serve::Silence), proxy(3131, Serve::OK)];
    let _listener = topology.listen(8001, Serve::OK).expect("a listener");
    let _probers = [8001, 8002, 8003].map(|port| {
        let probe = Probe::http(topology.target(0, port), "/").every(EVERY).time_scale(0.1);
        topology.fabrics[0].probe(probe).expect("a prober")
    });
    let seen = look(&topology);
    let series = seen.assert_verdict("eth0", 8001, Verdict::HttpStatus, None);
    assert_eq!(series.http_status, Some(403));
    seen.assert_verdict("eth0", 8002, Verdict::NoReply, None);
    seen.assert_verdict("eth0", 8003, Verdict::Ok, None);
    seen.assert_errors(&[
        ("HTTP_STATUS", "http-status", "eth0", 8001),
        ("NO_REPLY", "timeout", "eth0", 8002),
    ]);
    assert_eq!(seen.warnings(), [""; 0], "{:#?}", seen.report.findings);
}
