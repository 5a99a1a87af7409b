//! The qlog file of a connection is a JSON text sequence (RFC 7464) with events of the qlog drafts.

use crate::until;
use dccp_sockets::{Connection, Listener, Options};
use serde_json::Value;
use std::path::PathBuf;

fn records(file: &PathBuf) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.starts_with('\u{1e}') && text.ends_with('\n'));
    let records = text.split('\u{1e}').skip(1);
    records.map(|record| serde_json::from_str(record).unwrap_or_else(|e| panic!("{e}: {record}"))).collect()
}

#[test]
fn tells_packets_congestion_control_and_the_end() {
    const DATAGRAMS: usize = 200;
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("connection.qlog");
    let listener = Listener::bind("127.0.0.1:0", Options::ccid(2)).unwrap();
    let options = Options::ccid(2).qlog(&file);
    let here = Connection::connect(listener.local_addr(), options).unwrap();
    let there = listener.accept().unwrap();
    (0..DATAGRAMS).for_each(|_| here.send(&[1; 700]).unwrap());
    here.finish().unwrap();
    while there.recv().is_ok() {}
    // The data thread owns the file. Once the last handle is gone, the thread ends and the file is complete.
    drop(here);
    let whole = |records: &[Value]| records.iter().any(|r| r["name"] == "connectivity:connection_closed");
    let mut all = Vec::new();
    until(|| {
        all = records(&file);
        whole(&all)
    });
    let (header, events) = all.split_first().unwrap();
    assert_eq!(
        (header["qlog_format"].as_str(), header["qlog_version"].as_str()),
        (Some("JSON-SEQ"), Some("0.3"))
    );
    assert_eq!(header["trace"]["vantage_point"]["type"], "client");

    let named = |name: &str| events.iter().filter(|event| event["name"] == name).collect::<Vec<_>>();
    let types =
        |name| named(name).iter().map(|e| e["data"]["header"]["packet_type"].clone()).collect::<Vec<_>>();
    assert_eq!(types("transport:packet_sent")[0], "request");
    assert_eq!(types("transport:packet_received")[0], "response");
    let frames = |event: &Value| event["data"]["frames"].as_array().unwrap().clone();
    let sent = named("transport:packet_sent");
    let datagrams =
        sent.iter().flat_map(|e| frames(e)).filter(|f| f["frame_type"] == "datagram" && f["length"] == 700);
    assert_eq!(datagrams.count(), DATAGRAMS);
    let acked = named("transport:packet_received").into_iter().flat_map(frames);
    let last =
        acked.filter(|f| f["frame_type"] == "ack").filter_map(|f| f["acked_ranges"][0][1].as_u64()).max();
    let numbers: Vec<u64> =
        sent.iter().map(|e| e["data"]["header"]["packet_number"].as_u64().unwrap()).collect();
    assert!(last.is_some_and(|last| numbers.contains(&last)), "{last:?} is not a packet of this connection");

    assert!(named("recovery:congestion_state_updated").iter().any(|e| e["data"]["new"] == "slow_start"));
    let windows = named("recovery:metrics_updated");
    assert!(windows.iter().any(|e| e["data"]["congestion_window"].as_u64() > Some(0)));
    assert!(windows.iter().any(|e| e["data"]["smoothed_rtt"].as_f64() > Some(0.0)));
    assert_eq!(named("transport:parameters_set")[0]["data"]["ccid_sent"], 2);
    let times: Vec<f64> = events.iter().map(|event| event["time"].as_f64().unwrap()).collect();
    assert!(times.windows(2).all(|pair| pair[0] <= pair[1]), "{times:?}");
}
