use std::fs;

use tempfile::TempDir;

use super::*;
use crate::host::fixture::t2;

/// A root with these files.
fn root(files: &[(&str, &str)]) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    root
}

fn read(files: &[(&str, &str)]) -> Managers {
    Managers::read(root(files).path(), &t2().links)
}

/// Who manages eth1 (interface 3).
fn eth1(files: &[(&str, &str)]) -> Option<Manager> {
    read(files).of(3).cloned()
}

const LINK3: &str = "run/systemd/netif/links/3";

fn link_state(file: &str) -> String {
    format!(
        "# This is private data. Do not parse.\nADMIN_STATE=configured\nOPER_STATE=routable\nNETWORK_FILE={file}\n"
    )
}

fn networkd(file: &str) -> Manager {
    Manager::Networkd(Networkd { file: file.into(), shared: None })
}

fn netplan(kind: &str, id: &str) -> Manager {
    Manager::Netplan(Netplan { kind: kind.into(), id: id.into() })
}

#[test]
fn an_empty_root_tells_nothing() {
    assert_eq!(read(&[]), Managers::default());
    assert_eq!(Managers::read(Path::new("/nonexistent"), &t2().links), Managers::default());
}

#[test]
fn networkd_says_which_file_it_applies() {
    let own = link_state("/etc/systemd/network/10-lan.network");
    assert_eq!(eth1(&[(LINK3, &own)]), Some(networkd("/etc/systemd/network/10-lan.network")));
    // It runs, but leaves this NIC to ifupdown.
    let files = [
        ("run/systemd/netif/state", "OPER_STATE=routable\n"),
        (LINK3, "ADMIN_STATE=unmanaged\n"),
        ("etc/network/interfaces", "auto eth1\niface eth1 inet dhcp\n"),
    ];
    let managers = read(&files);
    assert_eq!(managers.of(3), Some(&Manager::Ifupdown(Ifupdown { sourced: false })));
    assert!(managers.networkd_runs);
    assert_eq!(managers.of(2), None);
}

#[test]
fn netplan_is_seen_behind_networkd_and_network_manager() {
    let generated = link_state("/run/systemd/network/10-netplan-nic1.network");
    let yaml = "network:\n  version: 2\n  ethernets:\n    nic1:\n      match:\n        macaddress: \"02:00:00:00:00:03\"\n      set-name: eth1\n";
    let files = [(LINK3, generated.as_str()), ("etc/netplan/50-cloud-init.yaml", yaml)];
    assert_eq!(eth1(&files), Some(netplan("ethernets", "nic1")));
    assert_eq!(eth1(&files[..1]), Some(netplan("ethernets", "nic1")), "without its YAML, too");
    let files = [
        ("run/NetworkManager/devices/3", "[device]\nmanaged=true\nconnection-uuid=u-1\n"),
        (
            "run/NetworkManager/system-connections/netplan-bond0.nmconnection",
            "[connection]\nid=netplan-bond0\nuuid=u-1\n",
        ),
        ("etc/netplan/01.yaml", "network:\n  bonds:\n    bond0: {}\n"),
    ];
    assert_eq!(eth1(&files), Some(netplan("bonds", "bond0")));
}

/// Ubuntu's older Azure images have one definition for every NIC but the first.
#[test]
fn a_file_for_several_nics_is_known_as_such() {
    let file = "/run/systemd/network/10-netplan-hotplug.network";
    let state = link_state(file);
    let text = "[Match]\nDriver=hv_netvsc\n[Network]\nDHCP=yes\n";
    let files = [(LINK3, state.as_str()), ("run/systemd/netif/links/2", &state), (&file[1..], text)];
    let shared = SharedFile { with: vec!["eth0".into()], text: text.into() };
    assert_eq!(eth1(&files), Some(Manager::Networkd(Networkd { file: file.into(), shared: Some(shared) })));
}

