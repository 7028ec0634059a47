//! Bodies of frames on their way out, and the bytes that go into them.

use std::any::Any;
use std::sync::Arc;

/// Bytes that follow a record's fields.
#[derive(Clone, Copy)]
pub enum Bulk<'a> {
    /// They may change as soon as the call returns: they are copied.
    Copy(&'a [u8]),
    /// They stay as they are until the peer has received them (pinned memory with an asynchronous
    /// copy in progress): they are sent from where they are.
    ///
    /// The pointer must stay readable until the frame is acknowledged: see
    /// [`crate::Channel::drain`].
    Borrow(*const u8, usize),
    /// As `Borrow`, for memory of our own: `keep` is dropped once the peer has received the bytes.
    Shared(*const u8, usize, &'a Arc<dyn Any + Send + Sync>),
}

impl Bulk<'_> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Copy(b) => b.len(),
            Self::Borrow(_, n) | Self::Shared(_, n, _) => *n,
        }
    }
}

/// A sealed frame body: bytes of our own, then perhaps bytes of the program's.
pub(crate) struct Frame {
    pub(crate) body: Vec<u8>,
    pub(crate) borrowed: Option<(*const u8, usize)>,
    /// Keeps borrowed bytes alive when they are ours.
    pub(crate) _keep: Option<Arc<dyn Any + Send + Sync>>,
}

// SAFETY: the borrowed pointer is only read, and `Bulk::Borrow` obliges the caller to keep it
// readable and unchanged for as long as the frame lives.
unsafe impl Send for Frame {}
// SAFETY: as above; a frame is immutable once it is made.
unsafe impl Sync for Frame {}

impl Frame {
    pub(crate) fn len(&self) -> usize {
        self.body.len() + self.borrowed.map_or(0, |b| b.1)
    }
}

/// Takes a frame apart for reuse of its buffer.
pub(crate) fn retire(f: Arc<Frame>, freed: &mut usize, spare: &mut Vec<Vec<u8>>) {
    *freed += f.len();
    if let Ok(f) = Arc::try_unwrap(f)
        && f.borrowed.is_none()
    {
        let mut body = f.body;
        body.clear();
        spare.push(body);
    }
}
