//! What `nvaprobe fix` prints, applied: by a shell, by netplan's generator and by systemd-networkd itself.

use std::{net::IpAddr, process::Command};

use nvaprobe_tests::{
    observe::{EVERY, PORT, look},
    process::{binary, output, tool},
};
use probe_user::{
    lab::{
        fabric::Running,
        listener::{Listener, Serve},
        prober::Probe,
        route::{Kind, Route, Rule},
        topology::{Plan, Topology, source},
    },
    report::document::Verdict,
};

fn built(plan: &Plan) -> (Topology, Listener) {
    let topology = Topology::build(plan).expect("a topology");
    let listener = topology.listen(PORT, Serve::Hold).expect("a listener");
    (topology, listener)
}

fn probe_all(topology: &Topology) -> Vec<Running> {
    (0..topology.nics.len())
        .map(|nic| {
            let probe = Probe::tcp(topology.target(nic, PORT)).every(EVERY);
            topology.fabrics[nic].probe(probe).expect("a prober")
        })
        .collect()
}

/// Exit code and standard output of `nvaprobe fix …` on the appliance.
fn fix(topology: &Topology, args: &[&str]) -> (i32, String) {
    let ran = output(&topology.nva, &[&["fix"], args].concat());
    let code = ran.status.code().expect("it ends by itself");
    assert_ne!(code, 2, "{}", String::from_utf8_lossy(&ran.stderr));
    (code, String::from_utf8(ran.stdout).expect("UTF-8"))
}

/// Every rule, route and setting that a fix could touch.
fn state(topology: &Topology) -> String {
    tool(
        &topology.nva,
        "ip -d rule; ip -6 rule; ip -d route show table all; ip -d -6 route show table all; ip addr",
    )
}

/// These NICs are misrouted; the whole output, fed to a shell, cures them.
fn cure(topology: &Topology, misrouted: &[usize]) -> String {
    let probers = probe_all(topology);
    let before = look(topology);
    for (index, nic) in topology.nics.iter().enumerate() {
        let ok = before.series(&nic.name, PORT).verdict == Verdict::Ok;
        assert_eq!(ok, !misrouted.contains(&index), "{:#?}", before.report.probes);
    }
    let untouched = state(topology);
    let (code, script) = fix(topology, &["--family", "iproute2"]);
    assert_eq!((code, state(topology)), (1, untouched), "printing changes nothing");
    tool(&topology.nva, &format!("set -e\n{script}"));
    look(topology).assert_healthy(topology.nics.len());
    let (code, text) = fix(topology, &[]);
    assert_eq!(code, 0, "{text}");
    assert!(text.starts_with("# Nothing to fix: each of "), "{text}");
    drop(probers);
    script
}

#[test]
fn s01_the_host_route_on_one_nic() {
    let (topology, _listener) = built(&Plan::default());
    topology.primary_route().expect("a route");
    let script = cure(&topology, &[1]);
    assert!(
        script.contains("# eth1: a reply from 10.4.3.101 to 168.63.129.16 would leave by eth0\n"),
        "{script}"
    );
    assert!(script.contains("#   route 168.63.129.16 via 10.4.2.1 dev eth0"), "{script}");
    assert!(script.contains("# eth1 is managed by: unknown\n"), "{script}");
}

#[test]
fn s01_with_strict_rp_filter() {
    let (topology, _listener) = built(&Plan { rp_filter: 1, ..Plan::default() });
    topology.primary_route().expect("a route");
    cure(&topology, &[1]);
}

#[test]
fn s07_two_nics_in_one_subnet() {
    let (topology, _listener) = built(&Plan { same_subnet: true, ..Plan::default() });
    topology.primary_route().expect("a route");
    cure(&topology, &[1]);
}

#[test]
fn s10_a_table_that_names_the_wrong_device_is_mended() {
    let (topology, _listener) = built(&Plan::default());
    topology.primary_route().expect("a route");
    topology.route(&topology.probe_route(0).table(202)).expect("a route");
    topology.nva.netlink(|netlink| netlink.rule_add(&topology.policy_rule(1))).expect("a rule");
    let script = cure(&topology, &[1]);
    assert!(script.ends_with("dev eth1 table 202\n") && !script.contains("rule add"), "{script}");
}

