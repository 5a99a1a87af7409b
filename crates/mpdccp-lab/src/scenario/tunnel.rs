use core::ops::Range;
use core::time::Duration;
use std::collections::BTreeMap;

use mpdccp_proto::reorder::ReorderKind;
use mpdccp_proto::{Named, Settings};
use serde::Deserialize;
use toml::{Spanned, Table, Value};

use linkem_net::quantity::parse_time;

/// Settings of the tunnel or connection. Their keys are those of the tunnel's configuration file, and a few
/// short forms that exist only in scenarios. Settings that are absent have the program's defaults.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub struct TunnelSettings(BTreeMap<Spanned<String>, Spanned<Value>>);

/// Keys of the tunnel's file that are not session settings.
const OF_THE_FILE: [&str; 2] = [SECURITY, TCP];
/// Key that says whether the tunnel is encrypted.
pub(crate) const SECURITY: &str = "security";
/// Value of [`SECURITY`] for an encrypted tunnel.
pub(super) const SEALED: &str = "noise";
/// Key that says how the tunnel carries TCP.
pub(crate) const TCP: &str = "tcp";
/// Value of [`TCP`] for a tunnel that terminates TCP connections at both ends and carries their data as
/// streams.
pub(super) const STREAMS: &str = "streams";
/// Keys that exist only in scenarios: the longest wait for a missing packet, whichever kind of reordering
/// buffer is used, and the queue limit in packets.
const SHORT: [&str; 2] = ["reorder_timeout", "queue_packets"];

impl TunnelSettings {
    /// Returns these settings, with missing keys taken from `other`.
    pub fn or(&self, other: &TunnelSettings) -> TunnelSettings {
        let mut all = other.0.clone();
        for (key, value) in &self.0 {
            all.remove(key);
            all.insert(key.clone(), value.clone());
        }
        TunnelSettings(all)
    }

    /// Returns whether a key is set.
    pub(super) fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    fn get(&self, key: &str) -> Option<&Spanned<Value>> {
        self.0.iter().find(|(k, _)| k.as_ref() == key).map(|(_, value)| value)
    }

    /// Converts the settings to keys of the tunnel's file.
    ///
    /// # Errors
    /// Fails if a setting is invalid; the error includes the position.
    pub fn table(&self) -> Result<Table, (Option<Range<usize>>, String)> {
        let mut table = Table::new();
        for (key, value) in &self.0 {
            let (name, at) = (key.as_ref().as_str(), |e| (Some(value.span()), e));
            let value = match value.as_ref() {
                Value::String(time) if name == "queue" => {
                    Table::from_iter([("max_ms".to_owned(), milliseconds(time).map_err(at)?)]).into()
                }
                plain => plain.clone(),
            };
            if SHORT.contains(&name) {
                continue;
            }
            if OF_THE_FILE.contains(&name) {
                let (values, note) = match name {
                    SECURITY => ([SEALED, "none"], " (with keys generated for the run)"),
                    _ => ([STREAMS, "packets"], ""),
                };
                if !values.map(Some).contains(&value.as_str()) {
                    return Err(at(format!("expected \"{}\"{note} or \"{}\"", values[0], values[1])));
                }
                table.insert(name.to_owned(), value);
                continue;
            }
            if !Settings::KEYS.contains(&name) {
                let known = [Settings::KEYS, &OF_THE_FILE, &SHORT].concat().join(", ");
                return Err((Some(key.span()), format!("unknown key `{name}`; expected one of: {known}")));
            }
            Settings::default().set(name, value.clone()).map_err(|e| at(e.message().to_owned()))?;
            table.insert(name.to_owned(), value);
        }
        if let Some(packets) = self.get("queue_packets") {
            let queue = table.entry("queue").or_insert_with(|| Table::new().into());
            put(queue, "max_packets", packets.as_ref().clone());
            let queue = queue.clone();
            Settings::default()
                .set("queue", queue)
                .map_err(|e| (Some(packets.span()), e.message().to_owned()))?;
        }
        if let Some(timeout) = self.get("reorder_timeout") {
            let ms = timeout.as_ref().as_str().ok_or_else(|| "expected a time such as \"100 ms\"".to_owned());
            let ms = ms.and_then(milliseconds).map_err(|e| (Some(timeout.span()), e))?;
            let kind = match table.get("reordering") {
                Some(Value::String(kind)) => kind.clone(),
                Some(Value::Table(given)) => given["kind"].as_str().unwrap_or_default().to_owned(),
                _ => Settings::default().reordering.kind.name().to_owned(),
            };
            let key = ReorderKind::named(&kind).ok().and_then(ReorderKind::wait_key);
            if let Some(key) = key {
                let reordering = table.entry("reordering").or_insert_with(|| kind.clone().into());
                if reordering.is_str() {
                    *reordering = Table::from_iter([("kind".to_owned(), kind.into())]).into();
                }
                put(reordering, key, ms);
            }
        }
        Ok(table)
    }
}

