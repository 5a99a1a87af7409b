//! Writes points as scenarios.

use super::random_links::{Company, MEGA, Point};

/// Name of the flow on the return path.
pub(super) const UPLOAD: &str = "upload";

impl Point {
    /// Returns the text of the scenario. If `alone` is set, the flow under test runs without the point's
    /// competing traffic. If `thin` is set, a single flow with a low rate, which measures the path's own
    /// latency, replaces all other flows.
    pub(super) fn scenario(&self, alone: bool, thin: bool) -> String {
        let payload = 1300;
        let bulk = "source = { kind = \"bulk\" }".to_owned();
        let thin_rate = (self.mbps * MEGA * 0.01).max(20_000.0).round();
        let source = match &self.source {
            _ if thin => format!("rate = \"{thin_rate} bit/s\""),
            Some(source) => source.clone(),
            None => bulk,
        };
        let mut text = format!("duration_s = {:.3}\n{}", self.end_s, include_str!("variants.toml"));
        let mut flow = |name: &str, keys: String| text += &format!("\n[[flow]]\nname = \"{name}\"\n{keys}\n");
        let udp = |more: &str| format!("kind = \"udp\"\npayload = {payload}\n{source}\n{more}");
        flow("flow", udp(""));
        match &self.company {
            _ if alone || thin => {}
            Company::Alone => {}
            Company::Short => flow("short", self.cross_traffic.clone()),
            Company::Own(all) => {
                for (i, (longer, late)) in all.iter().enumerate().skip(1) {
                    let more = format!("owd = \"{:.0} us\"\nstart_s = {late:.3}", longer * 500.0);
                    flow(&format!("flow{i}"), udp(&more));
                }
            }
            Company::Tcp(all) => {
                for cc in *all {
                    flow(&format!("other-{cc}"), format!("kind = \"tcp\"\ncc = \"{cc}\""));
                }
            }
        }
        if self.upload && !thin {
            flow(UPLOAD, "kind = \"tcp\"\ncc = \"cubic\"\nreverse = true".to_owned());
        }
        text += "\n[[path]]\nname = \"link\"\n";
        if self.mbps > 0.0 {
            let owd = (self.rtt_ms * 500.0).round();
            text += &format!(
                "rate = \"{} bit/s\"\nowd = \"{owd} us\"\nqueue = \"{} B\"\n",
                (self.mbps * MEGA).round(),
                self.queue
            );
        }
        for key in &self.link {
            text += &format!("{key}\n");
        }
        for (way, keys) in [("forward", &self.forward), ("reverse", &self.reverse)] {
            if !keys.is_empty() {
                text += &format!("{way} = {{ {} }}\n", keys.join(", "));
            }
        }
        if !self.events.is_empty() {
            text += &format!("events = [{}]\n", self.events.join(", "));
        }
        text
    }
}
