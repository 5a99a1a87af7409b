//! Short labels for a scenario's events in figures.

use mpdccp_units::Rate;

use super::Mark;
use super::range::label;
use crate::scenario::{Cell, LinkKeys, PathSpec, Scenario, TunnelEvent};

/// Returns a mark for each time in [`Scenario::events_s`]. The labels describe the changes in `cell`.
pub(super) fn marks(scenario: &Scenario, cell: &Cell) -> Vec<Mark> {
    let paths: Vec<PathSpec> = (0..scenario.paths.len()).map(|i| scenario.path_in(i, cell)).collect();
    let at = |at: f64| {
        let here = |path: &PathSpec| -> Option<(String, String)> {
            let words: Vec<String> = (path.events.iter().enumerate())
                .filter(|(_, event)| *event.at_s.as_ref() == at)
                .flat_map(|(i, _)| words(path, i))
                .collect();
            (!words.is_empty()).then(|| (path.name.as_ref().clone(), words.join(", ")))
        };
        let changed: Vec<(String, String)> = paths.iter().filter_map(here).collect();
        let events = scenario.events.iter().filter(|event| *event.at_s.as_ref() == at);
        let events: Vec<String> = events.map(TunnelEvent::label).collect();
        let alike = changed.windows(2).all(|two| two[0].1 == two[1].1);
        let words = if alike && changed.len() == paths.len() {
            changed.first().map_or(String::new(), |(_, words)| words.clone())
        } else {
            changed.iter().map(|(path, words)| format!("{path}: {words}")).collect::<Vec<_>>().join("; ")
        };
        let words = [words].into_iter().filter(|words| !words.is_empty()).chain(events);
        Mark { at, label: words.collect::<Vec<_>>().join("; ") }
    };
    scenario.events_s().into_iter().map(at).collect()
}

/// Returns texts for the changes that the `nth` event of a path makes. A change may concern both directions
/// or only one.
fn words(path: &PathSpec, nth: usize) -> Vec<String> {
    let course = path.course();
    let before = nth.checked_sub(1).map_or(&path.ways, |last| &course[last].1);
    let [forward, reverse] = [0, 1].map(|way: usize| changes(&before[way], &course[nth].1[way]));
    if forward == reverse {
        return forward;
    }
    let reverse = reverse.into_iter().map(|word| format!("reverse: {word}"));
    forward.into_iter().chain(reverse).collect()
}

/// Returns texts for the differences between two states of a link.
fn changes(before: &LinkKeys, after: &LinkKeys) -> Vec<String> {
    let mut out = Vec::new();
    if after.is_up() != before.is_up() {
        out.push(if after.is_up() { "up again" } else { "outage" }.to_owned());
    }
    if (after.rate, &after.trace) != (before.rate, &before.trace) {
        let word = match (before.mean_rate(), after.mean_rate()) {
            _ if before.trace.is_some() || after.trace.is_some() => "rate",
            (old, new) if new < old => "drop to",
            _ => "rise to",
        };
        out.push(format!("{word} {}", rate_text(after.mean_rate())));
    }
    if after.owd != before.owd {
        out.push(format!("delay {} ms", label(after.delay().as_secs_f64() * 1e3)));
    }
    if (after.loss, after.burst_loss) != (before.loss, before.burst_loss) {
        let share = after.loss.map_or(String::new(), |loss| format!(" {} %", label(loss * 100.0)));
        out.push(format!("loss{share}"));
    }
    if after.queue != before.queue {
        out.push(format!("queue {}", after.queue_limit().text()));
    }
    let others = [
        ("jitter", after.jitter != before.jitter),
        ("queue discipline", after.discipline != before.discipline),
        ("policer", after.policer != before.policer),
        ("bursts", (after.burst, after.aggregation) != (before.burst, before.aggregation)),
        ("thinned acknowledgements", after.thin_acks != before.thin_acks),
    ];
    out.extend(others.iter().filter(|(_, other)| *other).map(|(word, _)| (*word).to_owned()));
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
            [[variant]]
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
            events = [{ at_s = 5, rate = "10 Mbit/s" }, { at_s = 9, owd = "30 ms", loss = "1 %" }, { at_s = 12, reverse = { queue = "20 kB" } }]
            [[cell]]
            name = "base"
            [[cell]]
            name = "slow"
            path.one.rate = "5 Mbit/s"
        "#;
        let scenario = Scenario::parse("a", text).unwrap();
        let [base, slow] = ["base", "slow"].map(|name| scenario.cell(name).unwrap());
        let marks = marks(&scenario, base);
        let words: Vec<(f64, &str)> = marks.iter().map(|m| (m.at, m.label.as_str())).collect();
        assert_eq!(
            words,
            [
                (5.0, "drop to 10 Mbit/s"),
                (7.0, "one: rise to 50 Mbit/s"),
                (9.0, "one: outage; two: delay 30 ms, loss 1 %"),
                (12.0, "two: reverse: queue 20000 B")
            ]
        );
        // In the slow cell, the first event raises the rate of one path.
        let first = super::marks(&scenario, slow).swap_remove(0);
        assert_eq!(first.label, "one: rise to 10 Mbit/s; two: drop to 10 Mbit/s");
        assert_eq!([base, slow].map(|cell| scenario.event_words(5.0, cell)), ["the drop", "the change"]);
    }
}
