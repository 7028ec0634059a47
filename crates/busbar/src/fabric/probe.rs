//! Measures what lies between two machines, by telling both what to do.

use super::end;
use busbar_channel::{recv_hello, send_hello};
use busbar_control::fabric::{Card, Reply, Step};
use busbar_control::hello::Welcome;
use busbar_transport::Connection;
use busbar_transport::rdma::Settings;
use busbar_wire::frame::Kind;
use serde::Serialize;
use std::io::BufReader;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// A machine that does steps.
pub trait Station {
    /// Does one: what came of it, or why that is not known.
    fn tell(&mut self, step: &Step) -> Result<Reply, String>;
}

/// One at a server.
pub struct Remote {
    /// The server, for messages.
    pub server: String,
    /// The connection, whose welcome has come.
    pub conn: Arc<dyn Connection>,
}

impl Station for Remote {
    fn tell(&mut self, step: &Step) -> Result<Reply, String> {
        let server = &self.server;
        let gone = |_| format!("{server} went away");
        let body = serde_json::to_vec(step).unwrap_or_default();
        send_hello(&*self.conn, Kind::Hello, &body).map_err(gone)?;
        let body = recv_hello(&*self.conn, Kind::Welcome).map_err(gone)?;
        let w: Welcome = busbar_control::read("the answer", &body)?;
        match w.refusal {
            Some(r) => Err(r.message),
            None => w.read(server),
        }
    }
}

/// This machine.
pub struct Here {
    socket: UnixStream,
    replies: BufReader<UnixStream>,
}

impl Here {
    /// One with a thread of its own.
    pub fn start(settings: Settings) -> std::io::Result<Self> {
        let (socket, theirs) = UnixStream::pair()?;
        let run = move || end::run(&theirs, settings, None);
        std::thread::Builder::new()
            .name("fabric".into())
            .spawn(run)?;
        let replies = BufReader::new(socket.try_clone()?);
        Ok(Self { socket, replies })
    }
}

impl Station for Here {
    fn tell(&mut self, step: &Step) -> Result<Reply, String> {
        let gone = "this machine's end went away";
        end::say(&mut self.socket, step).map_err(|_| gone)?;
        Ok(end::hear(&mut self.replies).ok_or(gone)?)
    }
}

/// What was measured between two machines, from the first to the second.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Measured {
    /// Who writes, and to whom.
    pub from: String,
    /// See `from`.
    pub to: String,
    /// The largest packet that gets there, in bytes.
    pub mtu: Option<u32>,
    /// The one that both ports take.
    pub mtu_wanted: Option<u32>,
    /// What the slower of both ports can do, in Gb/s.
    pub line_gbps: Option<f64>,
    /// What writes do, in Gb/s.
    pub write_gbps: Option<f64>,
    /// What reads do, by which the first has bytes of the second.
    pub read_gbps: Option<f64>,
    /// Half of what there and back takes, in us.
    pub latency_us: Option<f64>,
    /// As long as 99 of 100 take at most.
    pub latency_p99_us: Option<f64>,
    /// Why something of this was not measured.
    pub why_not: Option<String>,
}

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub struct Amount {
    /// How long is written, in ms.
    pub ms: u32,
    /// Round trips.
    pub trips: u32,
}

