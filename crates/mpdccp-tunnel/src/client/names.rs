//! Resolves the host names in `remote`, and remembers their addresses.

use crate::Cx;
use crate::action::Action;
use mpdccp_units::{Duration, Time};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Shortest interval between two lookups of the same name.
const AGAIN: Duration = Duration::from_secs(5);

/// State of a host name.
#[derive(Debug, Default)]
struct Known {
    addresses: Vec<IpAddr>,
    error: Option<String>,
    asked: Option<Time>,
    pending: bool,
}

/// Names and their addresses.
#[derive(Debug, Default)]
pub(crate) struct Names(BTreeMap<String, Known>);

impl Names {
    /// Asks the host to look up a name, unless the name was looked up recently.
    pub(crate) fn ask(&mut self, cx: &mut Cx<'_>, name: &str) {
        let known = self.0.entry(name.to_owned()).or_default();
        if !known.pending && known.asked.is_none_or(|at| cx.now.since(at) >= AGAIN) {
            (known.asked, known.pending) = (Some(cx.now), true);
            cx.out.push(Action::Resolve(name.to_owned()));
        }
    }

    /// Stores the result of a lookup. If the lookup failed, the name keeps its earlier addresses.
    pub(crate) fn learn(&mut self, name: &str, answer: Result<Vec<IpAddr>, String>) {
        let known = self.0.entry(name.to_owned()).or_default();
        known.pending = false;
        known.error = None;
        match answer {
            Ok(mut addresses) => {
                let mut seen = Vec::new();
                addresses.retain(|ip| !seen.contains(ip) && (seen.push(*ip), true).1);
                known.addresses = addresses;
            }
            Err(e) => known.error = Some(e),
        }
    }

    /// Returns whether a lookup is in progress.
    pub(crate) fn is_pending(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|known| known.pending)
    }

    /// Returns the address that follows `failed` in the name's list. Returns the first address if none
    /// follows, or if `failed` is not in the list. If `local` is given, skips addresses of the other IP
    /// version. The error says why there is no address.
    pub(crate) fn address(
        &self,
        name: &str,
        local: Option<IpAddr>,
        failed: Option<IpAddr>,
    ) -> Result<IpAddr, String> {
        let Some(known) = self.0.get(name) else { return Err(format!("looking up {name}")) };
        let fits = |ip: &&IpAddr| local.is_none_or(|local| local.is_ipv4() == ip.is_ipv4());
        let fitting: Vec<&IpAddr> = known.addresses.iter().filter(fits).collect();
        let after = fitting.iter().position(|ip| Some(**ip) == failed).map_or(0, |i| i + 1);
        match (fitting.get(after).or(fitting.first()), &known.error) {
            (Some(ip), _) => Ok(**ip),
            (None, Some(e)) => Err(format!("cannot look up {name}: {e}")),
            (None, None) if known.pending => Err(format!("looking up {name}")),
            (None, None) => Err(format!("{name} has no address of the path's IP version")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_fails_leads_to_its_next_address() {
        let mut names = Names::default();
        let ip = |s: &str| s.parse::<IpAddr>().unwrap();
        assert_eq!(names.address("hub", None, None), Err("looking up hub".into()));
        names.learn("hub", Err("no answer".into()));
        assert!(names.address("hub", None, None).unwrap_err().contains("no answer"));
        names.learn("hub", Ok(vec![ip("192.0.2.1"), ip("192.0.2.1"), ip("2001:db8::1"), ip("192.0.2.2")]));
        assert_eq!(names.address("hub", None, None), Ok(ip("192.0.2.1")));
        assert_eq!(names.address("hub", None, Some(ip("192.0.2.1"))), Ok(ip("2001:db8::1")));
        let v4 = Some(ip("10.0.0.1"));
        assert_eq!(names.address("hub", v4, Some(ip("192.0.2.1"))), Ok(ip("192.0.2.2")));
        assert_eq!(names.address("hub", v4, Some(ip("192.0.2.2"))), Ok(ip("192.0.2.1")));
        assert_eq!(names.address("hub", Some(ip("::1")), None), Ok(ip("2001:db8::1")));
        // If the DNS server cannot be reached, the name keeps its addresses.
        names.learn("hub", Err("no answer".into()));
        assert_eq!(names.address("hub", None, None), Ok(ip("192.0.2.1")));
    }
}
