//! What workers ask of the process that keeps the store.

use serde::{Deserialize, Serialize};

/// What a piece is kept under.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Name {
    /// The hash of its bytes, or of all that it was made from.
    pub hash: [u8; 32],
    /// Which of the two: whether it was made here.
    pub made: bool,
}

/// From the server, with a socket that a worker has the other end of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Comes {
    /// Whose worker it is.
    pub tenant: String,
}

/// From a worker; each is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Ask {
    /// The file of a piece: its descriptor comes with the answer, if there is one.
    Get(Name),
    /// What a file gave is not what its name says.
    Damaged(Name),
    /// The bytes of the descriptor that comes with this are to be kept.
    Put(Name),
    /// From now on code of a client's may speak in this worker's place: nothing is taken from it
    /// any more but what its name proves.
    Distrust,
}

/// The answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Why it could not be done.
    #[serde(default)]
    pub error: Option<String>,
}

impl Comes {
    /// As it travels.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

impl Ask {
    /// As it travels.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

impl Answer {
    /// As it travels.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}
