//! The tokio twins over the loopback interface.

use ::tokio::io::{AsyncReadExt, AsyncWriteExt};
use dccp_sockets::tokio::{Channel, Connection, Connector, Listener};
use dccp_sockets::{ConnectError, Options, Reason, RecvError, SendError};
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
    // A receive that is given up takes nothing with it.
    assert!(::tokio::time::timeout(Duration::from_millis(20), there.recv()).await.is_err());
    here.send(b"one").await.unwrap();
    assert_eq!(there.recv().await.unwrap(), b"one");
    here.finish().await.unwrap();
    assert_eq!(there.recv().await, Err(RecvError::Closed(Reason::ClosedByPeer)));
    assert_eq!(there.send(b"two").await, Err(SendError::Closed(Reason::ClosedByPeer)));
}

#[::tokio::test]
async fn reliable_messages() {
    let listener = Listener::bind("127.0.0.1:0", Options::default()).await.unwrap();
    let addr = listener.local_addr();
    let echo = ::tokio::spawn(async move {
        let channel = Channel::new(listener.accept().await.unwrap());
        while let Some(message) = channel.recv().await.unwrap() {
            channel.send(&message).await.unwrap();
        }
        channel.finish().await
    });
    let channel = Channel::new(Connection::connect(addr, Options::default()).await.unwrap());
    let long = vec![9; 300_000];
    for message in [&b"short"[..], &long, b""] {
        channel.send(message).await.unwrap();
        assert_eq!(channel.recv().await.unwrap().as_deref(), Some(message));
    }
    channel.finish().await.unwrap();
    assert_eq!(echo.await.unwrap(), Ok(()));
}

/// Both ways at a time, with more than the window holds.
#[::tokio::test]
async fn a_channel_is_a_stream_of_bytes() {
    let listener = Listener::bind("127.0.0.1:0", Options::default()).await.unwrap();
    let addr = listener.local_addr();
    let echo = ::tokio::spawn(async move {
        let channel = Channel::with_window(listener.accept().await.unwrap(), 0);
        let copied = tokio::io::copy(&mut &channel, &mut &channel).await.unwrap();
        channel.finish().await.unwrap();
        copied
    });
    let connection = Connection::connect(addr, Options::default()).await.unwrap();
    let channel = Channel::with_window(connection, 0);
    let bytes: Vec<u8> = (0..500_000u32).map(|n| n as u8).collect();
    let write = async {
        (&channel).write_all(&bytes).await.unwrap();
        (&channel).shutdown().await.unwrap();
        assert!((&channel).write(b"more").await.is_err());
    };
    let (mut reader, mut got) = (&channel, Vec::new());
    let (_, read) = tokio::join!(write, reader.read_to_end(&mut got));
    assert_eq!((read.unwrap(), got == bytes), (bytes.len(), true));
    channel.finish().await.unwrap();
    assert_eq!(echo.await.unwrap(), bytes.len() as u64);
}

/// A stream and a sink, for the adapters of others.
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
