//! Whatever the file holds, it is read or refused with places that exist.

use std::net::IpAddr;

use clap::ValueEnum;
use proptest::{prelude::*, sample::select};

use super::{tests::FULL, *};

/// Read or refused, never worse; a refusal can be shown and points into the text.
fn survives(text: &str) {
    match parse(text) {
        Ok(config) => {
            let written = toml::to_string(&config).expect("serialises");
            assert_eq!(parse(&written).as_ref(), Ok(&config), "{written}");
            config.judging();
        }
        Err(errors) => {
            let lines = text.split('\n').count();
            assert!(errors.places().next().is_some());
            assert!(errors.places().all(|(line, column)| line >= 1 && line <= lines && column >= 1));
            let shown = errors.to_string();
            assert!(shown.chars().all(|c| c == '\n' || !c.is_control()), "{shown:?}");
        }
    }
}

fn one_of<T: ValueEnum + std::fmt::Debug + 'static>() -> impl Strategy<Value = Option<Choice<T>>> {
    proptest::option::of(select(T::value_variants()).prop_map(Choice))
}

fn interval() -> impl Strategy<Value = Interval> {
    (200u64..=3_600_000).prop_map(|ms| Interval(std::time::Duration::from_millis(ms)))
}

fn count() -> impl Strategy<Value = Option<Count>> {
    proptest::option::of((1u32..=100).prop_map(Count))
}

fn nic() -> impl Strategy<Value = NicName> {
    "[a-z@\"\\\\'#.é]{0,6}[0-9]".prop_map(NicName)
}

fn status() -> impl Strategy<Value = Vec<StatusRange>> {
    let range = (100u16..=999, 0u16..=100).prop_map(|(first, more)| {
        let text = format!("{first}-{}", (first + more).min(999));
        StatusRange(text.parse().expect("a range"))
    });
    proptest::collection::vec(range, 0..3)
}

fn source() -> impl Strategy<Value = SourceNet> {
    (any::<IpAddr>(), 0u8..=128).prop_map(|(address, length)| {
        let most = if address.is_ipv4() { 32 } else { 128 };
        let net = ipnet::IpNet::new(address, length.min(most)).expect("a length that fits");
        SourceNet(net.trunc())
    })
}

/// Entries that do not clash: each has a port of its own and no timeout.
fn expect() -> impl Strategy<Value = Vec<Expect>> {
    let entry = (nic(), one_of(), one_of(), proptest::option::of(interval()), count(), count(), status());
    proptest::collection::vec(entry, 0..4).prop_map(|entries| {
        let ports = 1u16..;
        let numbered = ports.zip(entries);
        let expect = |(port, (nic, protocol, role, interval, threshold, rise, status))| Expect {
            nic,
            port: Port(port),
            protocol,
            role,
            interval,
            timeout: None,
            threshold,
            rise,
            status,
        };
        numbered.map(expect).collect()
    })
}

fn valid() -> impl Strategy<Value = Config> {
    let sources = (
        one_of::<Profile>(),
        proptest::collection::vec(source(), 0..4),
        any::<Option<bool>>(),
        proptest::option::of("[a-z/\"\\\\ é]{1,9}".prop_map(PathBuf::from)),
        proptest::option::of("[A-Z][A-Za-z.]{0,9}".prop_map(TagName)),
    );
    let live = (one_of(), one_of(), proptest::option::of((12u32..31).prop_map(|bits| RingSize(1 << bits))));
    let modes = (any::<Option<bool>>(), one_of(), one_of(), one_of::<Pool>());
    let rules = (proptest::option::of(interval()), count(), count(), status());
    (sources, live, modes, rules, expect()).prop_map(|(sources, live, modes, rules, expect)| {
        let (profile, sources, no_default_sources, service_tags, service_tag) = sources;
        Config {
            profile,
            sources,
            no_default_sources,
            service_tags,
            service_tag,
            nics: expect.iter().map(|expect| expect.nic.clone()).collect(),
            ingress: live.0,
            tc: live.1,
            ring: live.2,
            kernel_log: modes.0,
            drop_reasons: modes.0.map(|on| !on),
            imds: modes.0.and_then(|off| if off { "off" } else { "http://10.0.0.1:8080" }.parse().ok()),
            flows: modes.1,
            heal: modes.2,
            pool: modes.3,
            interval: rules.0,
            timeout: None,
            threshold: rules.1,
            rise: rules.2,
            status: rules.3,
            expect,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_read_or_refused(text in any::<String>()) {
        survives(&text);
    }

    #[test]
    fn any_pieces_of_toml_are_read_or_refused(pieces in proptest::collection::vec(
        select(vec![
            "[[expect]]", "[expect]", "[", "]", "{", "}", "\"", "'", "=", ",", ".", "\n", "\r\n", "#", "\\u001b", "é",
            "nics", "port", "interval", "status", "profile", " = ", "\"5s\"", "\"eth0\"", "0x1f", "-1", "1e9", "inf",
            "true", "2026-01-01", "[]", "{}", "\"\"\"",
        ]), 0..24)
    ) {
        survives(&pieces.concat());
    }

    #[test]
    fn a_damaged_file_is_read_or_refused(
        at in any::<prop::sample::Index>(),
        length in 0usize..20,
        by in any::<String>(),
    ) {
        let start = FULL.floor_char_boundary(at.index(FULL.len()));
        let end = FULL.floor_char_boundary((start + length).min(FULL.len()));
        survives(&format!("{}{by}{}", &FULL[..start], &FULL[end..]));
    }

    #[test]
    fn a_valid_configuration_round_trips(config in valid()) {
        let written = toml::to_string(&config).expect("serialises");
        let read = parse(&written);
        prop_assert_eq!(read.as_ref(), Ok(&config), "{}", written);
    }

    #[test]
    fn what_flags_say_is_what_the_file_says(entries in expect()) {
        for entry in entries {
            // A comma would end the value on the command line.
            prop_assume!(!entry.nic.0.contains(','));
            let written = toml::Table::try_from(&entry).expect("serialises");
            let pairs = written.iter().flat_map(|(key, value)| match value.as_array() {
                Some(many) => many.iter().map(|one| (key, plain(one))).collect::<Vec<_>>(),
                None => vec![(key, plain(value))],
            });
            let flag: Vec<String> = pairs.map(|(key, value)| format!("{key}={value}")).collect();
            let read: Result<Expect, String> = flag.join(",").parse();
            prop_assert_eq!(read.as_ref(), Ok(&entry));
        }
    }
}

fn plain(value: &toml::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
