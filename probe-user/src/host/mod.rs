//! What the host says about itself. The only place that asks the system questions; one file a kind of fact.
//!
//! What cannot be read is absent, never guessed.

pub mod addresses;
pub mod driver;
pub mod links;
pub mod lookup;
pub mod netlink;
pub mod qdisc;
pub mod routes;
pub mod rules;

use addresses::Address;
use links::Link;
use netlink::{Netlink, NetlinkError};
use routes::Route;
use rules::Rule;

/// One look at the host's network configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    pub links: Vec<Link>,
    pub addresses: Vec<Address>,
    pub rules: Vec<Rule>,
    pub routes: Vec<Route>,
}

impl Facts {
    /// Reads everything from the calling thread's network namespace.
    pub async fn read(netlink: &Netlink) -> Result<Self, NetlinkError> {
        Ok(Self {
            links: links::read(netlink).await?,
            addresses: addresses::read(netlink).await?,
            rules: rules::read(netlink).await?,
            routes: routes::read(netlink).await?,
        })
    }

    /// The name of a device; its number when it has none any more.
    pub fn name(&self, ifindex: u32) -> String {
        self.links
            .iter()
            .find(|link| link.ifindex == ifindex)
            .map_or_else(|| format!("if{ifindex}"), |link| link.name.clone())
    }
}
