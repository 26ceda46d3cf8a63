use super::*;
use crate::host::{
    Facts,
    fixture::{PROBER, net, route, t2_primary},
    managers::{Manager, Netplan, NetworkManager, Networkd},
    routes::RouteKind,
    tables::MAIN,
};

fn fixes(facts: &Facts, intents: &[Intent]) -> Vec<Fix> {
    let offer = offer(intents, facts, Choice::Auto);
    assert_eq!(offer.unfit, []);
    for fix in &offer.fixes {
        assert!(fix.text.starts_with(['#']), "a reason first: {}", fix.text);
    }
    offer.fixes
}

fn one(intent: Intent) -> String {
    let fixes = fixes(&t2_primary(), &[intent]);
    let [fix] = fixes.as_slice() else { panic!("{fixes:#?}") };
    format!("{} persistent={}\n{}", fix.family, fix.persistent, fix.text)
}

fn sysctl(key: &str, value: &str, device: Option<&str>) -> Intent {
    Intent::Sysctl { key: key.into(), value: value.into(), device: device.map(str::to_owned) }
}

#[test]
fn settings_of_all_and_of_each_nic_are_one_file() {
    let key = "net.ipv4.conf.all.rp_filter";
    let intents = [
        sysctl(key, "2", Some("eth1")),
        sysctl(key, "2", Some("eth1.100")),
        sysctl("net.ipv4.ip_forward", "1", None),
    ];
    let fixes = fixes(&t2_primary(), &intents);
    assert_eq!(fixes.len(), 1);
    insta::assert_snapshot!(fixes[0].text, @r"
    # Persistent: /etc/sysctl.d is read at each boot, and for a NIC when it appears.
    cat >> /etc/sysctl.d/99-zz-nvaprobe.conf <<'NVAPROBE'
    net.ipv4.conf.all.rp_filter = 2
    net.ipv4.conf.eth1.rp_filter = 2
    net/ipv4/conf/eth1.100/rp_filter = 2
    net.ipv4.ip_forward = 1
    NVAPROBE
    sysctl -p /etc/sysctl.d/99-zz-nvaprobe.conf
    ");
}

fn accept(tool: Tool, rule: Option<u64>, hook: Hook, source: &str) -> Intent {
    let family = if tool == Tool::Nft { "inet" } else { "" };
    let table = if tool == Tool::Nft { "fw" } else { "security" };
    let chain = Chain { tool, family: family.into(), table: table.into(), chain: "x".into(), rule };
    Intent::FirewallRule(Accept { chain, hook, nic: Some("eth1".into()), source: net(source), port: 8008 })
}

#[test]
fn the_probe_is_accepted_before_the_rule_that_drops_it() {
    insta::assert_snapshot!(one(accept(Tool::Nft, Some(7), Hook::Input, PROBER)));
    insta::assert_snapshot!(one(accept(Tool::Nft, None, Hook::Output, "fe80::1234:5678:9abc")));
    insta::assert_snapshot!(one(accept(Tool::Iptables, Some(3), Hook::Output, PROBER)));
    let six = one(accept(Tool::Ip6tables, None, Hook::Forward, "fe80::1"));
    assert!(
        six.ends_with("ip6tables -w -t security -A x -o eth1 -d fe80::1 -p tcp --sport 8008 -j ACCEPT"),
        "{six}"
    );
}

#[test]
fn listeners_get_advice() {
    let listen = |bound: &[&str]| {
        Intent::Listen(Listen {
            nic: "eth1".into(),
            address: "10.4.3.101".parse().unwrap(),
            port: 8008,
            bound: bound.iter().map(|place| (*place).to_owned()).collect(),
            process: (!bound.is_empty()).then(|| "haproxy".into()),
        })
    };
    insta::assert_snapshot!(one(listen(&[])));
    insta::assert_snapshot!(one(listen(&["10.4.2.101:8008"])));
}

#[test]
fn a_short_queue_is_the_servers_or_the_kernels() {
    let backlog = |somaxconn| Intent::Backlog { port: 8008, backlog: Some(1), somaxconn, process: None };
    insta::assert_snapshot!(one(backlog(Some(128))));
    let server = one(backlog(Some(4096)));
    assert!(server.starts_with("listener persistent=true") && !server.contains("sysctl"), "{server}");
}

#[test]
fn the_agent_is_told_and_its_rules_go() {
    let agent = |tool, family: &str, table: &str, chain: &str, rule| {
        one(Intent::AgentFirewall {
            chain: Chain { tool, family: family.into(), table: table.into(), chain: chain.into(), rule },
        })
    };
    insta::assert_snapshot!(agent(Tool::Iptables, "", "security", "OUTPUT", Some(3)));
    assert!(
        agent(Tool::Nft, "ip", "walinuxagent", "output", Some(3))
            .ends_with("nft delete table ip walinuxagent")
    );
    assert!(
        agent(Tool::Nft, "ip", "security", "OUTPUT", Some(3))
            .ends_with("nft delete rule ip security OUTPUT handle 3")
    );
}

#[test]
fn leftover_routes_are_removed_and_do_not_come_back() {
    let mut facts = t2_primary();
    let blackhole = Route {
        kind: RouteKind::Blackhole,
        next_hops: Vec::new(),
        protocol: 4,
        metric: 5,
        ..route(MAIN, PROBER, "", "eth0")
    };
    insta::assert_snapshot!(one(Intent::RemoveRoute(Route { scope: 0, ..blackhole })));
    let dns = Route { protocol: 16, metric: 1024, ..route(MAIN, PROBER, "10.4.3.1", "eth1") };
    let dns = [Intent::RemoveRoute(dns)];
    facts
        .managers
        .set(3, Manager::Networkd(Networkd { file: "/etc/systemd/network/a.network".into(), shared: None }));
    insta::assert_snapshot!(fixes(&facts, &dns)[0].text);
    facts.managers.set(3, Manager::Netplan(Netplan { kind: "ethernets".into(), id: "lan".into() }));
    facts.managers.networkd_runs = true;
    assert!(
        fixes(&facts, &dns)[0].text.contains("/etc/systemd/network/10-netplan-lan.network.d/nvaprobe.conf")
    );
    facts.managers.set(3, Manager::NetworkManager(NetworkManager::default()));
    assert_eq!(fixes(&facts, &dns).len(), 1, "only networkd has such routes");
}
