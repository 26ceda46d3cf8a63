use std::fmt::Write as _;

use clap::ValueEnum as _;

use super::*;
use crate::{
    probe::rules::{Limit, Rules, Statuses},
    report::document::Protocol,
};

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn rules(profile: Profile) -> Rules {
    profile.rules(&Overrides::default())
}

fn statuses(text: &str) -> Statuses {
    text.parse().expect("a range")
}

#[test]
fn names_are_those_of_the_command_line() {
    let names: Vec<&str> = Profile::ALL.iter().map(|profile| profile.name()).collect();
    assert_eq!(names, ["azure-lb", "azure-traffic-manager", "gcp", "aws", "custom"]);
    for profile in Profile::ALL {
        assert_eq!(Profile::from_str(profile.name(), false), Ok(*profile));
        assert_eq!(profile.sources().is_empty(), profile.where_from() != "", "{profile:?}");
    }
}

/// What the services publish; the pages are named in each profile's file.
#[test]
fn rules_are_the_published_defaults() {
    assert_eq!(rules(Profile::AzureLb), Rules::default());
    assert_eq!(rules(Profile::Custom), Rules::default());
    let manager = Rules {
        interval: Some(seconds(30)),
        limit: Limit::Fixed(seconds(10)),
        fall: 4,
        rise: 1,
        statuses: Statuses::ok(),
    };
    assert_eq!(rules(Profile::AzureTrafficManager), manager);
    let gcp = Rules {
        interval: Some(seconds(5)),
        limit: Limit::Fixed(seconds(5)),
        fall: 2,
        rise: 2,
        statuses: Statuses::ok(),
    };
    assert_eq!(rules(Profile::Gcp), gcp);
    let aws = Rules {
        interval: Some(seconds(10)),
        limit: Limit::Fixed(seconds(5)),
        fall: 2,
        rise: 5,
        statuses: statuses("200-399"),
    };
    assert_eq!(rules(Profile::Aws), aws);
}

#[test]
fn fast_probing_has_a_shorter_timeout_and_none_outlives_the_interval() {
    let every = |interval| Overrides { interval: Some(interval), ..Overrides::default() };
    let limit = |interval| Profile::AzureTrafficManager.rules(&every(interval)).limit;
    assert_eq!(limit(seconds(30)), Limit::Fixed(seconds(10)));
    assert_eq!(limit(seconds(10)), Limit::Fixed(seconds(9)));
    assert_eq!(limit(seconds(1)), Limit::Fixed(seconds(1)));
    let lb = Profile::AzureLb.rules(&every(seconds(120))).limit;
    assert_eq!(lb.seconds(Some(120.0), Some(Protocol::Http)), Some(30.0));
}

#[test]
fn values_replace_a_profiles_one_by_one() {
    let own = Overrides { threshold: Some(3), ..Overrides::default() };
    assert_eq!(Profile::AzureLb.rules(&own), Rules { fall: 3, rise: 3, ..Rules::default() });
    let manager = rules(Profile::AzureTrafficManager);
    assert_eq!(Profile::AzureTrafficManager.rules(&own), Rules { fall: 3, ..manager.clone() });
    let own = Overrides { threshold: Some(3), rise: Some(2), ..Overrides::default() };
    assert_eq!(Profile::AzureLb.rules(&own), Rules { fall: 3, rise: 2, ..Rules::default() });
    let own =
        Overrides { timeout: Some(seconds(5)), statuses: Some(statuses("200-299")), ..Overrides::default() };
    let expected = Rules { limit: Limit::Fixed(seconds(5)), statuses: statuses("200-299"), ..manager };
    assert_eq!(Profile::AzureTrafficManager.rules(&own), expected);
}

#[test]
fn an_inner_value_wins() {
    let outer =
        Overrides { interval: Some(seconds(5)), threshold: Some(2), rise: Some(4), ..Overrides::default() };
    let inner = Overrides { interval: Some(seconds(15)), ..Overrides::default() };
    let both = inner.or(&outer);
    assert_eq!(both, Overrides { interval: Some(seconds(15)), ..outer });
}

#[test]
fn every_status_range_of_a_profile_is_readable() {
    for profile in Profile::ALL {
        let rules = rules(*profile);
        for range in profile.definition().statuses {
            assert!(rules.statuses.contains(*range.start()) && rules.statuses.contains(*range.end()));
        }
        assert!(!rules.statuses.contains(404));
    }
}

/// What becomes of flows hangs on the size of the pool.
#[test]
fn flows_are_told_in_one_line() {
    let mut told = String::new();
    for profile in Profile::ALL {
        for pool in [Pool::Unknown, Pool::Single, Pool::Shared] {
            let flows = profile.flows(pool).unwrap_or_else(|| "-".to_owned());
            let _ = writeln!(told, "{} {pool:?}: {flows}", profile.name());
        }
    }
    insta::assert_snapshot!("flows", told);
}
