//! Connections that end after a random number of bytes, and the two keepers that replace them.

use crate::rng::Rng;
use busbar_channel::{Keeper, Lost, Verdict};
use busbar_transport::Connection;
use busbar_transport::fault::Fault;
use busbar_transport::mem::{self, Mem};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// A new connection for the worker, what the client says of it, and where the worker says which is
/// its own last frame.
type Offer = (Arc<dyn Connection>, Lost, Sender<u64>);

/// How often a link breaks.
#[derive(Clone, Copy, Debug)]
pub struct Weather {
    /// A connection breaks after fewer bytes than this; 0 for never.
    pub most_bytes: u64,
    /// How many connections may break before the weather clears.
    pub cuts: u32,
}

/// Makes connections.
struct Maker {
    rng: Rng,
    weather: Weather,
}

impl Maker {
    fn make(&mut self) -> (Arc<dyn Connection>, Arc<dyn Connection>) {
        let (a, b) = mem::pair();
        let w = &mut self.weather;
        if w.cuts == 0 || w.most_bytes == 0 {
            return (Arc::new(a), Arc::new(b));
        }
        w.cuts -= 1;
        // Either end may be the one that breaks: the other then sees an orderly end.
        let budget = self.rng.magnitude(w.most_bytes) as i64;
        let fault = |c: Mem, cut: bool| -> Arc<dyn Connection> {
            Arc::new(Fault::new(c, if cut { budget } else { -1 }))
        };
        let cut_a = self.rng.one_in(2);
        (fault(a, cut_a), fault(b, !cut_a))
    }
}

/// The client's keeper.
pub struct ClientEnd {
    maker: Maker,
    offers: Sender<Offer>,
}

/// The worker's keeper.
pub struct WorkerEnd {
    offers: Receiver<Offer>,
}

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
    let mut maker = Maker { rng, weather };
    let (a, b) = maker.make();
    let (tx, rx) = channel();
    Link {
        client: (a, ClientEnd { maker, offers: tx }),
        worker: (b, WorkerEnd { offers: rx }),
    }
}

impl Keeper for ClientEnd {
    fn detached(&mut self, lost: &Lost) -> Verdict {
        if self.maker.rng.one_in(4) {
            return Verdict::Wait(Duration::from_micros(100));
        }
        let (ours, theirs) = self.maker.make();
        let (tx, rx) = channel();
        if self.offers.send((theirs, *lost, tx)).is_err() {
            return Verdict::End("the worker is gone".into());
        }
        match rx.recv() {
            Ok(peer_last) => Verdict::Resume {
                conn: ours,
                epoch: lost.epoch,
                peer_last,
            },
            Err(_) => Verdict::End("the worker does not want to go on".into()),
        }
    }
}

impl Keeper for WorkerEnd {
    fn detached(&mut self, lost: &Lost) -> Verdict {
        match self.offers.recv_timeout(Duration::from_millis(5)) {
            Ok((conn, client, answer)) => {
                if answer.send(lost.last_received).is_err() {
                    return Verdict::Wait(Duration::ZERO);
                }
                Verdict::Resume {
                    conn,
                    epoch: client.epoch,
                    peer_last: client.last_received,
                }
            }
            Err(RecvTimeoutError::Timeout) => Verdict::Wait(Duration::ZERO),
            Err(RecvTimeoutError::Disconnected) => Verdict::End("the client is gone".into()),
        }
    }
}
