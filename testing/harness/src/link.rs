//! Connections that end after a random number of bytes, and the two keepers that replace them.

use crate::rng::Rng;
use busbar_channel::{Keeper, Lost, Verdict};
use busbar_transport::fault::Fault;
use busbar_transport::rdma::soft::Fabric;
use busbar_transport::rdma::{Means, offer, take};
use busbar_transport::tcp::Tcp;
use busbar_transport::{Connection, mem};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

type Conn = Arc<dyn Connection>;

/// What the client says of a connection that it has made, the worker's end of that, and where the
/// worker says which is its own last frame.
type Offer = (Lost, Conn, Sender<u64>);

/// How often a link breaks.
#[derive(Clone, Copy, Debug)]
pub struct Weather {
    /// A connection breaks after fewer bytes than this; 0 for never.
    pub most_bytes: u64,
    /// How many connections may break before the weather clears.
    pub cuts: u32,
}

/// Decides what connections are, and when they break.
struct Fate {
    rng: Rng,
    weather: Weather,
    /// Every other one is a queue pair of this fabric's, if there is one.
    fabric: Option<Fabric>,
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

    /// The two ends of a new connection.
    fn connection(&mut self) -> (Conn, Conn) {
        let (ours, theirs): (Conn, Conn) = match &self.fabric {
            Some(fabric) if self.rng.one_in(2) => queue_pairs(fabric),
            _ => {
                let (a, b) = mem::pair();
                (Arc::new(a), Arc::new(b))
            }
        };
        let [our_budget, their_budget] = self.next();
        (breaking(ours, our_budget), breaking(theirs, their_budget))
    }
}

/// Two ends that are on a fabric, unless that fails meanwhile.
pub fn queue_pairs(fabric: &Fabric) -> (Conn, Conn) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("its address").to_string();
    let ours: Conn = Arc::new(Tcp::connect(&at, Duration::from_secs(60)).expect("a listener"));
    let (theirs, _) = listener.accept().expect("it was dialed");
    let theirs: Conn = Arc::new(Tcp::new(theirs).expect("a socket"));
    let device = fabric.device();
    let means = || Means {
        device: Ok(&*device),
        plain: true,
    };
    std::thread::scope(|s| {
        let worker = s.spawn(|| offer(theirs, &means()).conn);
        let client = take(ours, &means()).conn;
        (client, worker.join().expect("it does not panic"))
    })
}

fn breaking(conn: Conn, budget: i64) -> Conn {
    if budget < 0 {
        return conn;
    }
    Arc::new(Fault::new(conn, budget))
}

/// The client's keeper.
pub struct ClientEnd {
    fate: Fate,
    offers: Sender<Offer>,
}

/// The worker's keeper.
pub struct WorkerEnd {
    offers: Receiver<Offer>,
}

/// How long an end waits for the other.
const SOON: Duration = Duration::from_millis(5);

/// A first connection and the two keepers that replace it.
pub struct Link {
    /// The client's end.
    pub client: (Conn, ClientEnd),
    /// The worker's end.
    pub worker: (Conn, WorkerEnd),
}

/// A link whose connections break as `weather` has it, at places that `seed` decides.
pub fn link(seed: u64, weather: Weather) -> Link {
    link_over(seed, weather, None)
}

/// As [`link`]; every other connection is a queue pair of the fabric's.
pub fn link_over(seed: u64, weather: Weather, fabric: Option<Fabric>) -> Link {
    let mut fate = Fate {
        rng: Rng::new(seed ^ 0x6c69_6e6b),
        weather,
        fabric,
    };
    let (ours, theirs) = fate.connection();
    let (tx, rx) = channel();
    Link {
        client: (ours, ClientEnd { fate, offers: tx }),
        worker: (theirs, WorkerEnd { offers: rx }),
    }
}

impl Keeper for ClientEnd {
    fn detached(&mut self, lost: &Lost) -> Verdict {
        if self.fate.rng.one_in(4) {
            return Verdict::Wait(Duration::from_micros(100));
        }
        let (conn, theirs) = self.fate.connection();
        let (tx, rx) = channel();
        if self.offers.send((*lost, theirs, tx)).is_err() {
            return Verdict::End("the worker is gone".into());
        }
        match rx.recv() {
            Ok(peer_last) => Verdict::Resume {
                conn,
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
            Ok((client, conn, answer)) => {
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
