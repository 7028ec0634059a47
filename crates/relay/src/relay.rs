//! The relay: accepts connections, carries each over the link, and interrupts it on request.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Context;

use crate::conn::{Conn, Direction, Waiting, lock};
use crate::shaper::{Nanos, Shaper};
use crate::sock;
use crate::stats::{DirectionStats, Report};
use crate::units::{LinkSpec, Planned};

/// How a relay is to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Address to listen on; port 0 picks a free one.
    pub listen: String,
    /// Address to connect to, once for each connection accepted.
    pub to: String,
    /// The link to play.
    pub link: LinkSpec,
    /// Seed of the jitter.
    pub seed: u64,
    /// A release this close is waited for by spinning.
    pub spin: Duration,
    /// For this long after the last activity, threads look for more instead of sleeping.
    pub poll: Duration,
    /// Planned times in which the link carries nothing.
    pub stalls: Vec<Planned>,
    /// Planned times in which connections are closed and refused.
    pub cuts: Vec<Planned>,
}

/// Longest stretch a writer spins through before a release: what a sleeping core may need to wake.
const SPIN: Duration = Duration::from_micros(250);
/// With fewer cores than this, threads that look for work take it from those that have some.
const CORES_TO_POLL: usize = 8;
/// How long threads look for more after the last activity, where there are cores for it.
const POLL: Duration = Duration::from_micros(200);
/// With this many cores they look for as long as a program may keep a GPU busy between two words: a
/// sleeping core of a virtual machine takes longer to wake than a fast link's whole delay.
const CORES_TO_SPARE: usize = 16;
/// How long that is.
const LONG_POLL: Duration = Duration::from_millis(500);
/// With a longer delay than this, threads wake up well before anything is due.
const DELAY_TO_SLEEP: u64 = 500_000;

impl Options {
    /// A relay between two addresses, with waiting tuned to the number of cores.
    pub fn new(listen: &str, to: &str, link: LinkSpec) -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let polls = cores >= CORES_TO_POLL && link.delay_ns < DELAY_TO_SLEEP;
        let poll = match polls {
            true if cores >= CORES_TO_SPARE => LONG_POLL,
            true => POLL,
            false => Duration::ZERO,
        };
        let (listen, to) = (listen.into(), to.into());
        Options {
            listen,
            to,
            link,
            seed: 1,
            spin: SPIN,
            poll,
            stalls: vec![],
            cuts: vec![],
        }
    }
}

#[derive(Default)]
struct Control {
    cut_until: Nanos,
    /// The acceptor has closed the listening socket for the current cut.
    closed: bool,
    stop: bool,
}

struct Shared {
    options: Options,
    to: SocketAddr,
    directions: Arc<[Direction; 2]>,
    conns: Mutex<Vec<Weak<Conn>>>,
    control: Mutex<Control>,
    changed: Condvar,
    /// Cuts so far: a connection begun before a cut does not survive it.
    cuts: AtomicU64,
    stalled_until: AtomicU64,
    accepted: AtomicU64,
    /// Wakes the acceptor out of its wait for connections.
    bell: io::PipeWriter,
}

/// A running relay; dropping it closes everything.
pub struct Relay {
    shared: Arc<Shared>,
    address: SocketAddr,
    threads: Vec<JoinHandle<()>>,
}

impl Relay {
    /// Listens, and relays until dropped.
    pub fn start(options: Options) -> anyhow::Result<Relay> {
        let to = options
            .to
            .to_socket_addrs()
            .with_context(|| format!("cannot resolve {:?}, the address to connect to", options.to))?
            .next()
            .with_context(|| format!("{:?} resolves to no address", options.to))?;
        let listener = TcpListener::bind(&options.listen)
            .with_context(|| format!("cannot listen on {:?}", options.listen))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (hearing, bell) = io::pipe()?;
        let direction = |seed| Direction {
            shaper: Mutex::new(Shaper::new(options.link, seed)),
            stats: DirectionStats::default(),
        };
        let directions = Arc::new([direction(options.seed), direction(options.seed + 1)]);
        let mut plan: Vec<(Planned, bool)> = Vec::new();
        plan.extend(options.stalls.iter().map(|&planned| (planned, false)));
        plan.extend(options.cuts.iter().map(|&planned| (planned, true)));
        plan.sort_by_key(|(planned, _)| planned.at);
        let shared = Arc::new(Shared {
            options,
            to,
            directions,
            conns: Mutex::default(),
            control: Mutex::default(),
            changed: Condvar::new(),
            cuts: AtomicU64::new(0),
            stalled_until: AtomicU64::new(0),
            accepted: AtomicU64::new(0),
            bell,
        });
        let accepting = shared.clone();
        let planning = shared.clone();
        let threads = vec![
            thread::Builder::new()
                .name("link-accept".into())
                .spawn(move || accepting.accept(listener, address, hearing))?,
            thread::Builder::new()
                .name("link-plan".into())
                .spawn(move || planning.follow_plan(&plan))?,
        ];
        Ok(Relay {
            shared,
            address,
            threads,
        })
    }

