//! Sequence arithmetic (RFC 4340 section 3.1), exhaustive where possible.

use dccp_wire::Seq;

const M: i128 = Seq::MODULUS as i128;

/// Returns the numbers at every edge of the arithmetic.
fn corners() -> Vec<u64> {
    let places =
        (0..=48).map(|bit| (1u64 << bit) % Seq::MODULUS).chain([0, 3 << 46, 0xff_ffff, 0x5555_5555_5555]);
    let mut all: Vec<u64> = places
        .flat_map(|place| (0..7).map(move |d| Seq::new(place.wrapping_add(d).wrapping_sub(3)).value()))
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Returns the distance that is congruent to `a - b` and within -2^47 .. 2^47.
fn distance(a: u64, b: u64) -> i128 {
    let d = (i128::from(a) - i128::from(b)).rem_euclid(M);
    if d >= M / 2 { d - M } else { d }
}

#[test]
fn distance_order_and_sums_of_all_corners() {
    let corners = corners();
    for &a in &corners {
        for &b in &corners {
            let (x, y, d) = (Seq::new(a), Seq::new(b), distance(a, b));
            assert_eq!(i128::from(x.diff(y)), d, "{a} - {b}");
            assert_eq!((x.after(y), x.before(y), x == y), (d > 0, d < 0, d == 0), "{a}, {b}");
            assert_eq!(i128::from(x.add(b).value()), (i128::from(a) + i128::from(b)).rem_euclid(M));
            assert_eq!(i128::from(x.sub(b).value()), (i128::from(a) - i128::from(b)).rem_euclid(M));
            assert_eq!(x.add(b).sub(b), x);
        }
    }
}

#[test]
fn windows_of_all_corners() {
    // A window has up to 2^46 numbers (RFC 4340 section 7.5.1), a quarter of all numbers.
    let widths = [0, 1, 2, 99, 1 << 20, (1 << 46) - 1, 1 << 46];
    for &low in &corners() {
        for width in widths {
            let (first, last) = (Seq::new(low), Seq::new(low).add(width));
            for near in [0u64, 1, 2, 3, 50] {
                for (n, inside) in [
                    (first.add(near), near <= width),
                    (last.sub(near), near <= width),
                    (first.sub(near + 1), false),
                    (last.add(near + 1), false),
                ] {
                    assert_eq!(n.within(first, last), inside, "{n:?} in {first:?}..={last:?}");
                }
            }
        }
    }
}

/// The extend_Sequence_Number function of RFC 4340 section 7.6.
fn pseudocode(s: u64, reference: u64) -> u64 {
    let (low, high) = (reference & 0xff_ffff, reference >> 24);
    let circular_less = |x: u64, y: u64| (1..=1 << 23).contains(&(y.wrapping_sub(x) & 0xff_ffff));
    let high = if circular_less(low, s) && s < low {
        high + 1
    } else if circular_less(s, low) && low < s {
        high.wrapping_sub(1)
    } else {
        high
    };
    (high & 0xff_ffff) << 24 | s
}

/// RFC 4340 section 7.6: the result is the nearest number with these low 24 bits. The test tries all 2^24
/// values.
#[test]
fn every_short_number_is_extended_to_the_nearest() {
    for reference in [0, 1, 0x7f_ffff, 0x80_0000, 0xff_ffff, 0x1234_5678_9abc, Seq::MODULUS - 1] {
        let reference = Seq::new(reference);
        for short in 0..1u32 << 24 {
            let full = Seq::extend(short, reference);
            assert_eq!(full.value(), pseudocode(short.into(), reference.value()), "{short} by {reference:?}");
            assert!((-(1 << 23)..=1 << 23).contains(&full.diff(reference)));
        }
    }
}
