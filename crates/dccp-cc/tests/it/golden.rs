//! The same run must give the same trace. Unless a test says otherwise, the link has 10 Mbit/s, 40 ms and a
//! queue of one BDP. From 1.5 s on, every link has 4 Mbit/s.
//!
//! `UPDATE_GOLDEN=1 cargo test -p dccp-cc --test it golden` rewrites the traces after intended changes.

use crate::model::scenario::{CFG, at, bbr, bulk, link, ms};
use dccp_cc::{Bbr1, Bbr1Tuning, Bbr3, CcConfig, Controller, Cubic, Reno, Window};
use mpdccp_linkem::{Jitter, LinkConfig, LossModel, Spread};
use mpdccp_units::Rate;
use std::fmt::Write;

fn trace(link: LinkConfig, cc: Box<dyn Controller>) -> String {
    let mut w = bulk(link, vec![(0.0, cc)]);
    let mut out = String::from("   ms phase                        cwnd  Mbit/s  BtlBw inflight  lost\n");
    for i in 0..=60 {
        let t = 0.05 * f64::from(i);
        if i == 30 {
            w.set_rate(0, 4.0);
        }
        w.run(at(t));
        let tx = w.sessions[0].sender(0);
        let l = tx.cc.limits();
        let cwnd = match l.cwnd {
            Window::Packets(n) => format!("{n} p"),
            Window::Bytes(n) => format!("{n} B"),
        };
        let mbps = |r: Option<Rate>| r.map_or("-".into(), |r| format!("{:.2}", r.mbps()));
        writeln!(
            out,
            "{:5.0} {:22} {cwnd:>10} {:>7} {:>6} {:8} {:5}",
            t * 1e3,
            tx.cc.phase(),
            mbps(l.pacing),
            mbps(tx.cc.bottleneck()),
            tx.inflight.bytes,
            tx.lost
        )
        .unwrap();
    }
    out
}

fn check(name: &str, cc: Box<dyn Controller>) {
    check_on(link(10.0, ms(40.0), 1.0), name, cc);
}

fn check_on(link: LinkConfig, name: &str, cc: Box<dyn Controller>) {
    let path = format!("{}/tests/it/golden/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let got = trace(link, cc);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &got).unwrap();
    }
    let want = std::fs::read_to_string(&path).unwrap();
    for (i, (g, w)) in got.lines().zip(want.lines()).enumerate() {
        assert_eq!(g, w, "{name}, line {}", i + 1);
    }
    assert_eq!(got.lines().count(), want.lines().count());
}

/// The reference controllers must stay the same when our own controllers change, so that comparisons stay
/// valid.
#[test]
fn references() {
    let lossy = || LinkConfig { loss: LossModel::Bernoulli(0.002), ..link(50.0, ms(20.0), 0.5) };
    let jitter = Jitter { spread: Spread::Normal(ms(2.0)), reorder: true, ..Jitter::default() };
    let reordering = || LinkConfig { jitter, ..link(20.0, ms(40.0), 4.0) };
    for (on, link) in [("queue", link(10.0, ms(40.0), 1.0)), ("loss", lossy()), ("reordering", reordering())]
    {
        check_on(link.clone(), &format!("reference_reno_{on}"), Box::new(Reno::tcp(1500)));
        check_on(link.clone(), &format!("reference_cubic_{on}"), Box::new(Cubic::tcp(1500)));
        check_on(link, &format!("reference_bbr1_{on}"), Box::new(Bbr1::tcp(1500, 1)));
    }
}

#[test]
fn reno() {
    check("reno", Box::new(Reno::new(&CFG)));
}

#[test]
fn bbr1_draft() {
    check("bbr1_draft", bbr(Bbr1Tuning::DRAFT)(1));
}

#[test]
fn bbr1_tuned() {
    check("bbr1_tuned", bbr(Bbr1Tuning::TUNED)(1));
}

#[test]
fn cubic() {
    check("cubic", Box::new(Cubic::new(&CFG)));
}

#[test]
fn bbr3_draft() {
    check("bbr3_draft", Box::new(Bbr3::new(&CcConfig { draft: true, ..CFG })));
}

#[test]
fn bbr3_tuned() {
    check("bbr3_tuned", Box::new(Bbr3::new(&CFG)));
}
