use super::*;

#[test]
fn a_listener_of_our_own_is_found_with_its_process() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let found = listeners(&BTreeSet::from([address.port()])).expect("sock_diag is there");
    let [found] = &*found else { panic!("{found:?}") };
    let own = fs::read_to_string("/proc/self/comm").expect("procfs is there");
    assert_eq!((found.address, found.port), (address.ip(), address.port()));
    assert_eq!(found.process.as_deref(), Some(own.trim_end()));
    let detail = found.detail.expect("sock_diag is there");
    assert_eq!((detail.device, detail.queue, detail.v6_only), (None, 0, None));
    assert!(detail.backlog > 0 && found.is_full() == Some(false));
    drop(listener);
    // A child that another test has just forked may hold the socket until it executes its program.
    let gone = (0..100).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        listeners(&BTreeSet::from([address.port()])) == Ok(Vec::new())
    });
    assert!(gone);
    assert_eq!(listeners(&BTreeSet::new()), Ok(Vec::new()));
}

const PLAIN: Detail = Detail { device: None, queue: 0, backlog: 5, v6_only: None, uid: 0 };

fn listener(address: &str, detail: Option<Detail>) -> Listener {
    Listener { detail, ..Listener::new(address.parse().unwrap(), 8008) }
}

#[test]
fn a_syn_reaches_its_address_on_its_device() {
    let hears = |listener: &Listener| listener.hears("10.4.3.101".parse().unwrap(), 3, None, None);
    let v6 = |v6_only| Some(Detail { v6_only, ..PLAIN });
    assert_eq!(hears(&listener("0.0.0.0", Some(PLAIN))), Reach::Yes);
    assert_eq!(hears(&listener("10.4.3.101", Some(PLAIN))), Reach::Yes);
    assert_eq!(hears(&listener("::ffff:10.4.3.101", v6(Some(false)))), Reach::Yes);
    assert_eq!(hears(&listener("10.4.2.101", None)), Reach::OtherAddress);
    assert_eq!(hears(&listener("::", v6(Some(false)))), Reach::Yes);
    assert_eq!(hears(&listener("::", v6(Some(true)))), Reach::OtherAddress);
    assert_eq!(hears(&listener("::", None)), Reach::Unknown);
    assert_eq!(hears(&listener("fd00::1", v6(Some(false)))), Reach::OtherAddress);
    assert_eq!(hears(&listener("0.0.0.0", None)), Reach::Unknown);
    let on = |device| listener("0.0.0.0", Some(Detail { device: Some(device), ..PLAIN }));
    assert_eq!((hears(&on(3)), hears(&on(2))), (Reach::Yes, Reach::OtherDevice));
}

#[test]
fn a_vrf_needs_a_listener_of_its_own_or_a_sysctl() {
    let to = "10.4.3.101".parse().unwrap();
    let plain = listener("0.0.0.0", Some(PLAIN));
    assert_eq!(plain.hears(to, 3, Some(9), Some(false)), Reach::OtherDevice);
    assert_eq!(plain.hears(to, 3, Some(9), Some(true)), Reach::Yes);
    assert_eq!(plain.hears(to, 3, Some(9), None), Reach::Unknown);
    let bound = listener("0.0.0.0", Some(Detail { device: Some(9), ..PLAIN }));
    assert_eq!(bound.hears(to, 3, Some(9), Some(false)), Reach::Yes);
}

#[test]
fn a_queue_is_full_above_its_backlog() {
    let with = |queue| listener("0.0.0.0", Some(Detail { queue, ..PLAIN })).is_full();
    assert_eq!((with(5), with(6)), (Some(false), Some(true)));
    assert_eq!(listener("0.0.0.0", None).is_full(), None);
}
