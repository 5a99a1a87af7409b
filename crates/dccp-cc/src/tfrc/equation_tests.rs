use super::*;
use proptest::prelude::*;

/// Segment size in bytes, R in seconds, p, and the rate in bytes per second. `tools/tfrc_equation.py`
/// computes this rate from the general form of the equation.
const GOLDEN: [(f64, f64, f64, f64); 35] = [
    (1460.0, 0.1, 1.0, 6.000427893395e+1),
    (1460.0, 0.1, 0.3, 2.844771041434e+3),
    (1460.0, 0.1, 0.05, 5.381392556915e+4),
    (1460.0, 0.1, 0.01, 1.640050621700e+5),
    (1460.0, 0.1, 0.001, 5.604117018312e+5),
    (1460.0, 0.1, 0.0000456, 2.646902024239e+6),
    (1460.0, 0.1, 0.0000001, 5.654550596367e+7),
    (1000.0, 0.15, 1.0, 2.739921412509e+1),
    (1000.0, 0.15, 0.3, 1.298982210700e+3),
    (1000.0, 0.15, 0.05, 2.457256875304e+4),
    (1000.0, 0.15, 0.01, 7.488815624200e+4),
    (1000.0, 0.15, 0.001, 2.558957542608e+5),
    (1000.0, 0.15, 0.0000456, 1.208631061296e+6),
    (1000.0, 0.15, 0.0000001, 2.581986573684e+7),
    (100.0, 0.02, 1.0, 2.054941059382e+1),
    (100.0, 0.02, 0.3, 9.742366580254e+2),
    (100.0, 0.02, 0.05, 1.842942656478e+4),
    (100.0, 0.02, 0.01, 5.616611718150e+4),
    (100.0, 0.02, 0.001, 1.919218156956e+5),
    (100.0, 0.02, 0.0000456, 9.064732959721e+5),
    (100.0, 0.02, 0.0000001, 1.936489930263e+7),
    (40.0, 2.5, 1.0, 6.575811390022e-2),
    (40.0, 2.5, 0.3, 3.117557305681e+0),
    (40.0, 2.5, 0.05, 5.897416500729e+1),
    (40.0, 2.5, 0.01, 1.797315749808e+2),
    (40.0, 2.5, 0.001, 6.141498102260e+2),
    (40.0, 2.5, 0.0000456, 2.900714547111e+3),
    (40.0, 2.5, 0.0000001, 6.196767776841e+4),
    (8960.0, 0.0005, 1.0, 7.364908756825e+4),
    (8960.0, 0.0005, 0.3, 3.491664182363e+6),
    (8960.0, 0.0005, 0.05, 6.605106480816e+7),
    (8960.0, 0.0005, 0.01, 2.012993639785e+8),
    (8960.0, 0.0005, 0.001, 6.878477874531e+8),
    (8960.0, 0.0005, 0.0000456, 3.248800292764e+9),
    (8960.0, 0.0005, 0.0000001, 6.940379910062e+10),
];

#[test]
fn golden_table() {
    for (s, rtt, p, rate) in GOLDEN {
        let got = throughput(s, rtt, p);
        assert!((got / rate - 1.0).abs() < 1e-9, "s {s} R {rtt} p {p}: {got}, not {rate}");
    }
}

#[test]
fn inverse_of_the_golden_table() {
    for (s, rtt, p, rate) in GOLDEN {
        let got = loss_event_rate_for(rate, s, rtt);
        assert!((got / p - 1.0).abs() < 1e-9, "s {s} R {rtt} p {p}: {got}");
    }
    // The first rate is below the rate at one loss event per packet. The second is infinite.
    assert_eq!(loss_event_rate_for(1e-9, 1000.0, 0.1), 1.0);
    assert!(loss_event_rate_for(f64::INFINITY, 1000.0, 0.1) <= 1.001e-12);
    assert!(loss_event_rate_for(0.0, 1000.0, 0.1) == 1.0);
}

proptest! {
    #[test]
    fn more_losses_or_a_longer_round_trip_are_slower(
        s in 1.0..9000.0f64, rtt in 1e-5..10.0f64, p in 1e-9..0.9f64, more in 1.001..1.1f64,
    ) {
        prop_assert!(throughput(s, rtt, p * more) < throughput(s, rtt, p));
        prop_assert!(throughput(s, rtt * more, p) < throughput(s, rtt, p));
        let back = loss_event_rate_for(throughput(s, rtt, p), s, rtt);
        // The result is far more precise than the 5 % of the rate that RFC 5348 section 6.3.1 allows.
        prop_assert!((throughput(s, rtt, back) / throughput(s, rtt, p) - 1.0).abs() < 1e-6);
    }
}
