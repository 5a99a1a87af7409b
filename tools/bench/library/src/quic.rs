//! The variant that uses quinn's datagrams, with its default congestion control, CUBIC.

use crate::variant::{BULK, Client, Connects, Failure, QUESTION, Swallowed};
use quinn::{ClientConfig, Connection, Endpoint, ServerConfig, TransportConfig};
use std::net::SocketAddr;
use std::sync::Arc;

fn transport() -> Arc<TransportConfig> {
    let mut transport = TransportConfig::default();
    // Set the MTU, because quinn discovers it only after some packets, and assumes a smaller MTU if a full
    // buffer drops packets. The datagrams would then not fit.
    transport.initial_mtu(1452).min_mtu(1452);
    Arc::new(transport)
}

pub(crate) async fn serve() -> Result<(), Failure> {
    let own = rcgen::generate_simple_self_signed(["localhost".into()])?;
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
    let mut config = ServerConfig::with_single_cert(vec![own.cert.der().clone()], key.into())?;
    config.transport_config(transport());
    let endpoint = Endpoint::server(config, ([127, 0, 0, 1], 0).into())?;
    let der: String = own.cert.der().iter().map(|byte| format!("{byte:02x}")).collect();
    println!("{} {der}", endpoint.local_addr()?);
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(async move {
            let connection = incoming.await?;
            let mut swallowed = Swallowed::default();
            loop {
                let data = connection.read_datagram().await?;
                match &data[..] {
                    bulk if bulk.len() == BULK => swallowed.count(),
                    QUESTION => connection.send_datagram(swallowed.answer().into())?,
                    _ => connection.send_datagram(data)?,
                }
            }
            #[allow(unreachable_code)]
            Ok::<(), Failure>(())
        });
    }
    Ok(())
}

#[derive(Clone)]
pub(crate) struct Many {
    endpoint: Endpoint,
    to: SocketAddr,
}

pub(crate) fn connector(server: &str) -> Result<Many, Failure> {
    let (to, der) = server.split_once(' ').ok_or("no certificate")?;
    let byte = |n: usize| u8::from_str_radix(&der[n..n + 2], 16);
    let der: Vec<u8> = (0..der.len()).step_by(2).map(byte).collect::<Result<_, _>>()?;
    let mut roots = rustls::RootCertStore::empty();
    roots.add(der.into())?;
    let mut config = ClientConfig::with_root_certificates(Arc::new(roots))?;
    config.transport_config(transport());
    let mut endpoint = Endpoint::client(([127, 0, 0, 1], 0).into())?;
    endpoint.set_default_client_config(config);
    Ok(Many { endpoint, to: to.parse()? })
}

impl Connects for Many {
    type Client = Connection;

    async fn connect(&self) -> Result<Connection, Failure> {
        Ok(self.endpoint.connect(self.to, "localhost")?.await?)
    }
}

impl Client for Connection {
    async fn send(&self, data: &[u8]) -> Result<(), Failure> {
        Ok(self.send_datagram_wait(data.to_vec().into()).await?)
    }

    async fn recv(&self) -> Result<Vec<u8>, Failure> {
        Ok(self.read_datagram().await?.to_vec())
    }
}
