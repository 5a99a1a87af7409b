//! The variant that uses plain UDP. It has neither congestion control nor connections.

use crate::variant::{BULK, Client, Connects, Failure, QUESTION, Swallowed};
use std::net::SocketAddr;
use tokio::net::UdpSocket;

pub(crate) async fn serve() -> Result<(), Failure> {
    let socket = UdpSocket::bind("127.0.0.1:0").await?;
    println!("{}", socket.local_addr()?);
    let (mut swallowed, mut bytes) = (Swallowed::default(), [0; 2000]);
    loop {
        let (len, from) = socket.recv_from(&mut bytes).await?;
        match &bytes[..len] {
            data if data.len() == BULK => swallowed.count(),
            QUESTION => drop(socket.send_to(&swallowed.answer(), from).await?),
            data => drop(socket.send_to(data, from).await?),
        }
    }
}

#[derive(Clone)]
pub(crate) struct Connector(pub(crate) SocketAddr);

impl Connects for Connector {
    type Client = UdpSocket;

    async fn connect(&self) -> Result<UdpSocket, Failure> {
        let socket = UdpSocket::bind("127.0.0.1:0").await?;
        socket.connect(self.0).await?;
        Ok(socket)
    }
}

impl Client for UdpSocket {
    async fn send(&self, data: &[u8]) -> Result<(), Failure> {
        UdpSocket::send(self, data).await?;
        Ok(())
    }

    async fn recv(&self) -> Result<Vec<u8>, Failure> {
        let mut bytes = vec![0; 2000];
        let len = UdpSocket::recv(self, &mut bytes).await?;
        bytes.truncate(len);
        Ok(bytes)
    }
}
