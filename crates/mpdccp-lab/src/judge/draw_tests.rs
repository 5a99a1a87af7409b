use super::*;
use crate::Scenario;

#[test]
fn every_point_makes_scenarios_and_classes_take_turns() {
    let distribution = read().unwrap();
    // On the last point, a change of the rate would be due less than half a millisecond before the end.
    for (seed, index) in (0..400).map(|index| (7, index)).chain([(258, 385)]) {
        let point = distribution.point(seed, index);
        assert_eq!(point.class, distribution.classes[index as usize % distribution.classes.len()].name);
        for (alone, thin) in [(false, false), (true, false), (true, true)] {
            let text = point.scenario(alone, thin);
            Scenario::parse("point", &text).unwrap_or_else(|e| panic!("{index}: {e}\n{text}"));
        }
    }
}

#[test]
fn a_seed_gives_the_same_points_and_another_gives_others() {
    let distribution = read().unwrap();
    let points =
        |seed| (0..50).map(|i| distribution.point(seed, i).scenario(false, false)).collect::<Vec<_>>();
    assert_eq!(points(1), points(1));
    assert!(points(1).iter().zip(points(2)).all(|(a, b)| *a != b));
}

#[test]
fn fast_links_have_shorter_runs() {
    let distribution = read().unwrap();
    let points: Vec<Point> = (0..1_400).map(|index| distribution.point(7, index)).collect();
    assert!(points.iter().any(|p| p.mbps > 500.0));
    for p in &points {
        let judged_s = p.end_s - p.settle_s;
        assert!(judged_s > distribution.judged * p.rtt_ms / 1e3 * 0.999, "{p:?}");
        if ["drop-tail", "AQM", "policed", "loss", "delay varies", "lumps", "return path"]
            .contains(&&*p.class)
        {
            let packets = p.mbps * MEGA * p.end_s / 8.0 / PACKET;
            assert!(packets <= distribution.packets * 1.001, "{p:?}");
        } else {
            assert!(judged_s > distribution.judged_s * 0.999, "{p:?}");
        }
        let burst = p.link.iter().find_map(|key| key.split_once("burst = \"")?.1.split_once(' '));
        let burst = burst.map_or(0.0, |(bytes, _)| bytes.parse().unwrap());
        assert!(burst <= (p.bytes_per_second() * p.settle_s / 2.0).max(5.0 * PACKET), "{p:?}");
    }
}
