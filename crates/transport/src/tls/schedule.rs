//! Traffic secrets and what is derived from them (RFC 8446, 7.1 to 7.3).

use ring::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf;
use zeroize::Zeroizing;

/// Bytes of a traffic secret: both suites use SHA-256.
pub(super) const SECRET: usize = 32;
/// Bytes of the tag behind what is encrypted.
pub(super) const TAG: usize = 16;
/// Bytes of an initialization vector.
const IV: usize = 12;
/// The most records under one key that are sent or taken; AES-GCM stays sound for 2^24.5.
pub(super) const MOST_RECORDS: u64 = 1 << 24;

/// How records are encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Suite {
    /// `TLS_AES_128_GCM_SHA256`
    Aes128Gcm = 1,
    /// `TLS_CHACHA20_POLY1305_SHA256`
    ChaCha20Poly1305 = 2,
}

impl Suite {
    /// From its number here.
    pub(super) fn from_u8(n: u8) -> Option<Self> {
        let all = [Self::Aes128Gcm, Self::ChaCha20Poly1305];
        all.into_iter().find(|s| *s as u8 == n)
    }

    fn algorithm(self) -> &'static aead::Algorithm {
        match self {
            Self::Aes128Gcm => &aead::AES_128_GCM,
            Self::ChaCha20Poly1305 => &aead::CHACHA20_POLY1305,
        }
    }
}

/// A traffic secret; its memory is cleared when it goes.
pub(super) type Secret = Zeroizing<[u8; SECRET]>;

/// How many bytes an expansion gives.
struct Bytes(usize);

impl hkdf::KeyType for Bytes {
    fn len(&self) -> usize {
        self.0
    }
}

/// HKDF-Expand-Label with an empty context.
fn expand(secret: &Secret, label: &str, out: &mut [u8]) {
    expand_for(secret, label, &[], out);
}

/// HKDF-Expand-Label.
fn expand_for(secret: &Secret, label: &str, context: &[u8], out: &mut [u8]) {
    let prk = hkdf::Prk::new_less_safe(hkdf::HKDF_SHA256, &secret[..]);
    let (len, labelled) = ([0, out.len() as u8], [6 + label.len() as u8]);
    let after = u8::try_from(context.len()).expect("a context of at most 255 bytes");
    let info = [
        &len[..],
        &labelled,
        b"tls13 ",
        label.as_bytes(),
        &[after],
        context,
    ];
    let filled = prk
        .expand(&info, Bytes(out.len()))
        .and_then(|o| o.fill(out));
    // At most 255 blocks of the hash can be had, and these are two.
    filled.expect("an expansion of few bytes");
}

/// One direction of a connection: what its records are encrypted with, and how many there were.
pub(super) struct Half {
    pub(super) suite: Suite,
    secret: Secret,
    key: LessSafeKey,
    iv: Zeroizing<[u8; IV]>,
    /// Records so far under this key.
    pub(super) records: u64,
}

impl Half {
    /// A direction whose next record has the number `records` under its key.
    pub(super) fn new(suite: Suite, secret: Secret, records: u64) -> Self {
        let algorithm = suite.algorithm();
        let (mut key, mut iv) = (Zeroizing::new([0; 32]), Zeroizing::new([0; IV]));
        let key = &mut key[..algorithm.key_len()];
        expand(&secret, "key", key);
        expand(&secret, "iv", &mut iv[..]);
        let key = UnboundKey::new(algorithm, key).expect("a key of the algorithm's length");
        Self {
            suite,
            secret,
            key: LessSafeKey::new(key),
            iv,
            records,
        }
    }

    /// What it takes to go on elsewhere.
    pub(super) fn secret(&self) -> &Secret {
        &self.secret
    }

    /// Goes on with the next key.
    pub(super) fn update(&mut self) {
        let mut next = Secret::default();
        expand(&self.secret, "traffic upd", &mut next[..]);
        *self = Self::new(self.suite, next, 0);
    }

    /// The same direction of another connection beside this one: keys of its own, which tell
    /// nothing of these.
    pub(super) fn branch(&self, context: &[u8]) -> Self {
        let mut secret = Secret::default();
        expand_for(&self.secret, "busbar ring", context, &mut secret[..]);
        Self::new(self.suite, secret, 0)
    }

    /// The next record's number, as the cipher takes it.
    fn nonce(&mut self) -> Nonce {
        let mut nonce = *self.iv;
        for (n, s) in nonce[IV - 8..].iter_mut().zip(self.records.to_be_bytes()) {
            *n ^= s;
        }
        self.records += 1;
        Nonce::assume_unique_for_key(nonce)
    }

