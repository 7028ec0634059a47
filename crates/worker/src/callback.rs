//! Functions of the client's program that something here waits for.

use crate::outbox::Outbox;
use crate::prelude::*;

/// Where bytes go that a callback asks for: address and length. Written only while it is under way.
#[derive(Clone, Copy)]
struct Room(u64, usize);

/// What a callback that is under way has.
#[derive(Default)]
struct Open {
    room: Option<Room>,
    /// Done when it has returned, or will not.
    then: Option<Box<dyn FnOnce() + Send>>,
}

#[derive(Default)]
struct Shared {
    open: Mutex<HashMap<u32, Open>>,
    /// Nothing returns any more. Changes while `open` is locked.
    over: AtomicBool,
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
        self.number(Open::default())
    }

    /// As [`Callbacks::begin`], for one that asks for bytes, which nobody waits for: `then` is done
    /// when it has returned, or the session is over.
    ///
    /// # Safety
    /// `len` bytes at `room` stay writable until then.
    pub unsafe fn begin_with(
        &self,
        (room, len): (u64, usize),
        then: impl FnOnce() + Send + 'static,
    ) -> u32 {
        self.number(Open {
            room: Some(Room(room, len)),
            then: Some(Box::new(then)),
        })
    }

    fn number(&self, what: Open) -> u32 {
        let n = self
            .shared
            .next
            .fetch_add(1, Ordering::Relaxed)
            .wrapping_add(1)
            .max(1);
        let mut open = lock(&self.shared.open);
        open.insert(n, what);
        let over = self.shared.over.load(Ordering::Acquire);
        drop(open);
        if over {
            self.done(n);
        }
        n
    }

    /// The session is over: nothing returns any more.
    pub fn end(&self) {
        let mut open = lock(&self.shared.open);
        self.shared.over.store(true, Ordering::Release);
        let left: Vec<u32> = open
            .iter_mut()
            .filter_map(|(n, o)| o.then.is_some().then_some(*n))
            .collect();
        drop(open);
        left.into_iter().for_each(|n| self.done(n));
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
        match room.room {
            Some(Room(p, len)) if end.is_some_and(|end| end <= len as u64) => {
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
        let gone = lock(&self.shared.open).remove(&n);
        self.shared.changed.notify_all();
        if let Some(then) = gone.and_then(|o| o.then) {
            then();
        }
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
        let came = Arc::new(AtomicU32::new(0));
        let come = |came: &Arc<AtomicU32>| {
            let came = came.clone();
            move || _ = came.fetch_add(1, Ordering::AcqRel)
        };
        let place = (room.as_mut_ptr() as u64, 8);
        // SAFETY: it lives longer than the callback, as for the others here.
        let n = unsafe { c.begin_with(place, come(&came)) };
        let other = c.begin();
        assert!(c.bytes(&message(n, 6, &[1, 2])).is_ok());
        for (n, at, bytes) in [(n, 7, &[9, 9][..]), (n, u64::MAX, &[9]), (other, 0, &[9])] {
            assert!(c.bytes(&message(n, at, bytes)).is_err());
        }
        assert!(c.bytes(&message(n, 0, &[])[..11]).is_err());
        assert_eq!(came.load(Ordering::Acquire), 0);
        c.done(n);
        c.done(n);
        assert_eq!(came.load(Ordering::Acquire), 1);
        assert!(
            c.bytes(&message(n, 0, &[9])).is_ok(),
            "too late, and ignored"
        );
        assert_eq!(room, [0, 0, 0, 0, 0, 0, 1, 2]);
        // SAFETY: as above.
        unsafe { c.begin_with(place, come(&came)) };
        c.end();
        assert_eq!(came.load(Ordering::Acquire), 2, "nobody answers any more");
        // SAFETY: as above.
        unsafe { c.begin_with(place, come(&came)) };
        assert_eq!(came.load(Ordering::Acquire), 3, "nor a later one");
    }
}
