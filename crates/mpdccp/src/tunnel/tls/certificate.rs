//! TLS certificates. TLS only makes the packets look like HTTPS; both ends are authenticated by the tunnel's
//! keys, which are used inside TLS.

use super::ALPN;
use crate::tunnel::host::state_files;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use mpdccp_tunnel::config::{Config, TlsCheck};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, ServerConfig,
    SignatureScheme,
};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use zeroize::Zeroizing;

fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    PROVIDER.get_or_init(|| Arc::new(aws_lc_rs::default_provider())).clone()
}

type Own = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// Returns the certificate and its key: those from the configured files, those in the state directory, or
/// newly created ones.
pub(super) fn own(cfg: &Config) -> Result<Own, String> {
    let (Some(certificate), Some(key)) = (&cfg.tls_certificate, &cfg.tls_key) else { return made(cfg) };
    let bad = |key: &str, file: &Path, e: &dyn std::fmt::Display| format!("{key}: {}: {e}", file.display());
    let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect);
    let chain = chain.map_err(|e| bad("tls_certificate", certificate, &e))?;
    if chain.is_empty() {
        return Err(bad("tls_certificate", certificate, &"the file contains no certificate in PEM format"));
    }
    Ok((chain, PrivateKeyDer::from_pem_file(key).map_err(|e| bad("tls_key", key, &e))?))
}

/// Returns the self-signed certificate in the state directory. It stays the same across restarts, so that
/// clients can check its digest.
fn made(cfg: &Config) -> Result<Own, String> {
    let file = cfg.state.join(format!("{}.tls.pem", cfg.interface));
    if let (Ok(certificate), Ok(key)) =
        (CertificateDer::from_pem_file(&file), PrivateKeyDer::from_pem_file(&file))
    {
        return Ok((vec![certificate], key));
    }
    let make = || -> Result<_, rcgen::Error> {
        let mut params = CertificateParams::new(vec!["localhost".into()])?;
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "localhost");
        let key = KeyPair::generate()?;
        Ok((params.self_signed(&key)?, key))
    };
    let (certificate, key) = make().map_err(|e| format!("cannot create a certificate for TLS: {e}"))?;
    let text = Zeroizing::new(
        [pem("CERTIFICATE", certificate.der()), pem("PRIVATE KEY", &key.serialize_der())]
            .map(|part| part.to_string())
            .concat(),
    );
    if let Err(e) = state_files::write_secret(&file, &text) {
        tracing::warn!(
            "the TLS certificate will change at the next start: cannot write {}: {e}",
            file.display()
        );
    }
    Ok((vec![certificate.der().clone()], PrivatePkcs8KeyDer::from(key.serialize_der()).into()))
}

fn pem(label: &str, der: &[u8]) -> Zeroizing<String> {
    let text = Zeroizing::new(BASE64_STANDARD.encode(der));
    let lines = text.as_bytes().chunks(64).flat_map(|line| [String::from_utf8_lossy(line), "\n".into()]);
    Zeroizing::new(format!("-----BEGIN {label}-----\n{}-----END {label}-----\n", lines.collect::<String>()))
}

/// Returns a server's TLS configuration. All shards use the same certificate.
pub(super) fn server(cfg: &Config) -> Result<Arc<ServerConfig>, String> {
    static SHARED: OnceLock<Arc<ServerConfig>> = OnceLock::new();
    if let Some(shared) = SHARED.get() {
        return Ok(shared.clone());
    }
    let (chain, key) = own(cfg)?;
    let digest: String = digest(&chain[0]).iter().map(|byte| format!("{byte:02x}")).collect();
    tracing::info!("TLS certificate sha256:{digest}");
    let builder = ServerConfig::builder_with_provider(provider());
    let mut config = builder
        .with_protocol_versions(&[&TLS13])
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(|e| format!("tls_key: {e}"))?;
    config.alpn_protocols = vec![ALPN.into()];
    Ok(SHARED.get_or_init(|| Arc::new(config)).clone())
}

/// Returns a client's TLS configuration.
pub(super) fn client(check: TlsCheck) -> Result<Arc<ClientConfig>, String> {
    let names = match check {
        TlsCheck::Name => {
            let mut roots = RootCertStore::empty();
            let found = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(found.certs);
            let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider()).build();
            Some(verifier.map_err(|e| {
                format!("tls_check = \"name\": cannot read the certificate authorities of this host: {e}")
            })?)
        }
        _ => None,
    };
    let builder = ClientConfig::builder_with_provider(provider());
    let builder = builder.with_protocol_versions(&[&TLS13]).map_err(|e| format!("TLS: {e}"))?;
    let verifier = Arc::new(Verifier { check, names });
    let mut config = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
    config.alpn_protocols = vec![ALPN.into()];
    Ok(Arc::new(config))
}

#[derive(Debug)]
struct Verifier {
    check: TlsCheck,
    names: Option<Arc<WebPkiServerVerifier>>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(names) = &self.names {
            return names.verify_server_cert(certificate, intermediates, name, ocsp, now);
        }
        match self.check {
            TlsCheck::Sha256(pin) if digest(certificate) != pin => {
                Err(CertificateError::ApplicationVerificationFailure.into())
            }
            _ => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &provider().signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &provider().signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}

/// Returns the SHA-256 digest of `bytes`.
pub(super) fn digest(bytes: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    out.copy_from_slice(::aws_lc_rs::digest::digest(&::aws_lc_rs::digest::SHA256, bytes).as_ref());
    out
}
