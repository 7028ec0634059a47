//! How two ends of an open connection come to have a queue pair.
//!
//! On the connection, in this order; each message is a kind, a length, [`MARK`], and so many bytes:
//!
//! ```text
//! worker   card, or no and why             its queue pair is there, and receives
//! client   card, or no and why             its queue pair is connected to the worker's
//! worker   ready, or no and why            so is the worker's
//!          a write of no bytes each way, over the queue pairs
//! client   go, or no and why               from here on nothing but the end comes this way
//! ```
//!
//! So neither end sends anything over a path that has not been seen to work both ways, and after a
//! no the connection itself goes on, as if nobody had asked. Where a message does not come, or
//! something else does, nobody knows what the other end sends next, and the connection ends. What
//! else comes may be the server's word that the worker has died: it says so again to whoever comes
//! back.

use super::ring::{Half, Place, Ring};
use super::verbs::{Address, Device};
use crate::Connection;
use std::io::{self, ErrorKind, IoSlice};
use std::sync::Arc;
use std::time::Duration;

/// How long the peer has for each message ...
const PATIENCE: Duration = Duration::from_secs(8);
/// ... and for its write: a thousand times what a fabric needs, and less than a program's user
/// minds.
const TRIAL: Duration = Duration::from_secs(1);

const NO: u8 = 0;
const CARD: u8 = 1;
const READY: u8 = 2;
const GO: u8 = 3;
/// Behind kind and length: no frame is long enough to have its length begin so.
const MARK: [u8; 2] = [0x5e, 0xff];
/// Bytes of a card: its version, what it wants, the rest.
const CARD_LEN: usize = 46;
const VERSION: u8 = 2;
/// In a card: this end would leave the bytes in clear.
const PLAIN: u8 = 1;

/// What an end brings to it.
pub struct Means<'a> {
    /// The device, or why there is none.
    pub device: Result<&'a dyn Device, String>,
    /// Bytes may go in clear, though those of the connection do not, if the peer says so, too.
    pub plain: bool,
}

/// What came of it.
pub struct Outcome {
    /// What to go on with.
    pub conn: Arc<dyn Connection>,
    /// Why that is the connection as it was.
    pub why_not: Option<String>,
    /// The connection was lost in the attempt: something on its way may not bear it, and would not
    /// bear another.
    pub lost: bool,
}

impl Outcome {
    /// It is moved, or stays what it is, and goes on.
    pub fn of(conn: Arc<dyn Connection>, why_not: Option<String>) -> Self {
        let lost = false;
        Self {
            conn,
            why_not,
            lost,
        }
    }
}

struct Card {
    address: Address,
    place: Place,
    plain: bool,
}

impl Card {
    fn of(half: &Half, plain: bool) -> Self {
        Self {
            address: half.address(),
            place: half.place(),
            plain,
        }
    }

    fn to_bytes(&self) -> Vec<u8> {
        let a = &self.address;
        let mut out = vec![VERSION, u8::from(self.plain) * PLAIN, a.mtu];
        out.extend_from_slice(&a.gid);
        out.extend_from_slice(&a.lid.to_le_bytes());
        out.extend_from_slice(&a.pair.to_le_bytes());
        out.extend_from_slice(&a.packet.to_le_bytes());
        out.extend_from_slice(&self.place.at.to_le_bytes());
        out.extend_from_slice(&self.place.key.to_le_bytes());
        // Of what version and size its ring is: another is none that this end can use.
        out.extend_from_slice(&(super::block::RING as u32).to_le_bytes());
        out.push(0);
        debug_assert_eq!(out.len(), CARD_LEN);
        out
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (head, mut rest) = bytes.split_first_chunk::<3>()?;
        if bytes.len() != CARD_LEN || head[0] != VERSION {
            return None;
        }
        fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
            let (now, after) = rest.split_first_chunk::<N>()?;
            *rest = after;
            Some(*now)
        }
        let address = Address {
            mtu: head[2],
            gid: take(&mut rest)?,
            lid: u16::from_le_bytes(take(&mut rest)?),
            pair: u32::from_le_bytes(take(&mut rest)?),
            packet: u32::from_le_bytes(take(&mut rest)?),
        };
        let place = Place {
            at: u64::from_le_bytes(take(&mut rest)?),
            key: u32::from_le_bytes(take(&mut rest)?),
        };
        let ring = u32::from_le_bytes(take(&mut rest)?);
        (ring as usize == super::block::RING && (1..=5).contains(&address.mtu)).then_some(Self {
            address,
            place,
            plain: head[1] & PLAIN > 0,
        })
    }
}

/// Why there is no path.
enum Stop {
    /// The connection goes on, and the peer does not know it yet.
    Ours(String),
    /// It does.
    Known(String),
    /// The connection cannot go on, which whoever uses it next sees.
    Lost(String),
}

/// Why a step failed, in words.
fn because(what: &str) -> impl Fn(io::Error) -> Stop + '_ {
    move |e| Stop::Ours(format!("{what}: {e}"))
}

fn lost(e: io::Error) -> Stop {
    Stop::Lost(format!("the connection was lost meanwhile: {e}"))
}

