use crate::message::{Gift, Message};
use ipnet::IpNet;
use serde::Deserialize;
use std::net::IpAddr;

/// Section `[assign]` of the file.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Assign {
    /// Networks from which addresses are assigned. Each client gets one address per IP version.
    #[serde(deserialize_with = "crate::config::prefixes")]
    pub pool: Vec<IpNet>,
    /// Other networks that clients reach through the tunnel.
    #[serde(default, deserialize_with = "crate::config::prefixes")]
    pub routes: Vec<IpNet>,
}

impl Assign {
    /// Checks the section. The error says what is wrong.
    pub fn check(&self) -> Result<(), String> {
        if self.pool.is_empty() {
            return Err("pool: empty; give at least one network, such as \"10.0.0.0/24\"".into());
        }
        let host: IpNet = IpNet::from(IpAddr::from([0u8; 16]));
        let gift = Gift { addresses: vec![host, host], routes: self.routes.clone(), mtu: 0 };
        if !Message::Give(gift).fits() {
            return Err(
                "routes: too many for one packet to the client; combine them into fewer prefixes".into()
            );
        }
        Ok(())
    }
}