    /// Encrypts in place; the tag goes behind. There are never as many records as
    /// [`MOST_RECORDS`]: the caller sees to that.
    pub(super) fn seal(&mut self, head: &[u8], text: &mut [u8]) -> [u8; TAG] {
        assert!(self.records < MOST_RECORDS, "a key was used for too long");
        let nonce = self.nonce();
        let sealed = self
            .key
            .seal_in_place_separate_tag(nonce, Aad::from(head), text);
        let tag = sealed.expect("a record is short enough for any cipher");
        tag.as_ref().try_into().expect("tags of 16 bytes")
    }

    /// Decrypts what begins at `from` in `memory`, and moves it to the start. How many bytes; none
    /// when it is not what the peer sent.
    pub(super) fn open(&mut self, head: &[u8], memory: &mut [u8], from: usize) -> Option<usize> {
        if self.records >= MOST_RECORDS {
            return None;
        }
        let nonce = self.nonce();
        let opened = self.key.open_within(nonce, Aad::from(head), memory, from..);
        opened.ok().map(|text| text.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(s: &str) -> Vec<u8> {
        let digits: Vec<_> = s.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
        let byte = |d: &[u8]| u8::from_str_radix(std::str::from_utf8(d).unwrap(), 16).unwrap();
        digits.chunks(2).map(byte).collect()
    }

    /// The server's first traffic secret of RFC 8448, section 3.
    fn server() -> Secret {
        let s = hex("a11af9f05531f856ad47116b45a950328204b4f44bfb6b3a4b4f1f3fcb631643");
        Zeroizing::new(s.try_into().unwrap())
    }

    fn client() -> Secret {
        let s = hex("9e40646ce79a7f9dc05af8889bce6552875afa0b06df0087f792ebb7c17504a5");
        Zeroizing::new(s.try_into().unwrap())
    }

    #[test]
    fn keys_are_those_of_rfc_8448() {
        for (secret, key, iv) in [
            (
                server(),
                "9f02283b6c9c07efc26bb9f2ac92e356",
                "cf782b88dd83549aadf1e984",
            ),
            (
                client(),
                "17422dda596ed5d9acd890e3c63f5051",
                "5b78923dee08579033e523d9",
            ),
        ] {
            let mut got = [0; 16];
            expand(&secret, "key", &mut got);
            assert_eq!(got[..], hex(key));
            assert_eq!(Half::new(Suite::Aes128Gcm, secret, 0).iv[..], hex(iv));
        }
    }

    #[test]
    fn records_are_those_of_rfc_8448() {
        // What the client sends first after the handshake: 50 bytes, 0 to 49.
        let record = hex(
            "17 03 03 00 43 a2 3f 70 54 b6 2c 94 d0 af fa fe 82 28 ba 55 cb ef ac ea 42 f9 14 aa 66
             bc ab 3f 2b 98 19 a8 a5 b4 6b 39 5b d5 4a 9a 20 44 1e 2b 62 97 4e 1f 5a 62 92 a2 97 70
             14 bd 1e 3d ea e6 3a ee bb 21 69 49 15 e4",
        );
        let (head, body) = record.split_at(5);
        let mut text: Vec<u8> = (0..50).chain([23]).collect();
        let tag = Half::new(Suite::Aes128Gcm, client(), 0).seal(head, &mut text);
        assert_eq!([&text[..], &tag].concat(), body);
        let mut memory = record.clone();
        let opened = Half::new(Suite::Aes128Gcm, client(), 0).open(head, &mut memory, 5);
        assert_eq!(opened, Some(51));
        assert!(memory[..51].iter().copied().eq((0..50).chain([23])));
        // Its second is the alert that ends the connection.
        let record = hex("17 03 03 00 13 c9 87 27 60 65 56 66 b7 4d 7f f1 15 3e fd 6d b6 d0 b0 e3");
        let mut memory = record.clone();
        let mut second = Half::new(Suite::Aes128Gcm, client(), 1);
        assert_eq!(second.open(&record[..5], &mut memory, 5), Some(3));
        assert_eq!(memory[..3], [1, 0, 21]);
    }

    #[test]
    fn a_key_has_its_end() {
        for suite in [Suite::Aes128Gcm, Suite::ChaCha20Poly1305] {
            let mut last = Half::new(suite, server(), MOST_RECORDS - 1);
            let mut text = [7; 3];
            let tag = last.seal(b"head", &mut text);
            let mut memory = [&text[..], &tag].concat();
            let mut peer = Half::new(suite, server(), MOST_RECORDS - 1);
            assert_eq!(peer.open(b"head", &mut memory, 0), Some(3));
            assert_eq!(memory[..3], [7; 3]);
            assert_eq!(peer.open(b"head", &mut memory, 0), None);
            peer.update();
            last.update();
            assert_eq!((peer.records, last.records), (0, 0));
            assert_eq!(peer.secret()[..], last.secret()[..]);
            assert_ne!(peer.secret()[..], server()[..]);
        }
    }
}
