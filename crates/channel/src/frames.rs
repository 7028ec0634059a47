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

    /// Whether some of `len` bytes at `p` are sent from where they lie.
    pub(crate) fn borrows(&self, p: u64, len: u64) -> bool {
        self.borrowed
            .is_some_and(|(at, n)| (at as u64) < p + len && p < at as u64 + n as u64)
    }
}

/// Frames that the peer has, and that are still to be made ready for use again.
///
/// That takes a while for each, and after a step of a program that launches much there are
/// hundreds: an answer that arrives with the word that the peer has them must not wait for it. So
/// it is done for a few at a time, when there is nothing to receive.
#[derive(Default)]
pub(crate) struct Spent {
    frames: VecDeque<Arc<Frame>>,
    scarce: Vec<Arc<Frame>>,
}

impl Spent {
    /// Frames in one go.
    const FEW: usize = 16;
    /// With more than this many nothing is put off.
    const MOST: usize = 1 << 13;

    /// The peer has a frame. One that is `scarce` holds memory that somebody may wait for, the
    /// program's or the device's staging: told by who knows, so as not to be looked up in memory
    /// that another core has written.
    pub(crate) fn add(&mut self, frame: Arc<Frame>, scarce: bool) {
        if scarce {
            self.scarce.push(frame);
        } else {
            self.frames.push_back(frame);
        }
    }

    /// Gives back what somebody may wait for. Not while a lock of the channel's is held: whose
    /// memory it was may have something to say when it gets it back.
    pub(crate) fn let_go(&mut self) {
        self.scarce.clear();
    }

    /// A few frames to be used again, if there are any left.
    pub(crate) fn some(&mut self) -> Option<impl Iterator<Item = Arc<Frame>>> {
        let n = match self.frames.len() {
            0 => return None,
            n if n > Self::MOST => n,
            n => n.min(Self::FEW),
        };
        Some(self.frames.drain(..n))
    }
}

/// Frames for reuse, each with an empty buffer: in steady state a program's records cost no memory
/// from the allocator, whose locks the program's own threads need.
#[derive(Default)]
pub(crate) struct Spares {
    frames: Vec<Arc<Frame>>,
    /// The size of their buffers.
    bytes: usize,
    /// How many buffers are large.
    large: usize,
    /// Empty buffers for bulk records.
    bulk: Vec<Vec<u8>>,
}

impl Spares {
    /// As many bytes as a program may launch between two words of the peer's, and some more.
    const BYTES: usize = 4 << 20;
    /// For buffers that hold little.
    const MOST: usize = 1 << 13;
    /// A larger buffer than most frames need.
    const LARGE: usize = 4 << 10;
    /// The most of those.
    const MOST_LARGE: usize = 32;
    /// From this size on a buffer is for bulk records: to get fresh memory from the kernel costs as
    /// much as to fill it.
    const BULK: usize = 128 << 10;
    /// The most of those.
    const MOST_BULK: usize = 8;

    /// Keeps a frame, or gives it back where there are enough or somebody still sends it.
    pub(crate) fn put(&mut self, mut f: Arc<Frame>) -> Option<Arc<Frame>> {
        let Some(frame) = Arc::get_mut(&mut f) else {
            return Some(f);
        };
        frame.body.clear();
        let size = frame.body.capacity();
        if size > Self::BULK {
            if self.bulk.len() < Self::MOST_BULK {
                self.bulk.push(std::mem::take(&mut frame.body));
            }
            return Some(f);
        }
        let large = usize::from(size > Self::LARGE);
        let enough = self.frames.len() == Self::MOST
            || self.bytes + size > Self::BYTES
            || self.large + large > Self::MOST_LARGE;
        if enough {
            return Some(f);
        }
        self.bytes += size;
        self.large += large;
        self.frames.push(f);
        None
    }

    /// An empty buffer for a bulk record, with room already if there is one.
    pub(crate) fn bulk(&mut self) -> Vec<u8> {
        self.bulk.pop().unwrap_or_default()
    }

    /// Makes a frame of a body, which is empty afterwards, with another buffer if there is one.
    pub(crate) fn seal(&mut self, body: &mut Vec<u8>) -> Arc<Frame> {
        if let Some(mut f) = self.frames.pop()
            && let Some(frame) = Arc::get_mut(&mut f)
        {
            let size = frame.body.capacity();
            self.bytes -= size;
            self.large -= usize::from(size > Self::LARGE);
            std::mem::swap(&mut frame.body, body);
            return f;
        }
        Arc::new(Frame {
            body: std::mem::take(body),
            borrowed: None,
            _keep: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(body: Vec<u8>, borrowed: Option<(*const u8, usize)>) -> Arc<Frame> {
        Arc::new(Frame {
            body,
            borrowed,
            _keep: None,
        })
    }

    #[test]
    fn frames_come_back_a_few_at_a_time() {
        let mut spent = Spent::default();
        for _ in 0..=Spent::FEW {
            spent.add(frame(vec![1], None), false);
        }
        for n in [Spent::FEW, 1] {
            let some = spent.some().expect("some are left");
            assert_eq!(some.count(), n);
        }
        assert!(spent.some().is_none());
    }

    #[test]
    fn borrowed_memory_is_given_back_at_once() {
        let mut spent = Spent::default();
        let f = frame(vec![], Some((std::ptr::null(), 1)));
        let held = Arc::downgrade(&f);
        spent.add(f, true);
        spent.let_go();
        assert!(held.upgrade().is_none());
    }

    #[test]
    fn spare_frames_are_used_again_and_are_bounded() {
        let mut spares = Spares::default();
        let first = frame(vec![1; 100], None);
        let (at, held) = (Arc::as_ptr(&first), first.clone());
        let first = spares.put(first).expect("somebody still has it");
        drop(held);
        assert!(spares.put(first).is_none());
        let mut bulk = vec![3; Spares::BULK + 1];
        bulk.shrink_to_fit();
        spares.put(frame(bulk, None));
        let bulk = spares.bulk();
        assert!(bulk.is_empty() && bulk.capacity() > Spares::BULK);
        let mut body = vec![2; 10];
        let f = spares.seal(&mut body);
        assert_eq!((Arc::as_ptr(&f), &*f.body), (at, &[2; 10][..]));
        assert!(body.is_empty() && body.capacity() >= 100);

        let kept = |spares: &mut Spares, size: usize| {
            let one = || spares.put(frame(Vec::with_capacity(size), None));
            std::iter::repeat_with(one)
                .take_while(Option::is_none)
                .count()
        };
        assert_eq!(kept(&mut spares, Spares::LARGE + 1), Spares::MOST_LARGE);
        let left = Spares::BYTES - spares.bytes;
        assert_eq!(kept(&mut spares, Spares::LARGE), left / Spares::LARGE);
    }
}
