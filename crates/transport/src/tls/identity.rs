//! Keys and certificates, and how they are told apart.

use super::words::bad;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::io;
use std::str::FromStr;
use webpki::EndEntityCert;

/// What a public key is known by: SHA-256 of it, as certificates hold it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Of a certificate's key.
    pub fn of(certificate: &CertificateDer<'_>) -> io::Result<Self> {
        let parsed = EndEntityCert::try_from(certificate)
            .map_err(|e| bad(&format!("a certificate that makes no sense: {e}")))?;
        let key = parsed.subject_public_key_info();
        let hash = ring::digest::digest(&ring::digest::SHA256, &key);
        let bytes = hash.as_ref().try_into();
        Ok(Self(bytes.map_err(|_| bad("a hash of another length"))?))
    }
}

impl std::fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl std::fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for Fingerprint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bytes = text.as_bytes();
        let byte = |d: &[u8]| {
            let d = std::str::from_utf8(d)
                .ok()
                .filter(|d| !d.starts_with('+'))?;
            u8::from_str_radix(d, 16).ok()
        };
        let all: Option<Vec<_>> = bytes.chunks(2).map(byte).collect();
        let all = all.and_then(|a| a.try_into().ok()).map(Self);
        all.ok_or_else(|| format!("`{text}` is no key: a key is 64 hexadecimal digits"))
    }
}

/// What a certificate says of its owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// The URIs among the names that it is for.
    pub uris: Vec<String>,
    /// Its key.
    pub key: Fingerprint,
}

impl Certificate {
    /// What is in a certificate that was checked.
    pub fn read(der: &CertificateDer<'_>) -> io::Result<Self> {
        let parsed = EndEntityCert::try_from(der).map_err(|e| bad(&e.to_string()))?;
        Ok(Self {
            uris: parsed.valid_uri_names().map(str::to_string).collect(),
            key: Fingerprint::of(der)?,
        })
    }
}

/// The certificates in a PEM text.
pub fn certificates(pem: &[u8]) -> io::Result<Vec<CertificateDer<'static>>> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match all {
        Ok(all) if !all.is_empty() => Ok(all),
        Ok(_) => Err(bad(
            "no certificate is in it (`-----BEGIN CERTIFICATE-----`)",
        )),
        Err(e) => Err(bad(&format!("it is not PEM: {e}"))),
    }
}

/// The private key in a PEM text.
pub fn private_key(pem: &[u8]) -> io::Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_slice(pem)
        .map_err(|_| bad("no private key is in it (`-----BEGIN PRIVATE KEY-----`)"))
}
