//! Functions of the client's program that something here waits for.

use crate::lock::lock;
use crate::outbox::Outbox;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Where bytes go that a callback asks for: address and length. Written only while it is under way.
#[derive(Clone, Copy)]
struct Room(u64, usize);

#[derive(Default)]
struct Shared {
    open: Mutex<HashMap<u32, Option<Room>>>,
    changed: Condvar,
    next: AtomicU32,
}

/// The callbacks that are under way. Cheap to clone.
#[derive(Clone, Default)]
pub struct Callbacks {
    shared: Arc<Shared>,
}

impl Callbacks {
    /// Numbers a callback that is about to be asked for.
    pub fn begin(&self) -> u32 {
        self.number(None)
    }

    /// As [`Callbacks::begin`], for one that asks for bytes.
    ///
    /// # Safety
    /// `len` bytes at `room` stay writable until [`Callbacks::wait`] has returned for it.
    pub unsafe fn begin_with(&self, room: u64, len: usize) -> u32 {
        self.number(Some(Room(room, len)))
    }

    fn number(&self, room: Option<Room>) -> u32 {
        let n = self
            .shared
            .next
            .fetch_add(1, Ordering::Relaxed)
            .wrapping_add(1)
            .max(1);
        lock(&self.shared.open).insert(n, room);
        n
    }

    /// Bytes that a callback asked for: its number, an offset, the bytes. An error when it has no
    /// room for them; one that is not under way is ignored.
    pub fn bytes(&self, payload: &[u8]) -> Result<(), String> {
        let cut = || "bytes for a callback are cut short".to_string();
        let (n, rest) = payload.split_first_chunk().ok_or_else(cut)?;
        let (at, bytes) = rest.split_first_chunk().ok_or_else(cut)?;
        let (n, at) = (u32::from_le_bytes(*n), u64::from_le_bytes(*at));
        let open = lock(&self.shared.open);
        let Some(room) = open.get(&n) else {
            return Ok(());
        };
        let end = at.checked_add(bytes.len() as u64);
        match room {
            Some(Room(p, len)) if end.is_some_and(|end| end <= *len as u64) => {
                let to = (p + at) as *mut u8;
                // SAFETY: within the room, which stays while the callback is under way, and so as
                // long as the lock is held.
                unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
                Ok(())
            }
            _ => Err("bytes that no callback has room for".into()),
        }
    }

    /// Whether any is under way.
    pub fn any(&self) -> bool {
        let open = self.shared.open.lock();
        !open.unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// The client says that callback `n` has returned. One that is not under way is ignored.
    pub fn done(&self, n: u32) {
        lock(&self.shared.open).remove(&n);
        self.shared.changed.notify_all();
    }

    /// Waits until callback `n` has returned, or the session is over.
    pub fn wait(&self, n: u32, outbox: &Outbox) {
        let mut open = lock(&self.shared.open);
        while open.contains_key(&n) && !outbox.closed() {
            let patience = Duration::from_millis(200);
            open = self
                .shared
                .changed
                .wait_timeout(open, patience)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        open.remove(&n);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(n: u32, at: u64, bytes: &[u8]) -> Vec<u8> {
        [&n.to_le_bytes()[..], &at.to_le_bytes(), bytes].concat()
    }

    #[test]
    fn bytes_stay_in_the_room_of_their_callback() {
        let c = Callbacks::default();
        let mut room = [0u8; 8];
        // SAFETY: it lives longer than the callback.
        let n = unsafe { c.begin_with(room.as_mut_ptr() as u64, 8) };
        let other = c.begin();
        assert!(c.bytes(&message(n, 6, &[1, 2])).is_ok());
        for (n, at, bytes) in [(n, 7, &[9, 9][..]), (n, u64::MAX, &[9]), (other, 0, &[9])] {
            assert!(c.bytes(&message(n, at, bytes)).is_err());
        }
        assert!(c.bytes(&message(n, 0, &[])[..11]).is_err());
        c.done(n);
        assert!(
            c.bytes(&message(n, 0, &[9])).is_ok(),
            "too late, and ignored"
        );
        assert_eq!(room, [0, 0, 0, 0, 0, 0, 1, 2]);
    }
}
