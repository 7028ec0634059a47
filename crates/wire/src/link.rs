//! What goes over a link between the workers of two servers: pieces of copies, each behind a head
//! that says which.
//!
//! | bytes | field | meaning |
//! |---|---|---|
//! | 0..8 | `piece` | the number that the client has given the piece |
//! | 8..12 | `len` | how many bytes follow |
//! | 12..16 | `came` | 0, or 1 for a piece that could not be read, of which nothing follows |

use crate::codec::WireError;
use crate::limits::LINK_PIECE;

/// Bytes of a head.
pub const HEAD: usize = 16;

/// What has become of a piece, for the client that waits for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Came {
    /// All of it is there.
    Whole = 0,
    /// It could not be read.
    Unread = 1,
    /// The link is lost.
    Lost = 2,
    /// There is no room for it now.
    NoRoom = 3,
}

impl Came {
    /// From what a worker says.
    pub fn from_u32(n: u32) -> Result<Self, WireError> {
        match n {
            0 => Ok(Self::Whole),
            1 => Ok(Self::Unread),
            2 => Ok(Self::Lost),
            3 => Ok(Self::NoRoom),
            _ => Err(WireError::BadValue("fate of a piece")),
        }
    }
}

/// The head of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Its number.
    pub piece: u64,
    /// Its length; nothing of one that could not be read.
    pub len: Option<usize>,
}

impl Head {
    /// As it travels.
    pub fn to_bytes(self) -> [u8; HEAD] {
        let mut out = [0; HEAD];
        out[..8].copy_from_slice(&self.piece.to_le_bytes());
        let len = self.len.unwrap_or(0) as u32;
        out[8..12].copy_from_slice(&len.to_le_bytes());
        out[12..].copy_from_slice(&u32::from(self.len.is_none()).to_le_bytes());
        out
    }

    /// As it came.
    pub fn parse(bytes: &[u8; HEAD]) -> Result<Self, WireError> {
        let word = |at: usize| {
            let mut word = [0; 4];
            word.copy_from_slice(&bytes[at..at + 4]);
            u32::from_le_bytes(word)
        };
        let piece = u64::from(word(0)) | u64::from(word(4)) << 32;
        let len = match (word(12), word(8) as usize) {
            (0, len) if (1..=LINK_PIECE).contains(&len) => Some(len),
            (1, 0) => None,
            _ => return Err(WireError::BadValue("head of a piece")),
        };
        Ok(Self { piece, len })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_comes_as_it_went_and_others_are_refused() {
        for len in [None, Some(1), Some(LINK_PIECE)] {
            let head = Head {
                piece: 0x0123_4567_89ab_cdef,
                len,
            };
            assert_eq!(Head::parse(&head.to_bytes()).unwrap(), head);
        }
        let with = |len: u32, came: u32| {
            let mut bytes = [7; HEAD];
            bytes[8..12].copy_from_slice(&len.to_le_bytes());
            bytes[12..].copy_from_slice(&came.to_le_bytes());
            Head::parse(&bytes)
        };
        assert!(with(1, 0).is_ok() && with(0, 1).is_ok());
        for (len, came) in [(0, 0), (LINK_PIECE as u32 + 1, 0), (1, 1), (0, 2), (0, 3)] {
            assert!(with(len, came).is_err(), "{len} {came}");
        }
        for came in [Came::Whole, Came::Unread, Came::Lost, Came::NoRoom] {
            assert_eq!(Came::from_u32(came as u32).unwrap(), came);
        }
        assert!(Came::from_u32(4).is_err());
    }
}