/// Two machines, of which the first writes.
pub struct Between<'a> {
    /// The names of both.
    pub names: [&'a str; 2],
    /// Both.
    pub ends: [&'a mut dyn Station; 2],
}

/// Bytes of a packet, as verbs count.
fn bytes(mtu: u8) -> u32 {
    128 << mtu.clamp(1, 5)
}

/// A step that was not done, as the end says it.
fn odd(why: Reply) -> String {
    match why {
        Reply::Failed { why } => why,
        other => format!("an answer that makes no sense: {other:?}"),
    }
}

impl Between<'_> {
    fn tell(&mut self, end: usize, step: &Step) -> Result<Reply, String> {
        let done = self.ends[end].tell(step);
        match done {
            Ok(Reply::Failed { why }) | Err(why) => Err(format!("{}: {why}", self.names[end])),
            Ok(done) => Ok(done),
        }
    }

    /// Connects both with packets of at most so many bytes: how many they have.
    fn connect(&mut self, mtu: Option<u16>) -> Result<u32, String> {
        let mut cards = [Card::default(), Card::default()];
        for (end, place) in cards.iter_mut().enumerate() {
            match self.tell(end, &Step::Open { mtu })? {
                Reply::Opened { card } => *place = card,
                other => return Err(odd(other)),
            }
        }
        let mtu = bytes(cards[0].mtu.min(cards[1].mtu));
        for (end, card) in cards.into_iter().rev().enumerate() {
            self.tell(end, &Step::Connect { card })?;
        }
        Ok(mtu)
    }

    /// Gb/s that the first writes to the second.
    fn write(&mut self, ms: u32) -> Result<f64, String> {
        self.rate(&Step::Write { ms })
    }

    /// Gb/s of what the first does.
    fn rate(&mut self, step: &Step) -> Result<f64, String> {
        match self.tell(0, step)? {
            Reply::Wrote { bytes, ns } => Ok(8.0 * bytes as f64 / ns.max(1) as f64),
            other => Err(odd(other)),
        }
    }

    /// Everything, from the first to the second.
    pub fn measure(&mut self, amount: Amount) -> Measured {
        let mut m = Measured {
            from: self.names[0].into(),
            to: self.names[1].into(),
            ..Measured::default()
        };
        m.why_not = self.fill(&mut m, amount).err();
        m
    }

    fn fill(&mut self, m: &mut Measured, amount: Amount) -> Result<(), String> {
        let wanted = self.connect(None)?;
        m.mtu_wanted = Some(wanted);
        // A switch that drops what is too long for it does so without a word.
        let mut first = None;
        for smaller in [None, Some(2048), Some(1024), Some(512), Some(256_u16)] {
            if smaller.is_some_and(|s| u32::from(s) >= wanted) {
                continue;
            }
            if smaller.is_some() {
                self.connect(smaller)?;
            }
            match self.write(0) {
                Ok(_) => {
                    m.mtu = Some(smaller.map_or(wanted, u32::from));
                    break;
                }
                Err(why) => drop(first.get_or_insert(why)),
            }
        }
        if m.mtu.is_none() {
            return Err(first.unwrap_or_default());
        }
        m.write_gbps = Some(self.write(amount.ms)?);
        m.read_gbps = Some(self.rate(&Step::Read { ms: amount.ms })?);
        let count = amount.trips;
        match self.tell(0, &Step::RoundTrips { count })? {
            Reply::Took { median, p99 } => {
                m.latency_us = Some(median as f64 / 2e3);
                m.latency_p99_us = Some(p99 as f64 / 2e3);
                Ok(())
            }
            other => Err(odd(other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One whose writes get through with packets that are small enough.
    struct Fake {
        port: u8,
        passes: u32,
        open: Result<u8, &'static str>,
    }

    impl Station for Fake {
        fn tell(&mut self, step: &Step) -> Result<Reply, String> {
            let most = |m: Option<u16>| m.map_or(5, |m| m.ilog2() as u8 - 7);
            Ok(match step {
                Step::Open { mtu } => {
                    self.open = self.open.map(|_| self.port.min(most(*mtu)));
                    match self.open {
                        Ok(mtu) => Reply::Opened {
                            card: Card {
                                mtu,
                                ..Card::default()
                            },
                        },
                        Err(why) => Reply::Failed { why: why.into() },
                    }
                }
                Step::Connect { card } => {
                    self.open = self.open.map(|m| m.min(card.mtu));
                    Reply::Connected
                }
                Step::Write { ms } | Step::Read { ms } => match self.open.map(bytes) {
                    Ok(packet) if packet <= self.passes => Reply::Wrote {
                        bytes: 1_000_000,
                        ns: 80_000 + u64::from(*ms),
                    },
                    _ => Reply::Failed {
                        why: "the peer does not answer".into(),
                    },
                },
                Step::RoundTrips { .. } => Reply::Took {
                    median: 4000,
                    p99: 6000,
                },
                Step::Look => return Err("nobody looks".into()),
            })
        }
    }

    fn measure(a: Fake, b: Fake) -> Measured {
        let (mut a, mut b) = (a, b);
        let mut between = Between {
            names: ["a", "b"],
            ends: [&mut a, &mut b],
        };
        between.measure(Amount { ms: 0, trips: 1 })
    }

    fn fake(port: u8, passes: u32) -> Fake {
        let open = Ok(port);
        Fake { port, passes, open }
    }

    #[test]
    fn the_largest_packet_that_gets_through_is_found() {
        for (ports, passes, wanted, found) in [
            ([5, 5], 4096, 4096, Some(4096)),
            ([5, 3], 4096, 1024, Some(1024)),
            ([5, 5], 1500, 4096, Some(1024)),
            ([5, 5], 600, 4096, Some(512)),
            ([5, 4], 0, 2048, None),
        ] {
            let m = measure(fake(ports[0], passes), fake(ports[1], passes));
            assert_eq!((m.mtu_wanted, m.mtu), (Some(wanted), found));
            let rates = [m.write_gbps, m.read_gbps];
            assert_eq!(rates, [found.map(|_| 100.0); 2]);
            assert_eq!(m.latency_us, found.map(|_| 2.0));
            let why = found
                .is_none()
                .then(|| "a: the peer does not answer".into());
            assert_eq!(m.why_not, why);
        }
    }

    #[test]
    fn an_end_that_cannot_says_why() {
        let open = Err("memory cannot be locked");
        let (port, passes) = (5, 4096);
        let m = measure(fake(5, 4096), Fake { port, passes, open });
        assert_eq!(m.why_not.as_deref(), Some("b: memory cannot be locked"));
        assert_eq!(m.write_gbps, None);
    }

    #[test]
    fn this_machine_does_steps() {
        let mut here = Here::start(Settings::default()).unwrap();
        let Ok(Reply::Sees(sight)) = here.tell(&Step::Look) else {
            panic!("it does not look")
        };
        assert_eq!(sight.port.is_some(), sight.no_port.is_none());
        let unopened = here.tell(&Step::Write { ms: 0 });
        assert!(matches!(unopened, Ok(Reply::Failed { .. })), "{unopened:?}");
    }
}
