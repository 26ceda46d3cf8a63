use super::*;
use crate::host::fixture::link;

/// lo, netvsc eth0 with VF, bond of two, bridge with a port, VRF with a member, tunnel, veth.
fn azure() -> Links {
    let lo = Link { loopback: true, mac: None, ..link(1, "lo", None) };
    let eth0 = Link { driver: Some("hv_netvsc".into()), ..link(2, "eth0", None) };
    let vf = Link {
        master: Some(2),
        slave: true,
        mac: eth0.mac,
        driver: Some("mlx5_core".into()),
        ..link(3, "enP1", None)
    };
    let bond = link(4, "bond0", Some("bond"));
    let member = |index, name: &str| Link {
        master: Some(4),
        slave: true,
        mac: Some([2, 0, 0, 0, 0, 4]),
        driver: Some("ena".into()),
        ..link(index, name, None)
    };
    let bridge = link(7, "br0", Some("bridge"));
    let port = Link { master: Some(7), driver: Some("virtio_net".into()), ..link(8, "ens8", None) };
    let vrf = Link { mac: None, vrf_table: Some(100), ..link(9, "blue", Some("vrf")) };
    let vrf_member = Link { master: Some(9), parent: Some("virtio3".into()), ..link(10, "ens10", None) };
    let vxlan = link(11, "vx", Some("vxlan"));
    let veth = Link { driver: Some("veth".into()), ..link(12, "veth0", Some("veth")) };
    let vlan = Link { lower: Some(2), ..link(13, "eth0.7", Some("vlan")) };
    Links(vec![
        lo,
        eth0,
        vf,
        bond,
        member(5, "eth5"),
        member(6, "eth6"),
        bridge,
        port,
        vrf,
        vrf_member,
        vxlan,
        veth,
        vlan,
    ])
}

#[test]
fn a_vf_and_a_bond_member_count_as_their_master() {
    let links = azure();
    assert_eq!(links.logical_nic(3), 2);
    assert_eq!(links.logical_nic(5), 4);
    assert_eq!(links.members(2).iter().map(|link| &*link.name).collect::<Vec<_>>(), ["enP1"]);
    assert_eq!(links.members(4).len(), 2);
}

#[test]
fn a_vf_in_a_bond_counts_as_the_bond() {
    let mut links = azure();
    links.0[1].master = Some(4);
    assert_eq!(links.logical_nic(3), 4);
}

#[test]
fn a_failover_primary_is_known_by_its_mac() {
    let mut links = azure();
    links.0[2].slave = false;
    assert_eq!(links.logical_nic(3), 2);
    links.0[2].mac = Some([9; 6]);
    assert_eq!(links.logical_nic(3), 3);
}

#[test]
fn bridge_ports_and_vrf_members_stay_themselves() {
    let links = azure();
    assert_eq!(links.logical_nic(8), 8);
    assert_eq!(links.logical_nic(10), 10);
    assert_eq!(links.logical_nic(4711), 4711);
}

#[test]
fn a_loop_of_masters_ends() {
    let mut a = link(1, "a", Some("bond"));
    let mut b = link(2, "b", Some("bond"));
    a.master = Some(2);
    b.master = Some(1);
    let nic = Links(vec![a, b]).logical_nic(1);
    assert!(nic == 1 || nic == 2);
}

#[test]
fn physical_nics_are_the_masters_of_hardware() {
    let links = azure();
    let names: Vec<_> = links.physical().iter().map(|link| &*link.name).collect();
    assert_eq!(names, ["eth0", "bond0", "ens8", "ens10"]);
}

#[test]
fn without_hardware_a_veth_stands_in_unless_it_is_a_bridge_port() {
    let bridge = link(2, "br0", Some("bridge"));
    let port = Link { master: Some(2), ..link(3, "veth3", Some("veth")) };
    let links = Links(vec![bridge, port, link(4, "eth0", Some("veth")), link(5, "tun0", Some("tun"))]);
    assert_eq!(links.physical().iter().map(|link| &*link.name).collect::<Vec<_>>(), ["eth0"]);
}

#[test]
fn a_vlan_is_carried_by_the_nic_below_it() {
    let links = azure();
    assert!(links.carried_by(13, 2));
    assert!(links.carried_by(3, 2));
    assert!(!links.carried_by(13, 4));
    assert!(!links.carried_by(11, 2));
}

#[test]
fn layer_two_is_told_apart() {
    assert_eq!(Layer2::from_arphrd(1).length(), Some(14));
    assert_eq!(Layer2::from_arphrd(0xfffe).length(), Some(0));
    assert_eq!(Layer2::from_arphrd(32), Layer2::Other(32));
    assert_eq!(Layer2::Other(32).length(), None);
}
