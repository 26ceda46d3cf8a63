use super::*;

fn kernel() -> KernelTypes {
    KernelTypes::read(Path::new(KERNEL_BTF)).expect("this kernel describes itself")
}

#[test]
fn the_running_kernel_is_understood() {
    let Understood { layout, reasons } = understand(Path::new(KERNEL_BTF)).expect("a kernel from 5.17 on");
    let offsets = [layout.skb_head, layout.skb_data, layout.skb_dev, layout.skb_protocol];
    assert!(offsets.iter().all(|offset| *offset > 0 && *offset < 512), "{layout:?}");
    // The four header fields lie side by side in every kernel that has them (include/linux/skbuff.h).
    assert_eq!(layout.skb_network_shift, 32, "{layout:?}");
    assert_eq!(layout.skb_data, layout.skb_head + 8, "{layout:?}");
    assert_eq!(layout.skb_data_len, layout.skb_len + 4, "{layout:?}");
    assert_eq!(layout.dst_dev, 0, "the first member of a route: {layout:?}");
    let own = std::fs::metadata("/proc/self/ns/net").expect("it is there").ino();
    assert_eq!(u64::from(layout.namespace), own);
    let names: Vec<&str> = reasons.0.values().map(String::as_str).collect();
    for name in ["NOT_SPECIFIED", "NO_SOCKET", "NETFILTER_DROP", "IP_RPFILTER"] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
    assert!(!names.contains(&"MAX") && !names.iter().any(|name| name.contains("DROP_REASON")), "{names:?}");
}

#[test]
fn a_number_without_a_name_stays_a_number() {
    let reasons = Reasons::read(&kernel()).expect("reasons");
    assert_eq!((reasons.name(0xdead_beef), reasons.text(7777)), (None, "reason 7777".to_owned()));
    assert_eq!(Reasons::default().text(2), "reason 2");
}

#[test]
fn why_there_are_no_reasons_has_a_code_and_a_sentence() {
    let error = understand(Path::new("/nonexistent")).expect_err("no such file");
    assert_eq!(error.code(), "no-btf");
    assert!(error.to_string().contains("CONFIG_DEBUG_INFO_BTF"), "{error}");
    assert_eq!(Unavailable::NoReasons.code(), "no-drop-reasons");
    assert!(Unavailable::NoReasons.to_string().contains("5.17"));
    assert_eq!(Unavailable::Refused("Permission denied".to_owned()).code(), "drop-reasons-refused");
}
