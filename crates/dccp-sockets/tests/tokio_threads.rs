//! Tests that the protocol is a task in the runtime: sockets for tokio start no threads, work as long as the
//! runtime runs, and share descriptors between connections. This test is a separate program, because it
//! counts threads and descriptors.

#![cfg(feature = "tokio")]
#![allow(clippy::unwrap_used, reason = "tests")]

use dccp_sockets::Options;
use dccp_sockets::tokio::{Connection, Connector, Listener};
use std::time::Duration;

/// Returns the number of the protocol's threads. The runtime's own threads are not counted: they look up
/// names, and may come and go.
fn data_threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names =
        tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).unwrap_or_default());
    names.filter(|name| name.trim() == "dccp").count()
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

async fn echo(connection: &Connection) {
    for n in 0..100u8 {
        connection.send(&[n]).await.unwrap();
        assert_eq!(connection.recv().await.unwrap(), [n]);
    }
}

#[test]
fn tasks_of_a_runtime_need_no_threads() {
    for flavor in ["one thread", "several threads"] {
        let mut builder = match flavor {
            "one thread" => tokio::runtime::Builder::new_current_thread(),
            _ => tokio::runtime::Builder::new_multi_thread(),
        };
        let runtime = builder.enable_all().build().unwrap();
        let connection = runtime.block_on(async {
            let listener = Listener::bind("127.0.0.1:0", Options::default()).await.unwrap();
            let addr = listener.local_addr();
            tokio::spawn(async move {
                let connection = listener.accept().await.unwrap();
                while let Ok(data) = connection.recv().await {
                    connection.send(&data).await.unwrap();
                }
                // A call that waits for the driver works even though the driver is a task in the same
                // runtime.
                listener.send_listen(addr, 5).unwrap();
            });
            let connection = Connection::connect(addr, Options::default()).await.unwrap();
            echo(&connection).await;
            assert_eq!(data_threads(), 0, "{flavor}");
            assert_eq!(connection.stats().await.received, 100);
            connection
        });
        // When the runtime ends, its tasks end, including the driver. No call may then wait for the driver
        // forever.
        drop(runtime);
        let other = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        other.block_on(async {
            let end = tokio::time::timeout(Duration::from_secs(30), connection.recv()).await;
            assert!(end.is_ok_and(|received| received.is_err()), "{flavor}");
            assert!(connection.send(b"late").await.is_err(), "{flavor}");
        });
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = Listener::bind("127.0.0.1:0", Options::default()).await.unwrap();
        let connector = Connector::new(Options::default()).unwrap();
        let mut open =
            vec![(connector.connect(listener.local_addr()).await.unwrap(), listener.accept().await.unwrap())];
        let before = descriptors();
        for _ in 0..20 {
            open.push((
                connector.connect(listener.local_addr()).await.unwrap(),
                listener.accept().await.unwrap(),
            ));
        }
        assert_eq!(descriptors(), before);
    });
    // Outside a runtime, a thread runs the protocol.
    let connector = Connector::new(Options::default()).unwrap();
    // Wait, because a thread sets its name only after it has started.
    while data_threads() != 1 {
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(connector);
}
