//! Connections that end after a random number of bytes, and the two keepers that replace them.

use crate::rng::Rng;
use busbar_channel::{Keeper, Lost, Verdict};
use busbar_transport::fault::Fault;
use busbar_transport::mem::{self, Callee, Caller};
use busbar_transport::{Acceptor, Connection, Dialer};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// What the client says of a connection that it has dialed, after how many bytes the worker's end
/// of that breaks, and where the worker says which is its own last frame.
type Offer = (Lost, i64, Sender<u64>);

/// How often a link breaks.
#[derive(Clone, Copy, Debug)]
pub struct Weather {
    /// A connection breaks after fewer bytes than this; 0 for never.
    pub most_bytes: u64,
    /// How many connections may break before the weather clears.
    pub cuts: u32,
}

/// Decides when connections break.
struct Fate {
    rng: Rng,
    weather: Weather,
}

impl Fate {
    /// After how many bytes each end of the next connection breaks; negative for never. Either may
    /// be the one that does: the other then sees an orderly end.
    fn next(&mut self) -> [i64; 2] {
        let w = &mut self.weather;
        if w.cuts == 0 || w.most_bytes == 0 {
            return [-1, -1];
        }
        w.cuts -= 1;
        let budget = self.rng.magnitude(w.most_bytes) as i64;
        if self.rng.one_in(2) {
            [budget, -1]
        } else {
            [-1, budget]
        }
    }
}

fn breaking(conn: Arc<dyn Connection>, budget: i64) -> Arc<dyn Connection> {
    if budget < 0 {
        return conn;
    }
    Arc::new(Fault::new(conn, budget))
}

/// The client's keeper.
pub struct ClientEnd {
    fate: Fate,
    dialer: Caller,
    offers: Sender<Offer>,
}

/// The worker's keeper.
pub struct WorkerEnd {
    acceptor: Callee,
    offers: Receiver<Offer>,
}

/// How long an end waits for the other.
const SOON: Duration = Duration::from_millis(5);

/// A first connection and the two keepers that replace it.
pub struct Link {
    /// The client's end.
    pub client: (Arc<dyn Connection>, ClientEnd),
    /// The worker's end.
    pub worker: (Arc<dyn Connection>, WorkerEnd),
}

/// A link whose connections break as `weather` has it, at places that `seed` decides.
pub fn link(seed: u64, weather: Weather) -> Link {
    let rng = Rng::new(seed ^ 0x6c69_6e6b);
    let mut fate = Fate { rng, weather };
    let (dialer, acceptor) = mem::address();
    let [ours, theirs] = fate.next();
    let a = dialer.dial(SOON).expect("the acceptor is there");
    let b = acceptor.accept(SOON).expect("it was dialed");
    let (tx, rx) = channel();
    let client = ClientEnd {
        fate,
        dialer,
        offers: tx,
    };
    let worker = WorkerEnd {
        acceptor,
        offers: rx,
    };
    Link {
        client: (breaking(a, ours), client),
        worker: (breaking(b, theirs), worker),
    }
}

impl Keeper for ClientEnd {
    fn detached(&mut self, lost: &Lost) -> Verdict {
        if self.fate.rng.one_in(4) {
            return Verdict::Wait(Duration::from_micros(100));
        }
        let [ours, theirs] = self.fate.next();
        let Ok(conn) = self.dialer.dial(SOON) else {
            return Verdict::End("the worker is gone".into());
        };
        let (tx, rx) = channel();
        if self.offers.send((*lost, theirs, tx)).is_err() {
            return Verdict::End("the worker is gone".into());
        }
        match rx.recv() {
            Ok(peer_last) => Verdict::Resume {
                conn: breaking(conn, ours),
                epoch: lost.epoch,
                peer_last,
            },
            Err(_) => Verdict::End("the worker does not want to go on".into()),
        }
    }
}

impl Keeper for WorkerEnd {
    fn detached(&mut self, lost: &Lost) -> Verdict {
        match self.offers.recv_timeout(SOON) {
            Ok((client, budget, answer)) => {
                let conn = self.acceptor.accept(SOON).expect("it was dialed");
                if answer.send(lost.last_received).is_err() {
                    return Verdict::Wait(Duration::ZERO);
                }
                Verdict::Resume {
                    conn: breaking(conn, budget),
                    epoch: client.epoch,
                    peer_last: client.last_received,
                }
            }
            Err(RecvTimeoutError::Timeout) => Verdict::Wait(Duration::ZERO),
            Err(RecvTimeoutError::Disconnected) => Verdict::End("the client is gone".into()),
        }
    }
}
