//! The handshake: rustls's, fed record by record, so that nothing behind it is taken.

use super::Tls;
use super::identity::{Certificate, Fingerprint};
use super::schedule::{Half, SECRET, Secret, Suite};
use super::words::{HEAD, LONGEST_TEXT, alert, bad};
use crate::Connection;
use crate::lock::lock;
use crate::tcp::Tcp;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::ring::cipher_suite;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, ClientConnection, ConnectionTrafficSecrets,
    DigitallySignedStruct, Error, RootCertStore, ServerConfig, ServerConnection, SignatureScheme,
};
use std::io::{self, ErrorKind, IoSlice};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A certificate of ours, with those that vouch for it, and its key.
pub type Own = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// How long somebody who is refused is listened to, so that the reason arrives.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// By what a server is known.
#[derive(Debug, Clone)]
pub enum Trust {
    /// Its key.
    Key(Fingerprint),
    /// Its name, which one of these vouches for.
    Authority(Vec<CertificateDer<'static>>),
}

/// Two ciphers, of which processors have one built in, and the usual key exchanges.
fn provider() -> Arc<CryptoProvider> {
    let cipher_suites = vec![
        cipher_suite::TLS13_AES_128_GCM_SHA256,
        cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
    ];
    Arc::new(CryptoProvider {
        cipher_suites,
        ..ring::default_provider()
    })
}

/// Keeps the traffic secrets of one connection.
#[derive(Default)]
struct Secrets(Mutex<[Secret; 2]>);

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("secrets")
    }
}

const CLIENT: usize = 0;
const SERVER: usize = 1;

impl rustls::KeyLog for Secrets {
    fn log(&self, label: &str, _: &[u8], secret: &[u8]) {
        let whose = match label {
            "CLIENT_TRAFFIC_SECRET_0" => CLIENT,
            "SERVER_TRAFFIC_SECRET_0" => SERVER,
            _ => return,
        };
        if secret.len() == SECRET {
            lock(&self.0)[whose].copy_from_slice(secret);
        }
    }
}

/// Knows a server by its key alone, as SSH does: names and dates in the certificate say nothing.
#[derive(Debug)]
struct Pinned {
    key: Fingerprint,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let bad = |_| Error::InvalidCertificate(CertificateError::BadEncoding);
        let found = Fingerprint::of(certificate).map_err(bad)?;
        match found == self.key {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(Error::InvalidCertificate(
                CertificateError::ApplicationVerificationFailure,
            )),
        }
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.2 is not spoken".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let all = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, dss, all)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let all = &self.provider.signature_verification_algorithms;
        all.supported_schemes()
    }
}

