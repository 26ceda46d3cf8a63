use super::*;
use crate::host::{
    Facts,
    addresses::Address,
    fixture::{PROBER, add_rule, link, lookup, net, policy, route, t2_primary},
    managers::{Ifupdown, Manager, Netplan, NetworkManager, Networkd, SharedFile, Writer},
    selection::Choice as Rules,
    tables::MAIN,
};

const V6: &str = "2600:2d00:1:b029::/64";

fn misroute(nic: &str, from: &str, to: &str) -> Misroute {
    Misroute { nic: nic.into(), from: from.parse().unwrap(), to: net(to), rule: None, route: None }
}

/// Three NICs, the second with two addresses and IPv6; table 201 is named and priority 100 is taken.
fn scene() -> (Facts, Vec<PolicyFix>) {
    let mut facts = t2_primary();
    facts.links.0.push(link(4, "eth2", Some("veth")));
    let address = |link, text: &str| Address { link, net: text.parse().unwrap(), global: true };
    facts.addresses.extend([
        address(3, "10.4.3.102/24"),
        address(3, "fd00:3::65/64"),
        address(4, "10.4.4.101/24"),
    ]);
    facts.routes.push(route(MAIN, "::/0", "fe80::1234:5678:9abc", "eth1"));
    facts.tables.add("201 azure");
    add_rule(&mut facts, policy(100, "10.9.9.9", MAIN));
    let wanted = [
        misroute("eth1", "10.4.3.101", PROBER),
        misroute("eth1", "10.4.3.102", PROBER),
        misroute("eth2", "10.4.4.101", PROBER),
        misroute("eth1", "fd00:3::65", V6),
    ];
    let policies = plan(&facts, &wanted).into_iter().map(Result::unwrap).collect();
    (facts, policies)
}

/// One NIC misrouted.
fn one() -> (Facts, Vec<PolicyFix>) {
    let facts = t2_primary();
    let policies =
        plan(&facts, &[misroute("eth1", "10.4.3.101", PROBER)]).into_iter().map(Result::unwrap).collect();
    (facts, policies)
}

fn intents(policies: &[PolicyFix]) -> Vec<Intent> {
    policies.iter().cloned().map(Intent::Policy).collect()
}

fn only(facts: &Facts, policies: &[PolicyFix], family: &str) -> String {
    let offer = offer(&intents(policies), facts, Choice::Only(Family::find(family).unwrap()));
    assert_eq!(offer.unfit, []);
    let [fix] = offer.fixes.as_slice() else { panic!("one text: {offer:#?}") };
    assert_eq!(fix.family, family);
    // A reason first, a command last.
    assert!(fix.text.starts_with(if fix.persistent { "# Persistent: " } else { "# Lost " }), "{}", fix.text);
    assert!(!fix.text.lines().next_back().unwrap().starts_with('#'), "{}", fix.text);
    fix.text.clone()
}

#[test]
fn every_family_words_several_nics() {
    let (facts, policies) = scene();
    for family in FAMILIES {
        insta::assert_snapshot!(format!("several_{}", family.name), only(&facts, &policies, family.name));
    }
}

#[test]
fn every_family_words_one_nic_on_a_host_it_manages() {
    let (facts, policies) = one();
    let managers = [
        Manager::Netplan(Netplan { kind: "ethernets".into(), id: "lan".into() }),
        Manager::Networkd(Networkd { file: "/etc/systemd/network/10-lan.network".into(), shared: None }),
        Manager::NetworkManager(NetworkManager {
            uuid: Some("8b4c-11".into()),
            name: Some("Wired connection 2".into()),
            netplan_id: None,
        }),
        Manager::Ifupdown(Ifupdown { sourced: false }),
        Manager::NetworkScripts,
    ];
    for manager in managers {
        let mut facts = facts.clone();
        facts.managers.set(3, manager.clone());
        facts.managers.writers = vec![Writer::CloudInit, Writer::NmCloudSetup];
        facts.managers.networkd_runs = matches!(manager, Manager::Ifupdown(_) | Manager::Networkd(_));
        let family = Family::of(&facts, "eth1").expect("a family");
        assert!(family.persistent);
        let fixes = for_finding(&policies[0], &policies, &facts);
        let names: Vec<&str> = fixes.iter().map(|fix| fix.family.as_str()).collect();
        assert_eq!(names, [family.name, "iproute2"], "the manager's first, the commands always");
        assert_eq!(offer(&intents(&policies), &facts, Choice::Auto).fixes, fixes);
        insta::assert_snapshot!(format!("managed_{}", family.name), fixes[0].text);
    }
}

