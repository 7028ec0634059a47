//! What records say, in numbers and in sentences.

use std::io;

/// Bytes of a record's head.
pub(super) const HEAD: usize = 5;
/// The longest text of a record.
pub(super) const LONGEST_TEXT: usize = 16 << 10;
pub(super) const TYPE_ALERT: u8 = 21;
pub(super) const TYPE_HANDSHAKE: u8 = 22;
pub(super) const TYPE_DATA: u8 = 23;
/// "What follows has the next key", and none is asked for.
pub(super) const KEY_UPDATE: [u8; 5] = [24, 0, 0, 1, 0];
/// The alerts that are sent: a fatal one and the end.
pub(super) const BAD_RECORD: [u8; 2] = [2, 20];
pub(super) const CLOSE: [u8; 2] = [1, 0];

pub(super) fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// What the peer ended the connection for, in a sentence.
pub(super) fn alert(what: u8) -> (io::ErrorKind, String) {
    let certificate = |why: &str| {
        let text = format!("the server does not take this client's certificate: {why}");
        (io::ErrorKind::PermissionDenied, text)
    };
    match what {
        42 | 43 | 46 | 49 => certificate("it is not valid there"),
        44 => certificate("it has been revoked"),
        45 => certificate("it has expired"),
        48 | 51 => certificate("nobody who is known there has signed it"),
        116 => certificate("it wants one, and there is none"),
        80 => {
            let text = "the server has no room for another client: try later";
            (io::ErrorKind::ConnectionAborted, text.into())
        }
        n => {
            let text = format!("the peer ended the encrypted connection (alert {n})");
            (io::ErrorKind::ConnectionAborted, text)
        }
    }
}
