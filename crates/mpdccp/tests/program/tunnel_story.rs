//! Tests what a running tunnel logs about an outage.

use crate::common::{bed, run, wait_for};

/// While the cable is unplugged, some packets seem to leave. The log must not report that the path is up
/// again.
#[test]
fn a_pulled_cable_is_two_lines_of_the_log() {
    let Some(mut bed) = bed() else { return };
    bed.up("");
    // The cable is unplugged at the other end, so the local interface loses its link.
    run("ip", &format!("-n {} link set p0 down", bed.space[1]));
    let about = |log: &str| -> Vec<String> {
        log.lines()
            .filter(|line| line.contains("path one ") && !line.contains("bytes"))
            .map(Into::into)
            .collect()
    };
    wait_for("the log line about the failure", || {
        bed.log("c").contains("path one fails: ") || bed.log("c").contains(") fails: ")
    });
    // Wait for several checks of the interface and for many packets.
    std::thread::sleep(std::time::Duration::from_secs(4));
    run("ip", &format!("-n {} link set p0 up", bed.space[1]));
    wait_for("path one", || bed.client_path("one")["state"] == "up");
    let health = bed.tunnel("c", &["health", "--json"]);
    assert!(String::from_utf8_lossy(&health.stdout).contains("\"healthy\":true"));
    bed.down();
    let lines = about(&bed.log("c"));
    let [_up, fails, back] = &lines[..] else { panic!("{lines:#?}") };
    assert!(fails.contains("link; traffic moves to two"), "{fails}");
    assert!(back.contains("is up again after "), "{back}");
    let at_server = about(&bed.log("s"));
    assert!(
        at_server.iter().any(|line| line.contains("fails: ")),
        "by the client's name for it: {at_server:#?}"
    );
}
