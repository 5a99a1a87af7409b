//! Tests futures that are dropped: no datagram is half sent or lost, and nothing leaks. This test is a
//! separate program, because it counts the threads of the process.
#![cfg(feature = "tokio")]

use dccp_sockets::Options;
use dccp_sockets::tokio::{Connection, Connector, Listener};
use std::future::Future;
use std::time::Duration;
use tokio::time::timeout;

const PATIENT: Duration = Duration::from_secs(20);

/// Polls a future briefly, then drops it.
async fn briefly<T>(future: impl Future<Output = T>) -> Option<T> {
    timeout(Duration::from_micros(200), future).await.ok()
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

#[tokio::test(flavor = "multi_thread")]
async fn futures_may_be_dropped_at_any_time() {
    let listener = Listener::bind("127.0.0.1:0", Options::default()).await.unwrap();
    let addr = listener.local_addr();
    for _ in 0..20 {
        assert!(briefly(listener.accept()).await.is_none());
    }
    let here = Connection::connect(addr, Options::default().queue(2)).await.unwrap();
    let there = listener.accept().await.unwrap();
    let size = here.max_datagram_size();
    let reader = tokio::spawn(async move {
        let mut received = 0;
        loop {
            match briefly(there.recv()).await {
                Some(Ok(_)) => received += 1,
                Some(Err(_)) => return received,
                None => {}
            }
        }
    });
    let mut taken = 0;
    while taken < 2_000 {
        taken += u64::from(briefly(here.send(&vec![1; size])).await.is_some_and(|sent| sent.is_ok()));
    }
    assert_eq!(here.stats().await.sent, taken, "a datagram that was not accepted must not be sent");
    // Even if `finish` is dropped, the connection has started to finish.
    assert!(briefly(here.finish()).await.is_none_or(|done| done.is_ok()));
    let stats = timeout(PATIENT, here.finish()).await.unwrap().unwrap();
    let received = timeout(PATIENT, reader).await.unwrap().unwrap();
    assert!(
        received + stats.lost >= taken && received <= taken,
        "{received} of {taken}, {} lost",
        stats.lost
    );
    drop(here);

    // The peer never answers, and the futures returned by `connect` are dropped.
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let nobody = silent.local_addr().unwrap();
    for _ in 0..10 {
        assert!(
            timeout(Duration::from_millis(20), Connection::connect(nobody, Options::default()))
                .await
                .is_err()
        );
    }
    // No thread is left waiting for an answer to a connect.
    let connector = Connector::new(Options::default()).unwrap();
    let before = threads();
    let connects: Vec<_> = (0..100)
        .map(|_| {
            let connector = connector.clone();
            tokio::spawn(async move { connector.connect(nobody).await.map(drop) })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(threads() <= before, "{} threads, {before} before", threads());
    connects.iter().for_each(tokio::task::JoinHandle::abort);
    drop(connector);
    // The listener is dropped while a task is waiting in `accept`.
    let accepting = tokio::spawn(async move { listener.accept().await.map(drop) });
    tokio::time::sleep(Duration::from_millis(20)).await;
    accepting.abort();
    assert!(accepting.await.unwrap_err().is_cancelled());
    timeout(PATIENT, async {
        while tokio::runtime::Handle::current().metrics().num_alive_tasks() > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .expect("the tasks of all connections end");
}
