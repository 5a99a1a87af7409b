//! Judges a congestion control at a point, relative to the references at the same point.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::criterion::Criterion;
use super::figures::Figures;
use super::random_links::{Company, Point};

/// All runs at a point by label. Labels ending in `-alone` are runs without the competing traffic.
pub(super) type Runs = BTreeMap<String, Figures>;

/// Verdict on one variant at one point.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Verdict {
    pub(super) met: bool,
    /// Text for each limit that the variant misses.
    pub(super) why: Vec<String>,
    /// The rate divided by the required rate, which is at least 1 if the variant meets the criterion; and the
    /// start-up rate divided by that of the best reference.
    pub(super) ratio: f64,
    pub(super) start: f64,
}

impl Verdict {
    fn want(&mut self, ok: bool, what: impl FnOnce() -> String) {
        if !ok {
            self.met = false;
            self.why.push(what());
        }
    }

    /// Checks that `mbps` is at least `least`, and notes a miss.
    fn rate(&mut self, what: &str, mbps: f64, least: f64) {
        let ratio = if least > 0.0 { mbps / least } else { 1.0 };
        self.ratio = self.ratio.min(ratio);
        self.want(ratio >= 1.0, || format!("{what} {mbps:.3}, minimum {least:.3} Mbit/s"));
    }
}

fn first(f: &Figures) -> f64 {
    f.mbps.first().copied().unwrap_or(0.0)
}

/// Returns the verdict on `label`, or `None` if runs are missing.
pub(super) fn verdict(c: &Criterion, point: &Point, label: &str, runs: &Runs) -> Option<Verdict> {
    let (own, cubic, bbr) = (runs.get(label)?, runs.get("cubic")?, runs.get("bbr")?);
    let best_start = cubic.start_mbps.max(bbr.start_mbps);
    let start = if best_start > 0.0 { own.start_mbps / best_start } else { 1.0 };
    let mut v = Verdict { met: true, ratio: f64::INFINITY, start, ..Verdict::default() };
    let path_ms = runs.get("udp").map_or(0.0, |udp| udp.p95_ms);
    let queueing = |f: &Figures| (f.p95_ms - path_ms).max(0.0);
    let bound = c.bound(point.mbps, queueing(bbr));
    match &point.company {
        Company::Alone if point.app_limited() => {
            let best = cubic.delivered.max(bbr.delivered);
            v.ratio = own.delivered * c.app / best.max(1e-9);
            v.want(v.ratio >= 1.0, || {
                format!("delivered {:.1} %, the best reference {:.1} %", own.delivered * 100.0, best * 100.0)
            });
            let least = cubic.app_p95_ms.min(bbr.app_p95_ms);
            let most = c.app * least + (bound - c.delay * queueing(bbr));
            v.want(own.app_p95_ms <= most, || {
                format!("p95 of latency {:.1} ms, limit {most:.1}", own.app_p95_ms)
            });
            if point.adapts() {
                let in_time = [cubic, bbr].into_iter().filter(|f| f.app_p95_ms <= most);
                v.rate("rate of the video", first(own), c.rate * in_time.map(first).fold(0.0, f64::max));
            }
        }
        Company::Alone | Company::Short => {
            let most = c.app * cubic.short_p95_ms.max(bbr.short_p95_ms);
            v.want(own.short_p95_ms <= most, || {
                format!("p95 of short flows' completion time {:.1} ms, limit {most:.1}", own.short_p95_ms)
            });
            if let Some(twin) = runs.get(twin(label)) {
                v.rate("rate", first(own), c.twin_rate * first(twin));
                let most = c.twin * queueing(twin) + c.packets_ms(point.mbps);
                v.want(queueing(own) <= most, || {
                    format!("queueing delay {:.1} ms, limit {most:.1}", queueing(own))
                });
                let most = c.twin * (twin.lost - point.own_loss).max(0.0) + c.few_lost;
                let lost = own.lost - point.own_loss;
                v.want(lost <= most, || format!("{:.2} % lost, limit {:.2}", lost * 100.0, most * 100.0));
            } else {
                // Short flows make short queues overflow, whatever the flow under test does. Among short
                // flows, the loss limit is therefore at least the loss of the better reference.
                let least = cubic.lost.min(bbr.lost) - point.own_loss;
                let limit = if point.company == Company::Short { c.lost.max(least) } else { c.lost };
                let fits = |f: &&Figures| f.lost - point.own_loss <= limit && queueing(f) <= bound;
                let best = [cubic, bbr].into_iter().filter(fits).map(first).max_by(f64::total_cmp);
                v.rate("rate", first(own), best.map_or(c.capacity * own.capacity_mbps, |best| c.rate * best));
                v.want(queueing(own) <= bound, || {
                    format!("queueing delay {:.1} ms, limit {bound:.1}", queueing(own))
                });
                let lost = own.lost - point.own_loss;
                v.want(lost <= limit, || {
                    format!("{:.1} % lost in addition to the path's own loss", lost * 100.0)
                });
            }
        }
        Company::Own(_) => {
            let alone = runs.get(&format!("{label}-alone"))?;
            let total = |f: &Figures| f.mbps.iter().sum::<f64>();
            v.rate("rate of all flows", total(own), c.rate * first(alone));
            let others = jain(cubic).max(jain(bbr)) - c.jain_below;
            let least = if point.unequal() { others.min(c.jain) } else { c.jain };
            v.want(jain(own) >= least, || format!("Jain's index {:.2}, minimum {least:.2}", jain(own)));
        }
        Company::Tcp(others) => {
            // In the comparison run, a flow of the competitors' kind replaces the flow under test. Each
            // competitor must get at least half of its rate in the comparison run. The flow under test must
            // get at least half of the rate of the flow that replaces it there.
            for (i, cc) in others.iter().enumerate() {
                let kin = runs.get(*cc)?;
                let rate = |f: &Figures| f.mbps.get(i + 1).copied().unwrap_or(0.0);
                v.rate(&format!("rate of competing {cc}"), rate(own), c.company * rate(kin));
            }
            let least = others.iter().filter_map(|cc| runs.get(*cc)).map(first).min_by(f64::total_cmp)?;
            v.rate("rate", first(own), c.company * least);
            if !others.contains(&"cubic") && twin(label).is_empty() {
                v.want(queueing(own) <= bound, || {
                    format!("queueing delay {:.1} ms, limit {bound:.1}", queueing(own))
                });
            }
        }
    }
    Some(v)
}