#[test]
fn nobody_is_known_to_manage_the_nic() {
    let (facts, policies) = one();
    let names = |offer: Offer| offer.fixes.into_iter().map(|fix| fix.family).collect::<Vec<_>>();
    let finding: Vec<_> =
        for_finding(&policies[0], &policies, &facts).into_iter().map(|f| f.family).collect();
    assert_eq!(finding, ["iproute2"]);
    let intents = intents(&policies);
    assert_eq!(
        names(offer(&intents, &facts, Choice::Auto)),
        ["netplan", "systemd-networkd", "networkmanager", "iproute2"]
    );
    let all: Vec<_> = FAMILIES.iter().map(|family| family.name.to_owned()).collect();
    assert_eq!(names(offer(&intents, &facts, Choice::All)), all);
}

/// Each family gets its own NICs, and the commands have them all.
#[test]
fn nics_of_different_managers_are_not_mixed() {
    let (mut facts, policies) = scene();
    facts.managers.set(3, Manager::Networkd(Networkd { file: "/run/x/5-a.network".into(), shared: None }));
    facts.managers.set(4, Manager::NetworkManager(NetworkManager::default()));
    let fixes = offer(&intents(&policies), &facts, Choice::Auto).fixes;
    let [networkd, manager, commands] = fixes.as_slice() else { panic!("{fixes:#?}") };
    assert!(networkd.text.contains("10.4.3.102") && !networkd.text.contains("10.4.4.101"));
    assert!(manager.text.contains("10.4.4.101") && !manager.text.contains("10.4.3."), "{}", manager.text);
    assert!(manager.text.contains("connection=$(nmcli -g GENERAL.CON-UUID device show eth2)"));
    assert!(commands.text.contains("dev eth2") && commands.text.contains("from fd00:3::65"));
    // A finding has its family's whole file, and its own commands.
    let finding = for_finding(&policies[1], &policies, &facts);
    assert_eq!(finding[0].text, networkd.text);
    assert!(finding[1].text.contains("10.4.3.102") && !finding[1].text.contains("10.4.3.101"));
}

/// S10: the commands mend the table in place; a file cannot, for what fills the table would still fill it.
#[test]
fn files_use_a_table_of_their_own() {
    let mut facts = t2_primary();
    add_rule(&mut facts, policy(50, "10.4.3.101", 201));
    facts.routes.push(route(201, PROBER, "10.4.2.1", "eth0"));
    let lookup = lookup(&facts, "10.4.3.101", 201);
    let Rules::Rule(rule) = lookup.rule.clone() else { panic!("{:?}", lookup.rule) };
    let wrong = Misroute {
        rule: Some(rule),
        route: lookup.chosen().unwrap().matched.clone(),
        ..misroute("eth1", "10.4.3.101", PROBER)
    };
    let policies = vec![plan(&facts, &[wrong]).remove(0).unwrap()];
    assert!(only(&facts, &policies, "iproute2").ends_with("via 10.4.3.1 dev eth1 table 201"));
    let netplan = only(&facts, &policies, "netplan");
    assert!(netplan.contains("# Table 201 names another device for 10.4.3.101"), "{netplan}");
    assert!(netplan.contains("          table: 202\n          priority: 49\n"), "{netplan}");
    assert!(!netplan.contains("table: 201"), "{netplan}");
    let ifupdown = only(&facts, &policies, "ifupdown");
    assert!(ifupdown.contains("post-up ip rule add from 10.4.3.101 to 168.63.129.16 lookup 202 priority 49"));
}

