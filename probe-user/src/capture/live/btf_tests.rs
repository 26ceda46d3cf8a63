use proptest::prelude::*;

use super::*;

const INT: u32 = 1;
const PTR: u32 = 2;
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const ENUM: u32 = 6;
const TYPEDEF: u32 = 8;
const CONST: u32 = 10;
const FUNC_PROTO: u32 = 13;

/// Writes types as Documentation/bpf/btf.rst has them.
#[derive(Default)]
struct Writer {
    types: Vec<u8>,
    strings: Vec<u8>,
    count: u32,
}

impl Writer {
    fn new() -> Self {
        Self { strings: vec![0], ..Self::default() }
    }

    fn string(&mut self, text: &str) -> u32 {
        if text.is_empty() {
            return 0;
        }
        let at = self.strings.len() as u32;
        self.strings.extend(text.as_bytes());
        self.strings.push(0);
        at
    }

    /// `last` is the size, or the type referred to. Returns the new type's id.
    fn add(&mut self, name: &str, kind: u32, length: usize, flag: bool, last: u32, words: &[u32]) -> u32 {
        let name = self.string(name);
        let info = kind << 24 | length as u32 | u32::from(flag) << 31;
        for word in [name, info, last].iter().chain(words) {
            self.types.extend(word.to_ne_bytes());
        }
        self.count += 1;
        self.count
    }

    fn int(&mut self, name: &str, size: u32) -> u32 {
        self.add(name, INT, 0, false, size, &[size * 8])
    }

    /// Members: name, type, bit offset.
    fn composite(&mut self, name: &str, kind: u32, flag: bool, members: &[(&str, u32, u32)]) -> u32 {
        let words: Vec<u32> =
            members.iter().flat_map(|(name, of, at)| [self.string(name), *of, *at]).collect();
        self.add(name, kind, members.len(), flag, 64, &words)
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(0xeb9fu16.to_ne_bytes());
        bytes.extend([1, 0]);
        let (types, strings) = (self.types.len() as u32, self.strings.len() as u32);
        for word in [24, 0, types, types, strings] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(&self.types);
        bytes.extend(&self.strings);
        bytes
    }
}

/// ```c
/// struct sk_buff {
///     union { struct { void *next; const dev_t *dev; }; u64 node; };
///     u64 flag:1;
///     struct { u32 ino; } ns;
/// };
/// enum skb_drop_reason { SKB_DROP_REASON_NETFILTER_DROP = 7 };
/// typedef void (*btf_trace_kfree_skb)(void *, struct sk_buff *, void *, enum skb_drop_reason);
/// ```
fn small() -> Vec<u8> {
    let mut writer = Writer::new();
    let int = writer.int("unsigned int", 4);
    let long = writer.int("unsigned long", 8);
    let void = writer.add("", PTR, 0, false, 0, &[]);
    let constant = writer.add("", CONST, 0, false, long, &[]);
    let alias = writer.add("dev_t", TYPEDEF, 0, false, constant, &[]);
    let pointer = writer.add("", PTR, 0, false, alias, &[]);
    let inner = writer.composite("", STRUCT, false, &[("next", void, 0), ("dev", pointer, 64)]);
    let either = writer.composite("", UNION, false, &[("", inner, 0), ("node", long, 0)]);
    let named = writer.composite("ns_common", STRUCT, false, &[("ino", int, 0)]);
    let skb = writer.composite(
        "sk_buff",
        STRUCT,
        true,
        &[("", either, 0), ("flag", long, 128 | 1 << 24), ("ns", named, 192), ("odd", int, 228)],
    );
    let name = writer.string("SKB_DROP_REASON_NETFILTER_DROP");
    let reason = writer.add("skb_drop_reason", ENUM, 1, false, 4, &[name, 7]);
    let skb = writer.add("", PTR, 0, false, skb, &[]);
    let prototype = writer.add("", FUNC_PROTO, 4, false, 0, &[0, void, 0, skb, 0, void, 0, reason]);
    let pointer = writer.add("", PTR, 0, false, prototype, &[]);
    writer.add("btf_trace_kfree_skb", TYPEDEF, 0, false, pointer, &[]);
    writer.bytes()
}

