//! A download whose acknowledgements wait in the queue of an upload.
//!
//! `cargo test -p dccp-cc --test it return_path -- --nocapture` prints the rates.

use crate::model::scenario::{at, ccid, drop_tail, link, ms};
use crate::model::{Session, Source, World, full, summary};
use dccp_cc::{Controller, Cubic};
use mpdccp_linkem::LinkConfig;
use mpdccp_units::Time;

/// Returns the share of a link of 50 Mbit/s that a download uses from 5 s on. The return path has 5 Mbit/s,
/// and the upload keeps a queue of 200 ms there.
fn used(cc: Box<dyn Controller>) -> f64 {
    let up = LinkConfig { queue: drop_tail(125_000), ..link(5.0, ms(40.0), 1.0) };
    let mut download = Session::new(Source::Bulk, at(3.0), vec![(0, ms(20.0), cc)]);
    download.acknowledge_over(0, 1);
    let mut upload = Session::new(Source::Bulk, Time::ZERO, vec![(1, ms(20.0), Box::new(Cubic::tcp(1500)))]);
    upload.acknowledge_over(0, 0);
    let mut w = World::new(vec![link(50.0, ms(40.0), 1.0), up], 1, vec![download, upload]);
    w.run(at(23.0));
    let queue = summary(&w.sessions[1].got, at(8.0), at(23.0)).latency[0] - 20.0;
    assert!(queue > 100.0, "{queue} ms");
    summary(&w.sessions[0].got, at(8.0), at(23.0)).mbps / full(50.0)
}

#[test]
fn an_upload_does_not_slow_a_download() {
    let [ours, cubic, third] = [5, 7, 250].map(|n| used(ccid(n, 3)));
    println!("share of the link: CCID 5 {ours:.2}, CCID 7 {cubic:.2}, CCID 250 {third:.2}");
    // After a reduction, CUBIC and CCID 250 keep 0.7 of their windows.
    assert!(ours > 0.9 && cubic > 0.7 && third > 0.7, "{ours} {cubic} {third}");
}