/// One .network file for several NICs: the routes of one would fail on the others.
#[test]
fn a_shared_file_is_copied_for_the_nic() {
    let (mut facts, policies) = one();
    let text =
        "# made by somebody\n[Match]\nDriver=hv_netvsc\n\n[Network]\nDHCP=ipv4\n\n[DHCP]\nUseMTU=true\n";
    let shared = SharedFile { with: vec!["eth0".into()], text: text.into() };
    let file = "/run/systemd/network/10-netplan-hotplug.network";
    let networkd =
        |file: &str| Manager::Networkd(Networkd { file: file.into(), shared: Some(shared.clone()) });
    facts.managers.set(3, networkd(file));
    insta::assert_snapshot!("shared_systemd-networkd", only(&facts, &policies, "systemd-networkd"));
    let refused = offer(&intents(&policies), &facts, Choice::Only(Family::find("netplan").unwrap()));
    assert_eq!((refused.fixes.len(), refused.unfit.len()), (0, 1));
    assert!(refused.unfit[0].1.to_string().contains("holds for eth0 as well as eth1"));
    facts.managers.set(3, networkd("/etc/systemd/network/00-all.network"));
    let refused = offer(&intents(&policies), &facts, Choice::Auto);
    assert_eq!(refused.fixes.len(), 1, "the commands remain");
    assert!(refused.unfit[0].1.to_string().contains("before every other"), "{refused:#?}");
}

#[test]
fn an_earlier_fix_is_not_overwritten() {
    let (mut facts, policies) = one();
    let content =
        |text: &str| text.split("NVAPROBE'\n").nth(1).unwrap().split("NVAPROBE").next().unwrap().to_owned();
    let first = only(&facts, &policies, "netplan");
    facts.managers.set_earlier("/etc/netplan/90-nvaprobe.yaml", &content(&first));
    assert_eq!(only(&facts, &policies, "netplan"), first, "the same again is the same file");
    facts.managers.set_earlier("/etc/netplan/90-nvaprobe.yaml", "network: {version: 2}");
    assert!(only(&facts, &policies, "netplan").contains("cat > /etc/netplan/90-nvaprobe-2.yaml"));
}

#[test]
fn odd_names_stay_harmless() {
    let (mut facts, mut policies) = one();
    let id = r#"no: [1, "x"]"#;
    facts.managers.set(3, Manager::Netplan(Netplan { kind: "ethernets".into(), id: id.into() }));
    assert!(only(&facts, &policies, "netplan").contains(r#"    "no: [1, \"x\"]":"#));
    facts.managers.set(3, Manager::Networkd(Networkd { file: "/etc/x/a b'.network".into(), shared: None }));
    assert!(
        only(&facts, &policies, "systemd-networkd")
            .contains(r"mkdir -p '/etc/systemd/network/a b'\''.network.d'")
    );
    for name in ["$(reboot)", "*", "-x", "a'b"] {
        policies[0].nic = name.into();
        let offer = offer(&intents(&policies), &facts, Choice::All);
        assert_eq!(offer.fixes.len(), 1, "the commands, which quote: {offer:#?}");
        assert_eq!(offer.unfit.len(), FAMILIES.len() - 1);
    }
}

#[test]
fn gateways_that_are_not_in_the_subnet_are_on_link_in_every_family() {
    let (facts, mut policies) = one();
    policies[0].onlink = true;
    for (family, word) in [
        ("netplan", "on-link: true"),
        ("systemd-networkd", "GatewayOnLink=yes"),
        ("networkmanager", "onlink=true"),
        ("ifupdown", "dev eth1 onlink table"),
        ("network-scripts", "dev eth1 onlink table"),
        ("iproute2", "dev eth1 onlink table"),
    ] {
        let text = only(&facts, &policies, family);
        assert!(text.contains(word), "{text}");
    }
}
