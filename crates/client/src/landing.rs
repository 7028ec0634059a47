//! Where bytes go that arrive by themselves in the program's memory.
//!
//! They are received in their place. Memory that kernels come to see meanwhile is closed to the
//! program by turns, and the thread that receives must never meet a closed page: who opens one
//! waits for what that thread receives. So what has not come by then is put aside, and brought to
//! its place by another thread.

use crate::prelude::*;

/// A place in the program's memory that bytes are to come to, of one answer or of a piece of one.
pub struct Landing {
    start: usize,
    len: usize,
    now: Mutex<Now>,
}

#[derive(Default)]
struct Now {
    aside: bool,
    /// Bytes are being received in the place.
    receiving: bool,
    /// What was received aside, and where in the place it belongs.
    pieces: Vec<(usize, Box<[u8]>)>,
}

impl Landing {
    /// A place of `len` bytes at `start`.
    pub fn new(start: usize, len: usize) -> Self {
        Self {
            start,
            len,
            now: Mutex::default(),
        }
    }

    /// Whether any of these bytes are in it.
    pub fn meets(&self, start: usize, len: usize) -> bool {
        self.start < start.saturating_add(len) && start < self.start.saturating_add(self.len)
    }

    /// Its first address and end.
    pub fn span(&self) -> (u64, u64) {
        (
            self.start as u64,
            self.start.saturating_add(self.len) as u64,
        )
    }

    /// What comes from now on is put aside. `None` while bytes are being received in the place:
    /// they will soon be there, and until then the place must stay open. Else whether it was not
    /// before.
    pub fn put_aside(&self) -> Option<bool> {
        let mut now = lock(&self.now);
        (!now.receiving).then(|| !std::mem::replace(&mut now.aside, true))
    }

    /// Whether something is, or will be.
    pub fn is_aside(&self) -> bool {
        lock(&self.now).aside
    }

    /// Where `len` bytes at an offset are to be received, until [`Landing::received`] is told. May
    /// be asked again for bytes that a broken connection did not bring.
    pub fn place(&self, offset: usize, len: usize) -> Option<*mut u8> {
        if offset.checked_add(len)? > self.len {
            return None;
        }
        let mut now = lock(&self.now);
        if !now.aside {
            now.receiving = true;
            return Some((self.start + offset) as *mut u8);
        }
        let same = |(at, piece): &(usize, Box<[u8]>)| *at == offset && piece.len() == len;
        let i = match now.pieces.iter().position(same) {
            Some(i) => i,
            None => {
                // A server cannot fill the program's memory with pieces of one place.
                let held: usize = now.pieces.iter().map(|(_, piece)| piece.len()).sum();
                if len > self.len - held.min(self.len) {
                    return None;
                }
                now.pieces.push((offset, vec![0; len].into()));
                now.pieces.len() - 1
            }
        };
        Some(now.pieces[i].1.as_mut_ptr())
    }

    /// The bytes that [`Landing::place`] was asked for last are there.
    pub fn received(&self) {
        lock(&self.now).receiving = false;
    }

    /// Puts bytes in their place by `put`, unless what comes is put aside: then the caller has
    /// `put` again, for another thread.
    pub fn land<F: FnOnce()>(&self, put: F) -> Option<F> {
        let now = lock(&self.now);
        if now.aside {
            return Some(put);
        }
        put();
        None
    }

    /// Brings what was received aside to its place.
    ///
    /// # Safety
    /// The place is writable, if only by a fault.
    pub unsafe fn bring(&self) {
        let pieces = std::mem::take(&mut lock(&self.now).pieces);
        for (at, piece) in pieces {
            let to = (self.start + at) as *mut u8;
            // SAFETY: `place` has checked that the piece fits; passed on to the caller.
            unsafe { std::ptr::copy_nonoverlapping(piece.as_ptr(), to, piece.len()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_late_is_put_aside_and_brought() {
        let mut memory = [0u8; 16];
        let l = Landing::new(memory.as_mut_ptr() as usize, memory.len());
        assert!(l.meets(l.start + 15, 1) && !l.meets(l.start + 16, 1) && !l.meets(0, l.start));
        assert_eq!(l.place(8, 9), None, "it does not fit");
        assert_eq!(l.place(usize::MAX, 2), None);
        // SAFETY: places that are given are writable, here and below.
        let receive = |at: usize, bytes: &[u8]| unsafe {
            let to = l.place(at, bytes.len()).unwrap();
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        };
        receive(0, &[1, 2]);
        assert_eq!(l.put_aside(), None, "until they are there");
        l.received();
        assert!(l.land(|| ()).is_none());
        assert_eq!((l.put_aside(), l.put_aside()), (Some(true), Some(false)));
        assert!(l.is_aside() && l.land(|| ()).is_some());
        receive(4, &[3, 4]);
        // The connection broke, and they come again.
        receive(4, &[5, 6]);
        receive(9, &[7]);
        assert_eq!(l.place(1, 14), None, "more than there can be");
        assert_eq!(memory, [1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        // SAFETY: as above.
        unsafe { l.bring() };
        assert_eq!(memory, [1, 2, 0, 0, 5, 6, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0]);
    }
}
