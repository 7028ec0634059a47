//! A session's way over RDMA: asked for, moved to, lost, and come back to.

use crate::hello;
use crate::prelude::*;
use busbar_channel::Channel;
use busbar_control::hello::{Hello, Intent, RDMA, Welcome};
use busbar_transport::rdma::{Outcome, Settings, Wish};
use busbar_transport::{Connection, Dialer, Path};

/// How long after a session has lost its way over RDMA that is tried again, at first and at most.
const FIRST: Duration = Duration::from_secs(5);
const LAST: Duration = Duration::from_secs(60);
/// How long the server may take to be reached for that.
const REACHED: Duration = Duration::from_secs(2);

/// What a session knows of it.
#[derive(Clone)]
pub struct Way {
    settings: Settings,
    /// Why this end has none.
    why_not: Option<String>,
    /// The session has been on it once, or would be but for what is on the way.
    was: bool,
    /// The last attempt has lost its connection.
    lost: bool,
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
            lost: false,
            pause: FIRST,
            gone_on: Arc::default(),
            channel: Arc::default(),
        })
    }

    /// Moves a connection that the server has welcomed.
    fn moved(&mut self, conn: Arc<dyn Connection>, welcome: &Welcome) -> Outcome {
        if let Some(why) = &self.why_not {
            return Outcome::of(conn, Some(why.clone()));
        }
        if !offers(welcome) {
            let why = "the server has RDMA switched off, or is of an older release";
            return Outcome::of(conn, Some(why.into()));
        }
        let outcome = self.settings.take(conn);
        self.lost = outcome.lost;
        self.was |= outcome.why_not.is_none() || outcome.lost;
        outcome
    }

    /// What the server is asked for as a session goes on. A connection that was lost as it moved is
    /// followed by one that does not: the session would make no other progress where something on
    /// the way, that reads along, does not bear it.
    pub fn ask_again(&self, hello: &mut Hello) {
        if self.lost {
            hello.features.retain(|f| f != RDMA);
        }
    }

    /// As a session begins.
    pub fn first(
        &mut self,
        conn: Arc<dyn Connection>,
        welcome: &Welcome,
    ) -> Result<Arc<dyn Connection>, String> {
        let Outcome { conn, why_not, .. } = self.moved(conn, welcome);
        match (why_not, self.settings.wish) {
            (None, _) => crate::log!(Info, "the session is on RDMA"),
            (Some(why), Wish::On) => return Err(format!("no session without RDMA: {why}")),
            (Some(why), Wish::Auto) => crate::log!(Info, "the session is on TCP: {why}"),
            (Some(_), Wish::Off) => {}
        }
        Ok(conn)
    }

    /// As a session goes on, by a server that is reached so, with this hello. One that was on RDMA
    /// and cannot be now will try again.
    pub fn next(
        &mut self,
        conn: Arc<dyn Connection>,
        welcome: &Welcome,
        (dialer, hello): (&Arc<dyn Dialer>, &Hello),
    ) -> Arc<dyn Connection> {
        let connection = self.gone_on.fetch_add(1, Ordering::AcqRel) + 1;
        let left_out = std::mem::take(&mut self.lost);
        let Outcome { conn, why_not, .. } = match left_out {
            true => Outcome::of(conn, Some("the last attempt lost its connection".into())),
            false => self.moved(conn, welcome),
        };
        let Some(why) = why_not.filter(|_| self.was) else {
            self.pause = FIRST;
            return conn;
        };
        if self.lost {
            // The next one will be told to stay.
            return conn;
        }
        // Whoever keeps it there says when it may come back.
        if !left_out && !offers(welcome) {
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
        let (me, dialer) = (self.clone(), dialer.clone());
        let mut hello = Hello {
            intent: Intent::Try,
            ..hello.clone()
        };
        if left_out {
            hello.features.push(RDMA.into());
        }
        let run = move || me.come_back(connection, pause, &*dialer, &hello);
        let _ = crate::threads::start("busbar-rdma", run);
        conn
    }

    /// Gives up a connection over TCP once another of the session's has been seen to move: the one
    /// that the session goes on with will, too. Until then TCP carries it undisturbed.
    fn come_back(&self, connection: u64, mut pause: Duration, dialer: &dyn Dialer, hello: &Hello) {
        let Some(channel) = self.channel.get() else {
            return;
        };
        // Another connection may have come meanwhile, and has been tried.
        let over =
            || channel.closed().is_some() || self.gone_on.load(Ordering::Acquire) != connection;
        loop {
            std::thread::sleep(pause);
            if over() {
                return;
            }
            // A port that is down is looked at again soon: that asks nobody.
            if self.settings.port(None).is_err() {
                continue;
            }
            match self.attempt(dialer, hello) {
                Ok(()) if over() => return,
                Ok(()) => return channel.disconnect(),
                Err(why) => {
                    pause = (2 * pause).min(LAST);
                    let next = pause.as_secs();
                    crate::log!(Info, "RDMA was tried, and again in {next} s: {why}");
                }
            }
        }
    }

    /// Moves a connection that is nothing else, and ends it.
    fn attempt(&self, dialer: &dyn Dialer, hello: &Hello) -> Result<(), String> {
        let met = hello::connect(dialer, hello, REACHED).map_err(|e| e.to_string());
        let (conn, welcome) = met?;
        if !offers(&welcome) {
            return Err("the server keeps the session on TCP".into());
        }
        match self.settings.take(conn).why_not {
            None => Ok(()),
            Some(why) => Err(why),
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