#[test]
fn three_nics_of_which_two_are_misrouted() {
    let (topology, _listener) = built(&Plan { nics: 3, ..Plan::default() });
    topology.primary_route().expect("a route");
    cure(&topology, &[1, 2]);
}

#[test]
fn no_route_at_all() {
    let (topology, _listener) = built(&Plan { nics: 2, ..Plan::default() });
    topology.route(&Route::to(source()).kind(Kind::Blackhole)).expect("a route");
    let (code, script) = fix(&topology, &["--family", "iproute2"]);
    assert_eq!(code, 1);
    assert!(
        script.contains("eth0: a reply from 10.4.2.101 to 168.63.129.16 would not leave at all: a blackhole")
    );
    tool(&topology.nva, &format!("set -e\n{script}"));
    let _probers = probe_all(&topology);
    look(&topology).assert_healthy(2);
}

/// An overlay's rules stand at the very front, and tables are in use.
#[test]
fn rules_in_front_are_beaten_and_tables_are_not_shared() {
    let (topology, _listener) = built(&Plan::default());
    topology.primary_route().expect("a route");
    topology.route(&topology.default_route(0).table(201)).expect("a route");
    let overlay = Rule { priority: Some(5), table: 201, ..Rule::default() };
    topology.nva.netlink(|netlink| netlink.rule_add(&overlay)).expect("a rule");
    let script = cure(&topology, &[1]);
    assert!(script.contains("lookup 202 priority 4"), "{script}");
}

/// A prober with a global IPv6 address; the one with a link-local address needs nothing.
#[test]
fn ipv6_sources_with_global_addresses() {
    let (topology, _listener) = built(&Plan { ipv6: true, ..Plan::default() });
    topology.policy_routing(0).expect("policy routing");
    topology.policy_routing(1).expect("policy routing");
    assert_eq!(fix(&topology, &[]).0, 0);
    let args = ["--no-default-sources", "--source", "2600:2d00:1:b029::/64", "--family", "iproute2"];
    let (code, script) = fix(&topology, &args);
    assert_eq!(code, 1, "{script}");
    assert!(script.contains("ip -6 route replace 2600:2d00:1:b029::/64 via fe80::1234:5678:9abc dev eth1"));
    tool(&topology.nva, &format!("set -e\n{script}"));
    let probers: Vec<Running> = (0..2)
        .map(|nic| {
            let target = topology.target6(nic, PORT).expect("an IPv6 address");
            let from: IpAddr = "2600:2d00:1:b029::7".parse().expect("an address");
            let probe = Probe::tcp(target).every(EVERY).sources([from]);
            topology.fabrics[nic].probe(probe).expect("a prober")
        })
        .collect();
    nvaprobe_tests::process::until("both probers are answered", || probers.iter().all(|p| p.answered() >= 3));
    assert_eq!(fix(&topology, &args).0, 0);
}

