use std::{fmt::Write as _, time::Duration};

use super::*;
use crate::probe::rules::{Limit, Role};

/// The example of the design.
const EXAMPLE: &str = r#"
profile = "azure-lb"
sources = ["10.4.2.1"]
nics = ["eth0", "eth1"]
flows = "control"
heal = "off"

[[expect]]
nic = "eth1"
port = 8008
protocol = "tcp"        # tcp | http | https
interval = "15s"
threshold = 1
role = "active"
status = ["200"]
"#;

/// Every key, none at its default.
pub(super) const FULL: &str = r#"
profile = "azure-traffic-manager"
sources = ["10.4.2.1", "35.191.0.0/16", "fe80::1"]
no_default_sources = true
service_tags = "tags.json"
service_tag = "AzureFrontDoor.Backend"
nics = ["eth0", "eth1"]
ingress = "tc"
tc = "clsact"
ring = 0x10_000
kernel_log = true
drop_reasons = false
imds = "http://127.0.0.1:8080"
flows = "off"
heal = "dry-run"
interval = "10s"
timeout = "1s 500ms"
threshold = 3
rise = 2
status = ["200-299", 302]
pool = "shared"

[[expect]]
nic = "eth0"
port = 443
protocol = "https"
role = "standby"
interval = "15s"
timeout = "9s"
threshold = 5
rise = 4
status = ["204"]

[[expect]]
nic = "eth1"
port = 443
"#;

fn good(text: &str) -> Config {
    parse(text).unwrap_or_else(|errors| panic!("{errors}"))
}

fn says(text: &str) -> String {
    parse(text).expect_err("refused").of("nvaprobe.toml".to_owned()).to_string()
}

#[test]
fn nothing_said_is_azures_load_balancer() {
    assert_eq!(good(""), Config::default());
    let judging = Judging::default();
    assert_eq!((judging.profile, judging.pool), (Profile::AzureLb, Pool::Unknown));
    assert_eq!(judging.rules, crate::probe::rules::Rules::default());
    assert!(judging.expected.is_empty() && !judging.interval_assumed);
    assert!(judging.flows().is_some_and(|flows| flows.contains("UDP moves")));
}

#[test]
fn the_designs_example_is_understood() {
    let config = good(EXAMPLE);
    assert_eq!(config.nics, [NicName("eth0".to_owned()), NicName("eth1".to_owned())]);
    let judging = config.judging();
    let [expected] = judging.expected.as_slice() else { panic!("one entry: {judging:#?}") };
    assert_eq!((expected.nic.as_str(), expected.port, expected.role), ("eth1", 8008, Role::Active));
    assert_eq!(expected.rules.interval, Some(Duration::from_secs(15)));
    assert_eq!((expected.rules.fall, expected.rules.rise, expected.rules.limit), (1, 1, Limit::Interval));
    assert_eq!(judging.rules.interval, None, "an entry's interval is its own");
}

#[test]
fn an_entry_overrides_the_file_and_the_file_the_profile() {
    let judging = good(FULL).judging();
    assert_eq!((judging.rules.fall, judging.rules.rise), (3, 2));
    assert_eq!(judging.rules.limit, Limit::Fixed(Duration::from_millis(1500)));
    assert_eq!(judging.rules.statuses.to_string(), "200-299, 302");
    let [own, general] = judging.expected.as_slice() else { panic!("two entries: {judging:#?}") };
    assert_eq!((own.rules.fall, own.rules.rise, own.rules.statuses.to_string().as_str()), (5, 4, "204"));
    assert_eq!(own.rules.limit, Limit::Fixed(Duration::from_secs(9)));
    assert_eq!(general.rules, judging.rules);
    let assumed = good("profile = \"azure-traffic-manager\"").judging();
    assert!(assumed.interval_assumed && !judging.interval_assumed);
}

#[test]
fn a_configuration_survives_being_written() {
    for text in ["", EXAMPLE, FULL] {
        let config = good(text);
        let written = toml::to_string(&config).expect("serialises");
        assert_eq!(good(&written), config, "{written}");
    }
}

