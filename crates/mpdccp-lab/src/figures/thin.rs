//! Reduces the number of points in a series without changing what its drawing looks like.

/// Maximum number of points per series in a figure.
pub(super) const MOST: usize = 1600;
/// Points kept per bin: the lowest, the highest and two others.
const KEPT: usize = 4;

/// Returns at most [`MOST`] of the `points` in `span`, sorted by horizontal position. The span is divided
/// into equal bins. Each bin keeps its lowest point, its highest point and two others, so that both spikes
/// and bands remain visible.
pub(super) fn thin(mut points: Vec<(f64, f64)>, span: (f64, f64)) -> Vec<(f64, f64)> {
    points.retain(|(x, y)| (span.0..=span.1).contains(x) && y.is_finite());
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    if points.len() <= MOST {
        return points;
    }
    let bins = (MOST / KEPT) as f64;
    let width = (span.1 - span.0) / bins;
    let bin = |x: f64| ((x - span.0) / width).clamp(0.0, bins - 1.0) as usize;
    let mut out = Vec::with_capacity(MOST);
    for chunk in points.chunk_by(|a, b| bin(a.0) == bin(b.0)) {
        if chunk.len() <= KEPT {
            out.extend_from_slice(chunk);
            continue;
        }
        let mut sorted = chunk.to_vec();
        sorted.sort_by(|a, b| a.1.total_cmp(&b.1));
        let mut kept: Vec<(f64, f64)> =
            (0..KEPT).map(|i| sorted[i * (sorted.len() - 1) / (KEPT - 1)]).collect();
        kept.sort_by(|a, b| a.0.total_cmp(&b.0));
        out.extend(kept);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extremes_survive_and_the_number_is_bounded() {
        let mut points: Vec<(f64, f64)> =
            (0..100_000).map(|i| (f64::from(i) / 1e4, f64::from(i % 7))).collect();
        points[54_321].1 = 99.0;
        points[54_400].1 = -5.0;
        points.push((3.0, f64::NAN));
        let thinned = thin(points, (0.0, 10.0));
        assert!(thinned.len() <= MOST && thinned.len() > MOST / 2, "{}", thinned.len());
        assert!(thinned.contains(&(5.4321, 99.0)) && thinned.contains(&(5.44, -5.0)));
        assert!(thinned.is_sorted_by(|a, b| a.0 <= b.0));
    }

    #[test]
    fn few_points_stay_as_they_are() {
        assert_eq!(thin(vec![(0.0, 1.0), (5.0, 2.0), (50.0, 2.0)], (0.0, 10.0)), [(0.0, 1.0), (5.0, 2.0)]);
    }
}
