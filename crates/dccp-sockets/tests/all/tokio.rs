//! Tests of the tokio sockets over the loopback interface.

use ::tokio::io::{AsyncReadExt, AsyncWriteExt};
use dccp_sockets::tokio::{Connection, Connector, Listener};
use dccp_sockets::{ConnectError, Options, PresharedKey, PrivateKey, Reason, RecvError, SendError};
use std::time::Duration;

#[::tokio::test]
async fn many_clients_of_one_task_each() {
    const CLIENTS: usize = 50;
    let listener = Listener::bind("127.0.0.1:0", Options::default()).await.unwrap();
    let addr = listener.local_addr();
    ::tokio::spawn(async move {
        while let Ok(connection) = listener.accept().await {
            ::tokio::spawn(async move {
                while let Ok(data) = connection.recv().await {
                    connection.send(&data).await.unwrap();
                }
            });
        }
    });
    let connector = Connector::new(Options::default()).unwrap();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|n| {
            let connector = connector.clone();
            ::tokio::spawn(async move {
                let connection = connector.connect(addr).await.unwrap();
                let name = n.to_string().into_bytes();
                connection.send(&name).await.unwrap();
                assert_eq!(connection.recv().await.unwrap(), name);
                connection.finish().await.unwrap()
            })
        })
        .collect();
    for client in clients {
        let stats = client.await.unwrap();
        assert_eq!((stats.sent, stats.received), (1, 1));
    }
}

#[::tokio::test]
async fn ends_and_refusals() {
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let addr = silent.local_addr().unwrap();
    let impatient = Options::default().connect_timeout(Duration::from_millis(200));
    assert!(matches!(Connection::connect(addr, impatient).await, Err(ConnectError::TimedOut)));

    let listener = Listener::bind("127.0.0.1:0", Options::default()).await.unwrap();
    let here = Connection::connect(listener.local_addr(), Options::default()).await.unwrap();
    let there = listener.accept().await.unwrap();
    // Cancelling a receive loses no datagram.
    assert!(::tokio::time::timeout(Duration::from_millis(20), there.recv()).await.is_err());
    here.send(b"one").await.unwrap();
    assert_eq!(there.recv().await.unwrap(), b"one");
    here.finish().await.unwrap();
    assert_eq!(there.recv().await, Err(RecvError::Closed(Reason::ClosedByPeer)));
    assert_eq!(there.send(b"two").await, Err(SendError::Closed(Reason::ClosedByPeer)));
}

/// The task of the listener has not run yet when the peer is added.
#[::tokio::test]
async fn a_peer_can_be_added_as_soon_as_the_listener_is_bound() {
    let key = |n: u8| PrivateKey::from_random([n; 32]);
    let listener = Listener::bind("127.0.0.1:0", Options::default().key(key(1))).await.unwrap();
    listener.add_peer(key(2).public(), PresharedKey::default()).unwrap();
    let options = Options::default().key(key(2)).peer(key(1).public());
    let here = Connection::connect(listener.local_addr(), options).await.unwrap();
    assert_eq!(here.peer_key(), Some(key(1).public()));
}

/// Sends more data than any window allows, in both directions at the same time.
#[::tokio::test]
async fn streams_are_read_and_written_at_once() {
    let options = || Options::default().streams(true);
    let listener = Listener::bind("127.0.0.1:0", options()).await.unwrap();
    let addr = listener.local_addr();
    let echo = ::tokio::spawn(async move {
        let connection = listener.accept().await.unwrap();
        let stream = connection.accept_stream().await.unwrap();
        let copied = tokio::io::copy(&mut &stream, &mut &stream).await.unwrap();
        stream.finish().await.unwrap();
        copied
    });
    let connection = Connection::connect(addr, options()).await.unwrap();
    let stream = connection.open_stream().await.unwrap();
    let bytes: Vec<u8> = (0..3_000_000u32).map(|n| (n >> 3) as u8).collect();
    let write = async {
        (&stream).write_all(&bytes).await.unwrap();
        (&stream).shutdown().await.unwrap();
        assert!((&stream).write(b"more").await.is_err());
    };
    let (mut reader, mut got) = (&stream, Vec::new());
    let (_, read) = tokio::join!(write, reader.read_to_end(&mut got));
    assert_eq!((read.unwrap(), got == bytes), (bytes.len(), true));
    assert_eq!(echo.await.unwrap(), bytes.len() as u64);
}

/// The stream opens although nobody waits for it any more.
#[::tokio::test]
async fn a_cancelled_open_closes_its_stream() {
    let options = || Options::default().streams(true);
    let listener = Listener::bind("127.0.0.1:0", options()).await.unwrap();
    let here = Connection::connect(listener.local_addr(), options()).await.unwrap();
    let there = listener.accept().await.unwrap();
    let mut opening = Box::pin(here.open_stream());
    let pending = std::future::poll_fn(|cx| std::task::Poll::Ready(opening.as_mut().poll(cx).is_pending()));
    assert!(pending.await);
    drop(opening);
    let stream = there.accept_stream().await.unwrap();
    let mut got = Vec::new();
    let read = ::tokio::time::timeout(crate::PATIENT, (&stream).read_to_end(&mut got)).await;
    assert_eq!(read.expect("the stream never ends").unwrap(), 0);
}

/// Adapters of other crates work with a connection as a stream and a sink.
#[::tokio::test]
async fn a_connection_is_a_stream_and_a_sink() {
    use ::bytes::Bytes;
    use ::futures_core::Stream;
    use ::futures_sink::Sink;
    use std::future::poll_fn;
    use std::pin::Pin;
    let listener = Listener::bind("127.0.0.1:0", Options::default()).await.unwrap();
    let mut here = Connection::connect(listener.local_addr(), Options::default()).await.unwrap();
    let mut there = listener.accept().await.unwrap();
    for n in 0..100u8 {
        poll_fn(|cx| Pin::new(&mut here).poll_ready(cx)).await.unwrap();
        Pin::new(&mut here).start_send(Bytes::from(vec![n])).unwrap();
        let got = poll_fn(|cx| Pin::new(&mut there).poll_next(cx)).await.unwrap().unwrap();
        assert_eq!(got[..], [n]);
    }
    poll_fn(|cx| Pin::new(&mut here).poll_close(cx)).await.unwrap();
    assert_eq!(poll_fn(|cx| Pin::new(&mut there).poll_next(cx)).await, None);
}