fn put(table: &mut Value, key: &str, value: Value) {
    if let Value::Table(table) = table {
        table.insert(key.to_owned(), value);
    }
}

/// Returns the milliseconds of a time. The tunnel's file has no smaller unit.
fn milliseconds(text: &str) -> Result<Value, String> {
    let time: Duration = parse_time(text)?;
    if !time.subsec_nanos().is_multiple_of(1_000_000) {
        return Err(format!("`{text}` is not a whole number of milliseconds"));
    }
    Ok(Value::Integer(time.as_millis() as i64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpdccp_proto::reorder::ReorderConfig;

    fn settings(text: &str, other: &str) -> Settings {
        let [mine, other] = [text, other].map(|t| toml::from_str::<TunnelSettings>(t).unwrap());
        let mut settings = Settings::default();
        for (key, value) in mine.or(&other).table().unwrap() {
            settings.set(&key, value).unwrap();
        }
        settings
    }

    #[test]
    fn short_forms_mean_what_the_tunnels_file_says_at_length() {
        let s = settings("queue = \"40 ms\"\nqueue_packets = 7\nreorder_timeout = \"80 ms\"", "");
        assert_eq!((s.queue.max_sojourn, s.queue.max_packets), (Duration::from_millis(40), 7));
        assert_eq!(
            s.reordering,
            ReorderConfig::adaptive(Duration::from_millis(80)),
            "the default reordering, with the timeout as its limit"
        );
        let s = settings("reordering = \"active-fixed\"", "reorder_timeout = \"80 ms\"\nscheduler = \"rr\"");
        assert_eq!(s.reordering, ReorderConfig::active_fixed(Duration::from_millis(80)));
        assert_eq!(s.scheduler.name(), "rr");
        let s =
            settings("reordering = \"passive\"\nreorder_timeout = \"80 ms\"", "reordering = \"adaptive\"");
        assert_eq!(s.reordering, ReorderConfig::passive());
        assert_eq!(settings("", "").reordering, Settings::default().reordering);
    }

    #[test]
    fn the_rules_of_a_ccid_come_from_the_reload_or_the_variant_or_the_scenario() {
        let variants = r#"{ label = "a", cc_variant = "draft" }, { label = "b", ccid = 5 }, { label = "c" }"#;
        let after = |tunnel: &str, reload: &str| {
            let text = format!(
                r#"name = "t"
title = "t"
duration_s = 1
tunnel = {{ {tunnel} }}
path = [{{ name = "a", rate = "1 Mbit/s", queue = "9 packets" }}]
variant = [{variants}]
flow = [{{ name = "f", kind = "udp", payload = 100, rate = "1 Mbit/s" }}]
"#
            );
            let scenario = crate::Scenario::parse("t.toml", &text).unwrap();
            let changed: TunnelSettings = toml::from_str(reload).unwrap();
            let rules = |variant| {
                let table = scenario.tunnel_after(variant, &changed).unwrap();
                table.get("cc_variant").and_then(Value::as_str).unwrap_or_default().to_owned()
            };
            scenario.variants.iter().map(rules).collect::<Vec<_>>()
        };
        assert_eq!(after("", ""), ["draft", "", ""]);
        assert_eq!(after("cc_variant = \"draft\"", ""), ["draft"; 3]);
        assert_eq!(after("", "cc_variant = \"tuned\""), ["tuned"; 3]);
    }
}
