use crate::message::{Gift, Message};
use ipnet::IpNet;
use serde::Deserialize;
use std::net::IpAddr;

/// `[assign]` of the file.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Assign {
    /// Addresses to give, one of each IP version that is there.
    #[serde(deserialize_with = "crate::config::prefixes")]
    pub pool: Vec<IpNet>,
    /// What clients are to reach through the tunnel besides.
    #[serde(default, deserialize_with = "crate::config::prefixes")]
    pub routes: Vec<IpNet>,
}

impl Assign {
    /// Says what is wrong with it.
    pub fn check(&self) -> Result<(), String> {
        if self.pool.is_empty() {
            return Err("pool: at least one network is needed, such as \"10.0.0.0/24\"".into());
        }
        let host: IpNet = IpNet::from(IpAddr::from([0u8; 16]));
        let gift = Gift { addresses: vec![host, host], routes: self.routes.clone(), mtu: 0 };
        if !Message::Give(gift).fits() {
            return Err("routes: there are too many to tell a client in one packet; put them together".into());
        }
        Ok(())
    }
}
