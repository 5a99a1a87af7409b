//! Tests that an invalid scenario causes a single error, which names the file, the line, the key and the
//! allowed values.

use mpdccp_lab::Scenario;
use mpdccp_lab::scenario::LIBRARY;

const GOOD: &str = r#"name = "t"
title = "t"
duration_s = 10
headline = "a"
[tunnel]
scheduler = "cpf"
[[path]]
name = "p1"
rate = "10 Mbit/s"
queue = "125000 B"
events = [{ at_s = 5, rate = "1 Mbit/s" }]
[[cell]]
name = "a"
owd = "10 ms"
[[variant]]
label = "ccid2"
ccid = 2
[[flow]]
name = "f"
kind = "udp"
payload = 1300
rate = "15 Mbit/s"
[[aim]]
label = "ccid2"
metric = "rx_mbps"
min = 1
"#;

/// Checks each case. A case consists of the text to replace in `good`, its replacement, the beginning of the
/// error, and a text that the error must contain.
fn refused(good: &str, cases: &[(&str, &str, &str, &str)]) {
    Scenario::parse("t.toml", good).unwrap();
    for (from, to, begins, mentions) in cases {
        assert!(good.contains(from), "{from}");
        let error = Scenario::parse("t.toml", &good.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(error.starts_with(begins), "{to}: {error}");
        assert!(error.contains(mentions), "{to}: {error}");
    }
}

#[test]
fn the_library_is_sound() {
    for named in LIBRARY {
        let scenario = Scenario::find(named.name).unwrap();
        assert_eq!(scenario.name, named.name);
    }
}

#[test]
fn a_flow_that_cannot_be_reversed_says_why() {
    let flow = "kind = \"udp\"\npayload = 1300\nrate = \"5 Mbit/s\"\n";
    let good = format!(
        "name = \"t\"\ntitle = \"t\"\nduration_s = 10\nmode = \"direct\"\n[[path]]\nname = \"p1\"\nrate = \"10 Mbit/s\"\n\
         queue = \"125000 B\"\n[[variant]]\nlabel = \"ccid2\"\nccid = 2\n[[flow]]\nname = \"f\"\n{flow}\
         [[flow]]\nname = \"back\"\n{flow}reverse = true\n"
    );
    let cases = [
        ("mode = \"direct\"", "", "t.toml:22: reverse", "mode = \"direct\""),
        ("name = \"f\"", "name = \"f\"\nreverse = true", "t.toml:14: reverse", "the first flow"),
        ("ccid = 2", "tcp = \"cubic\"", "t.toml:22: reverse", "no variant with `tcp`"),
        (
            "reverse = true",
            "reverse = true\nshare_congestion = true",
            "t.toml:23: share_congestion",
            "a udp flow from the client",
        ),
        (
            "name = \"back\"\nkind = \"udp\"",
            "name = \"back\"\nkind = \"short\"",
            "t.toml:22: reverse",
            "kind = \"tcp\" or \"udp\"",
        ),
    ];
    refused(&good, &cases);
}

#[test]
fn wrong_scenarios_say_what_is_wrong_and_where() {
    let cases = [
        ("duration_s = 10", "duration_s = -1", "t.toml:3: duration_s", "above 0 and at most 86400"),
        (
            "[[flow]]",
            "[[flow]]\nname = \"f\"\ncount = 2\nkind = \"udp\"\npayload = 1300\nrate = \"1 Mbit/s\"\n[[flow]]",
            "t.toml:25: name",
            "flow `f` is defined twice",
        ),
        ("duration_s = 10", "duraton_s = 10", "t.toml:3: duraton_s", "duration_s"),
        ("\"cpf\"", "\"fifo\"", "t.toml:6: scheduler", "rr"),
        ("scheduler = \"cpf\"", "security = \"keys\"", "t.toml:6", "\"noise\""),
        ("scheduler = \"cpf\"", "queue_packets = 0", "t.toml:6", "expected 1 or more"),
        ("scheduler = \"cpf\"", "queue = \"500 us\"", "t.toml:6: queue", "whole number"),
        ("scheduler = \"cpf\"", "reorder_timeout = \"1.5 ms\"", "t.toml:6: reorder_timeout", "whole number"),
        (
            "scheduler = \"cpf\"",
            "policy_rule = [{ protocol = \"udp\", paths = [\"p2\"] }]",
            "t.toml:16: label",
            "unknown path",
        ),
        (
            "[tunnel]\nscheduler = \"cpf\"",
            "mode = \"direct\"\n[tunnel]\nsecurity = \"noise\"",
            "t.toml:17",
            "needs mode = \"tunnel\"",
        ),
        ("rate = \"10 Mbit/s\"", "rate = \"10 MB\"", "t.toml:9: rate", "Mbit/s"),
        ("rate = \"10 Mbit/s\"", "rate = \"0 Mbit/s\"", "t.toml:9: rate", "above 0"),
        ("rate = \"1 Mbit/s\"", "rate = \"0 Mbit/s\"", "t.toml:11: rate", "above 0"),
        ("rate = \"15 Mbit/s\"", "rate = \"0 Mbit/s\"", "t.toml:22: rate", "above 0"),
        ("rate = \"10 Mbit/s\"\n", "", "t.toml:8: name", "above 0"),
        ("owd = \"10 ms\"", "path.p1 = { owd = \"1 ms\", queue = \"9 B\" }", "t.toml:14: queue", "1500"),
        ("owd = \"10 ms\"", "rate = \"0 bit/s\"", "t.toml:14: rate", "above 0"),
        (
            "queue = \"125000 B\"\n",
            "queue = \"125000 B\"\nreverse = { burst_loss = { begin = \"2\", end = \"50 %\" } }\n",
            "t.toml:11",
            "0",
        ),
        (
            "queue = \"125000 B\"\n",
            "queue = \"125000 B\"\nreverse = { queue = \"9 B\" }\n",
            "t.toml:11: queue",
            "1500",
        ),
        ("queue = \"125000 B\"\n", "queue = \"125000 B\"\npriority = 99\n", "t.toml:11: priority", "15"),
        ("125000 B", "100 B", "t.toml:10: queue", "1500"),
        ("125000 B", "0 packets", "t.toml:10: queue", "0 packets"),
        ("at_s = 5", "at_s = 11", "t.toml:11: at_s", "10 s"),
        ("at_s = 5, rate = \"1 Mbit/s\"", "at_s = 5", "t.toml:11: at_s", "rate, owd, loss"),
        (
            "events = [{ at_s = 5, rate = \"1 Mbit/s\" }]",
            "events = [\n{ at_s = 5, up = false },\n{ at_s = 4, up = true },\n]",
            "t.toml:13: at_s",
            "order",
        ),
        ("headline = \"a\"", "headline = \"b\"", "t.toml:4: headline", "unknown cell `b`"),
        ("ccid = 2", "ccid = 99", "t.toml:17: ccid", "[2, "),
        ("ccid = 2", "ccid = 2\ncc_variant = \"best\"", "t.toml:18: cc_variant", "tuned"),
        ("ccid = 2", "tcp = \"cubic\"", "t.toml:17: tcp", "direct"),
        ("payload = 1300", "payload = 5", "t.toml:21: payload", "32"),
        ("kind = \"udp\"", "kind = \"sctp\"", "t.toml:20: kind", "udp"),
        ("kind = \"udp\"", "kind = \"tcp\"", "t.toml:19: name", "cc"),
        ("metric = \"rx_mbps\"", "metric = \"speed\"", "t.toml:25: metric", "app_p50_ms"),
        ("label = \"ccid2\"\nmetric", "label = \"ccid7\"\nmetric", "t.toml:24: label", "ccid2"),
        ("min = 1", "", "t.toml:25: metric", "`max`"),
        ("min = 1", "not_above = \"tcp\"", "t.toml:26: not_above", "ccid2"),
        ("name = \"p1\"", "name = \"p 1\"", "t.toml:8: name", "letters"),
        ("[[variant]]", "[[cell]]\nname = \"a/b\"\n[[variant]]", "t.toml: cell `a/b`", "letters"),
        ("[[variant]]", "[[cell]]\nname = \"all\"\n[[variant]]", "t.toml: cell `all`", "not `all`"),
        (
            "[[variant]]",
            "[[cell]]\nname = \"a_b\"\n[[variant]]\nlabel = \"b_ccid2\"\nccid = 2\n[[variant]]",
            "t.toml:21: label",
            "together named `a_b_ccid2`",
        ),
        ("owd = \"10 ms\"", "flow.f.rate = \"0 Mbit/s\"", "t.toml:14: f", "above 0"),
        ("owd = \"10 ms\"", "owd = 10", "t.toml:14: owd", "`10` is not a time"),
        ("owd = \"10 ms\"", "loss = 0.5", "t.toml:14: loss", "such as \"10 %\""),
        (
            "queue = \"125000 B\"\n",
            "queue = \"125000 B\"\npolicer = { rate = \"0 Mbit/s\", burst = \"9 kB\" }\n",
            "t.toml:11: policer",
            "above 0",
        ),
        ("owd = \"10 ms\"", "model = \"3g\"", "t.toml:14: model", "starlink"),
    ];
    refused(GOOD, &cases);
}

#[test]
fn a_scenario_that_is_not_there_names_those_that_are() {
    let error = Scenario::find("paper/multipath-udb").unwrap_err().to_string();
    assert!(error.contains("paper/multipath-udp"), "{error}");
}

/// A scenario with keys that the papers' experiments do not use.
const WIDER: &str = r#"name = "t"
title = "t"
duration_s = 10
[tunnel]
scheduler = "cpf"
[[path]]
name = "p1"
rate = "10 Mbit/s"
queue = "125000 B"
discipline = { kind = "codel", target = "5 ms", interval = "100 ms", ecn = true }
[[path]]
name = "back"
rate = "1 Gbit/s"
queue = "125000 B"
outside = true
[[variant]]
label = "ccid5-rr"
ccid = 5
tunnel = { scheduler = "rr", reordering = "passive" }
[[flow]]
name = "f"
kind = "udp"
payload = 1300
rate = "5 Mbit/s"
source = { kind = "poisson" }
mirror = "back"
[[flow]]
name = "g"
count = 2
kind = "tcp"
cc = "cubic"
via = "p1"
[[aim]]
label = "ccid5-rr"
metric = "mirror_offset_ms"
max = 1
[sweep]
parameters = { "flow.f.rate" = ["1 Mbit/s"] }
"#;

#[test]
fn the_wider_keys_say_what_is_allowed_too() {
    let cases = [
        ("\"rr\"", "\"rrr\"", "t.toml:19: scheduler", "cpf"),
        ("\"passive\"", "\"lazy\"", "t.toml:19: reordering", "active-fixed"),
        ("reordering = \"passive\"", "order = 1", "t.toml:19: order", "reordering"),
        ("ccid = 5", "ccid = 5\npaths = [\"back\"]", "t.toml:17: label", "at least one"),
        ("mirror = \"back\"", "mirror = \"p1\"", "t.toml:26: mirror", "outside = true"),
        ("mirror = \"back\"", "miror = \"back\"", "t.toml:26: miror", "mirror"),
        ("outside = true", "outside = false", "t.toml:26: mirror", "outside = true"),
        ("outside = true", "outside = 1", "t.toml:15: outside", "boolean"),
        ("ecn = true }", "ecn = true }\noutside = true", "t.toml:7: name", "come last"),
        (
            "[[variant]]",
            "[[path]]\nname = \"s\"\nshares = \"back\"\nowd = \"9 ms\"\n[[variant]]",
            "t.toml:18: shares",
            "only other keys",
        ),
        ("\"codel\"", "\"codl\"", "t.toml:10", "fq-codel"),
        ("\"poisson\"", "\"fish\"", "t.toml:25", "on-off"),
        ("\"poisson\"", "\"on-off\", on = \"1\", off = \"2 s\"", "t.toml:25: source", "such as"),
        ("\"poisson\"", "\"on-off\", on = \"0 s\", off = \"2 s\"", "t.toml:25: source", "above 0"),
        ("\"poisson\"", "\"trace\", file = \"none\"", "t.toml:25: source", "none"),
        ("rate = \"5 Mbit/s\"", "", "t.toml:25: source", "needs `rate`"),
        ("via = \"p1\"", "via = \"p2\"", "t.toml:32: via", "path"),
        (
            "[[variant]]",
            "[[cell]]\nname = \"c\"\nflow.g.rate = \"1 Mbit/s\"\n[[variant]]",
            "t.toml:18: g",
            "no `rate`",
        ),
        ("count = 2", "count = 0", "t.toml:29: count", "from 1 to 100"),
        ("kind = \"tcp\"", "kind = \"short\"", "t.toml:28: name", "`every`"),
        (
            "kind = \"tcp\"",
            "kind = \"short\"\nsizes = [\"9 kB\"]\nevery = \"1 us\"",
            "t.toml:32: every",
            "10000",
        ),
        ("kind = \"tcp\"", "kind = \"short\"\nsizes = [\"9 kB\", \"x\"]", "t.toml:31: sizes", "kB"),
        ("cc = \"cubic\"", "cc = \"vegas\"", "t.toml:31: cc", "reno"),
        ("mirror = \"back\"", "mirror = \"back\"\necn = true", "t.toml:27: ecn", "\"tcp\""),
        (
            "kind = \"tcp\"",
            "kind = \"short\"\nsizes = [\"9 kB\"]\nevery = \"1 s\"\nloss_detection = \"three\"",
            "t.toml:33: loss_detection",
            "\"tcp\"",
        ),
        ("\"mirror_offset_ms\"", "\"mirror\"", "t.toml:35: metric", "mirror_offset_ms"),
        ("parameters", "params", "t.toml:38: params", "parameters"),
        ("parameters", "seeds = 0\nparameters", "t.toml: sweep: `seeds`", "at least 1"),
        (
            "parameters",
            "show = [\"speed\"]\nparameters",
            "t.toml: sweep: show: unknown metric `speed`",
            "rx_mbps",
        ),
    ];
    refused(WIDER, &cases);
}
