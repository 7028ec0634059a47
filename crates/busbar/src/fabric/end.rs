//! One end of a measurement: does what it is told, step by step, and serves the other end between
//! two steps. At a server this is a process beside its workers, with what they have and no more.

use busbar_control::fabric::{Card, Reply, Sight, Step};
use busbar_transport::rdma::ib;
use busbar_transport::rdma::trial::{self, Trial};
use busbar_transport::rdma::verbs::Address;
use busbar_transport::rdma::{Settings, Wish};
use busbar_transport::wait_any;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// The longest step or reply, in bytes.
pub const MOST: u64 = 64 << 10;
/// Looks that find nothing, after which it sleeps.
const LOOKS: u32 = 2000;
/// The longest that it writes or makes round trips, and the most of these.
const LONGEST: Duration = Duration::from_secs(10);
const MOST_TRIPS: u32 = 10_000;

/// See the module.
struct End {
    settings: Settings,
    near: Option<IpAddr>,
    trial: Option<Trial>,
}

/// Says something as a line.
pub fn say(to: &mut impl Write, what: &impl serde::Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    to.write_all(&line)
}

/// Hears a line; nothing at the end.
pub fn hear<T: serde::de::DeserializeOwned>(from: &mut impl BufRead) -> Option<T> {
    let mut line = Vec::new();
    from.take(MOST).read_until(b'\n', &mut line).ok()?;
    serde_json::from_slice(&line).ok()
}

/// Does what is said over a socket until that ends. `near` is this machine's address, as others
/// reach it.
pub fn run(socket: &UnixStream, settings: Settings, near: Option<IpAddr>) -> Option<()> {
    let wish = Wish::Auto;
    let mut end = End {
        settings: Settings { wish, ..settings },
        near,
        trial: None,
    };
    let mut steps = BufReader::new(socket);
    loop {
        end.serve_until(socket.as_fd());
        let step = hear(&mut steps)?;
        let reply = end.step(&step).unwrap_or_else(|why| Reply::Failed { why });
        say(&mut &*socket, &reply).ok()?;
    }
}

impl End {
    fn step(&mut self, step: &Step) -> Result<Reply, String> {
        let text = |e: io::Error| e.to_string();
        let trial = || self.trial.as_ref().ok_or("no queue pair was opened");
        Ok(match step {
            Step::Look => Reply::Sees(self.look()),
            Step::Open { mtu } => {
                // The one before is gone, so that both are never there at a time.
                self.trial = None;
                self.settings.choice.mtu = mtu.or(self.settings.choice.mtu);
                let port = self.settings.port(self.near)?;
                let trial = Trial::new(&port).map_err(|e| refused(&e))?;
                let card = shown(trial.card());
                self.trial = Some(trial);
                Reply::Opened { card }
            }
            Step::Connect { card } => {
                let trial = self.trial.as_mut().ok_or("no queue pair was opened")?;
                trial.connect(read(card)).map_err(text)?;
                Reply::Connected
            }
            Step::Write { ms } => {
                let time = Duration::from_millis((*ms).into()).min(LONGEST);
                let (bytes, time) = trial()?.writes(time).map_err(text)?;
                let ns = time.as_nanos() as u64;
                Reply::Wrote { bytes, ns }
            }
            Step::Read { ms } => {
                let time = Duration::from_millis((*ms).into()).min(LONGEST);
                let (bytes, time) = trial()?.reads(time).map_err(text)?;
                let ns = time.as_nanos() as u64;
                Reply::Wrote { bytes, ns }
            }
            Step::RoundTrips { count } => {
                let count = (*count).clamp(1, MOST_TRIPS);
                let mut all = trial()?.round_trips(count, LONGEST).map_err(text)?;
                all.sort_unstable();
                let at = |of: usize| all[all.len() * of / 100].as_nanos() as u64;
                Reply::Took {
                    median: at(50),
                    p99: at(99),
                }
            }
        })
    }

    fn look(&self) -> Sight {
        let port = self.settings.port(self.near);
        let place = port.as_ref().ok().map(|p| {
            let (device, port, gid) = p.place();
            (device.into(), port.into(), gid.into())
        });
        Sight {
            memlock: memlock(),
            no_library: ib::library().err(),
            port: place,
            no_port: port.err(),
        }
    }

    /// Serves the other end until there is something to hear.
    fn serve_until(&self, socket: BorrowedFd<'_>) {
        let Some(trial) = &self.trial else {
            return;
        };
        let mut idle = 0;
        // Whoever writes sees an error, too, and says so.
        while let Ok(came) = trial.serve() {
            idle = if came > 0 { 0 } else { idle + 1 };
            // What comes before it is armed has no event, so it is looked for once more.
            if idle == LOOKS && trial.arm().is_err() {
                return;
            }
            if idle > LOOKS {
                let both = [Some(socket), Some(trial.events())];
                let Ok([false, _]) = wait_any(both, None) else {
                    return;
                };
                idle = 0;
            }
            std::thread::yield_now();
        }
    }
}

/// Why there is no queue pair.
fn refused(e: &io::Error) -> String {
    match e.raw_os_error() {
        Some(libc::ENOMEM | libc::EPERM) => {
            let limit = memlock().map_or("no limit".into(), |m| format!("{} KiB", m >> 10));
            format!("memory cannot be locked for the device ({e}; its limit is {limit})")
        }
        _ => format!("the device has no queue pair to give: {e}"),
    }
}

/// The most bytes of memory that this process may lock.
fn memlock() -> Option<u64> {
    const IPC_LOCK: u32 = 14;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let rights = status.lines().find_map(|l| l.strip_prefix("CapEff:"));
    let rights = rights.and_then(|r| u64::from_str_radix(r.trim(), 16).ok());
    if rights.is_some_and(|r| r & 1 << IPC_LOCK > 0) {
        return None;
    }
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: a live structure.
    unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit) };
    (limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

fn shown(c: trial::Card) -> Card {
    let a = c.address;
    Card {
        gid: a.gid,
        lid: a.lid,
        pair: a.pair,
        packet: a.packet,
        mtu: a.mtu,
        at: c.at,
        key: c.key,
    }
}

fn read(c: &Card) -> trial::Card {
    trial::Card {
        address: Address {
            gid: c.gid,
            lid: c.lid,
            pair: c.pair,
            packet: c.packet,
            mtu: c.mtu.clamp(1, 5),
        },
        at: c.at,
        key: c.key,
    }
}
