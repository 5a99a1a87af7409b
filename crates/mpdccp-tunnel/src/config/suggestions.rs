//! Suggests what an unknown key was meant to be.

use super::file::RENAMED;
use super::{Assign, Bypass, Config, PathSpec, Peer};
use mpdccp_proto::Settings;
use serde::Deserialize;
use std::collections::BTreeMap;

/// A section of the file and its keys.
pub(super) struct Section {
    pub(super) name: &'static str,
    pub(super) keys: Vec<String>,
}

pub(super) const TOP: &str = "the top of the file, before the first [[peer]]";

/// Returns all sections, starting with the top level of the file.
pub(super) fn sections() -> Vec<Section> {
    let settings = Settings::KEYS.iter().map(|key| (*key).to_owned());
    let mut top: Vec<String> = keys_of::<Config>().into_iter().chain(settings).collect();
    top.retain(|key| RENAMED.iter().all(|(old, _)| key != old));
    let rule: toml::Value = toml::Value::Array(vec![nothing()]);
    let rule = Settings::default().set("policy_rule", rule).err().map(|e| e.message().to_owned());
    let all = [
        (TOP, top),
        ("[[peer]]", keys_of::<Peer>()),
        ("[[peer.path]]", keys_of::<PathSpec>()),
        ("[assign]", keys_of::<Assign>()),
        ("[bypass]", keys_of::<Bypass>()),
        ("[[policy_rule]]", words(&rule.unwrap_or_default())),
    ];
    all.into_iter().map(|(name, keys)| Section { name, keys }).collect()
}

/// Returns a table with a key that exists in no section. Parsing the table as a section fails with an error
/// that lists the section's keys.
fn nothing() -> toml::Value {
    toml::Value::Table([("?".to_owned(), true.into())].into_iter().collect())
}

/// Returns the keys of a section, including their deprecated names.
pub(super) fn keys_of<T: for<'de> Deserialize<'de>>() -> Vec<String> {
    let refused = T::deserialize(nothing()).err();
    refused.map(|e| words(e.message())).unwrap_or_default()
}

/// Returns the names that an error message lists after "expected".
pub(super) fn words(message: &str) -> Vec<String> {
    let expected = message.split_once("expected").map_or("", |(_, expected)| expected);
    expected.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Returns the name most similar to `name`, if few edits turn one into the other: at most one edit per three
/// characters of `name`, but one edit is always allowed.
pub(super) fn near<'a>(name: &str, all: impl IntoIterator<Item = &'a String>) -> Option<&'a str> {
    let plain = |text: &str| text.to_lowercase().replace(['-', ' '], "_");
    let name = plain(name);
    let far = |other: &str| strsim::damerau_levenshtein(&name, &plain(other));
    let best = all.into_iter().min_by_key(|other| far(other))?;
    (far(best) <= (name.chars().count() / 3).max(1)).then_some(best)
}

/// Returns advice for an unknown key in a section, and the key that was probably meant.
pub(super) fn instead(name: &str, here: &str, sections: &[Section]) -> (String, Option<String>) {
    let own = sections.iter().find(|section| section.name == here);
    if let Some(key) = own.and_then(|section| near(name, &section.keys)) {
        return (format!("did you mean `{key}`?"), Some(key.to_owned()));
    }
    let others = || sections.iter().filter(|section| section.name != here);
    let has: Vec<&str> = others().filter(|s| s.keys.iter().any(|key| key == name)).map(|s| s.name).collect();
    if !has.is_empty() {
        return (format!("it belongs in {}", has.join(" or ")), None);
    }
    let alike: BTreeMap<&str, &str> =
        others().filter_map(|section| Some((near(name, &section.keys)?, section.name))).collect();
    match alike.first_key_value() {
        Some((key, section)) => (format!("did you mean `{key}` in {section}?"), None),
        None => ("docs/tunnel.md and docs/keys.md list all keys".into(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_section_knows_its_keys() {
        let sections = sections();
        for (name, key) in [
            (TOP, "scheduler"),
            ("[[peer]]", "allowed_ips"),
            ("[[peer.path]]", "remote"),
            ("[assign]", "pool"),
            ("[[policy_rule]]", "ports"),
        ] {
            let section = sections.iter().find(|section| section.name == name).unwrap();
            assert!(section.keys.iter().any(|known| known == key), "{name}: {:?}", section.keys);
        }
        assert_eq!(instead("remot", "[[peer.path]]", &sections).1.as_deref(), Some("remote"));
        assert_eq!(instead("pool", TOP, &sections).0, "it belongs in [assign]");
        assert_eq!(instead("zzzzzz", TOP, &sections).0, "docs/tunnel.md and docs/keys.md list all keys");
    }
}