#[test]
fn flags_win_and_lists_replace_lists() {
    let file = good(FULL);
    let flags = good("nics = [\"eth5\"]\nthreshold = 9\nkernel_log = false");
    let both = file.clone().overridden_by(flags);
    assert_eq!(both.nics, [NicName("eth5".to_owned())]);
    assert_eq!((both.threshold, both.kernel_log), (Some(Count(9)), Some(false)));
    assert_eq!(file.clone().overridden_by(Config::default()), file);
    // Every key of the flags wins: with all of them given nothing of the file is left.
    assert_eq!(good(EXAMPLE).overridden_by(file.clone()), file);
}

#[test]
fn schema_keys_are_the_keys_that_are_read() {
    let schema: serde_json::Value = serde_json::from_str(&schema::text().expect("serialises")).expect("JSON");
    let keys = |object: &serde_json::Value| -> Vec<String> {
        let properties = object["properties"].as_object().expect("properties");
        assert!(properties.values().all(|property| property["description"].is_string()), "{properties:#?}");
        assert_eq!(object["additionalProperties"], false);
        properties.keys().cloned().collect()
    };
    let written = |config: &Config| toml::Table::try_from(config).expect("serialises");
    let full = written(&good(FULL));
    let mut read: Vec<&String> = full.keys().collect();
    read.sort();
    let mut known = keys(&schema);
    known.sort();
    assert_eq!(read, known.iter().collect::<Vec<_>>());
    let entry = full["expect"][0].as_table().expect("a table");
    let mut read: Vec<&String> = entry.keys().collect();
    read.sort();
    let mut known = keys(&schema["$defs"]["Expect"]);
    known.sort();
    assert_eq!(read, known.iter().collect::<Vec<_>>());
    assert!(!schema.to_string().contains("null"), "TOML has none");
    insta::assert_snapshot!("config_schema", schema::text().expect("serialises"));
}

#[test]
fn an_expect_flag_says_what_an_entry_says() {
    let flag =
        "nic=eth0,port=443,protocol=https,role=standby,interval=15s,timeout=9s,threshold=5,rise=4,status=204";
    assert_eq!(flag.parse::<Expect>().as_ref(), Ok(&good(FULL).expect[0]));
    let twice: Expect = "nic=eth0,port=80,status=200,status=300-399".parse().expect("valid");
    assert_eq!(twice.status.len(), 2);
    let mut said = String::new();
    for bad in [
        "",
        "eth0",
        "port=80",
        "nic=eth0",
        "nic=eth0,port=0",
        "nic=eth0,port=http",
        "nic=eth0,port=80,prot=tcp",
        "nic=eth0,port=80,colour=red",
        "nic=eth0,port=80,protocol=udp",
        "nic=eth0,port=80,port=81",
        "nic=eth0,port=80,interval=5",
        "nic=eth0,port=80,status=",
    ] {
        let _ = writeln!(said, "{bad}\n    {}", bad.parse::<Expect>().expect_err("refused"));
    }
    insta::assert_snapshot!("expect_flags", said);
}