/// Returns the TCP congestion control that a variant is compared with, or an empty name if the variant is
/// compared with the best reference.
pub(super) fn twin(label: &str) -> &'static str {
    match label {
        "ccid2" | "ccid3" | "ccid4" => "reno",
        "ccid7" => "cubic",
        _ => "",
    }
}

fn jain(f: &Figures) -> f64 {
    crate::metrics::jain(&f.mbps).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(mbps: &[f64], p95_ms: f64, lost: f64) -> Figures {
        Figures { mbps: mbps.to_vec(), p95_ms, lost, capacity_mbps: 10.0, ..Figures::default() }
    }

    fn point(company: Company) -> Point {
        Point { mbps: 12.0, rtt_ms: 40.0, company, ..Point::default() }
    }

    fn runs(own: Figures, cubic: Figures, bbr: Figures) -> Runs {
        let all = [("ccid5", own), ("cubic", cubic), ("bbr", bbr), ("udp", figures(&[0.1], 20.0, 0.0))];
        all.into_iter().map(|(label, f)| (label.to_owned(), f)).collect()
    }

    fn met(point: &Point, runs: &Runs) -> bool {
        verdict(&super::super::random_links::read().unwrap().criterion, point, "ccid5", runs).unwrap().met
    }

    #[test]
    fn alone_the_best_reference_that_keeps_the_limits_is_the_measure() {
        let p = point(Company::Alone);
        // CUBIC's queue is too long, so the required rate is relative to BBR's. The delay limit is 1.5 * 4 ms
        // + 3 ms + 2 packets of 1 ms = 11 ms.
        let with = |own| runs(own, figures(&[10.0], 80.0, 0.0), figures(&[8.0], 24.0, 0.0));
        assert!(met(&p, &with(figures(&[7.3], 31.0, 0.019))));
        assert!(!met(&p, &with(figures(&[7.1], 31.0, 0.0))), "rate");
        assert!(!met(&p, &with(figures(&[9.0], 31.5, 0.0))), "delay");
        assert!(!met(&p, &with(figures(&[9.0], 24.0, 0.03))), "loss");
        // BBR's loss is also too high, so the required rate is 80 % of the link's.
        let with = |own| runs(own, figures(&[10.0], 80.0, 0.0), figures(&[10.0], 24.0, 0.1));
        assert!(met(&p, &with(figures(&[8.1], 24.0, 0.0))) && !met(&p, &with(figures(&[7.9], 24.0, 0.0))));
    }

    #[test]
    fn a_video_has_the_rate_of_a_reference_in_time() {
        let p = Point { source: Some("kind = \"video\"".to_owned()), ..point(Company::Alone) };
        let with = |mbps, app_p95_ms| Figures { app_p95_ms, delivered: 1.0, ..figures(&[mbps], 24.0, 0.0) };
        // CUBIC has a higher rate, but its latency is too high, so BBR is the reference.
        let all = |own| runs(own, with(9.0, 900.0), with(4.0, 50.0));
        assert!(met(&p, &all(with(3.7, 55.0))));
        assert!(!met(&p, &all(with(3.5, 55.0))), "rate");
        assert!(!met(&p, &all(with(4.0, 90.0))), "latency");
    }

    #[test]
    fn short_flows_end_no_later_than_beside_the_worse_reference() {
        let p = point(Company::Short);
        let with = |short_p95_ms| Figures { short_p95_ms, ..figures(&[8.0], 24.0, 0.0) };
        assert!(met(&p, &runs(with(105.0), with(100.0), with(60.0))));
        assert!(!met(&p, &runs(with(115.0), with(100.0), with(60.0))));
    }

    #[test]
    fn beside_short_flows_the_reference_that_loses_less_bounds_the_losses() {
        let p = point(Company::Short);
        let all = |lost| {
            runs(figures(&[8.0], 24.0, lost), figures(&[8.0], 24.0, 0.05), figures(&[8.0], 24.0, 0.09))
        };
        assert!(met(&p, &all(0.05)) && !met(&p, &all(0.06)));
        let alone = point(Company::Alone);
        assert!(!met(&alone, &all(0.05)));
    }

    #[test]
    fn company_keeps_half_of_what_its_own_kind_leaves_it() {
        let p = point(Company::Tcp(&["cubic"]));
        let with = |own| runs(own, figures(&[5.0, 5.0], 80.0, 0.0), figures(&[8.0, 2.0], 24.0, 0.0));
        assert!(met(&p, &with(figures(&[7.4, 2.6], 90.0, 0.0))), "delay is not judged next to CUBIC");
        assert!(!met(&p, &with(figures(&[7.6, 2.4], 20.0, 0.0))));
        assert!(!met(&p, &with(figures(&[2.4, 7.6], 20.0, 0.0))));
    }

    #[test]
    fn its_own_kind_shares_what_one_gets() {
        let p = point(Company::Own(vec![(0.0, 0.0), (0.0, 0.0)]));
        let with = |own: Figures| {
            let mut all = runs(own, figures(&[5.0, 5.0], 80.0, 0.0), figures(&[8.0, 2.0], 24.0, 0.0));
            all.insert("ccid5-alone".to_owned(), figures(&[10.0], 24.0, 0.0));
            all
        };
        assert!(met(&p, &with(figures(&[4.6, 4.6], 24.0, 0.0))));
        assert!(!met(&p, &with(figures(&[4.4, 4.4], 24.0, 0.0))), "together");
        assert!(!met(&p, &with(figures(&[8.0, 2.0], 24.0, 0.0))), "Jain");
    }
}
