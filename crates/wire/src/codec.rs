//! Fields in, fields out: little-endian, unpadded, bounded.
//!
//! [`Writer`] appends to a byte vector and cannot fail. [`Reader`] borrows from the received bytes,
//! never allocates for data it has not yet seen, and fails with a [`WireError`] that is sticky: the
//! caller drops the connection, because a peer that sends one bad record cannot be trusted with the
//! next.

use crate::limits;
use std::fmt;

/// Why bytes from a peer could not be understood. Always the peer's fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WireError {
    /// The record ends before the field does.
    Truncated {
        /// Bytes the field needs.
        wanted: usize,
        /// Bytes that are left.
        left: usize,
    },
    /// Bytes are left over after the last field.
    Trailing(usize),
    /// A length or count is above its limit.
    TooLong {
        /// What the peer announced.
        got: u64,
        /// The most that is accepted.
        limit: u64,
    },
    /// A field holds a value that its type does not have.
    BadValue(&'static str),
    /// No message has this id.
    UnknownOp(u16),
    /// Text that is not UTF-8, or a C string with a NUL inside.
    BadText,
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { wanted, left } => {
                write!(
                    f,
                    "record is cut short: a field needs {wanted} bytes, {left} are left"
                )
            }
            Self::Trailing(n) => write!(f, "record has {n} bytes after its last field"),
            Self::TooLong { got, limit } => {
                write!(f, "length {got} is above the limit of {limit}")
            }
            Self::BadValue(what) => write!(f, "field holds no valid {what}"),
            Self::UnknownOp(op) => write!(f, "no message has the id {op:#06x}"),
            Self::BadText => write!(f, "text field is not valid"),
        }
    }
}

impl std::error::Error for WireError {}

/// Appends fields to a record.
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
}

macro_rules! put {
    ($($(#[$doc:meta])* $name:ident: $ty:ty),* $(,)?) => {$(
        $(#[$doc])*
        #[inline]
        pub fn $name(&mut self, v: $ty) {
            self.out.extend_from_slice(&v.to_le_bytes());
        }
    )*};
}

impl<'a> Writer<'a> {
    /// A writer that appends to `out`.
    #[inline]
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out }
    }

    put! {
        /// Appends one byte.
        u8: u8,
        /// Appends 2 bytes.
        u16: u16,
        /// Appends 4 bytes.
        u32: u32,
        /// Appends 8 bytes.
        u64: u64,
        /// Appends 4 bytes.
        i32: i32,
        /// Appends 8 bytes.
        i64: i64,
        /// Appends an IEEE single.
        f32: f32,
        /// Appends an IEEE double.
        f64: f64,
    }

    /// Appends raw bytes whose length the reader knows.
    #[inline]
    pub fn raw(&mut self, v: &[u8]) {
        self.out.extend_from_slice(v);
    }

    /// Appends a length (u32) and the bytes.
    #[inline]
    pub fn bytes(&mut self, v: &[u8]) {
        debug_assert!(v.len() <= limits::MAX_BYTES);
        self.u32(v.len() as u32);
        self.out.extend_from_slice(v);
    }

    /// Appends text as [`Writer::bytes`].
    #[inline]
    pub fn str(&mut self, v: &str) {
        self.bytes(v.as_bytes());
    }

    /// Appends a count (u32) and that many u64.
    pub fn u64s(&mut self, v: &[u64]) {
        self.u32(v.len() as u32);
        for x in v {
            self.u64(*x);
        }
    }

    /// Appends a count (u32) and that many u32.
    pub fn u32s(&mut self, v: &[u32]) {
        self.u32(v.len() as u32);
        for x in v {
            self.u32(*x);
        }
    }

    /// Bytes written so far, over the whole buffer.
    #[inline]
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// Whether the buffer is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }
}

/// Takes fields out of a received record.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    left: &'a [u8],
}