fn say(to: &dyn Connection, kind: u8, body: &[u8]) -> Result<(), Stop> {
    let body = &body[..body.len().min(250)];
    let head = [kind, body.len() as u8, MARK[0], MARK[1]];
    to.send(&mut [IoSlice::new(&head), IoSlice::new(body)])
        .map_err(lost)
}

/// Ends a connection of which nobody knows what comes next, and takes what has come: nothing more
/// does, and whoever uses it finds its end.
fn end(conn: &dyn Connection) {
    conn.shutdown();
    let mut rest = [0; 4096];
    while matches!(conn.try_recv(&mut rest), Ok(Some(n)) if n > 0) {}
}

fn hear(from: &dyn Connection, wanted: u8) -> Result<Vec<u8>, Stop> {
    let read = || -> io::Result<(u8, Vec<u8>)> {
        let mut head = [0; 4];
        from.recv_exact(&mut head)?;
        if head[2..] != MARK {
            return Err(ErrorKind::InvalidData.into());
        }
        let mut body = vec![0; head[1].into()];
        from.recv_exact(&mut body)?;
        match head[0] {
            kind if kind == wanted || kind == NO => Ok((kind, body)),
            _ => Err(ErrorKind::InvalidData.into()),
        }
    };
    let (kind, body) = read().map_err(|e| {
        end(from);
        lost(e)
    })?;
    match kind {
        kind if kind == wanted => Ok(body),
        _ => {
            let text = String::from_utf8_lossy(&body).replace(char::is_control, " ");
            Err(Stop::Known(format!("at the other end, {text}")))
        }
    }
}

fn half(means: &Means<'_>) -> Result<Half, Stop> {
    match &means.device {
        Ok(device) => Half::new(*device).map_err(|e| {
            let hint = match e.raw_os_error() {
                Some(libc::ENOMEM | libc::EPERM) => {
                    "; is the limit of locked memory too small \
                                                      (`ulimit -l`)?"
                }
                _ => "",
            };
            Stop::Ours(format!(
                "{} has no queue pair to give: {e}{hint}",
                device.name()
            ))
        }),
        Err(why) => Err(Stop::Ours(why.clone())),
    }
}

fn read(card: &[u8]) -> Result<Card, Stop> {
    Card::parse(card).ok_or_else(|| Stop::Ours("the other end is of another release".into()))
}

const CONNECT: &str = "the queue pairs cannot be connected";
const REACH: &str = "the devices do not reach each other";

/// The worker's part.
pub fn offer(control: Arc<dyn Connection>, means: &Means<'_>) -> Outcome {
    run(control, |control| {
        let half = half(means)?;
        let ours = Card::of(&half, means.plain);
        say(&**control, CARD, &ours.to_bytes())?;
        let theirs = read(&hear(&**control, CARD)?)?;
        let ring = half.connect(control.clone(), &theirs.address, theirs.place);
        let ring = ring.map_err(because(CONNECT))?;
        say(&**control, READY, &[])?;
        // What comes of this the client sees, and says.
        let _ = ring.probed(TRIAL).and_then(|()| ring.probe());
        hear(&**control, GO)?;
        Ok(finish(control, ring, [&ours, &theirs]))
    })
}

/// The client's part.
pub fn take(control: Arc<dyn Connection>, means: &Means<'_>) -> Outcome {
    run(control, |control| {
        let theirs = hear(&**control, CARD)?;
        let half = half(means)?;
        let theirs = read(&theirs)?;
        let ours = Card::of(&half, means.plain);
        let ring = half.connect(control.clone(), &theirs.address, theirs.place);
        let ring = ring.map_err(because(CONNECT))?;
        say(&**control, CARD, &ours.to_bytes())?;
        hear(&**control, READY)?;
        let tried = ring.probe().and_then(|()| ring.probed(2 * TRIAL));
        tried.map_err(because(REACH))?;
        say(&**control, GO, &[])?;
        Ok(finish(control, ring, [&theirs, &ours]))
    })
}

fn run(
    control: Arc<dyn Connection>,
    steps: impl FnOnce(&Arc<dyn Connection>) -> Result<Arc<dyn Connection>, Stop>,
) -> Outcome {
    let _ = control.recv_timeout(Some(PATIENCE));
    let done = steps(&control);
    if let Err(Stop::Ours(why)) = &done {
        let _ = say(&*control, NO, why.as_bytes());
    }
    let _ = control.recv_timeout(None);
    match done {
        Ok(conn) => Outcome::of(conn, None),
        Err(Stop::Ours(why) | Stop::Known(why)) => Outcome::of(control, Some(why)),
        Err(Stop::Lost(why)) => Outcome {
            lost: true,
            ..Outcome::of(control, Some(why))
        },
    }
}

/// Encrypts it as the connection is, unless both ends say that this need not be.
fn finish(
    control: &Arc<dyn Connection>,
    ring: Ring,
    [worker, client]: [&Card; 2],
) -> Arc<dyn Connection> {
    let ring: Arc<dyn Connection> = Arc::new(ring);
    if worker.plain && client.plain {
        return ring;
    }
    // Queue pairs are numbered anew each time, and packets begin at random.
    let context = [worker.to_bytes(), client.to_bytes()].concat();
    control.seal(&ring, &context).unwrap_or(ring)
}
