//! Tests that an event reports at once when one of two paths uses the other's line. This test is a separate
//! program, because it has its own network namespace.

use dccp_sockets::{Connector, Event, Options, Path};
use std::io::Write;
use std::process::Command;
use std::time::Duration;

const INSIDE: &str = "STRAYS_INSIDE";

fn ip(args: &str) -> bool {
    Command::new("ip").args(args.split_whitespace()).status().is_ok_and(|status| status.success())
}

#[test]
fn a_path_that_leaves_by_anothers_line_is_told_of() {
    if std::env::var_os(INSIDE).is_none() {
        let inside = Command::new("unshare")
            .args(["--net", "--map-root-user"])
            .arg(std::env::current_exe().unwrap())
            .args(["--nocapture", "--test-threads", "1"])
            .env(INSIDE, "1")
            .output();
        match inside {
            // If the inner process skips the test, it has printed the reason.
            Ok(out) if out.status.success() => {
                let _ = std::io::stderr().write_all(&out.stderr);
            }
            Ok(out) if String::from_utf8_lossy(&out.stderr).contains("unshare") => {
                let _ = writeln!(
                    std::io::stderr(),
                    "SKIPPED strays: no permission to create a network namespace"
                );
            }
            Ok(out) => panic!("{}", String::from_utf8_lossy(&out.stderr)),
            Err(e) => {
                let _ = writeln!(std::io::stderr(), "SKIPPED strays: unshare: {e}");
            }
        }
        return;
    }
    for (name, net) in [("dsl", 1), ("lte", 2)] {
        if !ip(&format!("link add {name} type veth peer name {name}-far")) {
            let _ = writeln!(std::io::stderr(), "SKIPPED strays: cannot create veth interfaces");
            return;
        }
        assert!(ip(&format!("addr add 10.0.{net}.1/24 dev {name}")) && ip(&format!("link set {name} up")));
        assert!(ip(&format!("link set {name}-far up")));
    }
    assert!(ip("route add default via 10.0.1.254 dev dsl"));
    let strays = |second: Path| {
        let options = Options::default().path(Path::from([10, 0, 1, 1].into())).path(second);
        let here = Connector::new(options).unwrap().start(([192, 0, 2, 9], 6511).into(), None);
        std::iter::from_fn(|| here.event_timeout(Duration::from_millis(500)))
            .find(|event| matches!(event, Event::PathStrays(..)))
    };
    let lte = Path::from([10, 0, 2, 1].into());
    let Some(Event::PathStrays(one, other)) = strays(lte.clone()) else { panic!("no event was reported") };
    assert_eq!((one.0, other.0), (1, 0));
    // A path that is bound to its interface, or has its own route, uses its own line.
    assert_eq!(strays(lte.clone().interface("lte")), None);
    assert!(ip("rule add from 10.0.2.1 table 7") && ip("route add default via 10.0.2.254 dev lte table 7"));
    assert_eq!(strays(lte), None);
}