#[test]
fn one_nic_can_be_named_and_json_be_had() {
    let (topology, _listener) = built(&Plan { nics: 3, ..Plan::default() });
    topology.primary_route().expect("a route");
    let (code, text) = fix(&topology, &["--nic", "eth0"]);
    assert_eq!(
        (code, text.as_str()),
        (0, "# Nothing to fix: the one reply checked leaves by the NIC its probe comes in on.\n")
    );
    let (code, json) = fix(&topology, &["--nic", "eth2", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&json).expect("one JSON document");
    assert_eq!((code, &document["schema"]), (1, &"nvaprobe.fix/1".into()));
    assert_eq!(document["misrouted"][0]["nic"], "eth2");
    assert_eq!(document["misrouted"][0]["managed_by"], serde_json::Value::Null);
    let families: Vec<_> =
        document["fixes"].as_array().expect("fixes").iter().map(|fix| fix["family"].clone()).collect();
    assert_eq!(families, ["netplan", "systemd-networkd", "networkmanager", "iproute2"]);
    let (_, all) = fix(&topology, &["--family", "all"]);
    tool(&topology.nva, &format!("sh -n <<'SCRIPT'\n{all}\nSCRIPT"));
    for family in ["netplan", "systemd-networkd", "networkmanager", "ifupdown", "network-scripts", "iproute2"]
    {
        assert!(all.contains(&format!("# --- {family}, ")), "{all}");
    }
}

#[test]
fn what_cannot_be_done_is_said() {
    let (topology, _listener) = built(&Plan::default());
    for (args, says) in [
        (vec!["--family", "windows"], "netplan"),
        (vec!["--nic", "eth7"], "there are: eth0, eth1"),
        (vec!["--root", "/nonexistent"], "no such directory"),
        (vec!["--no-default-sources"], "--source"),
    ] {
        let refused = output(&topology.nva, &[&["fix"], args.as_slice()].concat());
        assert_eq!(refused.status.code(), Some(2), "{args:?}");
        let error = String::from_utf8_lossy(&refused.stderr);
        assert!(error.contains(says), "{args:?}: {error}");
    }
    // Three addresses that could be the gateway, none of which is: nothing is made up.
    tool(
        &topology.nva,
        "ip addr flush dev eth1 && ip addr add 10.4.3.101/32 dev eth1 && ip route add 168.63.129.16 via 10.4.2.1 dev eth0",
    );
    let (code, text) = fix(&topology, &["--nic", "eth1"]);
    assert_eq!(code, 1);
    assert!(
        text.contains("# eth1: no fix offered: no gateway is known on eth1") && !text.contains("---"),
        "{text}"
    );
}

/// In front of every script that runs a network manager for the appliance: /etc is a copy, /run is empty, and of /sys only
/// this namespace is seen. What the fix calls to apply itself does it here, without a D-Bus.
const MANAGER: &str = r#"
mount --make-rprivate /
mount -t sysfs -o ro sysfs /sys
mount -t tmpfs tmpfs /run
cp -a /etc /run/etc
mount --bind /run/etc /etc
mkdir -p /run/bin /run/systemd/network /run/systemd/netif/links /run/systemd/netif/leases /run/systemd/netif/lldp
mkdir -p /etc/netplan /etc/systemd/network
chown -R systemd-network: /run/systemd/netif
rm -f /etc/systemd/network/* /etc/netplan/* /etc/cloud/cloud.cfg
stop() { [ -e /run/pid ] || return 0; kill "$(cat /run/pid)"; while kill -0 "$(cat /run/pid)" 2>/dev/null; do sleep 0.05; done; rm /run/pid; }
cat > /run/bin/restart <<'SCRIPT'
if [ -e /run/pid ]; then kill "$(cat /run/pid)"; while kill -0 "$(cat /run/pid)" 2>/dev/null; do sleep 0.05; done; fi
/lib/systemd/systemd-networkd > /run/log 2>&1 &
echo $! > /run/pid
SCRIPT
cat > /run/bin/networkctl <<'SCRIPT'
echo "networkctl $*" >> /run/calls
if [ "$1" = reconfigure ]; then sh /run/bin/restart; fi
SCRIPT
cat > /run/bin/netplan <<'SCRIPT'
echo "netplan $*" >> /run/calls
/usr/sbin/netplan generate && sh /run/bin/restart
SCRIPT
chmod +x /run/bin/*
export PATH=/run/bin:$PATH
trap 'stop; [ "$done" = yes ] || cat /run/log >&2' EXIT
wait_for() { n=0; until eval "$1"; do n=$((n + 1)); [ $n -lt 100 ] || { echo "not within 10 s: $1" >&2; exit 1; }; sleep 0.1; done; }
"#;

/// Runs a script with a network manager of its own on the appliance; returns what it prints.
fn managed(topology: &Topology, script: &str) -> String {
    let mut command = Command::new("unshare");
    // Processes of the script end with it, however it ends.
    command.args([
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        "sh",
        "-euc",
        &format!("{MANAGER}\n{script}\ndone=yes"),
    ]);
    command.env("NVAPROBE", binary()).env("done", "no");
    let output = topology.nva.command(&mut command).output().expect("unshare starts");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}: {error}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Runs the manager, asks nvaprobe, does what it says, and lets nvaprobe look again.
const ASK_AND_APPLY: &str = r#"
"$NVAPROBE" fix --root / --family auto > /run/auto || [ $? = 1 ]
cat /run/auto
# The manager's own fix alone, without the commands that would be lost.
sed -n '/^# --- .*, persistent ---$/,/^# --- iproute2/p' /run/auto > /run/script
sh -e /run/script
wait_for '"$NVAPROBE" fix --root / > /run/after'
"#;

/// The appliance of S01 as its files describe it, with the fix of `family`, and the probes that come then.
fn manager_cures(topology: &Topology, configure: &str, family: &str) -> String {
    let _probers = probe_all(topology);
    let said = managed(topology, &format!("{configure}\n{ASK_AND_APPLY}"));
    assert!(said.contains(&format!("# eth1 is managed by: {family}\n")), "{said}");
    look(topology).assert_healthy(2);
    let rules = tool(&topology.nva, "ip rule");
    assert!(rules.contains("from 10.4.3.101 to 168.63.129.16 lookup 201 proto static"), "{rules}");
    said
}

const NETWORKD: &str = r"
cat > /etc/systemd/network/10-wan.network <<'FILE'
[Match]
Name=eth0
[Network]
Address=10.4.2.101/24
[Route]
Destination=168.63.129.16
Gateway=10.4.2.1
FILE
cat > /etc/systemd/network/20-lan.network <<'FILE'
[Match]
Name=eth1
[Network]
Address=10.4.3.101/24
FILE
sh /run/bin/restart
wait_for 'grep -qs NETWORK_FILE=.*lan /run/systemd/netif/links/*'
wait_for 'ip route get 168.63.129.16'
";

#[test]
fn networkd_applies_the_drop_in() {
    let (topology, _listener) = built(&Plan::default());
    let said = manager_cures(&topology, NETWORKD, "systemd-networkd");
    assert!(said.contains("cat > /etc/systemd/network/20-lan.network.d/nvaprobe.conf"), "{said}");
}

/// One file for both NICs: eth1 gets a copy of its own, and keeps what the file says.
#[test]
fn networkd_applies_the_copy_of_a_shared_file() {
    let (topology, _listener) = built(&Plan::default());
    topology.primary_route().expect("a route");
    let configure = r"
cat > /etc/systemd/network/50-all.network <<'FILE'
[Match]
Name=eth*
[Network]
KeepConfiguration=yes
FILE
sh /run/bin/restart
wait_for '[ $(grep -ls NETWORK_FILE=.*all /run/systemd/netif/links/* | wc -l) = 2 ]'
";
    let said = manager_cures(&topology, configure, "systemd-networkd");
    assert!(said.contains("cat > /etc/systemd/network/00-nvaprobe-eth1.network"), "{said}");
}

/// networkd runs and holds no NIC: a file of its own must not take addresses and routes away.
#[test]
fn networkd_applies_a_file_of_its_own_and_keeps_the_rest() {
    let (topology, _listener) = built(&Plan::default());
    topology.primary_route().expect("a route");
    let before = tool(&topology.nva, "ip -o -4 addr; ip -o -6 addr; ip route");
    let script = r#"
"$NVAPROBE" fix --root / --family systemd-networkd > /run/script || [ $? = 1 ]
sh -e /run/script
wait_for '"$NVAPROBE" fix --root / > /run/after'
"#;
    managed(&topology, script);
    assert_eq!(tool(&topology.nva, "ip -o -4 addr; ip -o -6 addr; ip route"), before);
    let _probers = probe_all(&topology);
    look(&topology).assert_healthy(2);
}

/// networkd leaves the appliance's NICs to ifupdown. When it configures another device, it removes rules that it did not
/// make, unless told otherwise.
#[test]
fn rules_outlive_a_networkd_that_holds_another_device() {
    let configure = r#"
printf '[Match]\nName=other\n[Network]\nAddress=10.9.9.9/24\n' > /etc/systemd/network/10-other.network
mkdir -p /etc/network/interfaces.d
echo 'iface eth1 inet manual' > /etc/network/interfaces
sh /run/bin/restart
wait_for '[ -e /run/systemd/netif/state ]'
"$NVAPROBE" fix --root / > /run/script || [ $? = 1 ]
grep -q '^# eth1 is managed by: ifupdown' /run/script
grep -q "^echo 'source /etc/network/interfaces.d/" /run/script
sed -i '/^# --- iproute2/,$d' /run/script
"#;
    let device = r"
sh -e /run/script
ip rule | grep -q 10.4.3.101
sh /run/bin/restart
wait_for 'grep -q Enumeration /run/log'
ip link add other type veth peer name another
ip link set another up
wait_for 'ip addr show other | grep -q 10.9.9.9'
";
    let kept = "sleep 1\nip rule | grep -q 10.4.3.101";
    let gone = "wait_for '! ip rule | grep -q 10.4.3.101'";
    for (change, then) in [("", kept), ("sed -i '/networkd.conf.d/,/^NVAPROBE/d' /run/script", gone)] {
        let (topology, _listener) = built(&Plan::default());
        topology.primary_route().expect("a route");
        managed(&topology, &format!("{configure}\n{change}\n{device}\n{then}"));
    }
}

/// The definition is not called like the NIC, and another file has its addresses.
#[test]
fn netplan_merges_the_file_and_networkd_applies_it() {
    let (topology, _listener) = built(&Plan::default());
    let configure = r"
cat > /etc/netplan/50-cloud-init.yaml <<'FILE'
network:
  version: 2
  ethernets:
    eth0:
      addresses: [10.4.2.101/24]
      routes:
        - to: 168.63.129.16/32
          via: 10.4.2.1
    lan:
      match:
        name: eth1
      addresses: [10.4.3.101/24]
      routes:
        - to: 192.168.0.0/16
          via: 10.4.3.1
FILE
chmod 600 /etc/netplan/*
netplan start
wait_for 'grep -qs NETWORK_FILE=.*-lan /run/systemd/netif/links/*'
wait_for 'ip route get 168.63.129.16'
";
    let said = manager_cures(&topology, configure, "netplan");
    assert!(said.contains("\n    lan:\n") && said.contains("# --- netplan, persistent ---"), "{said}");
    let routes = tool(&topology.nva, "ip route");
    assert!(routes.contains("192.168.0.0/16 via 10.4.3.1 dev eth1"), "what was there stays: {routes}");
}

/// Several NICs and both address families, by netplan's own parser.
#[test]
fn netplan_reads_one_file_for_several_nics() {
    let (topology, _listener) = built(&Plan { nics: 3, ipv6: true, ..Plan::default() });
    topology.primary_route().expect("a route");
    let script = r#"
"$NVAPROBE" fix --root / --family netplan --source 2600:2d00:1:b029::/64 > /run/script || [ $? = 1 ]
grep -v '^netplan apply$' /run/script > /run/write
sh -e /run/write
/usr/sbin/netplan generate --root-dir /
cat /run/systemd/network/10-netplan-eth1.network /run/systemd/network/10-netplan-eth2.network
"#;
    let generated = managed(&topology, script);
    for line in [
        "From=10.4.3.101/32",
        "From=10.4.4.101/32",
        "From=fd00:4:3::101/128",
        "From=fd00:4:4::101/128",
        "Destination=2600:2d00:1:b029::/64",
        "Gateway=fe80::1234:5678:9abc",
        "Gateway=10.4.4.1",
    ] {
        assert!(generated.lines().any(|known| known == line), "{line} in {generated}");
    }
}
