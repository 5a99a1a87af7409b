//! What happens to the paths while a scenario runs, in a few words for a figure.

use units::Rate;

use super::Mark;
use super::range::label;
use crate::scenario::{PathEvent, PathSpec, Scenario};

/// One mark for each moment of [`Scenario::events_s`].
pub(super) fn marks(scenario: &Scenario) -> Vec<Mark> {
    let at = |at: f64| {
        let here = |path: &PathSpec| -> Option<(String, String)> {
            let words: Vec<String> = (path.events.iter().enumerate())
                .filter(|(_, event)| *event.at_s.as_ref() == at)
                .flat_map(|(i, event)| words(path, i, event))
                .collect();
            (!words.is_empty()).then(|| (path.name.as_ref().clone(), words.join(", ")))
        };
        let changed: Vec<(String, String)> = scenario.paths.iter().filter_map(here).collect();
        let alike = changed.windows(2).all(|two| two[0].1 == two[1].1);
        let words = if alike && changed.len() == scenario.paths.len() {
            changed.first().map_or(String::new(), |(_, words)| words.clone())
        } else {
            changed.iter().map(|(path, words)| format!("{path}: {words}")).collect::<Vec<_>>().join("; ")
        };
        Mark { at, label: words }
    };
    scenario.events_s().into_iter().map(at).collect()
}

/// What the `nth` event of a path changes.
fn words(path: &PathSpec, nth: usize, event: &PathEvent) -> Vec<String> {
    let before = &path.events[..nth];
    let mut out = Vec::new();
    match event.up {
        Some(false) => out.push("outage".to_owned()),
        Some(true) => out.push("up again".to_owned()),
        None => {}
    }
    if let Some(rate) = event.rate {
        let old = before.iter().rev().find_map(|e| e.rate).unwrap_or(path.rate);
        let word = if path.trace.is_some() {
            "rate"
        } else if rate < old {
            "drop to"
        } else {
            "rise to"
        };
        out.push(format!("{word} {}", rate_text(rate)));
    }
    if let Some(owd) = event.owd {
        out.push(format!("delay {} ms", label(owd.as_secs_f64() * 1e3)));
    }
    if let Some(loss) = event.loss {
        out.push(format!("loss {} %", label(loss * 100.0)));
    }
    out
}

fn rate_text(rate: Rate) -> String {
    let (value, unit) = match rate.mbps() {
        mbps if mbps >= 1e3 => (mbps / 1e3, "Gbit/s"),
        mbps if mbps >= 1.0 => (mbps, "Mbit/s"),
        mbps => (mbps * 1e3, "kbit/s"),
    };
    format!("{} {unit}", label(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_named_for_what_they_do() {
        let text = r#"
            name = "a"
            title = "a"
            duration_s = 20
            [[contender]]
            label = "ccid5"
            ccid = 5
            [[flow]]
            name = "udp"
            kind = "udp"
            payload = 1300
            rate = "1 Mbit/s"
            [[path]]
            name = "one"
            rate = "100 Mbit/s"
            queue = "100 kB"
            events = [{ at_s = 5, rate = "10 Mbit/s" }, { at_s = 7, rate = "50 Mbit/s" }, { at_s = 9, up = false }]
            [[path]]
            name = "two"
            rate = "100 Mbit/s"
            queue = "100 kB"
            events = [{ at_s = 5, rate = "10 Mbit/s" }, { at_s = 9, owd = "30 ms", loss = "1 %" }]
        "#;
        let marks = marks(&Scenario::parse("a", text).unwrap());
        let words: Vec<(f64, &str)> = marks.iter().map(|m| (m.at, m.label.as_str())).collect();
        assert_eq!(
            words,
            [
                (5.0, "drop to 10 Mbit/s"),
                (7.0, "one: rise to 50 Mbit/s"),
                (9.0, "one: outage; two: delay 30 ms, loss 1 %")
            ]
        );
    }
}
