//! Records: the unit of meaning inside a data frame.
//!
//! Client to worker, a record is a request:
//!
//! | bytes | field | meaning |
//! |---|---|---|
//! | 0..4 | `len` | bytes of header and payload together |
//! | 4..6 | `op` | the message's id in its API |
//! | 6..8 | `api` | whose the message is: 0 is the API that the session was opened for |
//! | 8..12 | `call` | nonzero when a reply is wanted: the reply repeats it |
//! | 12..16 | `scope` | what the call runs in; CUDA: the id of the calling thread's context |
//!
//! Where `api` has [`MARKED`], a mark of eight bytes is ahead of the payload.
//!
//! Worker to client it is a notice:
//!
//! | bytes | field | meaning |
//! |---|---|---|
//! | 0..4 | `len` | bytes of header and payload together |
//! | 4..6 | `kind` | [`Notice`] |
//! | 6..8 | `flags` | zero for now |
//! | 8..12 | `call` | the request it answers, or zero |
//! | 12..16 | `status` | the API's own result code |

use crate::codec::WireError;
use crate::limits::MAX_FRAME_BODY;

/// Bytes of a record's header, in either direction.
pub const HEADER: usize = 16;

/// A decoded record header. `aux` is the scope of a request or the status of a notice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Header {
    /// Bytes of header and payload together.
    pub len: u32,
    /// Message id, or the kind of a notice.
    pub op: u16,
    /// Whose message it is: 0 for the API that the session was opened for.
    pub api: u16,
    /// Call number; zero when nobody waits.
    pub call: u32,
    /// Scope (request) or status (notice).
    pub aux: u32,
}

impl Header {
    /// The header's bytes.
    #[inline]
    pub fn to_bytes(self) -> [u8; HEADER] {
        let mut b = [0; HEADER];
        b[0..4].copy_from_slice(&self.len.to_le_bytes());
        b[4..6].copy_from_slice(&self.op.to_le_bytes());
        b[6..8].copy_from_slice(&self.api.to_le_bytes());
        b[8..12].copy_from_slice(&self.call.to_le_bytes());
        b[12..16].copy_from_slice(&self.aux.to_le_bytes());
        b
    }

    /// Reads a header from the front of `bytes`.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Self, WireError> {
        let Some(b) = bytes.first_chunk::<HEADER>() else {
            return Err(WireError::Truncated {
                wanted: HEADER,
                left: bytes.len(),
            });
        };
        let u32_at = |i: usize| u32::from_le_bytes([b[i], b[i + 1], b[i + 2], b[i + 3]]);
        let u16_at = |i: usize| u16::from_le_bytes([b[i], b[i + 1]]);
        let h = Self {
            len: u32_at(0),
            op: u16_at(4),
            api: u16_at(6),
            call: u32_at(8),
            aux: u32_at(12),
        };
        if (h.len as usize) < HEADER {
            return Err(WireError::BadValue("record length"));
        }
        if h.len as usize > MAX_FRAME_BODY {
            return Err(WireError::TooLong {
                got: h.len.into(),
                limit: MAX_FRAME_BODY as u64,
            });
        }
        Ok(h)
    }
}

/// What a worker tells its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum Notice {
    /// The answer to a call; the payload is the reply message.
    Reply = 1,
    /// A piece of a call's bulk answer: u64 offset, then bytes. A `Reply` follows the last one.
    Chunk = 2,
    /// A queued call failed, or the device did; the payload says which call.
    Error = 3,
    /// Run a host function or callback; the payload is the API's own.
    Callback = 4,
    /// Text that the device printed, for the program's stdout; with call 1, for its stderr.
    Output = 5,
    /// The worker lacks content that a record named by hash; the payload is the hash.
    NeedContent = 6,
    /// The session ends; the payload says why.
    Goodbye = 7,
    /// A sentence for the client's log.
    News = 8,
    /// Word for an API beside the session's own; the payload is one of its messages.
    Word = 9,
}

impl Notice {
    /// The kind with this number.
    pub fn from_u16(v: u16) -> Result<Self, WireError> {
        Ok(match v {
            1 => Self::Reply,
            2 => Self::Chunk,
            3 => Self::Error,
            4 => Self::Callback,
            5 => Self::Output,
            6 => Self::NeedContent,
            7 => Self::Goodbye,
            8 => Self::News,
            9 => Self::Word,
            _ => return Err(WireError::BadValue("kind of notice")),
        })
    }
}

/// Walks over the whole records of a data frame's body.
pub struct Records<'a> {
    left: &'a [u8],
}

impl<'a> Records<'a> {
    /// An iterator over `body`.
    pub fn new(body: &'a [u8]) -> Self {
        Self { left: body }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<(Header, &'a [u8]), WireError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.left.is_empty() {
            return None;
        }
        let header = match Header::parse(self.left) {
            Ok(h) => h,
            Err(e) => {
                self.left = &[];
                return Some(Err(e));
            }
        };
        let Some((record, tail)) = self.left.split_at_checked(header.len as usize) else {
            let left = self.left.len();
            self.left = &[];
            return Some(Err(WireError::Truncated {
                wanted: header.len as usize,
                left,
            }));
        };
        self.left = tail;
        Some(Ok((header, &record[HEADER..])))
    }
}

/// In a record's number of its API: ahead of the payload is a mark, a number of eight bytes that
/// the client has given the call. What a device does for the call's sake is told with it.
pub const MARKED: u16 = 0x8000;
/// Bytes of a mark.
pub const MARK: usize = 8;

