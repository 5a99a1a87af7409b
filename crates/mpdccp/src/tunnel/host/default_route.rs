//! Implements `default_route` and `kill_switch` with policy routing. The tunnel's own packets carry a mark
//! and use the main table. All other packets use the main table's specific routes but not its default route;
//! instead, a separate table holds a default route into the interface. With the kill switch, packets that
//! would use the separate table are blocked while the interface is missing. If no peer has a default route
//! for an IP version, the kill switch blocks all packets of that version that would use the separate table.

use crate::error::Error;
use crate::tunnel::host::bypass::{self, BypassRules};
use crate::tunnel::host::guard::Guard;
use crate::tunnel::host::routes::{LASTING, MARK, ip, lacks_ipv6, sysctl};
use dccp_net::has_ipv6;
use mpdccp_tunnel::config::Config;
use std::sync::{Arc, Mutex};

/// Preference of the rule for the main table's specific routes. This rule comes first.
const NEARBY: u32 = MARK - 1;

/// The active rules and routes. Dropping this value removes them.
pub(crate) struct DefaultRoute {
    families: Vec<Family>,
    /// Traffic that bypasses the tunnel.
    bypass: Option<BypassRules>,
    /// Restores what other programs remove.
    guard: Option<Guard>,
    /// Held while the tunnel or the guard changes routes.
    turn: Arc<Mutex<()>>,
}

/// An IP version as an option of `ip`, and whether packets of that version enter the tunnel (`carried`) or
/// are blocked.
#[derive(Clone, Copy)]
struct Family {
    option: &'static str,
    carried: bool,
}

impl DefaultRoute {
    /// Adds the rules and routes. Returns `None` if the configuration has no default route.
    pub(crate) fn set(cfg: &Config) -> Result<Option<DefaultRoute>, Error> {
        if !cfg.default_route {
            return Ok(None);
        }
        if let Some(other) = interface_in_use().filter(|other| *other != cfg.interface) {
            return Err(Error::usage(format!(
                "default_route: the tunnel {other} already carries all traffic of this host; stop that tunnel, or \
                 remove default_route here"
            )));
        }
        let [v4, wanted6] = cfg.whole_versions();
        let v6 = wanted6 && !lacks_ipv6(&cfg.interface);
        if wanted6 && !v6 {
            tracing::warn!("IPv6 is disabled on {}, so it carries no IPv6 traffic", cfg.interface);
        }
        let mut families = vec![Family { option: "-4", carried: v4 }];
        // If the kernel has no IPv6, there are no IPv6 packets to block.
        if v6 || has_ipv6() {
            families.push(Family { option: "-6", carried: v6 });
        }
        let (families, other): (Vec<_>, Vec<_>) =
            families.into_iter().partition(|family| family.carried || cfg.kill_switch);
        // The kill switch of a killed tunnel may still block an IP version that this tunnel leaves alone.
        for family in other {
            remove(family.option);
        }
        let unwanted = |family: &&Family| !(family.carried || family.option == "-6" && wanted6);
        for Family { option, .. } in families.iter().filter(unwanted) {
            let (version, net) = if *option == "-4" { (4, "0.0.0.0/0") } else { (6, "::/0") };
            tracing::warn!(
                "kill_switch blocks all IPv{version} traffic, because no peer has {net} in allowed_ips"
            );
        }
        // Rules left behind by a killed tunnel are kept and reused: if they were removed first, packets could
        // bypass the tunnel in between. On an error, the new rules are removed, unless the kill switch of a
        // killed tunnel was blocking packets before.
        let blocked = cfg.kill_switch && is_blocked();
        let mut set = DefaultRoute { families, bypass: None, guard: None, turn: Arc::default() };
        if let Err(e) = set.add_all(cfg) {
            if blocked {
                set.leave();
            }
            return Err(Error::usage(e));
        }
        warn_of_strict_filters(cfg);
        let (cfg, families, turn) = (cfg.clone(), set.families.clone(), set.turn.clone());
        let check = move || {
            let _turn = turn.lock();
            restore(&cfg, &families);
        };
        match Guard::start(check) {
            Ok(guard) => set.guard = Some(guard),
            Err(e) => tracing::warn!("default_route: cannot watch the routing rules: {e}"),
        }
        Ok(Some(set))
    }

