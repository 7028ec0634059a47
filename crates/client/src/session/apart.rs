//! What is sent, where memory of the program's may be closed to it.
//!
//! An access to such memory waits for words of this session. So it must not be made while one holds
//! the channel's place for a message, nor by the thread that sends: what may be closed is read
//! before.

use busbar_channel::Bulk;
use busbar_wire::codec::{Request, Writer};

/// How it is known which memory may be closed.
#[derive(Debug, Clone, Copy)]
pub struct Closes {
    /// Whether any may.
    pub any: fn() -> bool,
    /// Whether any of so many bytes at an address may.
    pub meets: fn(u64, u64) -> bool,
}

/// The fields of a message, or what they are encoded.
pub struct Fields<'m, R> {
    message: &'m R,
    own: Option<Vec<u8>>,
}

impl<'m, 'a, R: Request<'a>> Fields<'m, R> {
    /// The fields of a message, read already where what it borrows may be closed.
    #[inline]
    pub fn of(message: &'m R, closes: Option<&Closes>) -> Self {
        let may_be = closes.is_some_and(|c| (c.any)());
        let own = may_be.then(|| encoded(message));
        Self { message, own }
    }

    /// Writes them.
    #[inline]
    pub fn write(&self, out: &mut Vec<u8>) {
        match &self.own {
            None => self.message.encode(&mut Writer::new(out)),
            Some(own) => out.extend_from_slice(own),
        }
    }
}

#[cold]
fn encoded<'a, R: Request<'a>>(message: &R) -> Vec<u8> {
    let mut own = Vec::new();
    message.encode(&mut Writer::new(&mut own));
    own
}

/// Bytes that are to be sent, if they may be closed.
pub fn read(bulk: &Bulk<'_>, closes: Option<&Closes>) -> Option<Vec<u8>> {
    let (p, n) = match bulk {
        Bulk::Copy(b) => (b.as_ptr(), b.len()),
        Bulk::Borrow(p, n) => (*p, *n),
        Bulk::Shared(..) => return None,
    };
    // SAFETY: whoever sends them says that they can be read.
    let read = || unsafe { std::slice::from_raw_parts(p, n) }.to_vec();
    (closes?.meets)(p as u64, n as u64).then(read)
}
