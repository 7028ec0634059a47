//! What a server and each of its workers tell each other.

use crate::checkpoint::{Reached, Step, Swap};
use crate::hello::{Hello, Road};
use crate::holding::Holding;
use crate::talk::{Loss, Talk, Waits};
use crate::text::tidy;
use core::net::SocketAddr;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use zeroize::Zeroizing;

/// From server to worker.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Order {
    /// A connection, which comes along.
    Attach(Box<Attach>),
    /// A link to another server, which was dialled for the session's client: the connection of the
    /// one who asked comes along, as with `Attach`, and then the link's own.
    Dialled {
        /// Of the one who asked.
        attach: Box<Attach>,
        /// What it takes to go on with the link, where it is encrypted.
        keys: Hidden,
        /// Whether the other end waits to hear how the link moves to RDMA.
        rdma: bool,
    },
    /// Answer a question, by [`Report::Answers`].
    Ask {
        /// What the server calls it.
        number: u64,
        /// See there.
        question: Question,
    },
    /// Say a sentence to the session's client.
    News {
        /// The sentence.
        text: String,
        /// Whether the client's user is to read it, whatever else is logged.
        loss: bool,
    },
    /// On what the session's turns are said, which comes along; before its first connection.
    Board,
    /// What wakes the server when the session wants a turn, or hands one over; likewise.
    Bell,
    /// A rank of the session's job is gone, and whoever waits for it waits in vain.
    Lost(Loss),
    /// Ranks of the session's job ask each other what keeps them.
    Talk(Talk),
    /// A device is no longer the session's alone.
    Shared,
    /// The session may have so many bytes of device memory from now on.
    Memory {
        /// `None` for as many as there are.
        most: Option<u64>,
        /// Of each of its devices, and not of all together.
        #[serde(default)]
        of_each: bool,
    },
    /// What the session's bytes are to pass from now on.
    Path {
        /// See there.
        road: Road,
    },
    /// Its work has no end, and others have waited for long enough: end the session.
    Endless {
        /// Why.
        why: String,
    },
    /// End the session, and say so to its client.
    End {
        /// Why.
        why: String,
    },
}

/// From server to worker, with a connection's descriptor: the hello is read already, and the worker
/// answers it itself, since only the worker knows how far the session has come.
#[derive(Debug, Serialize, Deserialize)]
pub struct Attach {
    /// What the client said.
    pub hello: Hello,
    /// The session's public name.
    pub session: String,
    /// The session's secret.
    pub secret: String,
    /// The protocol that was agreed on.
    pub protocol: u32,
    /// Devices that the session may use, by ordinal.
    pub devices: Vec<u32>,
    /// The most bytes of device memory that it may have.
    #[serde(default)]
    pub memory: Option<u64>,
    /// Of each of them, and not of all together.
    #[serde(default)]
    pub of_each: bool,
    /// Whether idle sessions of this server give way to one that lacks device memory.
    #[serde(default)]
    pub swaps: bool,
    /// How long to keep the session without a connection, in seconds.
    pub resume_seconds: u64,
    /// What it takes to go on with the connection, where it is encrypted.
    #[serde(default)]
    pub keys: Hidden,
    /// Where the client's process is; what it takes to see its end comes along.
    #[serde(default)]
    pub place: Place,
}

/// Where a client's process is, as the server sees it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// On another host, or in a container of its own.
    #[default]
    Elsewhere,
    /// It has ended.
    Gone,
    /// On this host.
    Here {
        /// A descriptor of its `/proc/PID/stat` comes along.
        stat: bool,
        /// Then one of its `/proc/PID/maps`.
        maps: bool,
        /// Then one that is readable once it has ended.
        end: bool,
    },
}

/// Bytes that nobody is to see: no message shows them, and their memory is cleared when they go.
#[derive(Default, PartialEq, Eq)]
pub struct Hidden(pub Zeroizing<Vec<u8>>);