/// The mark of a record, and the record without it.
pub fn unmarked(h: Header, payload: &[u8]) -> Result<(Header, Option<u64>, &[u8]), WireError> {
    if h.api & MARKED == 0 {
        return Ok((h, None, payload));
    }
    let Some((mark, payload)) = payload.split_first_chunk::<MARK>() else {
        return Err(WireError::Truncated {
            wanted: MARK,
            left: payload.len(),
        });
    };
    let api = h.api & !MARKED;
    Ok((
        Header { api, ..h },
        Some(u64::from_le_bytes(*mark)),
        payload,
    ))
}

/// Ops from here on belong to the session itself, whatever its API.
pub const RESERVED: u16 = 0xff00;
/// Reserved op: content by hash, sent because a `NeedContent` asked for it. Handled by the worker's
/// reader ahead of the queue, since the queue may be waiting for it. Payload: 32-byte hash, u64
/// total, u64 offset, bytes.
pub const OP_CONTENT: u16 = 0xff01;
/// Reserved op: the client ends its session in good order. Empty payload.
pub const OP_GOODBYE: u16 = 0xff02;
/// Reserved op: a function that a `Callback` notice asked for has returned. Handled ahead of the
/// queue, since what is queued may wait for it. Payload: u32, the notice's call number.
pub const OP_CALLBACK_DONE: u16 = 0xff03;
/// Reserved op: bytes that a `Callback` notice asked for, ahead of the word that it is done.
/// Handled ahead of the queue. Payload: u32, the notice's call number; u64 offset, bytes.
pub const OP_CALLBACK_BYTES: u16 = 0xff04;
/// Reserved op: bytes for the device's memory, in the context that the scope names. Executed ahead
/// of the queue, in the order of these two ops, and before a callback counts as done whose word
/// comes later. Payload: u64 address, bytes.
pub const OP_MEMORY_IN: u16 = 0xff05;
/// Reserved op: a call for bytes of the device's memory, in the context that the scope names, which
/// come as chunks. Executed as `OP_MEMORY_IN` is. Payload: u64 address, u64 length, and the
/// [`sums`](crate::sums) of what the client has, unless it wants all: then blocks whose sums are
/// the same do not come. The answer: u64 bytes that came.
pub const OP_MEMORY_OUT: u16 = 0xff06;
/// Reserved op: bytes for one of the API's places for the program's memory, by its number. Executed
/// as `OP_MEMORY_IN` is. Payload: u32 number, u64 offset, bytes.
pub const OP_MIRROR_IN: u16 = 0xff07;
/// Reserved op: a call for all bytes of such a place, which come as chunks. Executed as
/// `OP_MEMORY_IN` is. Payload: u32 number.
pub const OP_MIRROR_OUT: u16 = 0xff08;
/// Reserved op: from now on the client is told what devices change of such bytes, and has those of
/// now, which come as chunks if it is a call. Executed as `OP_MEMORY_IN` is. Payload: u64 address,
/// u64 length, u64 the program's address of the first byte, u8 [`Heard`].
pub const OP_MEMORY_OPEN: u16 = 0xff09;
/// Reserved op: a call that is answered once the client has been told what devices have changed of
/// what is [`Heard::Watched`]. Executed as `OP_MEMORY_IN` is. Empty payload.
pub const OP_MEMORY_WATCH: u16 = 0xff0a;
/// Reserved op: as `OP_MEMORY_WATCH`, of all; answered with `CUDA_ERROR_NOT_READY` where that is
/// too much for once, and the next such call goes on. Empty payload.
pub const OP_MEMORY_LOOK: u16 = 0xff0b;
/// Reserved op: the client is told of changes of such bytes no longer. Executed as `OP_MEMORY_IN`
/// is. Payload: u64 address, u64 length.
pub const OP_MEMORY_CLOSE: u16 = 0xff0d;
/// Reserved op: bytes for the device's memory that lie among others, which stay as they are.
/// Executed as `OP_MEMORY_IN` is. Payload: u64 address, u32 how far they go, a bit for each byte
/// whether it is one of them, the bytes.
pub const OP_MEMORY_PARTS: u16 = 0xff0e;
/// Reserved op: the program is let in beside work that lasts, which may wait for it: from now on
/// bytes of the device's memory come and go even if the queue stands still. Executed as
/// `OP_MEMORY_IN` is. Empty payload.
pub const OP_MEMORY_APART: u16 = 0xff0f;
/// Reserved op: a call for an atomic operation on a word of the device's memory. Executed
/// as `OP_MEMORY_IN` is. Payload: a [`Atomic`](crate::atomics::Atomic). The answer: u64 the word
/// before that.
pub const OP_MEMORY_ATOMIC: u16 = 0xff10;
/// Reserved op: a call of an API beside the session's own that is not for the queue: what it is to
/// end may hold the queue up. Payload: that API's message.
pub const OP_AT_ONCE: u16 = 0xff0c;

/// When a client is told what devices have changed of the program's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Heard {
    /// Ahead of every word that work is over.
    WithAnswers = 0,
    /// When it asks, as it does while work is under way.
    Watched = 1,
    /// When it asks, as it does where the program hears that work is over.
    AtWaits = 2,
}

impl Heard {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::WithAnswers, Self::Watched, Self::AtWaits];

    /// What a byte means.
    pub fn from_byte(byte: u8) -> Result<Self, WireError> {
        Self::ALL
            .into_iter()
            .find(|h| *h as u8 == byte)
            .ok_or(WireError::BadValue("when changes are told"))
    }
}
