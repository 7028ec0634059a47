//! An organisation that signs certificates.

/// An authority, and who it has signed.
pub struct Authority {
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
    /// Its certificate.
    pub pem: String,
}

impl Authority {
    /// A new one.
    ///
    /// # Panics
    /// When it cannot be made.
    #[expect(clippy::new_without_default, reason = "no two are the same")]
    pub fn new() -> Self {
        let mut p = rcgen::CertificateParams::new(vec![]).expect("parameters");
        p.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().expect("a key");
        let root = p.self_signed(&key).expect("a certificate");
        let pem = pem("CERTIFICATE", root.der());
        let issuer = rcgen::Issuer::new(p, key);
        Self { issuer, pem }
    }

    /// Certificate and key, in one text.
    ///
    /// # Panics
    /// When it cannot be made.
    pub fn sign(&self, uri: &str, year: i32) -> String {
        let mut p = rcgen::CertificateParams::new(["127.0.0.1", "localhost"].map(String::from))
            .expect("parameters");
        let uri = rcgen::string::Ia5String::try_from(uri).expect("a URI");
        p.subject_alt_names.push(rcgen::SanType::URI(uri));
        p.not_after = rcgen::date_time_ymd(year, 1, 1);
        let key = rcgen::KeyPair::generate().expect("a key");
        let made = p.signed_by(&key, &self.issuer).expect("a certificate");
        pem("CERTIFICATE", made.der()) + &pem("PRIVATE KEY", &key.serialize_der())
    }
}

fn pem(what: &str, der: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for part in der.chunks(3) {
        let n = part.iter().fold(0u32, |n, b| n << 8 | u32::from(*b)) << (8 * (3 - part.len()));
        for i in 0..4 {
            let digit = DIGITS[(n >> (18 - 6 * i)) as usize & 63];
            text.push(if i > part.len() {
                '='
            } else {
                char::from(digit)
            });
        }
    }
    let lines: Vec<_> = text
        .as_bytes()
        .chunks(64)
        .map(String::from_utf8_lossy)
        .collect();
    format!(
        "-----BEGIN {what}-----\n{}\n-----END {what}-----\n",
        lines.join("\n")
    )
}