    /// The address the relay listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The link carries nothing for this long; connections stay.
    pub fn stall(&self, lasts: Duration) {
        self.shared.stall(lasts);
    }

    /// Closes all connections, and refuses new ones for this long. Returns once they are refused.
    pub fn cut(&self, lasts: Duration) {
        self.shared.cut(lasts);
    }

    /// Ends a stall or cut early.
    pub fn resume(&self) {
        self.shared.resume();
    }

    /// What has happened so far.
    pub fn report(&self) -> Report {
        let open = lock(&self.shared.conns)
            .iter()
            .filter(|c| c.strong_count() > 0)
            .count();
        let [forward, backward] = &*self.shared.directions;
        Report {
            connections: self.shared.accepted.load(Ordering::Relaxed),
            open: open as u64,
            forward: forward.stats.report(),
            backward: backward.stats.report(),
            ..Report::default()
        }
        .judge(&self.shared.options.link)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        lock(&self.shared.control).stop = true;
        self.shared.ring();
        self.shared.abort_all();
        for thread in self.threads.drain(..) {
            // A panic there has been printed; there is nothing to add while dropping.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn ring(&self) {
        self.changed.notify_all();
        // The pipe is full only if the acceptor has been rung thousands of times already.
        let _ = (&self.bell).write(&[0]);
    }

    fn stall(&self, lasts: Duration) {
        let (now, lasts) = (sock::now(), lasts.as_nanos() as Nanos);
        self.stalled_until.fetch_max(now + lasts, Ordering::SeqCst);
        for direction in self.directions.iter() {
            lock(&direction.shaper).stall(now, lasts);
        }
    }

    fn cut(&self, lasts: Duration) {
        let mut control = lock(&self.control);
        control.cut_until = control
            .cut_until
            .max(sock::now() + lasts.as_nanos() as Nanos);
        self.cuts.fetch_add(1, Ordering::SeqCst);
        self.ring();
        while !control.closed && !control.stop && sock::now() < control.cut_until {
            let tick = Duration::from_millis(20);
            control = self
                .changed
                .wait_timeout(control, tick)
                .expect("acceptor panicked")
                .0;
        }
        drop(control);
        self.abort_all();
    }

    fn resume(&self) {
        let now = sock::now();
        self.stalled_until.store(0, Ordering::SeqCst);
        for direction in self.directions.iter() {
            lock(&direction.shaper).resume(now);
        }
        lock(&self.control).cut_until = 0;
        self.ring();
    }

    fn abort_all(&self) {
        for conn in lock(&self.conns).drain(..) {
            if let Some(conn) = conn.upgrade() {
                conn.abort();
            }
        }
    }

    fn accept(
        self: Arc<Self>,
        mut listener: TcpListener,
        address: SocketAddr,
        hearing: io::PipeReader,
    ) {
        loop {
            let control = lock(&self.control);
            if control.stop {
                return;
            }
            if sock::now() < control.cut_until {
                drop(control);
                drop(listener);
                match self.sit_out_cut(address) {
                    Some(reopened) => listener = reopened,
                    None => return,
                }
                continue;
            }
            drop(control);
            let fds = [listener.as_raw_fd(), hearing.as_raw_fd()];
            sock::wait_for(&fds, libc::POLLIN, Duration::from_secs(3600));
            if sock::wait_for(&[hearing.as_raw_fd()], libc::POLLIN, Duration::ZERO) {
                // Several rings say no more than one.
                let _ = (&hearing).read(&mut [0; 64]);
                continue;
            }
            match listener.accept() {
                Ok((socket, _)) => self.spawn(socket),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    // Out of descriptors or the like: say so, and do not spin on it.
                    eprintln!("busbar link: cannot accept a connection: {error}");
                    thread::sleep(Duration::from_millis(100));
                }
            }
        }
    }