macro_rules! get {
    ($($(#[$doc:meta])* $name:ident: $ty:ty),* $(,)?) => {$(
        $(#[$doc])*
        #[inline]
        pub fn $name(&mut self) -> Result<$ty, WireError> {
            Ok(<$ty>::from_le_bytes(self.array()?))
        }
    )*};
}

impl<'a> Reader<'a> {
    /// A reader over one record's payload.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { left: bytes }
    }

    get! {
        /// Takes one byte.
        u8: u8,
        /// Takes 2 bytes.
        u16: u16,
        /// Takes 4 bytes.
        u32: u32,
        /// Takes 8 bytes.
        u64: u64,
        /// Takes 4 bytes.
        i32: i32,
        /// Takes 8 bytes.
        i64: i64,
        /// Takes an IEEE single.
        f32: f32,
        /// Takes an IEEE double.
        f64: f64,
    }

    /// Takes `n` raw bytes.
    #[inline]
    pub fn raw(&mut self, n: usize) -> Result<&'a [u8], WireError> {
        match self.left.split_at_checked(n) {
            Some((head, tail)) => {
                self.left = tail;
                Ok(head)
            }
            None => Err(WireError::Truncated {
                wanted: n,
                left: self.left.len(),
            }),
        }
    }

    /// Takes an array of raw bytes of fixed length (a plain struct of the forwarded API).
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        match self.left.split_first_chunk::<N>() {
            Some((head, tail)) => {
                self.left = tail;
                Ok(*head)
            }
            None => Err(WireError::Truncated {
                wanted: N,
                left: self.left.len(),
            }),
        }
    }

    /// Takes a length and that many bytes.
    #[inline]
    pub fn bytes(&mut self) -> Result<&'a [u8], WireError> {
        let n = self.u32()? as usize;
        if n > limits::MAX_BYTES {
            return Err(WireError::TooLong {
                got: n as u64,
                limit: limits::MAX_BYTES as u64,
            });
        }
        self.raw(n)
    }

    /// Takes text.
    pub fn str(&mut self) -> Result<&'a str, WireError> {
        std::str::from_utf8(self.bytes()?).map_err(|_| WireError::BadText)
    }

    /// Takes a count; fails when it is above `limit`, or when `each` bytes apiece cannot be there.
    pub fn count(&mut self, limit: usize, each: usize) -> Result<usize, WireError> {
        let n = self.u32()? as usize;
        if n > limit {
            return Err(WireError::TooLong {
                got: n as u64,
                limit: limit as u64,
            });
        }
        let wanted = n.saturating_mul(each);
        if wanted > self.left.len() {
            return Err(WireError::Truncated {
                wanted,
                left: self.left.len(),
            });
        }
        Ok(n)
    }

    /// Takes a count and that many u64.
    pub fn u64s(&mut self) -> Result<Vec<u64>, WireError> {
        let n = self.count(limits::MAX_ITEMS, 8)?;
        (0..n).map(|_| self.u64()).collect()
    }

    /// Takes a count and that many u32.
    pub fn u32s(&mut self) -> Result<Vec<u32>, WireError> {
        let n = self.count(limits::MAX_ITEMS, 4)?;
        (0..n).map(|_| self.u32()).collect()
    }

    /// What has not been taken yet.
    #[inline]
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.left)
    }

    /// Bytes that have not been taken yet.
    #[inline]
    pub fn left(&self) -> usize {
        self.left.len()
    }

    /// Fails when anything is left: every message is read to its last byte.
    #[inline]
    pub fn finish(&self) -> Result<(), WireError> {
        if self.left.is_empty() {
            Ok(())
        } else {
            Err(WireError::Trailing(self.left.len()))
        }
    }
}

/// One message of the protocol: the fields of one call, or of its reply.
pub trait Message<'a>: Sized {
    /// Appends the fields.
    fn encode(&self, w: &mut Writer<'_>);
    /// Takes the fields; the caller checks [`Reader::finish`].
    fn decode(r: &mut Reader<'a>) -> Result<Self, WireError>;
}

/// A reply that says nothing but that the call is done.
impl Message<'_> for () {
    fn encode(&self, _w: &mut Writer<'_>) {}

    fn decode(_r: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(())
    }
}

/// A message that opens an exchange and so has an id of its own.
pub trait Request<'a>: Message<'a> {
    /// The pinned id, unique within its API.
    const OP: u16;
    /// The name in the spec.
    const NAME: &'static str;
    /// Whether the sender goes on without an answer; else it waits for the reply.
    #[inline]
    fn queued(&self) -> bool {
        false
    }
    /// The stream that a queued call of CUDA's is for; 0 is the legacy default stream.
    #[inline]
    fn on_stream(&self) -> Option<u32> {
        None
    }
}

/// A request whose reply owns all that it says, and so can be read at once.
pub trait Asks<'a>: Request<'a> {
    /// The reply.
    type Reply: for<'r> Message<'r>;
}
