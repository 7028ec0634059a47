//! What has been collected from the lanes, and what it goes out over.

use super::prelude::*;
use crate::frames::{Frame, Spares};
use crate::side::Side;
use busbar_wire::session;

/// A frame body is closed at this size, so that sending starts while the producer goes on.
pub(crate) const SEAL: usize = 32 << 10;
/// See the module. On cache lines of its own.
#[repr(align(128))]
pub(crate) struct Outgoing {
    /// Numbers frames and keeps them.
    pub(crate) session: session::Sender<Arc<Frame>>,
    /// The present connection, if it has not failed, and what goes with it.
    pub(crate) conn: Option<Arc<dyn Connection>>,
    pub(crate) sides: Vec<Arc<Side>>,
    /// A connection that the peer has opened as a side connection, and has not named yet.
    pub(crate) offered: Option<(u64, Arc<dyn Connection>)>,
    /// Records with bulk bytes, which have never been in a lane.
    pub(crate) bulky: u64,
    /// Records that are no frame yet.
    pub(crate) buf: Vec<u8>,
    pub(crate) spares: Spares,
    /// The lanes were left alone, because the window is full.
    pub(crate) held: bool,
}

impl Outgoing {
    pub(crate) fn new(session: session::Sender<Arc<Frame>>, conn: Arc<dyn Connection>) -> Self {
        Self {
            session,
            conn: Some(conn),
            sides: Vec::new(),
            offered: None,
            bulky: 0,
            buf: Vec::new(),
            spares: Spares::default(),
            held: false,
        }
    }

    /// Bytes that the peer has not acknowledged.
    pub(crate) fn kept(&self) -> usize {
        self.session.bytes() + self.buf.len()
    }

    pub(crate) fn has_room(&self) -> bool {
        self.session.has_room(self.buf.len())
    }

    pub(crate) fn seal_if_long(&mut self) {
        if self.buf.len() >= SEAL {
            self.seal();
        }
    }

    pub(crate) fn seal(&mut self) {
        if !self.buf.is_empty() {
            let frame = self.spares.seal(&mut self.buf);
            let len = frame.len();
            self.session.push(frame, len, false);
        }
    }

    /// The connection is gone.
    pub(crate) fn detach(&mut self) {
        self.session.detach(self.session.epoch());
        self.conn = None;
        self.drop_sides();
    }

    pub(crate) fn drop_sides(&mut self) {
        self.sides.drain(..).for_each(|side| side.shut());
    }
}
