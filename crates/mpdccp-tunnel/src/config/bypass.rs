//! Traffic that bypasses the tunnel while the default route leads into the tunnel.

use ipnet::IpNet;
use serde::Deserialize;

/// Section `bypass` of the file.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Bypass {
    /// Networks whose traffic bypasses the tunnel.
    #[serde(default, deserialize_with = "crate::config::prefixes")]
    pub networks: Vec<IpNet>,
    /// Destination ports whose traffic bypasses the tunnel.
    #[serde(default)]
    pub ports: Vec<Ports>,
    /// Users whose traffic bypasses the tunnel.
    #[serde(default)]
    pub users: Vec<User>,
}

mpdccp_units::named! {
    /// A transport protocol with ports.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[allow(missing_docs)]
    pub enum Protocol {
        Tcp = "tcp",
        Udp = "udp",
    }
}

/// Ports of a protocol, such as `tcp/25` or `udp/5060-5070`.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "String")]
pub struct Ports {
    /// Protocol.
    pub protocol: Protocol,
    /// First and last port.
    pub range: (u16, u16),
}

impl TryFrom<String> for Ports {
    type Error = String;
    fn try_from(text: String) -> Result<Ports, String> {
        let wrong = || format!("invalid ports `{text}`; examples: \"tcp/25\", \"udp/5060-5070\"");
        let (protocol, ports) = text.split_once('/').ok_or_else(wrong)?;
        let known = [Protocol::Tcp, Protocol::Udp].into_iter().find(|known| known.name() == protocol);
        let protocol = known.ok_or_else(wrong)?;
        let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
        let [first, last] = [first, last].map(|port| port.parse::<u16>().ok().filter(|port| *port > 0));
        let range = first.zip(last).filter(|(first, last)| first <= last).ok_or_else(wrong)?;
        Ok(Ports { protocol, range })
    }
}

/// A user of this host.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(untagged)]
pub enum User {
    /// By user ID.
    Number(u32),
    /// By name.
    Name(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_numbers_and_ranges_of_two_protocols() {
        let read = |text: &str| Ports::try_from(text.to_owned());
        assert_eq!(read("tcp/25"), Ok(Ports { protocol: Protocol::Tcp, range: (25, 25) }));
        assert_eq!(read("udp/5060-5070"), Ok(Ports { protocol: Protocol::Udp, range: (5060, 5070) }));
        for wrong in ["25", "tcp/", "tcp/0", "tcp/9-8", "icmp/1", "tcp/70000", "TCP/1"] {
            assert!(read(wrong).unwrap_err().contains(wrong));
        }
    }
}
