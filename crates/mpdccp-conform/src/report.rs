//! Writes results as text, JUnit XML and JSON.

use crate::script::Script;
use crate::suite::{Outcome, Verdict};
use serde::Serialize;
use std::fmt::Write;

/// Returns the rules that a script checks, such as `RFC 4340 8.1.3, RFC 9897 3.2.4`.
pub fn rules(script: &Script) -> String {
    let rules: Vec<_> = script.rules.iter().map(|(rfc, section)| format!("RFC {rfc} {section}")).collect();
    rules.join(", ")
}

/// Returns a test's result as text, including the packets if the test failed.
pub fn text(outcome: &Outcome) -> String {
    let Outcome { script, verdict, took } = outcome;
    let (word, more) = match verdict {
        Verdict::Passed => ("ok  ", String::new()),
        Verdict::Skipped(need) => ("skip", format!(" (needs {need})")),
        Verdict::Failed(failure) => {
            ("FAIL", format!("\n    {}\n      {}", failure.message, failure.trace.join("\n      ")))
        }
    };
    format!("{word} {}: {} [{}] {:.1} s{more}", script.name, script.title, rules(script), took.as_secs_f64())
}

/// Returns the number of passed, failed and skipped tests.
pub fn counts(outcomes: &[Outcome]) -> (usize, usize, usize) {
    let count = |fits: fn(&Verdict) -> bool| outcomes.iter().filter(|o| fits(&o.verdict)).count();
    (
        count(|v| matches!(v, Verdict::Passed)),
        count(|v| matches!(v, Verdict::Failed(_))),
        count(|v| matches!(v, Verdict::Skipped(_))),
    )
}

#[derive(Serialize)]
struct Test<'a> {
    name: &'a str,
    title: &'a str,
    rules: String,
    verdict: &'a str,
    seconds: f64,
    message: Option<&'a str>,
    trace: &'a [String],
}

/// Returns all tests as JSON, with the number of tests of each result.
pub fn json(outcomes: &[Outcome]) -> String {
    let tests: Vec<_> = outcomes
        .iter()
        .map(|Outcome { script, verdict, took }| {
            let (verdict, message, trace): (_, _, &[String]) = match verdict {
                Verdict::Passed => ("passed", None, &[]),
                Verdict::Skipped(need) => ("skipped", Some(need.as_str()), &[]),
                Verdict::Failed(failure) => ("failed", Some(failure.message.as_str()), &failure.trace),
            };
            Test {
                name: &script.name,
                title: &script.title,
                rules: rules(script),
                verdict,
                seconds: took.as_secs_f64(),
                message,
                trace,
            }
        })
        .collect();
    let (passed, failed, skipped) = counts(outcomes);
    format!(
        "{:#}\n",
        serde_json::json!({ "passed": passed, "failed": failed, "skipped": skipped, "tests": tests })
    )
}

/// Returns all tests as JUnit XML, one test case for each.
pub fn junit(outcomes: &[Outcome]) -> String {
    let (_, failed, skipped) = counts(outcomes);
    let total = outcomes.len();
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"mpdccp conform\" tests=\"{total}\" failures=\"{failed}\" skipped=\"{skipped}\">\n"
    );
    for Outcome { script, verdict, took } in outcomes {
        let (class, name) = script.name.rsplit_once('/').unwrap_or(("", &script.name));
        let name = escape(&format!("{name}: {} [{}]", script.title, rules(script)));
        let inside = match verdict {
            Verdict::Passed => String::new(),
            Verdict::Skipped(need) => format!("<skipped message=\"needs {}\"/>", escape(need)),
            Verdict::Failed(failure) => {
                let trace = escape(&failure.trace.join("\n"));
                format!("<failure message=\"{}\">{trace}</failure>", escape(&failure.message))
            }
        };
        let _ = writeln!(
            out,
            "  <testcase classname=\"{}\" name=\"{name}\" time=\"{:.3}\">{inside}</testcase>",
            escape(class),
            took.as_secs_f64()
        );
    }
    out + "</testsuite>\n"
}

fn escape(text: &str) -> String {
    let replaced =
        text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
    replaced.replace('\n', "&#10;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_page_has_all_keys() {
        let page = include_str!("../../../docs/conformance.md");
        let [name, title] = ["close/one", "one"].map(str::to_owned);
        let script = Script { name, title, rules: Vec::new(), needs: Vec::new(), steps: Vec::new() };
        let outcome = Outcome { script, verdict: Verdict::Passed, took: Duration::ZERO };
        let report: serde_json::Value = serde_json::from_str(&json(&[outcome])).unwrap();
        let keys = |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        for key in [keys(&report), keys(&report["tests"][0])].concat() {
            assert!(page.contains(&format!("`{key}`")), "{key}");
        }
    }
}
