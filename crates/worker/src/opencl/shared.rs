//! Memory of a client on this host: commands read and write it where it is.

use super::prelude::*;
use crate::shared::Offers;
use busbar_transport::shared::Segment;

/// Segments of one session: each is a mapping, of which a process may not have very many.
const MOST: usize = 16 << 10;

/// A segment that is mapped; commands that use it keep it.
pub struct Mapping {
    at: u64,
    size: u64,
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `share`, and no command uses it any more.
        unsafe { Segment::unmap(self.at, self.size) };
    }
}

/// What the client has handed over.
pub struct Shared {
    offers: Option<Offers>,
    segments: HashMap<u64, Arc<Mapping>>,
    /// Bytes that one session may share: half of the host's.
    most_bytes: u64,
}

/// A part of a segment, and where it is.
pub type Part = (Arc<Mapping>, usize);

impl Shared {
    pub fn new(offers: Option<Offers>) -> Self {
        Self {
            offers,
            segments: HashMap::new(),
            most_bytes: crate::host::memory() / 2,
        }
    }

    /// Maps a segment that the client has handed over.
    pub fn share(&mut self, number: u64, size: u64) -> Result<(), i32> {
        let offers = self.offers.as_ref().ok_or(CL_INVALID_OPERATION)?;
        let (segment, len) = offers.take(number).ok_or(CL_INVALID_VALUE)?;
        let all = self.segments.values().map(|m| m.size).sum::<u64>();
        if size == 0 || size > len || self.segments.len() >= MOST || size > self.most_bytes - all {
            return Err(CL_OUT_OF_HOST_MEMORY);
        }
        let at = segment.map_anywhere(size);
        let at = at.map_err(|_| CL_OUT_OF_HOST_MEMORY)?;
        self.segments.insert(number, Arc::new(Mapping { at, size }));
        Ok(())
    }

    /// The client uses a segment no more; commands that are under way still do.
    pub fn unshare(&mut self, number: u64) {
        self.segments.remove(&number);
    }

    /// A part of a segment, if it has that part.
    pub fn part(&self, number: u64, at: u64, size: u64) -> Result<Part, i32> {
        let found = self.segments.get(&number);
        let inside = found.filter(|m| size <= m.size && at <= m.size - size);
        let m = inside.ok_or(CL_INVALID_VALUE)?;
        Ok((m.clone(), (m.at + at) as usize))
    }
}
