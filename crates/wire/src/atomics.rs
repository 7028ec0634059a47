//! Atomic operations on a word of memory.

use std::num::Wrapping;

/// What is done to a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Operation {
    /// The operand is added.
    Add = 0,
    /// The bits that both have are left.
    And = 1,
    /// The bits that either has are there.
    Or = 2,
    /// The operand's bits are turned over.
    Xor = 3,
    /// The operand takes its place.
    Exchange = 4,
    /// The same, if the word is the expected one.
    Compare = 5,
}

impl Operation {
    const ALL: [Self; 6] = [
        Self::Add,
        Self::And,
        Self::Or,
        Self::Xor,
        Self::Exchange,
        Self::Compare,
    ];

    /// What becomes of a word.
    pub fn of(self, had: u64, operand: u64, expected: u64) -> u64 {
        match self {
            Self::Add => (Wrapping(had) + Wrapping(operand)).0,
            Self::And => had & operand,
            Self::Or => had | operand,
            Self::Xor => had ^ operand,
            Self::Exchange => operand,
            Self::Compare if had == expected => operand,
            Self::Compare => had,
        }
    }
}

/// An atomic operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Atomic {
    /// The word's address.
    pub at: u64,
    /// Its bytes: 1, 2, 4, or 8.
    pub width: u8,
    /// What is done to it.
    pub operation: Operation,
    /// The other operand.
    pub operand: u64,
    /// What [`Operation::Compare`] compares the word to.
    pub expected: u64,
}

/// Bytes of one on the wire.
const LEN: usize = 26;

impl Atomic {
    /// Whether the word is one, and lies where words of that length do.
    pub fn is_whole(&self) -> bool {
        matches!(self.width, 1 | 2 | 4 | 8) && self.at.is_multiple_of(u64::from(self.width))
    }

    /// Payload: u64 address, u64 operand, u64 expected word, u8 width, u8 what is done.
    pub fn encode(&self, out: &mut Vec<u8>) {
        for number in [self.at, self.operand, self.expected] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend([self.width, self.operation as u8]);
    }

    /// What was encoded, if that is a word and something that is done to one.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; LEN] = bytes.try_into().ok()?;
        let number = |at: usize| bytes[at..].first_chunk().map(|b| u64::from_le_bytes(*b));
        let atomic = Self {
            at: number(0)?,
            operand: number(8)?,
            expected: number(16)?,
            width: bytes[24],
            operation: *Operation::ALL.get(usize::from(bytes[25]))?,
        };
        atomic.is_whole().then_some(atomic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_comes_as_it_went_and_what_is_none_does_not() {
        for (i, operation) in Operation::ALL.into_iter().enumerate() {
            assert_eq!(operation as usize, i);
            let atomic = Atomic {
                at: 0x7f00_1234_5678,
                width: 8,
                operation,
                operand: u64::MAX - 5,
                expected: 3,
            };
            let mut bytes = Vec::new();
            atomic.encode(&mut bytes);
            assert_eq!(bytes.len(), LEN);
            assert_eq!(Atomic::decode(&bytes), Some(atomic));
            assert_eq!(Atomic::decode(&bytes[1..]), None);
            for (at, wrong) in [(0, 1), (24, 3), (24, 0), (25, 6)] {
                let mut bytes = bytes.clone();
                bytes[at] = wrong;
                assert_eq!(Atomic::decode(&bytes), None, "{at} {wrong}");
            }
        }
    }
}
