use std::fmt::Write as _;

use super::*;

const FILE: &str = r#"{
  "changeNumber": 321, "cloud": "Public",
  "values": [
    {"name": "ActionGroup", "id": "ActionGroup", "properties": {"region": "", "addressPrefixes": ["4.145.74.52/30"]}},
    {"name": "AzureTrafficManager", "id": "AzureTrafficManager", "properties": {"changeNumber": 18, "region": "",
      "platform": "Azure", "systemService": "AzureTrafficManager", "networkFeatures": ["API", "NSG"],
      "addressPrefixes": ["13.65.92.252/32", "40.68.30.66/32", "13.65.92.252/32", "2603:1030:603::/47"]}},
    {"name": "AzureFrontDoor.Backend", "properties": {"addressPrefixes": []}},
    {"name": "Broken", "properties": {"addressPrefixes": ["13.65.92.252/32", "here"]}}
  ]
}"#;

#[test]
fn prefixes_are_those_of_the_tag_each_once() {
    for text in [FILE.to_owned(), format!("\u{feff}{FILE}")] {
        let nets = prefixes(&text, "AzureTrafficManager").expect("it is there");
        let nets: Vec<String> = nets.iter().map(ToString::to_string).collect();
        // Host bits of the last prefix are cleared.
        assert_eq!(nets, ["13.65.92.252/32", "40.68.30.66/32", "2603:1030:602::/47"]);
    }
}

#[test]
fn what_cannot_be_used_is_said_with_a_way_out() {
    let says = |text: &str, tag: &str| prefixes(text, tag).expect_err("refused").to_string();
    let mut said = String::new();
    for (text, tag) in [
        (FILE, "azuretrafficmanager"),
        (FILE, "TrafficManager"),
        (FILE, "FrontDoor"),
        (FILE, "Zebra"),
        (r#"{"values": []}"#, "AzureTrafficManager"),
        (FILE, "AzureFrontDoor.Backend"),
        (FILE, "Broken"),
        ("", "AzureTrafficManager"),
        ("<html>", "AzureTrafficManager"),
        (r#"{"prefixes": []}"#, "AzureTrafficManager"),
        (r#"{"values": [{"name": "X"}]}"#, "AzureTrafficManager"),
    ] {
        let _ = writeln!(said, "FILE {}", says(text, tag));
    }
    insta::assert_snapshot!("service_tags", said);
}