#[test]
fn members_are_found_through_anonymous_structs_unions_and_typedefs() {
    let types = KernelTypes::from_bytes(&small()).expect("it is whole");
    assert_eq!(types.offset("sk_buff.next", 8).expect("there"), 0);
    assert_eq!(types.offset("sk_buff.dev", 8).expect("there"), 8);
    assert_eq!(types.offset("sk_buff.node", 8).expect("there"), 0);
    assert_eq!(types.offset("sk_buff.ns.ino", 4).expect("there"), 24);
}

#[test]
fn what_a_program_could_not_read_is_refused_by_name() {
    let types = KernelTypes::from_bytes(&small()).expect("it is whole");
    for (path, size, expected) in [
        ("sk_buff.flag", 8, "its sk_buff.flag is not what is expected: a bit-field"),
        ("sk_buff.odd", 4, "its sk_buff.odd is not what is expected: it starts at bit 228"),
        ("sk_buff.dev", 4, "its sk_buff.dev is not what is expected: Some(8) bytes"),
        ("sk_buff.ns", 64, "its sk_buff.ns is not what is expected: None bytes"),
        ("sk_buff.gone", 4, "it has no sk_buff.gone"),
        ("sk_buff.dev.name", 4, "it has no sk_buff.dev.name"),
        ("net.ns", 4, "it has no struct net"),
    ] {
        let error = types.offset(path, size).expect_err(path).to_string();
        assert_eq!(error, expected);
    }
}

#[test]
fn a_tracepoint_and_its_reasons_are_read() {
    let types = KernelTypes::from_bytes(&small()).expect("it is whole");
    assert_eq!(
        types.tracepoint("kfree_skb").expect("there"),
        [
            Argument::Pointer("sk_buff".to_owned()),
            Argument::Pointer(String::new()),
            Argument::Enum("skb_drop_reason".to_owned()),
        ]
    );
    assert!(matches!(types.tracepoint("consume_skb"), Err(BtfError::Missing(_))));
    let names = types.constants("skb_drop_reason").expect("there");
    assert_eq!(names, [(7, "SKB_DROP_REASON_NETFILTER_DROP".to_owned())]);
    assert_eq!(types.constants("ovs_drop_reason").expect("no error"), []);
}

#[test]
fn a_circle_of_typedefs_and_a_struct_within_itself_end() {
    let mut writer = Writer::new();
    let own = writer.count + 1;
    writer.add("circle", TYPEDEF, 0, false, own, &[]);
    let own = writer.count + 1;
    writer.composite("sk_buff", STRUCT, false, &[("", own, 0), ("dev", 1, 64)]);
    let types = KernelTypes::from_bytes(&writer.bytes()).expect("it can be indexed");
    assert!(types.offset("sk_buff.dev", 8).is_err());
    assert!(types.offset("sk_buff.gone", 8).is_err());
}

/// Everything that is asked of a kernel's types.
fn ask(bytes: &[u8]) {
    let Ok(types) = KernelTypes::from_bytes(bytes) else { return };
    for path in ["sk_buff.dev", "sk_buff.ns.ino", "sk_buff.flag"] {
        let _ = types.offset(path, 8);
    }
    let _ = types.tracepoint("kfree_skb");
    let _ = types.constants("skb_drop_reason");
}

proptest! {
    #[test]
    fn damaged_types_are_errors_and_never_panics(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
        truncated in any::<bool>(),
    ) {
        let mut bytes = small();
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if truncated {
            bytes.truncate(cut.index(bytes.len()));
        }
        ask(&bytes);
    }
}

#[test]
fn every_single_damaged_byte_is_survived() {
    let whole = small();
    for at in 0..whole.len() {
        for value in [0, 1, 0x7f, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] = value;
            ask(&bytes);
        }
        ask(&whole[..at]);
    }
}

#[test]
fn what_is_no_type_information_is_an_error_that_names_the_file() {
    let error = KernelTypes::read(Path::new("/nonexistent/vmlinux")).err().expect("an error").to_string();
    assert!(error.starts_with("/nonexistent/vmlinux: "), "{error}");
    assert!(matches!(KernelTypes::from_bytes(b"\x7fELF"), Err(BtfError::Damaged(_))));
    assert!(KernelTypes::from_bytes(b"").is_err());
}
