use super::*;
use crate::host::{fixture, links::Links};

const LOAD_BALANCER_JSON: &str = r#"{"loadbalancer":{
  "publicIpAddresses":[{"frontendIpAddress":"51.0.0.1","privateIpAddress":"10.4.2.101"}],
  "inboundRules":[
    {"frontendIpAddress":"50.0.0.1","protocol":"Tcp","frontendPort":80,"backendPort":443,"privateIpAddress":"10.4.3.101"},
    {"frontendIpAddress":"[2603:10b0::1]","protocol":"all","frontendPort":"0","privateIpAddress":"fd00:3::65"},
    {"frontendIpAddress":"50.0.0.2","surprise":[1]}],
  "outboundRules":[{"frontendIpAddress":"50.0.0.1","privateIpAddress":"10.4.3.101"}]}}"#;

const NETWORK_JSON: &str = r#"{"interface":[
  {"ipv4":{"ipAddress":[{"privateIpAddress":"10.4.3.101","publicIpAddress":""},{"privateIpAddress":"10.4.3.200"}],
    "subnet":[{"address":"10.4.3.0","prefix":"24"}]},
   "ipv6":{"ipAddress":[{"privateIpAddress":"fd00:3::65"}]},"macAddress":"020000000003"},
  {"macAddress":"not a mac"}]}"#;

fn imds() -> Imds {
    let answer = |body: &str| Ok(Answer { status: 200, body: body.as_bytes().to_vec() });
    Imds {
        load_balancer: document(answer(LOAD_BALANCER_JSON), documents::load_balancer),
        network: document(answer(NETWORK_JSON), documents::network),
    }
}

#[test]
fn documents_are_read_leniently() {
    let imds = imds();
    let balancer = imds.load_balancer.as_ref().unwrap();
    let [first, second] = &*balancer.inbound else { panic!("{balancer:#?}") };
    assert_eq!((first.frontend_port, first.backend_port), (Some(80), Some(443)));
    assert_eq!(first.protocol.as_deref(), Some("tcp"));
    assert_eq!((second.frontend_port, second.backend_port), (Some(0), None));
    assert_eq!(second.frontend, "2603:10b0::1".parse().ok());
    assert_eq!(balancer.public, ["10.4.2.101".parse::<std::net::IpAddr>().unwrap()]);

    let [first, second] = &*imds.network.as_ref().unwrap().clone() else { panic!("{imds:#?}") };
    assert_eq!(first.mac, Some([2, 0, 0, 0, 0, 3]));
    assert_eq!(first.subnets, ["10.4.3.0/24".parse().unwrap()]);
    assert_eq!((second.mac, second.addresses.len()), (None, 0));
}

#[test]
fn rules_lead_to_nics_by_address_and_by_mac() {
    let facts = fixture::t2();
    let imds = imds();
    // 10.4.3.101 is an address of eth1; fd00:3::65 only the network document knows, and eth1's MAC with it.
    assert_eq!(imds.inbound(&facts, 3).map(|rules| rules.len()), Some(2));
    assert_eq!(imds.inbound(&facts, 2).map(|rules| rules.len()), Some(0));
    assert_eq!(Imds::default().inbound(&facts, 3), None);
}

#[test]
fn a_vf_counts_as_its_synthetic_nic() {
    let mut facts = fixture::t2();
    let mac = Some([2, 0, 0, 0, 0, 3]);
    let vf =
        super::super::links::Link { mac, master: Some(3), slave: true, ..fixture::link(9, "enP1", None) };
    let Links(mut links) = facts.links;
    links.insert(0, vf);
    links.iter_mut().filter(|link| link.index == 3).for_each(|link| link.kind = None);
    facts.links = Links(links);
    assert_eq!(imds().network.unwrap()[0].nic(&facts), Some(3));
}

#[test]
fn other_statuses_are_unknown_with_their_reason() {
    let of = |status| {
        let answer = Answer { status, body: b"{}".to_vec() };
        document(Ok(answer), documents::load_balancer).unwrap_err()
    };
    assert_eq!(of(404), Unavailable::NotFound);
    assert_eq!((of(429), of(503)), (Unavailable::Busy(429), Unavailable::Busy(503)));
    assert_eq!(of(500), Unavailable::Status(500));
    assert!(matches!(of(200), Unavailable::Malformed(_)));
}

#[test]
fn a_base_address_is_given_in_three_ways() {
    for base in ["http://127.0.0.1:80/", "127.0.0.1:80", "http://127.0.0.1"] {
        assert_eq!(Service::at(base).map(|service| service.address), Ok(([127, 0, 0, 1], 80).into()));
    }
    assert!(Service::at("https://example.org").is_err());
}

proptest::proptest! {
    #[test]
    fn any_json_is_taken(text in "[\\[\\]{}:,\"a-z0-9]{0,60}") {
        if let Ok(json) = serde_json::from_str(&text) {
            let _ = documents::load_balancer(&json);
            let _ = documents::network(&json);
            let _ = documents::load_balancer(&serde_json::json!({"loadbalancer": {"inboundRules": json}}));
            let _ = documents::network(&serde_json::json!({"interface": [json]}));
        }
    }
}
