//! What ranks of a job say to each other when a call of several of them does not end, and what
//! they hear of one of them that is gone.

use crate::text::tidy;
use serde::{Deserialize, Serialize};

/// The longest text.
const MOST: usize = 400;

/// What ranks of a job say to each other, by their servers, when a call of several of them does not
/// end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "says", rename_all = "snake_case")]
pub enum Talk {
    /// One waits: whoever lacks its side of the call is to say so.
    Waits(Waits),
    /// What keeps those who wait, in words.
    Late {
        /// The sentence.
        text: String,
    },
}

/// A rank of a job is gone, or has lost others.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// Which one, and why.
    pub text: String,
    /// The communicators that have it for a member, by the numbers that all their ranks have for
    /// them: whoever waits in another is not concerned. None where nobody knows: then all are.
    #[serde(default)]
    pub comms: Vec<u64>,
    /// It is the end of a rank that had heard of another loss: news to the ranks of its other
    /// communicators, and to nobody else.
    #[serde(default)]
    pub follows: bool,
}

impl Loss {
    /// Makes of what somebody says what can be kept and shown.
    pub fn tame(&mut self) {
        tidy(&mut self.text, MOST);
        self.comms = told(std::mem::take(&mut self.comms));
    }
}

/// The most communicators of which a loss is told.
const MOST_COMMS: usize = 1024;

/// Communicators as they are told of: of too many nobody is told which they are.
pub fn told(comms: Vec<u64>) -> Vec<u64> {
    match comms.len() > MOST_COMMS {
        true => Vec::new(),
        false => comms,
    }
}

/// A call of a communicator that a rank waits in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waits {
    /// The communicator, by a number that all its ranks have for it.
    pub comm: u64,
    /// Which rank of it waits.
    pub rank: u32,
    /// Of how many.
    pub ranks: u32,
    /// The call, as NCCL names it.
    pub call: String,
    /// Who has to make it, too.
    pub side: Side,
    /// Which call of that kind it is in this communicator; 0 for the one that makes it.
    pub number: u64,
    /// For how long it has waited.
    pub seconds: u64,
    /// Who it is, once its server has passed it on.
    #[serde(default)]
    pub who: String,
}

impl Talk {
    /// Makes of what somebody says what can be kept and shown.
    pub fn tame(&mut self) {
        match self {
            Self::Waits(waits) => waits.tame(),
            Self::Late { text } => tidy(text, MOST),
        }
    }
}

impl Waits {
    /// See [`Talk::tame`].
    pub fn tame(&mut self) {
        tidy(&mut self.call, MOST);
        tidy(&mut self.who, MOST);
    }
}

/// Whose part a call takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// All ranks'.
    All,
    /// This rank's, which sends.
    From(u32),
    /// This rank's, which receives.
    To(u32),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_of_many_communicators_is_one_of_all_and_fits_into_a_hello() {
        let loss = |n: usize| Loss {
            text: "\u{1b}".repeat(10_000),
            comms: vec![u64::MAX; n],
            follows: true,
        };
        let mut longest = loss(MOST_COMMS);
        longest.tame();
        assert_eq!(longest.comms.len(), MOST_COMMS);
        let bytes = serde_json::to_vec(&crate::lease::Word::Loss(longest));
        assert!(bytes.is_ok_and(|b| b.len() < 32 << 10), "a word is bounded");
        let mut more = loss(MOST_COMMS + 1);
        more.tame();
        assert!(more.comms.is_empty());
    }
}
