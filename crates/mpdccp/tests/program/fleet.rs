//! Runs a small version of the setup in docs/guides/fleet.md: two servers, a load balancer, two routers, and
//! six clients. Two of the clients use UDP, two use TLS, and two use both.

use crate::common::{able, skipped};
use std::path::Path;
use std::process::Command;

#[test]
fn a_fleet_keeps_its_clients() {
    if !able(&["nft", "bird", "python3"]) {
        return;
    }
    let tool = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/fleet/run");
    let mut command = Command::new("python3");
    command.arg(tool).args(["--servers", "2", "--clients", "6", "--encapsulations", "udp,tls,auto"]);
    command.args(["--patient", "--program"]);
    let output = command.arg(env!("CARGO_BIN_EXE_mpdccp")).output().unwrap();
    let [said, errors] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    if output.status.code() == Some(3) {
        return skipped(errors);
    }
    assert!(output.status.success(), "{said}{errors}");
}