fn roots(authority: &[CertificateDer<'static>]) -> Result<Arc<RootCertStore>, String> {
    let mut roots = RootCertStore::empty();
    for c in authority {
        let added = roots.add(c.clone());
        added.map_err(|e| format!("a certificate of the authority makes no sense: {e}"))?;
    }
    Ok(Arc::new(roots))
}

/// Dials servers that show a key.
pub struct Client {
    config: ClientConfig,
    name: ServerName<'static>,
}

impl Client {
    /// One that knows the server `host` by `trust`, and shows `own`.
    pub fn new(host: &str, trust: Trust, own: Option<Own>) -> Result<Self, String> {
        let provider = provider();
        let verifier: Arc<dyn ServerCertVerifier> = match trust {
            Trust::Key(key) => Arc::new(Pinned {
                key,
                provider: provider.clone(),
            }),
            Trust::Authority(all) => {
                WebPkiServerVerifier::builder_with_provider(roots(&all)?, provider.clone())
                    .build()
                    .map_err(|e| format!("no authority to know servers by: {e}"))?
            }
        };
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|e| e.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut config = match own {
            None => config.with_no_client_auth(),
            Some((chain, key)) => config
                .with_client_auth_cert(chain, key)
                .map_err(|e| format!("the certificate and its key are not good: {e}"))?,
        };
        config.resumption = Resumption::disabled();
        config.enable_secret_extraction = true;
        // A name that is none is not shown to the server; a key needs none.
        config.enable_sni =
            ServerName::try_from(host).is_ok_and(|n| matches!(n, ServerName::DnsName(_)));
        let unnamed = || ServerName::try_from("busbar").map_err(|e| e.to_string());
        let name = ServerName::try_from(host.to_string()).or_else(|_| unnamed())?;
        Ok(Self { config, name })
    }

    /// Makes an encrypted connection of one to the server.
    pub fn connect(&self, tcp: Tcp, limit: Duration) -> io::Result<Tls> {
        let until = Instant::now() + limit;
        let secrets = Arc::new(Secrets::default());
        let mut config = self.config.clone();
        config.key_log = secrets.clone();
        let conn = ClientConnection::new(Arc::new(config), self.name.clone());
        let conn = conn.map_err(|e| bad(&e.to_string()))?;
        let mut drive = Drive::new(&tcp, until, conn.into());
        drive.greet(&mut |step| step())?;
        let [tx, rx] = drive.halves(&secrets, [CLIENT, SERVER])?;
        tcp.send_timeout(None)?;
        tcp.recv_timeout(None)?;
        Ok(Tls::new(tcp, tx, rx, &[], &[]))
    }
}

/// Takes clients, and shows them a key.
pub struct Server {
    config: ServerConfig,
    key: Fingerprint,
}

/// Somebody who has greeted with TLS.
pub struct Stranger {
    /// The connection.
    pub conn: Tls,
    /// The certificate that it has shown, which is good.
    pub certificate: Option<Certificate>,
}

impl Server {
    /// One that shows `own`; with `authority` clients may show certificates which that has signed.
    pub fn new(own: Own, authority: Option<&[CertificateDer<'static>]>) -> Result<Self, String> {
        let provider = provider();
        let config = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|e| e.to_string())?;
        let config = match authority {
            None => config.with_no_client_auth(),
            Some(all) => config.with_client_cert_verifier(
                WebPkiClientVerifier::builder_with_provider(roots(all)?, provider)
                    .allow_unauthenticated()
                    .build()
                    .map_err(|e| format!("no authority to know clients by: {e}"))?,
            ),
        };
        let first = own.0.first().ok_or("there is no certificate")?;
        let key = Fingerprint::of(first).map_err(|e| e.to_string())?;
        let mut config = config
            .with_single_cert(own.0, own.1)
            .map_err(|e| format!("the certificate and its key do not fit: {e}"))?;
        config.send_tls13_tickets = 0;
        config.max_early_data_size = 0;
        config.enable_secret_extraction = true;
        Ok(Self { config, key })
    }

    /// What shows the same key to others who speak TLS, and asks for the same certificates.
    pub fn config(&self) -> Arc<ServerConfig> {
        let mut config = self.config.clone();
        // Their connections stay in this process.
        config.enable_secret_extraction = false;
        Arc::new(config)
    }

    /// By what clients know it.
    pub fn key(&self) -> Fingerprint {
        self.key
    }

    /// Makes an encrypted connection of a client's, by `until`. What costs a processor time is done
    /// inside of `work`, which may put it off.
    pub fn accept(
        &self,
        tcp: Tcp,
        until: Instant,
        work: &mut dyn FnMut(&mut dyn FnMut()),
    ) -> io::Result<Stranger> {
        let secrets = Arc::new(Secrets::default());
        let mut config = self.config.clone();
        config.key_log = secrets.clone();
        let conn = ServerConnection::new(Arc::new(config)).map_err(|e| bad(&e.to_string()))?;
        let mut drive = Drive::new(&tcp, until, conn.into());
        if let Err(e) = drive.greet(work) {
            tcp.last_words(LAST_WORDS);
            return Err(e);
        }
        let shown = drive.conn.peer_certificates().and_then(|c| c.first());
        let certificate = shown.map(Certificate::read).transpose()?;
        let [tx, rx] = drive.halves(&secrets, [SERVER, CLIENT])?;
        tcp.send_timeout(None)?;
        tcp.recv_timeout(None)?;
        Ok(Stranger {
            conn: Tls::new(tcp, tx, rx, &[], &[]),
            certificate,
        })
    }
}

/// Whether a connection begins with TLS, by its first three bytes. In clear a hello of that length
/// would be too long.
pub fn begins_with_tls(first: &[u8]) -> bool {
    matches!(first, [22, 3, 1..=4, ..])
}

/// A handshake in progress.
struct Drive<'a> {
    tcp: &'a Tcp,
    until: Instant,
    conn: rustls::Connection,
    record: Vec<u8>,
}

impl<'a> Drive<'a> {
    fn new(tcp: &'a Tcp, until: Instant, conn: rustls::Connection) -> Self {
        Self {
            tcp,
            until,
            conn,
            record: Vec::new(),
        }
    }

