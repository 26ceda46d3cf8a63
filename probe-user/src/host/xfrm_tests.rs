use super::*;

/// `ip xfrm policy add src 10.4.3.0/24 dst 168.63.129.16/32 proto tcp dir out priority 7
/// tmpl src 10.4.3.101 dst 192.0.2.1 proto esp mode tunnel`
fn payload() -> Vec<u8> {
    let mut bytes = vec![0; POLICY_INFO];
    bytes[0..4].copy_from_slice(&[168, 63, 129, 16]);
    bytes[16..20].copy_from_slice(&[10, 4, 3, 0]);
    bytes[40..42].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
    bytes[42..45].copy_from_slice(&[32, 24, 6]);
    bytes[152..156].copy_from_slice(&7u32.to_ne_bytes());
    bytes[160] = 1;
    let mut template = vec![0; TEMPLATE];
    template[0..4].copy_from_slice(&[192, 0, 2, 1]);
    template[20] = 50;
    template[24..26].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
    template[28..32].copy_from_slice(&[10, 4, 3, 101]);
    template[48] = 1;
    bytes.extend((4 + TEMPLATE as u16).to_ne_bytes());
    bytes.extend(XFRMA_TMPL.to_ne_bytes());
    bytes.extend(template);
    bytes
}

fn reply() -> Flow {
    Flow {
        from: "10.4.3.101".parse().unwrap(),
        to: "168.63.129.16".parse().unwrap(),
        protocol: 6,
        from_port: 8008,
        to_port: 50000,
        device: None,
        mark: 0,
    }
}

#[test]
fn a_policy_reads_as_ip_prints_it() {
    let policy = from_payload(&payload()).unwrap();
    assert_eq!(
        policy.text(&Links::default()),
        "src 10.4.3.0/24 dst 168.63.129.16 proto tcp dir out priority 7 tmpl src 10.4.3.101 dst 192.0.2.1 \
         proto esp mode tunnel"
    );
    assert!(policy.captures() && policy.covers(&reply()));
}

#[test]
fn the_selector_selects() {
    let policy = from_payload(&payload()).unwrap();
    assert!(!policy.covers(&Flow { from: "10.4.2.101".parse().unwrap(), ..reply() }));
    assert!(!policy.covers(&Flow { protocol: 17, ..reply() }));
    assert!(!policy.covers(&Flow { to: "fe80::1".parse().unwrap(), ..reply() }));
    let with = |change: fn(&mut Policy)| {
        let mut changed = policy.clone();
        change(&mut changed);
        changed.covers(&reply())
    };
    assert!(with(|policy| policy.from_port = Port { value: 8008, mask: 0xffff }));
    assert!(!with(|policy| policy.to_port = Port { value: 8008, mask: 0xffff }));
    assert!(!with(|policy| policy.mark = (1, 0xff)));
    assert!(!with(|policy| policy.interface_id = Some(1)));
}

#[test]
fn the_lowest_priority_decides_and_a_pass_captures_nothing() {
    let protect = from_payload(&payload()).unwrap();
    let pass = Policy { priority: 1, templates: Vec::new(), ..protect.clone() };
    let policies = [protect.clone(), pass];
    assert!(!deciding(&policies, Direction::Out, &reply()).unwrap().captures());
    assert_eq!(deciding(&policies, Direction::In, &reply()), None);
    assert!(deciding(&policies[..1], Direction::Out, &reply()).unwrap().captures());
    assert!(Policy { block: true, templates: Vec::new(), ..protect }.captures());
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_taken(bytes in proptest::collection::vec(0u8.., 0..400)) {
        from_payload(&bytes);
    }

    #[test]
    fn a_policy_with_a_byte_changed_or_cut_is_taken(at in 0usize..300, value: u8, length in 0usize..300) {
        let mut bytes = payload();
        if let Some(byte) = bytes.get_mut(at) {
            *byte = value;
        }
        bytes.truncate(length);
        if let Some(policy) = from_payload(&bytes) {
            policy.text(&Links::default());
        }
    }
}
