//! Frames: what a transport carries.
//!
//! | bytes | field | meaning |
//! |---|---|---|
//! | 0..4 | `len` | bytes of the body |
//! | 4 | `kind` | [`Kind`] |
//! | 5 | `flags` | data: parts of the body on side connections; ping: [`SIDE`] or 0; else 0 |
//! | 6..8 | `behind` | how many frames up to `ack` are not executed; 0xffff for unknown |
//! | 8..16 | `seq` | data frames count from 1; a ping with [`SIDE`] carries a number; else 0 |
//! | 16..24 | `ack` | the last data frame that the sender has received |

use crate::codec::WireError;
use crate::limits::MAX_FRAME_BODY;

/// Bytes of a frame's header.
pub const HEADER: usize = 24;

/// Ping: its sender listens to the side connection that `seq` numbers.
pub const SIDE: u8 = 1;
/// Side connections that a main one has at most.
pub const SIDES: u8 = 3;

/// What a frame is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// The body is whole records.
    Data = 1,
    /// No body: only `ack` matters.
    Ack = 2,
    /// No body: the peer answers with an `Ack`.
    Ping = 3,
    /// First frame of a connection: a JSON document.
    Hello = 4,
    /// The answer to a hello: a JSON document.
    Welcome = 5,
}

/// A decoded frame header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Bytes of the body.
    pub len: u32,
    /// What the frame is for.
    pub kind: Kind,
    /// Data: over how many side connections the last parts of the body come, each over another.
    /// Ping: [`SIDE`] or 0.
    pub flags: u8,
    /// How many of the last frames up to `ack` its sender has not executed yet; `u16::MAX` for
    /// many.
    pub behind: u16,
    /// Sequence number of a data frame, or the side connection that a ping is about.
    pub seq: u64,
    /// Last data frame received by the sender of this frame.
    pub ack: u64,
}

impl Header {
    /// A header with nothing but a kind and a length.
    pub fn plain(kind: Kind, len: usize) -> Self {
        Self {
            len: len as u32,
            kind,
            flags: 0,
            behind: 0,
            seq: 0,
            ack: 0,
        }
    }

    /// The last data frame that its sender says it has executed, with all before it; 0 where it
    /// does not say.
    #[inline]
    pub fn executed(&self) -> u64 {
        match self.behind {
            u16::MAX => 0,
            n => self.ack.saturating_sub(n.into()),
        }
    }

    /// The header's bytes.
    #[inline]
    pub fn to_bytes(self) -> [u8; HEADER] {
        let mut b = [0; HEADER];
        b[0..4].copy_from_slice(&self.len.to_le_bytes());
        b[4] = self.kind as u8;
        b[5] = self.flags;
        b[6..8].copy_from_slice(&self.behind.to_le_bytes());
        b[8..16].copy_from_slice(&self.seq.to_le_bytes());
        b[16..24].copy_from_slice(&self.ack.to_le_bytes());
        b
    }

    /// Reads a header; the length is checked against its limit.
    #[inline]
    pub fn parse(b: &[u8; HEADER]) -> Result<Self, WireError> {
        let u64_at = |i: usize| {
            let mut x = [0; 8];
            x.copy_from_slice(&b[i..i + 8]);
            u64::from_le_bytes(x)
        };
        let len = u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
        if len as usize > MAX_FRAME_BODY {
            return Err(WireError::TooLong {
                got: len.into(),
                limit: MAX_FRAME_BODY as u64,
            });
        }
        let kind = match b[4] {
            1 => Kind::Data,
            2 => Kind::Ack,
            3 => Kind::Ping,
            4 => Kind::Hello,
            5 => Kind::Welcome,
            _ => return Err(WireError::BadValue("kind of frame")),
        };
        let most = match kind {
            Kind::Data => SIDES,
            Kind::Ping => SIDE,
            _ => 0,
        };
        if b[5] > most {
            return Err(WireError::BadValue("flag of a frame"));
        }
        let (behind, ack) = (u16::from_le_bytes([b[6], b[7]]), u64_at(16));
        if behind != u16::MAX && u64::from(behind) > ack {
            return Err(WireError::BadValue("executed frames: fewer than none"));
        }
        Ok(Self {
            len,
            kind,
            flags: b[5],
            behind,
            seq: u64_at(8),
            ack,
        })
    }
}