    fn left(&self) -> io::Result<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        match left.is_zero() {
            true => Err(ErrorKind::TimedOut.into()),
            false => Ok(left),
        }
    }

    fn greet(&mut self, work: &mut dyn FnMut(&mut dyn FnMut())) -> io::Result<()> {
        loop {
            self.flush()?;
            if !self.conn.is_handshaking() {
                return Ok(());
            }
            self.receive()?;
            let mut rest = &self.record[..];
            while !rest.is_empty() {
                self.conn.read_tls(&mut rest)?;
            }
            let mut done = None;
            let conn = &mut self.conn;
            work(&mut || done = Some(conn.process_new_packets()));
            match done {
                Some(Ok(_)) => {}
                Some(Err(e)) => {
                    // The peer is to hear of it.
                    let _ = self.flush();
                    return Err(explain(e));
                }
                None => return Err(ErrorKind::TimedOut.into()),
            }
        }
    }

    /// Sends what there is to send.
    fn flush(&mut self) -> io::Result<()> {
        let mut out = Vec::new();
        while self.conn.wants_write() {
            self.conn.write_tls(&mut out)?;
        }
        if out.is_empty() {
            return Ok(());
        }
        self.tcp.send_timeout(Some(self.left()?))?;
        self.tcp.send(&mut [IoSlice::new(&out)])
    }

    /// Receives one record, and nothing of what follows.
    fn receive(&mut self) -> io::Result<()> {
        self.record.resize(HEAD, 0);
        self.fill(0)?;
        let [kind, major, _, high, low] = self.record[..] else {
            return Err(bad("no head"));
        };
        let body = usize::from(u16::from_be_bytes([high, low]));
        if !(20..=23).contains(&kind) || major != 3 || body > LONGEST_TEXT + 256 {
            return Err(no(CLEAR));
        }
        self.record.resize(HEAD + body, 0);
        self.fill(HEAD)
    }

    fn fill(&mut self, mut from: usize) -> io::Result<()> {
        while from < self.record.len() {
            self.tcp.recv_timeout(Some(self.left()?))?;
            from += match self.tcp.recv(&mut self.record[from..])? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                n => n,
            };
        }
        Ok(())
    }

    /// What the records behind the handshake are encrypted with: ours, the peer's.
    fn halves(self, secrets: &Secrets, whose: [usize; 2]) -> io::Result<[Half; 2]> {
        let all = self.conn.dangerous_extract_secrets();
        let all = all.map_err(|e| bad(&e.to_string()))?;
        let half = |(records, how): (u64, ConnectionTrafficSecrets), who: usize| {
            let suite = match how {
                ConnectionTrafficSecrets::Aes128Gcm { .. } => Suite::Aes128Gcm,
                ConnectionTrafficSecrets::Chacha20Poly1305 { .. } => Suite::ChaCha20Poly1305,
                _ => return Err(bad("a cipher that was not offered")),
            };
            let secret = std::mem::take(&mut lock(&secrets.0)[who]);
            if *secret == [0; SECRET] {
                return Err(bad("the handshake gave no secret"));
            }
            Ok(Half::new(suite, secret, records))
        };
        Ok([half(all.tx, whose[0])?, half(all.rx, whose[1])?])
    }
}

/// What is said of a peer that does not answer with TLS.
const CLEAR: &str = "it answers in clear text, though it is known to encrypt: it was started with \
                     --plaintext or for its own machine alone, or somebody is in between";

/// The peer is not to be talked to.
fn no(why: &str) -> io::Error {
    io::Error::new(ErrorKind::PermissionDenied, why)
}

/// Why a handshake has failed, as an error whose kind tells what to do: `PermissionDenied` when one
/// side does not know the other.
fn explain(e: Error) -> io::Error {
    match e {
        Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure) => no(
            "it shows another key than the one that is known: if it was set up anew, log \
             in again with the line that it prints (`busbar login`); if not, somebody is in \
             between",
        ),
        Error::InvalidCertificate(why) => match why {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                no("its certificate has expired")
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                no("its certificate is not valid yet: is the clock right?")
            }
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                no("its certificate is signed by nobody who is known here")
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                no("its certificate is for another name")
            }
            why => no(&format!("its certificate is not good: {why}")),
        },
        Error::AlertReceived(
            AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied,
        ) => no("the other side does not know the key that it was shown"),
        Error::AlertReceived(what) => {
            let (kind, why) = alert(what.into());
            io::Error::new(kind, why)
        }
        Error::InvalidMessage(_) => no(CLEAR),
        e => bad(&format!("the encrypted connection cannot begin: {e}")),
    }
}
