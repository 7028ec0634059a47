//! A process without threads but its own: whoever flushes sends, and whoever asks for something
//! does it. So the same happens each time, at no cost for threads, which is what a fuzzer wants.
//! What a session is made of does not notice.

use super::prelude::*;
use crate::inner::{Channel, Closed, Inner};
use crate::recv::{DIRECT, Quiet, Reader, Sink};
use busbar_wire::session::{self, Bounds};

/// Gets the receiving end of each channel.
type Taker = fn(Receiving);

static TAKER: OnceLock<Taker> = OnceLock::new();

/// From here on nothing in this process gets a thread for a session, and `taker` gets what receives
/// for each. Nothing but a fuzzer says so.
pub fn set(taker: Taker) {
    let _ = TAKER.set(taker);
}

/// Whether that was said.
#[inline]
pub fn is_set() -> bool {
    TAKER.get().is_some()
}

/// The receiving end of a channel without threads.
pub struct Receiving {
    inner: Arc<Inner>,
    session: session::Receiver,
    reader: Reader,
    buf: Vec<u8>,
}

/// Starts a channel without threads, if it is to be one; gives back what takes what arrives if not.
pub(crate) fn start(
    conn: &Arc<dyn Connection>,
    sink: Box<dyn Sink>,
) -> std::io::Result<Result<Channel, Box<dyn Sink>>> {
    let Some(taker) = TAKER.get() else {
        return Ok(Err(sink));
    };
    let (inner, session) = Inner::new(conn.clone(), sink.execution(), Bounds::default())?;
    taker(Receiving {
        inner: inner.clone(),
        session,
        reader: Reader::new(sink),
        // Each session has one: no longer than it has to be.
        buf: vec![0; DIRECT],
    });
    Ok(Ok(Channel { inner }))
}

impl Receiving {
    /// Takes all frames that there are: the connection's end is the end of what there is, not of
    /// the session. Whether the session goes on.
    pub fn take(&mut self) -> bool {
        let conn = lock(&self.inner.outgoing).conn.clone();
        let Some(conn) = conn else { return false };
        let session = &mut self.session;
        match self
            .reader
            .take(&self.inner, &*conn, session, &mut self.buf)
        {
            Quiet::ForNow => true,
            Quiet::Over(why) => {
                self.inner.end(Closed(why.into()));
                self.end();
                false
            }
        }
    }

    /// If the session is over, who takes what arrives is told.
    pub fn end(&mut self) {
        let why = lock(&self.inner.closed).clone();
        if let Some(c) = why {
            self.reader.sink.closed(&c);
        }
    }
}
