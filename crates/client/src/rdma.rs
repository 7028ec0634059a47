//! A session's way over RDMA: asked for, moved to, lost, and come back to.

use crate::prelude::*;
use busbar_channel::Channel;
use busbar_control::hello::{Hello, RDMA, Welcome};
use busbar_transport::rdma::{Outcome, Settings, Wish};
use busbar_transport::{Connection, Path};

/// How long after a session has lost its way over RDMA that is tried again, at first and at most.
const FIRST: Duration = Duration::from_secs(5);
const LAST: Duration = Duration::from_secs(60);

/// What a session knows of it.
#[derive(Clone)]
pub struct Way {
    settings: Settings,
    /// Why this end has none.
    why_not: Option<String>,
    /// The session has been on it once.
    was: bool,
    pause: Duration,
    /// How often the session has gone on: whoever waits to come back sees by it that another
    /// connection was made, which the channel knows only a moment later.
    gone_on: Arc<AtomicU64>,
    channel: Arc<OnceLock<Channel>>,
}

impl Way {
    /// Looks whether this machine has a device, and says so in the session's hello. An error if it
    /// must have one.
    pub fn ask(settings: &Settings, hello: &mut Hello) -> Result<Self, String> {
        let why_not = settings.port(None).err();
        match (&why_not, settings.wish) {
            (None, _) => hello.features.push(RDMA.into()),
            (Some(why), Wish::On) => return Err(format!("no session without RDMA: {why}")),
            (Some(_), _) => {}
        }
        Ok(Self {
            settings: settings.clone(),
            why_not,
            was: false,
            pause: FIRST,
            gone_on: Arc::default(),
            channel: Arc::default(),
        })
    }

    /// Moves a connection that the server has welcomed.
    fn moved(&mut self, conn: Arc<dyn Connection>, welcome: &Welcome) -> Outcome {
        if let Some(why) = &self.why_not {
            let why_not = Some(why.clone());
            return Outcome { conn, why_not };
        }
        if !offers(welcome) {
            let why = "the server has RDMA switched off, or is of an older release";
            let why_not = Some(why.into());
            return Outcome { conn, why_not };
        }
        let outcome = self.settings.take(conn);
        self.was |= outcome.why_not.is_none();
        outcome
    }

    /// As a session begins.
    pub fn first(
        &mut self,
        conn: Arc<dyn Connection>,
        welcome: &Welcome,
    ) -> Result<Arc<dyn Connection>, String> {
        let Outcome { conn, why_not } = self.moved(conn, welcome);
        match (why_not, self.settings.wish) {
            (None, _) => crate::log!(Info, "the session is on RDMA"),
            (Some(why), Wish::On) => return Err(format!("no session without RDMA: {why}")),
            (Some(why), Wish::Auto) => crate::log!(Info, "the session is on TCP: {why}"),
            (Some(_), Wish::Off) => {}
        }
        Ok(conn)
    }

    /// As a session goes on. One that was on RDMA and cannot be now will try again.
    pub fn next(&mut self, conn: Arc<dyn Connection>, welcome: &Welcome) -> Arc<dyn Connection> {
        let connection = self.gone_on.fetch_add(1, Ordering::AcqRel) + 1;
        let Outcome { conn, why_not } = self.moved(conn, welcome);
        let Some(why) = why_not.filter(|_| self.was) else {
            self.pause = FIRST;
            return conn;
        };
        // Whoever keeps it there says when it may come back.
        if !offers(welcome) {
            self.pause = FIRST;
            crate::log!(Info, "the session goes on over TCP, as its server wants");
            return conn;
        }
        let pause = self.pause;
        self.pause = (2 * pause).min(LAST);
        crate::log!(
            Warn,
            "the session goes on over TCP, and tries RDMA again in {} s: {why}",
            pause.as_secs()
        );
        let me = self.clone();
        let _ = crate::threads::start("busbar-rdma", move || me.come_back(connection, pause));
        conn
    }

    /// Gives up a connection over TCP once this machine has a device that is up again: the one that
    /// the session goes on with may be moved.
    fn come_back(&self, connection: u64, pause: Duration) {
        let Some(channel) = self.channel.get() else {
            return;
        };
        loop {
            std::thread::sleep(pause);
            // Another has come meanwhile, and has been tried.
            if channel.closed().is_some() || self.gone_on.load(Ordering::Acquire) != connection {
                return;
            }
            if self.settings.port(None).is_ok() {
                return channel.disconnect();
            }
        }
    }

    /// Whose connections these are.
    pub fn of(&self) -> Arc<OnceLock<Channel>> {
        self.channel.clone()
    }
}

/// Whether the server would move the connection that it welcomes.
fn offers(welcome: &Welcome) -> bool {
    welcome.features.iter().any(|f| f == RDMA)
}

/// Whether a connection is on RDMA.
pub fn is_on(conn: &dyn Connection) -> bool {
    conn.path() == Path::Rdma
}
