//! Types for the remotes of paths and for listening addresses: an address or a name, with or without a
//! port.

use super::values::OneOrMore;
use serde::Deserialize;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// An IP address with or without a port.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "String")]
pub struct HostPort {
    /// The address.
    pub ip: IpAddr,
    /// The port, if given.
    pub port: Option<u16>,
}

impl HostPort {
    /// Returns the socket address with the given port, or with port `default` if none is given.
    pub fn socket_addr(self, default: u16) -> SocketAddr {
        SocketAddr::new(self.ip, self.port.unwrap_or(default))
    }
}

impl FromStr for HostPort {
    type Err = String;
    fn from_str(s: &str) -> Result<HostPort, String> {
        if let Ok(addr) = s.parse::<SocketAddr>() {
            return Ok(HostPort { ip: addr.ip(), port: Some(addr.port()) });
        }
        let bracketed = s.strip_prefix('[').and_then(|s| s.strip_suffix(']'));
        if let Some(ip) = bracketed.and_then(|ip| ip.parse::<Ipv6Addr>().ok()) {
            return Ok(HostPort { ip: ip.into(), port: None });
        }
        let ip = s.parse().map_err(|_| {
            format!("`{s}` is not an IP address; examples: \"192.0.2.1:6511\", \"[2001:db8::1]:6511\", \"192.0.2.1\"")
        })?;
        // `2001:db8::1:6511` is a valid IPv6 address, but 6511 is most likely meant to be the port.
        let with_port = s
            .rsplit_once(':')
            .filter(|(host, port)| host.parse::<Ipv6Addr>().is_ok() && port.parse::<u16>().is_ok());
        if let Some((host, port)) = with_port {
            return Err(format!(
                "`{s}` is ambiguous: write \"[{host}]:{port}\" if it ends in a port, \"[{s}]\" if not"
            ));
        }
        Ok(HostPort { ip, port: None })
    }
}

impl TryFrom<String> for HostPort {
    type Error = String;
    fn try_from(s: String) -> Result<HostPort, String> {
        s.parse()
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => SocketAddr::new(self.ip, port).fmt(f),
            None => self.ip.fmt(f),
        }
    }
}

/// Remote of a path: an address or a name, with or without a port.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "String")]
pub struct Remote {
    /// The host.
    pub host: Host,
    /// The port, if given.
    pub port: Option<u16>,
}

/// An address or a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// An address.
    Ip(IpAddr),
    /// A name, in lower case.
    Name(String),
}

impl Remote {
    /// Returns the address, unless the host is a name.
    pub fn ip(&self) -> Option<IpAddr> {
        match self.host {
            Host::Ip(ip) => Some(ip),
            Host::Name(_) => None,
        }
    }

    /// Returns the name, unless the host is an address.
    pub fn name(&self) -> Option<&str> {
        match &self.host {
            Host::Ip(_) => None,
            Host::Name(name) => Some(name),
        }
    }
}

impl TryFrom<String> for Remote {
    type Error = String;
    fn try_from(s: String) -> Result<Remote, String> {
        match s.parse() {
            Ok(HostPort { ip, port }) => return Ok(Remote { host: Host::Ip(ip), port }),
            Err(ambiguous) if s.parse::<IpAddr>().is_ok() => return Err(ambiguous),
            Err(_) => {}
        }
        let (name, port) = match s.split_once(':') {
            None => (s.as_str(), None),
            Some((name, port)) => (name, Some(port.parse().map_err(|_| no_remote(&s))?)),
        };
        let label = |l: &str| {
            (1..=63).contains(&l.len())
                && l.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
        };
        let mut labels = name.strip_suffix('.').unwrap_or(name).split('.').peekable();
        // A name made up only of digits is most likely an address with a typo.
        let figures = labels.clone().all(|l| l.chars().all(|c| c.is_ascii_digit()));
        if name.len() > 253 || figures || labels.peek().is_none() || !labels.all(label) {
            return Err(no_remote(&s));
        }
        Ok(Remote { host: Host::Name(name.to_ascii_lowercase()), port })
    }
}

/// Remotes of a path: one for each server of the peer, and the index of the server in use.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "OneOrMore<Remote>")]
pub struct Remotes {
    all: Vec<Remote>,
    chosen: usize,
}

impl From<OneOrMore<Remote>> for Remotes {
    fn from(remotes: OneOrMore<Remote>) -> Remotes {
        Remotes { all: remotes.0, chosen: 0 }
    }
}

impl Remotes {
    /// Creates a list with a single address.
    pub fn at(ip: IpAddr, port: Option<u16>) -> Remotes {
        Remotes { all: vec![Remote { host: Host::Ip(ip), port }], chosen: 0 }
    }

    /// Returns the number of servers.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// Switches to another server.
    pub fn choose(&mut self, server: usize) {
        self.chosen = server % self.all.len().max(1);
    }

    /// Returns the remotes on all servers.
    pub fn all(&self) -> &[Remote] {
        &self.all
    }
}

/// Compares the configured remotes, regardless of the server in use.
impl PartialEq for Remotes {
    fn eq(&self, other: &Remotes) -> bool {
        self.all == other.all
    }
}

impl std::ops::Deref for Remotes {
    type Target = Remote;
    fn deref(&self) -> &Remote {
        &self.all[self.chosen]
    }
}

fn no_remote(s: &str) -> String {
    format!(
        "`{s}` is neither an IP address nor a host name; examples: \"192.0.2.1:6511\", \"[2001:db8::1]:6511\", \
         \"vpn.example.org:6511\", or without the port"
    )
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.host, self.port) {
            (Host::Ip(ip), port) => HostPort { ip: *ip, port }.fmt(f),
            (Host::Name(name), Some(port)) => write!(f, "{name}:{port}"),
            (Host::Name(name), None) => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remotes_are_addresses_or_names() {
        let read = |s: &str| Remote::try_from(s.to_owned());
        let name = |s: &str| Host::Name(s.to_owned());
        assert_eq!(read("192.0.2.1:9"), Ok(Remote { host: Host::Ip([192, 0, 2, 1].into()), port: Some(9) }));
        assert_eq!(read("::1"), Ok(Remote { host: Host::Ip("::1".parse().unwrap()), port: None }));
        assert_eq!(read("[2001:db8::1]"), read("2001:db8::1"));
        assert_eq!(read("1:2:3:4:5:6:7:8").unwrap().port, None);
        for either in ["2001:db8::1:6511", "::1:2"] {
            assert!(read(either).unwrap_err().contains(&format!("\"[{either}]\"")), "{either}");
        }
        assert_eq!(read("Hub.example.org:9"), Ok(Remote { host: name("hub.example.org"), port: Some(9) }));
        assert_eq!(read("localhost").unwrap().to_string(), "localhost");
        for wrong in
            ["", "192.0.2.300", "192.0.2.1:", "a b", "a..b", "hub:70000", "hub:", "1:2:3", ":9", "hub:9:9"]
        {
            assert!(read(wrong).unwrap_err().contains("neither"), "{wrong}");
        }
    }
}
