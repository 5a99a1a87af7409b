#!/usr/bin/env python3
"""Prints the table of expected values in crates/dccp-cc/src/tfrc/equation_tests.rs. The values come from the throughput equation of
RFC 5348 section 3.1 in its general form, with b = 1 and t_RTO = 4 R, computed with 50 decimal digits."""

from decimal import Decimal, getcontext

getcontext().prec = 50


def throughput(s, rtt, p, b=Decimal(1)):
    t_rto = 4 * rtt
    root = (2 * b * p / 3).sqrt()
    timeouts = t_rto * (3 * (3 * b * p / 8).sqrt() * p * (1 + 32 * p * p))
    return s / (rtt * root + timeouts)


POINTS = [
    (s, rtt, p)
    for s, rtt in [("1460", "0.1"), ("1000", "0.15"), ("100", "0.02"), ("40", "2.5"), ("8960", "0.0005")]
    for p in ["1", "0.3", "0.05", "0.01", "0.001", "0.0000456", "0.0000001"]
]

for s, rtt, p in POINTS:
    x = throughput(Decimal(s), Decimal(rtt), Decimal(p))
    print(f"    ({float(s)!r}, {rtt}, {p if '.' in p else p + '.0'}, {x:.12e}),")
