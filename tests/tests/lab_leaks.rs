//! Nothing of a laboratory outlives it: neither a normal end, nor a panic, nor SIGKILL. One test only, because it counts
//! what the whole process holds.

use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Command, Stdio},
    time::Duration,
};

use nvaprobe_tests::process::until;
use probe_user::lab::{
    fabric::Running,
    listener::{Listener, Serve},
    netlink::{End, Netlink},
    netns::Namespace,
    probe_log::AttemptLog,
    prober::Probe,
    topology::{Plan, Topology},
};

const PATIENCE: Duration = Duration::from_secs(10);
const WITNESS: &str = "NVAPROBE_LAB_WITNESS";

fn held() -> (usize, usize) {
    let count = |path: &str| fs::read_dir(path).map_or(0, Iterator::count);
    (count("/proc/self/fd"), count("/proc/self/task"))
}

/// A busy laboratory with a cable to the witness: when the appliance's namespace dies, the witness's end goes too.
fn lab(witness: &Namespace) -> (Topology, Listener, Running) {
    let topology = Topology::build(&Plan { ipv6: true, ..Plan::default() }).expect("a topology");
    topology.primary_route().expect("a route");
    let end = |name: &str, last| End { name: name.to_owned(), mac: [2, 0, 0, 0, 1, last], mtu: 1500 };
    topology
        .nva
        .netlink(|netlink| netlink.veth(&end("cable", 1), &end("witness", 2), witness))
        .expect("a cable");
    let listener = topology.listen(8008, Serve::OK).expect("a listener");
    let probe = Probe::http(topology.target(0, 8008), "/").every(Duration::from_millis(50));
    let prober = topology.fabrics[0].probe(probe).expect("a prober");
    assert!(prober.wait(3, PATIENCE).iter().any(AttemptLog::answered));
    (topology, listener, prober)
}

#[test]
fn nothing_outlives_a_laboratory() {
    if let Ok(path) = std::env::var(WITNESS) {
        let _lab = lab(&Namespace::open("witness", path).expect("the witness"));
        println!("\nready");
        std::thread::sleep(Duration::from_mins(1));
        panic!("nobody killed this process");
    }
    let witness = Namespace::new("witness").expect("a namespace");
    let linked = || witness.netlink(Netlink::links).is_ok_and(|links| links.len() > 1);
    let before = held();

    drop(lab(&witness));
    until("a dropped laboratory gives its descriptors and threads back", || held() == before);
    until("a dropped laboratory is gone", || !linked());

    let panicked = std::panic::catch_unwind(|| {
        let _lab = lab(&witness);
        assert!(!linked(), "on purpose");
    });
    assert!(panicked.is_err());
    until("a panic gives descriptors and threads back", || held() == before);
    until("a laboratory is gone after a panic", || !linked());

    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "nothing_outlives_a_laboratory", "--nocapture"])
        .env(WITNESS, witness.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the child starts");
    let output = BufReader::new(child.stdout.take().expect("piped"));
    let ready = output.lines().map_while(Result::ok).any(|line| line == "ready");
    let alive = linked();
    child.kill().and_then(|()| child.wait()).expect("the child dies");
    assert!(ready && alive, "the child built no laboratory");
    until("a killed laboratory is gone", || !linked());
}
