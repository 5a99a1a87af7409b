//! Tests that figures are valid SVG.

use mpdccp_lab::Scenario;
use mpdccp_lab::figures::{Column, delivery, distribution, inner_workings};

#[test]
fn figures_are_written_as_svg_and_stand_in_the_report() {
    let scenario = Scenario::parse("made-up", crate::common::SCENARIO).unwrap();
    let runs = ["ccid2", "ccid5"].map(crate::common::run);
    let columns: Vec<Column<'_>> = runs.iter().map(|run| Column { label: &run.label, run }).collect();
    let dir = match std::env::var_os("KEEP_FIGURES") {
        Some(dir) => dir.into(),
        None => tempfile::tempdir().unwrap().keep(),
    };
    for (name, figure) in [
        ("delivery", delivery(&scenario, &columns)),
        ("distribution", distribution(&scenario, &columns).unwrap()),
        ("workings", inner_workings(&scenario, &columns)),
    ] {
        let html = figure.save(&dir.join(name)).unwrap();
        let svg = std::fs::read_to_string(dir.join(name).with_extension("svg")).unwrap();
        let paths = |text: &str| text.matches(" d=\"M").count();
        assert_eq!(paths(&html), paths(&svg), "the file and the report have the same paths");
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        assert!(svg.contains("ccid5"));
        assert!(!svg.contains("NaN"));
    }
    if std::env::var_os("KEEP_FIGURES").is_none() {
        std::fs::remove_dir_all(dir).unwrap();
    }
}

/// In the simulator, the title of a column with TCP also names the model.
#[test]
fn published_figures_are_drawn_whatever_the_title_of_the_column() {
    let scenario = Scenario::parse("made-up", crate::common::SCENARIO).unwrap();
    let mut run = crate::common::run("ccid5");
    run.flows[0].model = Some("model of TCP CUBIC".to_owned());
    let label = run.shown();
    assert_ne!(label, run.label);
    let columns = [Column { label: &label, run: &run }];
    for (figure, name) in [
        (delivery(&scenario, &columns), "somebody p50".to_owned()),
        (distribution(&scenario, &columns).unwrap(), format!("{label}, somebody")),
    ] {
        let mut series = figure.rows.iter().flatten().flat_map(|panel| &panel.series);
        assert!(series.any(|series| series.name == name), "{name}");
    }
}

#[test]
fn rows_without_data_are_left_out() {
    let scenario = Scenario::parse("made-up", crate::common::SCENARIO).unwrap();
    let rows = |paced: bool| {
        let mut run = crate::common::run("ccid2");
        run.trace.iter_mut().filter(|_| !paced).for_each(|row| row.pacing_mbps = None);
        let figure = inner_workings(&scenario, &[Column { label: "ccid2", run: &run }]);
        (figure.rows.len(), figure.html().contains("pacing rate"))
    };
    assert_eq!((rows(true), rows(false)), ((4, true), (3, false)));
}

#[test]
fn paths_have_the_colour_of_their_variant() {
    let scenario = Scenario::parse("made-up", crate::common::SCENARIO).unwrap();
    let runs = ["ccid2", "ccid5"].map(crate::common::run);
    let columns: Vec<Column<'_>> = runs.iter().map(|run| Column { label: &run.label, run }).collect();
    let lines = distribution(&scenario, &columns).unwrap();
    for (nth, line) in
        lines.rows[0][0].series.iter().filter(|s| s.name.starts_with("ccid")).take(2).enumerate()
    {
        for figure in [delivery(&scenario, &columns), inner_workings(&scenario, &columns)] {
            for series in figure.rows.iter().flat_map(|row| &row[nth].series).filter(|s| s.name == "path1") {
                assert_eq!(series.color, line.color);
            }
        }
    }
}

#[test]
fn many_variants_wrap_and_keep_one_scale() {
    let scenario = Scenario::parse("made-up", crate::common::SCENARIO).unwrap();
    let mut runs: Vec<_> = ["a", "b", "c", "d"].iter().map(|label| crate::common::run(label)).collect();
    runs[3].flows[0].received.iter_mut().for_each(|p| p.at += std::time::Duration::from_millis(100));
    let columns: Vec<Column<'_>> = runs.iter().map(|run| Column { label: &run.label, run }).collect();
    let figure = delivery(&scenario, &columns);
    assert_eq!(figure.rows.iter().map(Vec::len).collect::<Vec<_>>(), [2; 8]);
    let latency: Vec<_> =
        figure.rows.iter().flatten().filter(|p| p.title.contains("latency")).map(|p| p.y_top).collect();
    assert!(latency.len() == 8 && latency.iter().all(|top| *top == Some(150.0)), "{latency:?}");
}