    fn add_all(&mut self, cfg: &Config) -> Result<(), String> {
        self.families
            .iter()
            .try_for_each(|family| add(cfg, *family))
            .map_err(|e| format!("default_route: {e}"))?;
        self.bypass = Some(BypassRules::set(&cfg.bypass).map_err(|e| format!("bypass: {e}"))?);
        Ok(())
    }

    /// Runs `change`, which changes the addresses of the interface, and then sets the routes into the
    /// interface again. The kernel deletes them together with the interface's last IPv4 address. The guard
    /// waits meanwhile, so that it does not blame another program.
    pub(crate) fn renew<T>(&self, interface: &str, change: impl FnOnce() -> T) -> T {
        let _turn = self.turn.lock();
        let done = change();
        for family in self.families.iter().filter(|family| family.carried) {
            if let Err(e) = enter(family.option, interface) {
                tracing::error!("default_route: {e}; restart the tunnel");
            }
        }
        done
    }

    /// Keeps the rules in place after the tunnel has ended.
    pub(crate) fn leave(mut self) {
        drop(self.guard.take());
        std::mem::forget(self);
    }
}

impl Drop for DefaultRoute {
    fn drop(&mut self) {
        drop(self.guard.take());
        self.bypass = None;
        for family in &self.families {
            remove(family.option);
        }
    }
}

/// Adds the rules and routes of an IP version.
fn add(cfg: &Config, Family { option: family, carried }: Family) -> Result<(), String> {
    if cfg.kill_switch {
        block(family)?;
    }
    if carried {
        enter(family, &cfg.interface)?;
    }
    if !cfg.kill_switch {
        // A killed tunnel may have left an `unreachable` route behind. Ignore the error, because usually
        // there is no such route.
        let _ = ip(&[family, "route", "del", "unreachable", "default", "table", &MARK.to_string()]);
    }
    rules(family)
}

/// Adds the route that blocks packets. If the interface is deleted, the kernel deletes the route into it.
/// This `unreachable` route then remains.
fn block(family: &str) -> Result<(), String> {
    // `ip -6 route flush` never removes an unreachable default route with the metric `u32::MAX`.
    let (last, table) = ((u32::MAX - 1).to_string(), MARK.to_string());
    let block = [family, "route", "replace", "unreachable", "default", "metric", &last, "table", &table];
    ip(&[&block[..], &LASTING].concat()).map(drop)
}

fn rules(family: &str) -> Result<(), String> {
    let (table, nearby, mark) = (MARK.to_string(), NEARBY.to_string(), format!("{MARK:#x}"));
    let main = [family, "rule", "add", "pref", &nearby, "table", "main", "suppress_prefixlength", "0"];
    rule(&[&main[..], &LASTING].concat())?;
    let own = [family, "rule", "add", "pref", &table, "not", "fwmark", &mark, "table", &table];
    rule(&[&own[..], &LASTING].concat())
}

/// Adds the rules and routes that are missing. Without them, packets would silently bypass the tunnel and its
/// kill switch.
fn restore(cfg: &Config, families: &[Family]) {
    // If the interface is gone, the tunnel is about to end.
    if nix::net::if_::if_nametoindex(cfg.interface.as_str()).is_err() {
        return;
    }
    let mut restored = false;
    for &Family { option: family, carried } in families {
        let routes = shown(family, "route", "table", MARK);
        let enters = routes.lines().any(|route| into(route) == Some(cfg.interface.as_str()));
        let ruled = [NEARBY, MARK].iter().all(|pref| !shown(family, "rule", "pref", *pref).is_empty());
        let block = (cfg.kill_switch && !routes.contains("unreachable")).then(|| block(family));
        let enter = (carried && !enters).then(|| enter(family, &cfg.interface));
        let rules = (!ruled).then(|| rules(family));
        for done in [block, enter, rules].into_iter().flatten() {
            match done {
                Ok(()) => restored = true,
                // A route into an interface that is switched off cannot be added.
                Err(e) => tracing::debug!("default_route: {e}"),
            }
        }
    }
    if restored {
        // The end of the tunnel removes all rules of `bypass`, so these need no owner.
        if let Err(e) = BypassRules::set(&cfg.bypass).map(std::mem::forget) {
            tracing::warn!("bypass: {e}");
        }
        tracing::warn!("default_route: another program removed rules or routes, which are restored now");
    }
}

