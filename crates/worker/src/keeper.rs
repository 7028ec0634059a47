//! A session without a connection: how long it is kept, and what it goes on with. ADR 0003 has the
//! reasons.

use crate::prelude::*;
use crate::process::Process;
use crate::welcome::{Way, greet, welcome};
use busbar_channel::{Ending, Keeper, Lost, Verdict};
use busbar_control::attach::{Attach, Report};
use busbar_transport::Connection;
use busbar_transport::handover;
use busbar_transport::stream::Stream;
use std::os::fd::OwnedFd;

/// How long a client elsewhere whose connection was closed has to show that it lives, beside the
/// round trips that it needs for that. If it does not, its memory must be free within a second.
const GRACE: Duration = Duration::from_millis(250);
const MOST_GRACE: Duration = Duration::from_millis(800);
/// Round trips that it takes to come back: to connect, and to say hello, each perhaps twice.
const TRIPS: u32 = 4;
/// How long to wait for a new connection before the client's process is looked at again.
const LOOK: Duration = Duration::from_millis(10);

/// Decides how long a session without a connection is kept.
///
/// A dead client must free its memory at once, a lost link must not. A client on this very host is
/// looked up, which settles it. For one elsewhere the ending tells: the kernel of a dead client
/// resets the connection, while a link that is cut just falls silent until it times out.
pub(crate) struct Wait {
    newest: Arc<Newest>,
    client: Arc<Process>,
    keep: Duration,
    grace: Duration,
    control: Arc<OwnedFd>,
    way: Arc<Way>,
    /// The server knows that there is no connection.
    told: bool,
}

impl Wait {
    /// A session's keeper, with `conn` its first connection.
    pub(crate) fn new(
        newest: Arc<Newest>,
        client: Arc<Process>,
        keep: Duration,
        conn: &dyn Connection,
        (control, way): (Arc<OwnedFd>, Arc<Way>),
    ) -> Self {
        Self {
            newest,
            client,
            keep,
            grace: grace(conn),
            control,
            way,
            told: false,
        }
    }
}

fn grace(conn: &dyn Connection) -> Duration {
    (GRACE + TRIPS * conn.round_trip()).min(MOST_GRACE)
}

/// The connection that came last, until it is taken. Those before it are let go: a client that
/// comes back again and again must not pile up connections here.
#[derive(Default)]
pub(crate) struct Newest {
    slot: Mutex<Slot>,
    came: Condvar,
}

#[derive(Default)]
struct Slot {
    connection: Option<(Attach, OwnedFd)>,
    /// The highest epoch that came.
    epoch: u64,
}

impl Newest {
    /// Takes a connection, unless the client has opened it before one that is here, or was: it has
    /// been given up then, and was overtaken on its way. `take_over` is called before it is here.
    pub(crate) fn put(&self, a: Attach, fd: OwnedFd, take_over: impl FnOnce()) {
        let mut slot = lock(&self.slot);
        if a.hello.epoch <= slot.epoch {
            return;
        }
        slot.epoch = a.hello.epoch;
        take_over();
        slot.connection = Some((a, fd));
        self.came.notify_one();
    }

    fn take(&self, patience: Duration) -> Option<(Attach, OwnedFd)> {
        let slot = lock(&self.slot);
        let waited = self
            .came
            .wait_timeout_while(slot, patience, |s| s.connection.is_none());
        let mut slot = waited.unwrap_or_else(PoisonError::into_inner).0;
        slot.connection.take()
    }
}

impl Keeper for Wait {
    fn detached(&mut self, lost: &Lost) -> Verdict {
        if !self.told {
            self.told = true;
            let _ = handover::send(&self.control, &Report::Detached.to_json(), None);
        }
        let keep = match self.client.alive() {
            Some(true) => self.keep,
            Some(false) => return Verdict::End("the client's process ended".into()),
            None if self.way.changes() => self.keep,
            None if matches!(lost.how, Ending::Failed | Ending::Silent) => self.keep,
            None => self.grace.min(self.keep),
        };
        if lost.since > keep {
            return Verdict::End(format!(
                "the client did not come back within {:.1} s",
                keep.as_secs_f64()
            ));
        }
        let Some((a, fd)) = self.newest.take(LOOK) else {
            return Verdict::Wait(Duration::ZERO);
        };
        match Stream::take_over(fd, &a.keys.0) {
            Ok(conn) => {
                self.grace = grace(&conn);
                let welcome = welcome(&a, lost.last_received);
                let (conn, report) = greet(Arc::new(conn), &a, welcome, &self.way);
                self.told = false;
                let _ = handover::send(&self.control, &report.to_json(), None);
                Verdict::Resume {
                    conn,
                    epoch: a.hello.epoch,
                    peer_last: a.hello.last_received,
                }
            }
            Err(_) => Verdict::Wait(Duration::ZERO),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use busbar_control::attach::{Hidden, Place};
    use busbar_control::hello::Hello;

    #[test]
    fn a_connection_that_was_overtaken_ends_none() {
        let newest = Newest::default();
        let attach = |epoch| Attach {
            hello: Hello {
                epoch,
                ..Hello::default()
            },
            session: String::new(),
            secret: String::new(),
            protocol: 2,
            devices: Vec::new(),
            memory: None,
            of_each: false,
            swaps: false,
            resume_seconds: 60,
            keys: Hidden::default(),
            place: Place::Elsewhere,
        };
        let put = |epoch| {
            let (mut taken, fd) = (false, std::fs::File::open("/dev/null").unwrap());
            newest.put(attach(epoch), fd.into(), || taken = true);
            taken
        };
        assert!(put(2));
        assert!(!put(1), "it was opened before the one that is here");
        assert_eq!(newest.take(LOOK).unwrap().0.hello.epoch, 2);
        assert!(!put(2) && !put(1) && put(4));
        assert_eq!(newest.take(LOOK).unwrap().0.hello.epoch, 4);
        assert!(newest.take(Duration::ZERO).is_none());
    }
}