    /// With the listening socket closed, waits for the end of the cut and listens again.
    fn sit_out_cut(&self, address: SocketAddr) -> Option<TcpListener> {
        let mut control = lock(&self.control);
        control.closed = true;
        self.changed.notify_all();
        while !control.stop {
            let left = control.cut_until.saturating_sub(sock::now());
            if left == 0 {
                break;
            }
            let left = Duration::from_nanos(left);
            control = self
                .changed
                .wait_timeout(control, left)
                .expect("relay panicked")
                .0;
        }
        while !control.stop {
            match TcpListener::bind(address).and_then(|l| l.set_nonblocking(true).map(|()| l)) {
                Ok(listener) => {
                    control.closed = false;
                    return Some(listener);
                }
                Err(error) => {
                    eprintln!("busbar link: cannot listen on {address} again: {error}");
                    let tick = Duration::from_millis(200);
                    control = self
                        .changed
                        .wait_timeout(control, tick)
                        .expect("relay panicked")
                        .0;
                }
            }
        }
        None
    }

    fn spawn(self: &Arc<Self>, socket: TcpStream) {
        self.accepted.fetch_add(1, Ordering::Relaxed);
        let (shared, accepted) = (self.clone(), sock::now());
        let spawned = thread::Builder::new()
            .name("link-open".into())
            .spawn(move || {
                // Without the far side there is nothing to relay: the client sees a reset.
                sock::reset_on_close(&socket);
                if let Err(error) = shared.open(socket, accepted) {
                    eprintln!(
                        "busbar link: connection to {} failed: {error}",
                        shared.options.to
                    );
                }
            });
        if let Err(error) = spawned {
            eprintln!("busbar link: no thread for a connection: {error}");
        }
    }

    /// Connects to the far side as late as a handshake over the link would.
    fn open(&self, near: TcpStream, accepted: Nanos) -> io::Result<()> {
        let cuts = self.cuts.load(Ordering::SeqCst);
        sock::exact_timers();
        let delay = self.options.link.delay_ns;
        loop {
            let from = accepted.max(self.stalled_until.load(Ordering::SeqCst));
            let left = (from + delay).saturating_sub(sock::now());
            if left == 0 {
                break;
            }
            thread::sleep(Duration::from_nanos(left.min(50_000_000)));
        }
        let far = TcpStream::connect(self.to)?;
        sock::prepare(&near)?;
        sock::prepare(&far)?;
        let waiting = Waiting {
            spin: self.options.spin.as_nanos() as Nanos,
            poll: self.options.poll.as_nanos() as Nanos,
        };
        let directions = self.directions.clone();
        let mut conns = lock(&self.conns);
        if self.cuts.load(Ordering::SeqCst) != cuts || lock(&self.control).stop {
            sock::reset_on_close(&far);
            return Ok(());
        }
        sock::close_normally(&near);
        let link = &self.options.link;
        let conn = Conn::new(directions, waiting, link, [near, far], accepted + 2 * delay);
        conns.retain(|conn| conn.strong_count() > 0);
        conns.push(Arc::downgrade(&conn));
        conn.start().inspect_err(|_| conn.abort())
    }

    fn follow_plan(&self, plan: &[(Planned, bool)]) {
        let begin = sock::now();
        for (planned, is_cut) in plan {
            let at = begin + planned.at.as_nanos() as Nanos;
            let mut control = lock(&self.control);
            while sock::now() < at {
                if control.stop {
                    return;
                }
                let left = Duration::from_nanos(at.saturating_sub(sock::now()));
                control = self
                    .changed
                    .wait_timeout(control, left)
                    .expect("relay panicked")
                    .0;
            }
            drop(control);
            if *is_cut {
                self.cut(planned.lasts)
            } else {
                self.stall(planned.lasts)
            }
        }
    }
}