/// Sets the route of an IP version into the interface.
fn enter(family: &str, interface: &str) -> Result<(), String> {
    let table = MARK.to_string();
    let enter = [family, "route", "replace", "default", "dev", interface, "table", &table];
    ip(&[&enter[..], &LASTING].concat()).map(drop)
}

/// Removes the rules and routes of an IP version. Returns whether the rule of the separate table was removed.
fn remove(family: &str) -> bool {
    let (table, nearby) = (MARK.to_string(), NEARBY.to_string());
    // Ignore errors: a rule may not exist.
    let removed = ip(&[family, "rule", "del", "pref", &table]).is_ok();
    let _ = ip(&[family, "rule", "del", "pref", &nearby]);
    let _ = ip(&[family, "route", "flush", "table", &table]);
    removed
}

/// Removes the rules of a tunnel that was killed together with its helper process, but only if their table is
/// empty. A table with routes still has a purpose: it holds either the block of a kill switch or the route
/// into another tunnel's interface.
pub(crate) fn clear_leftovers() {
    clear_if(|routes| routes.is_empty());
}

/// Removes the block that a killed tunnel's kill switch left behind. Returns whether there was one. If the
/// table has a route into an interface, a tunnel is running. All rules then stay, because that tunnel may
/// carry only one IP version and block the other.
pub(crate) fn lift_block() -> bool {
    is_blocked() && clear_if(|routes| !routes.is_empty())
}

/// Returns whether a kill switch blocks packets while no tunnel with `default_route` runs.
pub(crate) fn is_blocked() -> bool {
    let routes = ["-4", "-6"].map(|family| shown(family, "route", "table", MARK)).join("\n");
    let mut routes = routes.lines().filter(|route| !route.is_empty()).peekable();
    routes.peek().is_some() && routes.all(|route| route.starts_with("unreachable"))
}

/// Returns the interface that the separate table has a route into. The tunnel of this interface is running,
/// because the kernel deletes the route together with the interface.
fn interface_in_use() -> Option<String> {
    let routes = ["-4", "-6"].map(|family| shown(family, "route", "table", MARK)).join("\n");
    routes.lines().find_map(into).map(str::to_owned)
}

/// Returns the interface into which a default route leads.
fn into(route: &str) -> Option<&str> {
    route.strip_prefix("default dev ")?.split_whitespace().next()
}

/// Removes the rules and routes of each IP version that has rules and whose routes meet the condition.
/// Returns whether it removed any.
fn clear_if(condition: impl Fn(&str) -> bool) -> bool {
    let mut families = vec!["-4", "-6"];
    families.retain(|family| {
        !shown(family, "rule", "pref", MARK).is_empty() && condition(&shown(family, "route", "table", MARK))
    });
    let removed = families.iter().filter(|family| remove(family)).count();
    if removed > 0 {
        bypass::remove();
    }
    removed > 0
}

/// Returns the rules or routes with this number, one per line.
fn shown(family: &str, what: &str, selector: &str, number: u32) -> String {
    let all = ip(&[family, what, "show", selector, &number.to_string()]).unwrap_or_default();
    all.trim().to_owned()
}

/// Adds a rule, unless it already exists.
fn rule(args: &[&str]) -> Result<(), String> {
    match ip(args) {
        Err(e) if e.contains("File exists") => Ok(()),
        result => result.map(drop),
    }
}

/// Warns about a strict reverse path filter. Unmarked packets to the other end are routed through the tunnel,
/// so such a filter would drop the packets that arrive from the other end.
fn warn_of_strict_filters(cfg: &Config) {
    let names = std::fs::read_dir("/proc/sys/net/ipv4/conf").into_iter().flatten().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let value = |name: &str| sysctl(&format!("net/ipv4/conf/{name}/rp_filter"))?.parse::<u8>().ok();
    let of = |name: &str| value(name).unwrap_or(0);
    let strict = strict(cfg, names, of);
    if !strict.is_empty() {
        tracing::warn!(
            "the strict reverse path filter of {} drops the other end's packets; run `sysctl -w net.ipv4.conf.all.rp_filter=2`",
            strict.join(", ")
        );
    }
}