impl std::fmt::Debug for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl Serialize for Hidden {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut text = Zeroizing::new(String::with_capacity(2 * self.0.len()));
        for b in self.0.iter() {
            for digit in [b >> 4, b & 15] {
                text.push(char::from(b"0123456789abcdef"[usize::from(digit)]));
            }
        }
        to.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for Hidden {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = Zeroizing::new(String::deserialize(from)?);
        let digit = |d: u8| char::from(d).to_digit(16).map(|d| d as u8);
        let mut bytes = Zeroizing::new(Vec::with_capacity(text.len() / 2));
        for pair in text.as_bytes().chunks(2) {
            let byte = match pair {
                [high, low] => digit(*high).zip(digit(*low)).map(|(h, l)| h << 4 | l),
                _ => None,
            };
            bytes.push(byte.ok_or_else(|| D::Error::custom("digits that are none"))?);
        }
        Ok(Self(bytes))
    }
}

/// What a server asks the worker of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Question {
    /// What does it hold?
    Holding,
    /// What becomes of this step towards a checkpoint, or back?
    Step(Step),
    /// And of this, which the server has it take by itself?
    Swap(Swap),
}

/// What the worker says to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It holds this.
    Holding(Holding),
    /// This became of the step.
    Reached(Reached),
}

/// Device memory that a session lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lacking {
    /// Of this device, by its ordinal.
    pub device: u32,
    /// So many bytes.
    pub bytes: u64,
    /// Idle sessions are to give way for it; otherwise it is only asked how much they would.
    pub now: bool,
}

/// What idle sessions have given up of a device for another, or would.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Freed {
    /// So many bytes.
    pub bytes: u64,
}

/// A socket between ranks of a job that a worker wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wanted {
    /// One that others connect to; each connection then comes over the same socket.
    Listen,
    /// One that is connected to this address, which a worker of the job has heard from its server.
    Connect(SocketAddr),
}

/// What becomes of that.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lent {
    /// Others reach it at this address.
    At(SocketAddr),
    /// A connection, which comes along.
    Connected,
    /// There is none.
    No {
        /// The system's number of the error.
        errno: i32,
    },
}

/// From worker to server.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Report {
    /// The worker is ready for its session.
    Ready,
    /// The session has a connection.
    Attached {
        /// What its bytes pass: `tcp`, `rdma`.
        path: String,
        /// Why that is not `rdma`, if the client would have it so.
        why: Option<String>,
    },
    /// The session has lost its connection and waits for another.
    Detached,
    /// The session becomes a member of a communicator, or is one no longer: other ranks may wait
    /// for it.
    Member {
        /// Which one, by a number that all its ranks have for it.
        comm: u64,
        /// Whether it is one.
        yes: bool,
    },
    /// Work of the session's has had a fault that has lost a context.
    Faulted,
    /// A communicator of the session's has failed by itself: ranks that NCCL does not tell are to
    /// hear of it.
    Failed {
        /// Which one, by a number that all its ranks have for it.
        comm: u64,
        /// How.
        why: String,
    },
    /// It waits in a call of several ranks: whoever lacks its side is to say so.
    Waits(Waits),
    /// What the session lacks of a call, or what it waits for, in words that follow its name.
    Late {
        /// The words.
        what: String,
    },
    /// Calls have come further of which the session has heard that they stand still.
    Moved,
    /// A library of the session's wants a socket, which its cell has none for. What the server says
    /// to that ([`Lent`]) goes over a socket that comes along.
    Socket(Wanted),
    /// The session lacks device memory. What the server says to that ([`Freed`]) goes over a socket
    /// that comes along.
    Lacks(Lacking),
    /// A session that has given way to others has something to do.
    Wanted,
    /// What there is to say to a question.
    Answers {
        /// Which one.
        number: u64,
        /// See there.
        answer: Answer,
    },
    /// What the session holds at its end.
    Holds(Holding),
    /// The session is over.
    Ended {
        /// Why.
        why: String,
    },
}

impl Order {
    /// As it travels.
    pub fn to_json(&self) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(serde_json::to_vec(self).unwrap_or_default())
    }
}

