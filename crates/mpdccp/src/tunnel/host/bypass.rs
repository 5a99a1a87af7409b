//! Implements `bypass` with policy rules that precede those of `default_route`. The rules send certain
//! packets to the main table, so that these packets do not enter the tunnel.

use crate::tunnel::host::routes::{LASTING, MARK, ip};
use dccp_net::has_ipv6;
use mpdccp_tunnel::config::{Bypass, Ports, User};
use std::process::Command;

/// Preference of these rules. The rules of the default route come next.
const PREF: u32 = MARK - 2;
/// Limit on the number of rules to remove, in case removal never finishes.
const MOST: usize = 4_096;

/// The active rules. Dropping this value removes them.
pub(crate) struct BypassRules;

impl BypassRules {
    /// Removes the rules left behind by a killed tunnel, then adds the configured rules.
    pub(crate) fn set(bypass: &Bypass) -> Result<BypassRules, String> {
        remove();
        let rules = BypassRules;
        for (family, words) in wanted(bypass)? {
            let pref = PREF.to_string();
            let mut args = vec![family, "rule", "add", "pref", &pref];
            args.extend(words.iter().map(String::as_str));
            args.extend(["table", "main"]);
            args.extend(LASTING);
            match ip(&args) {
                // If the kernel has no IPv6, there are no IPv6 packets that could bypass the tunnel.
                Err(_) if family == "-6" && !has_ipv6() => {}
                done => drop(done?),
            }
        }
        Ok(rules)
    }
}

impl Drop for BypassRules {
    fn drop(&mut self) {
        remove();
    }
}

/// Removes all rules.
pub(super) fn remove() {
    let pref = PREF.to_string();
    for family in ["-4", "-6"] {
        let mut gone = 0;
        while gone < MOST && ip(&[family, "rule", "del", "pref", &pref]).is_ok() {
            gone += 1;
        }
    }
}

/// Returns the rules to add. Each has an IP version and selectors.
fn wanted(bypass: &Bypass) -> Result<Vec<(&'static str, Vec<String>)>, String> {
    let mut rules = Vec::new();
    for net in &bypass.networks {
        let family = if net.addr().is_ipv4() { "-4" } else { "-6" };
        rules.push((family, vec!["to".into(), net.trunc().to_string()]));
    }
    for Ports { protocol, range: (first, last) } in &bypass.ports {
        let words = ["ipproto", protocol.name(), "dport", &format!("{first}-{last}")].map(str::to_owned);
        rules.extend(["-4", "-6"].map(|family| (family, words.to_vec())));
    }
    for user in &bypass.users {
        let number = number(user)?;
        let words = ["uidrange", &format!("{number}-{number}")].map(str::to_owned);
        rules.extend(["-4", "-6"].map(|family| (family, words.to_vec())));
    }
    Ok(rules)
}

fn number(user: &User) -> Result<u32, String> {
    let name = match user {
        User::Number(number) => return Ok(*number),
        User::Name(name) => name,
    };
    let output =
        Command::new("id").args(["-u", "--", name]).output().map_err(|e| format!("cannot run `id`: {e}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim()
        .parse()
        .map_err(|_| format!("this host has no user `{name}`; `getent passwd` shows its users"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_rule() {
        let bypass = Bypass {
            networks: vec!["192.0.2.7/24".parse().unwrap(), "2001:db8::/32".parse().unwrap()],
            ports: vec!["udp/5060-5070".to_owned().try_into().unwrap()],
            users: vec![User::Number(1_000), User::Name("root".into())],
        };
        let rules: Vec<String> = wanted(&bypass)
            .unwrap()
            .into_iter()
            .map(|(family, words)| format!("{family} {}", words.join(" ")))
            .collect();
        assert_eq!(
            rules,
            [
                "-4 to 192.0.2.0/24",
                "-6 to 2001:db8::/32",
                "-4 ipproto udp dport 5060-5070",
                "-6 ipproto udp dport 5060-5070",
                "-4 uidrange 1000-1000",
                "-6 uidrange 1000-1000",
                "-4 uidrange 0-0",
                "-6 uidrange 0-0",
            ]
        );
        let nobody = Bypass { users: vec![User::Name("no such user".into())], ..Bypass::default() };
        assert!(wanted(&nobody).unwrap_err().contains("no user `no such user`"));
    }
}
