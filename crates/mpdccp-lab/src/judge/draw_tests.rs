use super::*;
use crate::Scenario;

#[test]
fn every_point_makes_scenarios_and_classes_take_turns() {
    let distribution = read().unwrap();
    for index in 0..400 {
        let point = distribution.point(7, index);
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
