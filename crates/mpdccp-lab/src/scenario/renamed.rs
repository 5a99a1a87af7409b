//! Replaces deprecated key names with the current names before parsing.

use toml::{Table, Value};

type Renamed = (&'static str, &'static str);

/// New names of keys in tables with link keys: paths, their events, and paths in cells.
const LINK: &[Renamed] = &[("there", "forward"), ("back", "reverse"), ("beside", "outside")];
/// Deprecated keys for the reverse direction. Each entry holds the old name, the key in the table `reverse`,
/// and the new name to show in warnings.
const REVERSE: &[(&str, &str, &str)] =
    &[("back_rate", "rate", "reverse.rate"), ("back_queue", "queue", "reverse.queue")];
const VARIANT: &[Renamed] =
    &[("variant", "cc_variant"), ("back_ccid", "reverse_ccid"), ("rival", "baseline")];
const TUNNEL: &[Renamed] = &[("steer", "policy_rule")];
const FLOW: &[Renamed] = &[("back", "reverse")];
const TOP: &[Renamed] = &[("contender", "variant")];

/// Renames the deprecated keys of a scenario. Returns the deprecated keys found, each only once.
pub(super) fn rename(document: &mut Table) -> Vec<Renamed> {
    let mut found = Vec::new();
    keys(document, TOP, &mut found);
    for path in tables(document, "path") {
        link(path, &mut found);
        tables(path, "events").for_each(|event| link(event, &mut found));
    }
    for cell in tables(document, "cell") {
        let paths = cell.get_mut("path").and_then(Value::as_table_mut).into_iter().flatten();
        paths.filter_map(|(_, path)| path.as_table_mut()).for_each(|path| link(path, &mut found));
    }
    tunnel(document, &mut found);
    tables(document, "variant").for_each(|variant| {
        keys(variant, VARIANT, &mut found);
        tunnel(variant, &mut found);
    });
    tables(document, "flow").for_each(|flow| keys(flow, FLOW, &mut found));
    found
}

fn tables<'a>(table: &'a mut Table, key: &str) -> impl Iterator<Item = &'a mut Table> {
    let items = table.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten();
    items.filter_map(Value::as_table_mut)
}

fn tunnel(table: &mut Table, found: &mut Vec<Renamed>) {
    if let Some(tunnel) = table.get_mut("tunnel").and_then(Value::as_table_mut) {
        keys(tunnel, TUNNEL, found);
    }
}

fn link(table: &mut Table, found: &mut Vec<Renamed>) {
    keys(table, LINK, found);
    for (old, key, new) in REVERSE {
        let Some(value) = table.remove(*old) else { continue };
        note(found, (old, new));
        let reverse = table.entry("reverse").or_insert_with(|| Value::Table(Table::new()));
        if let Some(reverse) = reverse.as_table_mut() {
            reverse.entry(*key).or_insert(value);
        }
    }
}

/// Renames the deprecated keys of a table. If the table has a key under both names, both are kept, so that
/// parsing fails.
fn keys(table: &mut Table, names: &[Renamed], found: &mut Vec<Renamed>) {
    for (old, new) in names {
        if table.contains_key(*old) && !table.contains_key(*new) {
            let value = table.remove(*old);
            table.extend(value.map(|value| ((*new).to_owned(), value)));
            note(found, (old, new));
        }
    }
}

fn note(found: &mut Vec<Renamed>, names: Renamed) {
    if !found.contains(&names) {
        found.push(names);
    }
}

#[cfg(test)]
mod tests {
    use crate::Scenario;

    const OLD: &str = r#"name = "t"
title = "t"
tunnel = { steer = [{ protocol = "udp", fec = 4 }] }
duration_s = 1
mode = "direct"
path = [{ name = "a", rate = "1 Mbit/s", queue = "9 packets", back_rate = "2 Mbit/s", back = { owd = "5 ms" }, events = [{ at_s = 0.5, there = { loss = "1 %" } }] }]
contender = [{ label = "c", ccid = 5, variant = "draft", back_ccid = 2 }]
flow = [{ name = "f", kind = "udp", payload = 100, rate = "1 Mbit/s" }, { name = "r", kind = "udp", payload = 100, rate = "1 Mbit/s", back = true }]
"#;

    #[test]
    fn old_names_mean_the_same_and_are_told() {
        let new = OLD
            .replace("steer =", "policy_rule =")
            .replace("contender =", "variant =")
            .replace("variant = \"draft\"", "cc_variant = \"draft\"")
            .replace("back_ccid", "reverse_ccid")
            .replace("back_rate = \"2 Mbit/s\", back = { owd", "reverse = { rate = \"2 Mbit/s\", owd")
            .replace("there =", "forward =")
            .replace("back = true", "reverse = true");
        let (old, new) = (Scenario::parse("o", OLD).unwrap(), Scenario::parse("n", &new).unwrap());
        assert_eq!(old.document_hash(), new.document_hash());
        assert!(new.renamed.is_empty());
        let names: Vec<&str> = old.renamed.iter().map(|(old, _)| *old).collect();
        assert_eq!(names, ["contender", "back", "back_rate", "there", "steer", "variant", "back_ccid"]);
    }

    #[test]
    fn an_error_in_a_file_with_old_names_tells_no_wrong_line() {
        let wrong = OLD.replace("payload = 100", "payload = 1");
        let error = Scenario::parse("o", &wrong).unwrap_err();
        assert_eq!((error.line, error.key.as_deref()), (None, Some("payload")));
        let both = OLD.replace("back_ccid = 2", "back_ccid = 2, reverse_ccid = 2");
        assert!(Scenario::parse("o", &both).unwrap_err().message.contains("back_ccid"));
    }
}
