//! Bodies of frames on their way out, and the bytes that go into them.

use std::any::Any;
use std::collections::VecDeque;
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

impl Frame {
    /// Whether it holds memory that somebody may wait for, the program's or the device's staging.
    pub(crate) fn is_scarce(&self) -> bool {
        self.borrowed.is_some()
    }

    /// The buffer, for another frame.
    pub(crate) fn into_spare(self) -> Option<Vec<u8>> {
        let mut body = self.body;
        body.clear();
        self.borrowed.is_none().then_some(body)
    }
}

/// A frame in the window.
pub(crate) struct Sent {
    pub(crate) frame: Arc<Frame>,
    /// [`Frame::is_scarce`], which is not to be looked up in memory that another core has written.
    scarce: bool,
}

impl Sent {
    pub(crate) fn new(frame: Frame) -> Self {
        Self {
            scarce: frame.is_scarce(),
            frame: Arc::new(frame),
        }
    }
}

/// Frames that the peer has, and whose memory is still to be used again.
///
/// That takes a quarter of a microsecond for each, and after a step of a program that launches much
/// there are hundreds: an answer that arrives with the word that the peer has them must not wait
/// for it. So they are taken apart a few at a time, when there is nothing to receive.
#[derive(Default)]
pub(crate) struct Spent(VecDeque<Arc<Frame>>);

impl Spent {
    /// Frames taken apart in one go.
    const FEW: usize = 16;
    /// With more than this many nothing is put off.
    const MOST: usize = 1 << 13;

    /// The peer has a frame.
    pub(crate) fn add(&mut self, sent: Sent) {
        if !sent.scarce {
            self.0.push_back(sent.frame);
        }
    }

    /// Takes a few apart. Their buffers, if there are any.
    pub(crate) fn some(&mut self) -> Option<impl Iterator<Item = Vec<u8>>> {
        let n = match self.0.len() {
            0 => return None,
            n if n > Self::MOST => n,
            n => n.min(Self::FEW),
        };
        let frames = self.0.drain(..n);
        // Whoever sends one at this moment frees it.
        Some(frames.filter_map(|f| Arc::try_unwrap(f).ok().and_then(Frame::into_spare)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(body: Vec<u8>, borrowed: Option<(*const u8, usize)>) -> Sent {
        Sent::new(Frame {
            body,
            borrowed,
            _keep: None,
        })
    }

    #[test]
    fn buffers_come_back_a_few_at_a_time() {
        let mut spent = Spent::default();
        for _ in 0..=Spent::FEW {
            spent.add(sent(vec![1], None));
        }
        for n in [Spent::FEW, 1] {
            let some: Vec<_> = spent.some().expect("some are left").collect();
            assert_eq!(some.len(), n);
            assert!(some.iter().all(|b| b.is_empty() && b.capacity() > 0));
        }
        assert!(spent.some().is_none());
    }

    #[test]
    fn borrowed_memory_is_given_back_at_once() {
        let mut spent = Spent::default();
        let f = sent(vec![], Some((std::ptr::null(), 1)));
        let held = Arc::downgrade(&f.frame);
        spent.add(f);
        assert!(held.upgrade().is_none());
    }
}