#[test]
fn network_manager_names_the_connection() {
    let state = ("run/NetworkManager/devices/3", "[device]\nmanaged=true\nconnection-uuid=u-1\n");
    let profile = (
        "etc/NetworkManager/system-connections/lan.nmconnection",
        "[connection]\nid=The LAN\nuuid=u-1\ninterface-name=eth1\n",
    );
    let known = |uuid: Option<&str>, name: Option<&str>| {
        Some(Manager::NetworkManager(NetworkManager {
            uuid: uuid.map(str::to_owned),
            name: name.map(str::to_owned),
            netplan_id: None,
        }))
    };
    assert_eq!(eth1(&[state, profile]), known(Some("u-1"), Some("The LAN")));
    assert_eq!(eth1(&[state]), known(Some("u-1"), None));
    assert_eq!(eth1(&[profile]), known(Some("u-1"), Some("The LAN")), "an image that does not run");
    let unmanaged = ("run/NetworkManager/devices/3", "[device]\nmanaged=false\n");
    assert_eq!(eth1(&[unmanaged]), None);
    let ifcfg = ("etc/sysconfig/network-scripts/ifcfg-eth1", "DEVICE=\"eth1\"\nUUID='u-2'\n");
    assert_eq!(eth1(&[ifcfg, ("usr/sbin/NetworkManager", "")]), known(Some("u-2"), None));
    assert_eq!(eth1(&[ifcfg]), Some(Manager::NetworkScripts));
    let told_off = (ifcfg.0, "DEVICE=eth1\nNM_CONTROLLED=no\n");
    assert_eq!(eth1(&[told_off, ("usr/sbin/NetworkManager", "")]), Some(Manager::NetworkScripts));
}

#[test]
fn interfaces_are_found_in_sourced_files() {
    let stanza = ("etc/network/interfaces.d/50-cloud-init", "auto eth1\niface eth1 inet dhcp\n");
    for (main, sourced) in [
        ("source /etc/network/interfaces.d/*\n", true),
        ("source-directory interfaces.d\n", true),
        ("source-directory /etc/network/interfaces.d/\n", true),
        ("source /etc/network/interfaces.d/50-cloud-init\n", false),
    ] {
        let manager = eth1(&[("etc/network/interfaces", main), stanza]);
        assert_eq!(manager, Some(Manager::Ifupdown(Ifupdown { sourced })), "{main}");
    }
    assert_eq!(eth1(&[("etc/network/interfaces", "iface lo inet loopback\n"), stanza]), None);
}

#[test]
fn what_is_configured_but_does_not_run_is_read_from_its_files() {
    let by_mac = "network:\n  ethernets:\n    # comment: here\n    one:\n      match: {}\n    lan0:\n      match:\n        macaddress: 02:00:00:00:00:03\n      dhcp4: true\n";
    assert_eq!(eth1(&[("etc/netplan/a.yaml", by_mac)]), Some(netplan("ethernets", "lan0")));
    let by_id = "network:\n  ethernets:\n    eth1:\n      dhcp4: true\n";
    assert_eq!(eth1(&[("etc/netplan/a.yaml", by_id)]), Some(netplan("ethernets", "eth1")));
    let renamed = "network:\n  ethernets:\n    eth1:\n      set-name: wan\n";
    assert_eq!(eth1(&[("etc/netplan/a.yaml", renamed)]), None);
    let files = [
        ("etc/systemd/network/20-x.network", "[Match]\nName=eth0 eth1\n"),
        ("usr/lib/systemd/network/10-y.network", "[Match]\nName=eth1\n"),
    ];
    assert_eq!(eth1(&files), Some(networkd("/usr/lib/systemd/network/10-y.network")));
}

#[test]
fn other_writers_are_named() {
    let cloud = ("etc/cloud/cloud.cfg", "");
    assert_eq!(read(&[cloud]).writers, [Writer::CloudInit]);
    for off in ["network: {config: disabled}\n", "network:\n  config: disabled\n"] {
        assert_eq!(read(&[cloud, ("etc/cloud/cloud.cfg.d/99.cfg", off)]).writers, [], "{off}");
    }
    let writers = read(&[
        ("etc/systemd/system/timers.target.wants/nm-cloud-setup.timer", ""),
        ("etc/netconfig.d/cloud-netconfig", ""),
        ("usr/lib/udev/rules.d/10-azure-unmanaged-sriov.rules", ""),
    ])
    .writers;
    assert_eq!(writers, [Writer::NmCloudSetup, Writer::CloudNetconfig, Writer::AzureVmUtils]);
}

#[test]
fn earlier_fixes_keep_their_names() {
    let managers = read(&[
        ("etc/netplan/90-nvaprobe.yaml", "a\n"),
        ("etc/systemd/network/10-lan.network.d/nvaprobe.conf", "b\n"),
    ]);
    let file = |content| managers.free_file("/etc/netplan/90-nvaprobe", ".yaml", content);
    assert_eq!(file("a"), "/etc/netplan/90-nvaprobe.yaml");
    assert_eq!(file("c"), "/etc/netplan/90-nvaprobe-2.yaml");
    let file = managers.free_file("/etc/systemd/network/10-lan.network.d/nvaprobe", ".conf", "c");
    assert_eq!(file, "/etc/systemd/network/10-lan.network.d/nvaprobe-2.conf");
}