impl Freed {
    /// As it travels.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

impl Lent {
    /// As it travels.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// The longest text of a report, and the longest name of a path.
const MOST_TEXT: usize = 1000;
const MOST_PATH: usize = 16;

impl Report {
    /// As it travels.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Makes of what a worker says what can be kept and shown: a client's code may run there.
    pub fn tame(&mut self) {
        match self {
            Self::Attached { path, why } => {
                tidy(path, MOST_PATH);
                why.iter_mut().for_each(|w| tidy(w, MOST_TEXT));
            }
            Self::Failed { why, .. } | Self::Ended { why } => tidy(why, MOST_TEXT),
            Self::Late { what } => tidy(what, MOST_TEXT),
            Self::Waits(waits) => waits.tame(),
            Self::Holds(holding) => holding.tame(),
            Self::Answers { answer, .. } => match answer {
                Answer::Holding(holding) => holding.tame(),
                Answer::Reached(reached) => reached.tame(),
            },
            Self::Ready | Self::Detached | Self::Member { .. } | Self::Moved => {}
            Self::Faulted | Self::Socket(_) | Self::Lacks(_) | Self::Wanted => {}
        }
    }
}

/// How the names of folders begin that a process needs for a moment: by this the server finds those
/// of a worker that has ended.
pub fn scratch_prefix(process: u32) -> String {
    format!("busbar-{process}-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::holding::Memory;

    #[test]
    fn keys_travel_and_are_not_shown() {
        let keys = Hidden(Zeroizing::new((0..=255).collect()));
        assert_eq!(format!("{keys:?}"), "256 bytes");
        let text = serde_json::to_string(&keys).unwrap();
        assert!(text.starts_with("\"000102") && text.ends_with("feff\""));
        assert_eq!(serde_json::from_str::<Hidden>(&text).unwrap(), keys);
        for bad in ["\"0\"", "\"0x\"", "7"] {
            assert!(serde_json::from_str::<Hidden>(bad).is_err());
        }
    }
    #[test]
    fn what_a_worker_says_can_be_kept_added_up_and_shown() {
        let evil = "\u{1b}[2J".to_string() + &"x".repeat(10_000);
        let plain = |t: &str| t.len() <= MOST_TEXT && t.starts_with("?[2J");
        let tamed = |mut r: Report| {
            r.tame();
            r
        };
        let text = || evil.clone();
        let (path, why) = (text(), Some(text()));
        match tamed(Report::Attached { path, why }) {
            Report::Attached { path, why } => {
                assert!(path.len() <= MOST_PATH && plain(&why.unwrap()), "{path}");
            }
            other => panic!("{other:?}"),
        }
        for said in [
            Report::Failed {
                comm: 7,
                why: text(),
            },
            Report::Ended { why: text() },
            Report::Late { what: text() },
        ] {
            match tamed(said) {
                Report::Failed { why: t, .. }
                | Report::Ended { why: t }
                | Report::Late { what: t } => {
                    assert!(plain(&t), "{t}");
                }
                other => panic!("{other:?}"),
            }
        }
        let mut holding = Holding::default();
        let much = Memory {
            pieces: u64::MAX,
            bytes: u64::MAX,
            most: u64::MAX,
        };
        holding.objects.insert(text(), 1);
        for i in 0..1000 {
            holding.objects.insert(format!("o{i}"), u64::MAX);
            holding.memory.insert(format!("m{i}"), much);
        }
        holding.traffic.bytes_in = u64::MAX;
        holding.traffic.bytes_out = u64::MAX;
        let answer = Answer::Holding(holding);
        match tamed(Report::Answers { number: 1, answer }) {
            Report::Answers {
                answer: Answer::Holding(h),
                ..
            } => {
                assert!(h.objects.len() <= 64 && !h.objects.contains_key(&evil));
                // Of as many sessions as a server may have.
                assert!(
                    (0..1024)
                        .try_fold(0u64, |n, _| n.checked_add(h.bytes()))
                        .is_some()
                );
                assert!(h.traffic.bytes().0 < u64::MAX);
            }
            other => panic!("{other:?}"),
        }
    }
}
