//! Checks the tables of experiments A and B in virtual time. The tests fail if any result changes. If a
//! change is intentional, run the tests once with `MPDCCP_BLESS=1` and review the difference.

use std::path::Path;

use mpdccp_lab::scenario::Scenario;
use mpdccp_lab::summary::Run;

const COLUMNS: &[(&str, usize)] = &[
    ("rx_mbps", 1),
    ("app_p50_ms", 0),
    ("app_p95_ms", 0),
    ("app_max_ms", 0),
    ("lost_pct", 1),
    ("min_1s_mbps", 1),
];

fn row(stats: &Run) -> String {
    let value = |(name, digits): &(&str, usize)| {
        stats.metrics.get(*name).map_or("-".to_owned(), |v| format!("{v:.digits$}"))
    };
    let values: Vec<String> = COLUMNS.iter().map(|c| format!("{:>12}", value(c))).collect();
    format!("{:<12} {:<12}{}\n", stats.cell, stats.label, values.concat())
}

fn check(name: &str) {
    let scenario = Scenario::find(name).unwrap();
    let titles: Vec<String> = COLUMNS.iter().map(|(name, _)| format!("{name:>12}")).collect();
    let mut table = format!("{:<12} {:<12}{}\n", "cell", "variant", titles.concat());
    for cell in &scenario.cells {
        for variant in &scenario.variants {
            table += &row(&crate::sim_common::run(&scenario, variant.label.as_ref(), &cell.name).1);
        }
    }
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name.replace('/', "-") + ".txt");
    if std::env::var_os("MPDCCP_BLESS").is_some() {
        std::fs::write(&file, &table).unwrap();
    }
    let golden = std::fs::read_to_string(&file).unwrap();
    assert_eq!(table, golden, "\n{table}\ndiffers from {}", file.display());
}

#[test]
fn experiment_a() {
    check("paper/single-path");
}

#[test]
fn experiment_b() {
    check("paper/multipath-udp");
}