/// One of each kind, in the words that the user meets.
#[test]
fn every_error_shows_its_place_and_a_way_out() {
    let expect = |rest: &str| format!("[[expect]]\nnic = \"eth1\"\nport = 8008\n{rest}");
    let twice = format!("{}\n{}", expect("protocol = \"tcp\""), expect(""));
    let cases = [
        ("unknown key", "nic = [\"eth0\"]".to_owned()),
        ("unknown key, nothing near", "colour = \"red\"".to_owned()),
        ("unknown key of an entry", expect("intervall = \"5s\"")),
        ("unknown table", "[observe]\nnics = [\"eth0\"]".to_owned()),
        ("wrong type: number for a duration", "interval = 5".to_owned()),
        ("wrong type: text for a number", "threshold = \"2\"".to_owned()),
        ("wrong type: text for a truth value", "kernel_log = \"yes\"".to_owned()),
        ("wrong type: text for a list", "nics = \"eth0\"".to_owned()),
        ("wrong type: in a list", "nics = [\"eth0\", 1]".to_owned()),
        (
            "wrong type: fraction, date, list, table",
            "rise = 1.5\npool = 2026-01-01\nheal = []\ntc = {}".to_owned(),
        ),
        ("wrong type: a table for entries", "[expect]\nnic = \"eth1\"".to_owned()),
        ("wrong type: names for entries", "expect = [\"eth1\"]".to_owned()),
        ("unknown name, one near", "profile = \"azure\"".to_owned()),
        ("unknown name", "heal = \"maybe\"".to_owned()),
        ("port 0", "[[expect]]\nnic = \"eth1\"\nport = 0".to_owned()),
        ("port beyond", "[[expect]]\nnic = \"eth1\"\nport = 65536".to_owned()),
        ("number beyond", "threshold = 99999999999999999999".to_owned()),
        ("threshold 0", "threshold = 0".to_owned()),
        ("threshold beyond", "threshold = 101".to_owned()),
        ("threshold negative", "threshold = -1".to_owned()),
        ("interval too short", "interval = \"100ms\"".to_owned()),
        ("interval too long", "interval = \"2h\"".to_owned()),
        ("interval negative", "interval = \"-5s\"".to_owned()),
        ("no duration", "interval = \"soon\"".to_owned()),
        ("timeout 0", "timeout = \"0s\"".to_owned()),
        ("timeout beyond the interval", "interval = \"5s\"\ntimeout = \"6s\"".to_owned()),
        ("timeout beyond the profile's", "profile = \"gcp\"\ntimeout = \"6s\"".to_owned()),
        ("timeout beyond an entry's interval", format!("timeout = \"6s\"\n{}", expect("interval = \"5s\""))),
        ("timeout of an entry", format!("interval = \"5s\"\n{}", expect("timeout = \"6s\""))),
        ("entries twice", twice),
        ("entry on another NIC", format!("nics = [\"eth0\", \"eth2\"]\n{}", expect(""))),
        ("entry without its keys", "[[expect]]\nprotocol = \"tcp\"".to_owned()),
        ("status empty", "status = []".to_owned()),
        ("status of an entry empty", expect("status = []")),
        ("status backwards", "status = [\"299-200\"]".to_owned()),
        ("status none", "status = [\"ok\", 20]".to_owned()),
        ("source none", "sources = [\"10.4.2.1\", \"eth0\", \"10.0.0.0/33\"]".to_owned()),
        ("nic none", "nics = [\"eth0/1\", \"\", \"much-too-long-a-name\"]".to_owned()),
        ("ring odd", "ring = 5000".to_owned()),
        ("path empty", "service_tags = \"\"\nservice_tag = \" \"".to_owned()),
        ("syntax", "interval = 5s".to_owned()),
        ("syntax, no value", "nics =\nheal = \"off\"\n= 5".to_owned()),
        ("syntax, open text", "heal = \"off".to_owned()),
        ("key twice", "heal = \"off\"\nheal = \"off\"".to_owned()),
        ("what a terminal would obey", "heal = \"\\u001b[2J\" # \u{1b}[2J".to_owned()),
        ("wide characters", "\"日本\" = 1 # 語\n\"é\" = 2".to_owned()),
        ("a long line", format!("sources = [{}\"x\"]", "\"10.0.0.1\", ".repeat(40))),
    ];
    let mut said = String::new();
    for (kind, text) in cases {
        let errors = says(&text);
        assert!(!errors.contains('\x1b'), "{errors}");
        assert_eq!(errors.matches("nvaprobe.toml:").count(), errors.matches("= hint: ").count(), "{errors}");
        let _ = writeln!(said, "== {kind}\n{errors}\n");
    }
    insta::assert_snapshot!("errors", said);
}

#[test]
fn all_errors_are_told_at_once_in_the_order_of_lines() {
    let errors =
        parse("port = 1\ninterval = 5\n[[expect]]\nnic = 7\nrole = \"idle\"\n").expect_err("refused");
    let places: Vec<_> = errors.places().collect();
    assert_eq!(places, [(1, 1), (2, 12), (3, 1), (4, 7), (5, 8)]);
    assert!(errors.to_string().starts_with("the configuration has 5 errors; nothing was started\n"));
}

#[test]
fn a_port_that_azures_http_prober_refuses_is_allowed() {
    let config = good("[[expect]]\nnic = \"eth1\"\nport = 25\nprotocol = \"http\"");
    assert!(Profile::AzureLb.http_refuses().contains(&config.expect[0].port.0));
}

#[test]
fn names_of_flags_follow_from_keys() {
    assert_eq!(
        ["nics", "sources", "service_tag", "heal"].map(flag),
        ["--nic", "--source", "--service-tag", "--heal"]
    );
}
