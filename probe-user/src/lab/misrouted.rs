//! S01: both NICs are probed, the route to the prober is on one.

use std::time::Duration;

use super::{
    Result,
    listener::Serve,
    prober::Probe,
    scenario::{Lab, Scenario},
    topology::Topology,
};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "misrouted",
    about: "the reply to eth1's probe leaves by eth0",
    story: "\
An appliance with two NICs, in network namespaces on this machine:
  eth0 10.4.2.101 and eth1 10.4.3.101, a load balancer behind each,
  both probing port 8008 from 168.63.129.16, every second.
The appliance has what Azure's DHCP gives it:
  168.63.129.16 via 10.4.2.1 dev eth0",
    build,
};

const PORT: u16 = 8008;

fn build() -> Result<Lab> {
    let topology = Topology::two_armed()?;
    topology.primary_route()?;
    let listeners = vec![topology.listen(PORT, Serve::Hold)?];
    let mut probes = Vec::new();
    for (nic, fabric) in topology.fabrics.iter().enumerate() {
        let probe = Probe::tcp(topology.target(nic, PORT))
            .every(Duration::from_secs(1))
            // Not at the same instant, as two load balancers would.
            .delayed(Duration::from_millis(300 * nic as u64));
        probes.push(fabric.probe(probe)?);
    }
    Ok(Lab { probes, listeners, topology })
}
