//! The variants that use this project's library.

use crate::variant::{BULK, Client, Connects, Failure, QUESTION, Swallowed};
use dccp_sockets::tokio::{Connection, Connector, Listener};
use dccp_sockets::{Options, PrivateKey, SendError};
use std::future::poll_fn;
use std::iter::repeat_n;
use std::net::SocketAddr;

fn key(n: u8) -> PrivateKey {
    PrivateKey::from_random([n; 32])
}

fn options(name: &str) -> Options {
    let ccid = if name.contains("CCID 2") { 2 } else { 5 };
    Options::ccid(ccid).max_connections_per_source(4096).backlog(2048).queue(64)
}

pub(crate) async fn serve(name: &str) -> Result<(), Failure> {
    let options = match name.contains("keys") {
        true => options(name).key(key(1)).any_peer(true),
        false => options(name),
    };
    let listener = Listener::bind("127.0.0.1:0", options).await?;
    println!("{}", listener.local_addr());
    loop {
        let connection = listener.accept().await?;
        tokio::spawn(async move {
            let (mut swallowed, mut some) = (Swallowed::default(), Vec::new());
            while connection.recv_many(&mut some, 64).await.is_ok() {
                for data in some.drain(..) {
                    match &data[..] {
                        data if data.len() == BULK => swallowed.count(),
                        QUESTION => drop(connection.send(&swallowed.answer()).await),
                        data => drop(connection.send(data).await),
                    }
                }
            }
        });
    }
}

#[derive(Clone)]
pub(crate) struct Many {
    connector: Connector,
    to: SocketAddr,
}

pub(crate) fn connector(name: &str, to: &str) -> Result<Many, Failure> {
    let options = match name.contains("keys") {
        true => options(name).key(key(2)).peer(key(1).public()),
        false => options(name),
    };
    Ok(Many { connector: Connector::new(options)?, to: to.parse()? })
}

impl Connects for Many {
    type Client = Connection;

    async fn connect(&self) -> Result<Connection, Failure> {
        Ok(self.connector.connect(self.to).await?)
    }
}

impl Client for Connection {
    async fn send(&self, data: &[u8]) -> Result<(), Failure> {
        Ok(Connection::send(self, data).await?)
    }

    async fn recv(&self) -> Result<Vec<u8>, Failure> {
        Ok(Connection::recv(self).await?)
    }

    async fn send_many(&self, data: &[u8], n: usize) -> Result<(), Failure> {
        let mut left = n;
        while left > 0 {
            match self.try_send_many(repeat_n(data, left)) {
                Ok(sent) => left -= sent,
                Err(SendError::Full) => poll_fn(|cx| self.poll_send_ready(cx)).await?,
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }
}