/// Returns the interfaces that a path may use and that have a strict filter. The larger one of the values of
/// an interface and of `all` is in force.
fn strict(cfg: &Config, names: impl Iterator<Item = String>, of: impl Fn(&str) -> u8) -> Vec<String> {
    let paths = cfg.peers.iter().flat_map(|peer| &peer.get_ref().paths).map(|path| path.get_ref());
    let other = |name: &String| !["all", "default", "lo", &cfg.interface].contains(&name.as_str());
    let uses = |name: &String| {
        paths.clone().any(|path| match (&path.interface, path.pattern()) {
            (_, Some(begin)) => name.starts_with(begin),
            (Some(own), None) => own == name,
            (None, None) => true,
        })
    };
    let mut found: Vec<String> =
        names.filter(|name| other(name) && of("all").max(of(name)) == 1).filter(|name| uses(name)).collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tunnel::face::control;
    use dccp_secure::PrivateKey;
    use std::time::{Duration, Instant};

    fn cfg(path: &str) -> Config {
        let [own, peer] = [1, 2].map(|n| PrivateKey::from_random([n; 32]));
        let text = format!(
            "role = \"client\"\ninterface = \"lo\"\naddresses = [\"10.1.0.2/24\"]\nprivate_key = {:?}\n\
             default_route = true\nkill_switch = true\n[[peer]]\nname = \"hub\"\npublic_key = \"{}\"\n\
             allowed_ips = [\"0.0.0.0/0\"]\n\
             path = [{{ name = \"one\", remote = \"192.0.2.1\", {path} }}]",
            own.to_base64().as_str(),
            peer.public()
        );
        control::parse(&text).result("x.toml".as_ref()).unwrap()
    }

    #[test]
    fn strict_filters_are_found_on_the_interfaces_of_paths() {
        let found = |path: &str, all: u8| {
            let of = |name: &str| match name {
                "all" => all,
                "eth0" | "default" | "lo" => 1,
                _ => 0,
            };
            let names = ["all", "default", "lo", "eth0", "wwan0"].map(String::from);
            strict(&cfg(path), names.into_iter(), of)
        };
        assert_eq!(found("local = \"192.0.2.2\"", 0), ["eth0"]);
        assert_eq!(found("local = \"192.0.2.2\"", 1), ["eth0", "wwan0"]);
        assert_eq!(found("interface = \"wwan*\"", 0), [""; 0]);
        assert_eq!(found("interface = \"wwan*\"", 1), ["wwan0"]);
        assert_eq!(found("interface = \"eth0\"", 2), [""; 0], "the value of `all` is in force");
    }

    #[test]
    fn rules_that_another_program_removes_come_back() {
        // Only root can create a network namespace for this thread.
        if nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).is_err() {
            return;
        }
        ip(&["link", "set", "lo", "up"]).unwrap();
        let cfg = cfg("local = \"192.0.2.2\"");
        let set = DefaultRoute::set(&cfg).unwrap().unwrap();
        let state = || {
            let rules = [NEARBY, MARK].map(|pref| shown("-4", "rule", "pref", pref));
            (rules, shown("-4", "route", "table", MARK))
        };
        let before = state();
        set.renew("lo", || assert!(set.turn.try_lock().is_err(), "the guard must wait"));
        assert!(before.1.contains("default dev lo") && before.1.contains("unreachable"), "{before:?}");
        for pref in [NEARBY, MARK] {
            ip(&["-4", "rule", "del", "pref", &pref.to_string()]).unwrap();
        }
        ip(&["-4", "route", "flush", "table", &MARK.to_string()]).unwrap();
        let since = Instant::now();
        while state() != before && since.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(state(), before);
        drop(set);
        assert_eq!(state(), <([String; 2], String)>::default());
        assert_eq!(shown("-6", "route", "table", MARK), "", "the block of IPv6 must be gone, too");
    }
}
