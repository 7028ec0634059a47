//! Mirrors: page-locked memory in the place of the program's, for the copies of graphs. Those of
//! memory that overlaps show the same bytes.

use super::image::{Image, View};
use super::prelude::*;
use crate::outbox::Outbox;
use busbar_wire::promise::Word;

/// Page-locked memory that is free, by size.
type Free = Arc<Mutex<HashMap<usize, Vec<u64>>>>;

/// Page-locked memory for bytes that have no other place.
pub struct Room {
    /// Where it is.
    pub ptr: u64,
    len: usize,
    free: Free,
}

impl Drop for Room {
    fn drop(&mut self) {
        // On whatever thread the driver chose, which may not call the driver: the memory is kept.
        let mut free = lock(&self.free);
        free.entry(room(self.len)).or_default().push(self.ptr);
    }
}

/// Bytes that are taken for as many.
pub fn room(len: usize) -> usize {
    len.max(4096).next_power_of_two()
}

/// A box of bytes as the program has it: they travel packed, without the gaps between rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rows {
    pub width: usize,
    pub height: usize,
    pub depth: usize,
    /// Bytes from one row to the next.
    pub pitch: usize,
    /// Rows from one slice to the next.
    pub slice: usize,
}

impl Rows {
    /// Packed bytes, and those from the first to the last; none if no memory has so many.
    fn extent(&self) -> Option<(usize, usize)> {
        const MOST: usize = 1 << 40;
        let len = self.width.checked_mul(self.height)?;
        let len = len.checked_mul(self.depth)?;
        let last = self.slice.checked_mul(self.depth.checked_sub(1)?)?;
        let last = last.checked_add(self.height.checked_sub(1)?)?;
        let span = last.checked_mul(self.pitch)?.checked_add(self.width)?;
        let one = self.height == 1 && self.depth == 1;
        let apart = one || self.pitch >= self.width && (self.depth == 1 || self.slice > 0);
        (apart && len > 0 && len < MOST && span < MOST).then_some((len, span))
    }

    /// Runs `f` on where packed bytes from `offset` on are, piece by piece, and how many.
    fn each(&self, offset: usize, len: usize, mut f: impl FnMut(usize, usize)) {
        let (mut at, end) = (offset, offset + len);
        while at < end {
            let (row, x) = (at / self.width, at % self.width);
            let n = (self.width - x).min(end - at);
            let line = row / self.height * self.slice + row % self.height;
            f(line * self.pitch + x, n);
            at += n;
        }
    }
}

/// How a program has called its end of a copy, and what the copy does with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Named {
    /// The kind of memory.
    pub kind: CUmemorytype,
    /// Bytes, rows and slices from the address that was named to the first byte.
    pub at: [usize; 3],
    pub written: bool,
}

/// A mirror.
pub struct Mirror {
    /// The client's number for it.
    pub id: u32,
    /// Where its first byte is.
    pub ptr: u64,
    pub rows: Rows,
    /// Packed bytes.
    pub len: usize,
    /// The program's addresses: the first, and the end.
    program: (u64, u64),
    named: Named,
    view: View,
    /// Others with bytes of its own.
    near: Mutex<Vec<Weak<Mirror>>>,
    /// Launches under way that may read or write it.
    pub busy: AtomicU32,
    ended: Ended,
    outbox: Outbox,
}

/// Views that no mirror needs any more, and the driver knows still.
type Ended = Arc<Mutex<Vec<View>>>;

impl Drop for Mirror {
    fn drop(&mut self) {
        // As with room: the driver may not be called here.
        lock(&self.ended).push(self.view);
        let id = self.id;
        self.outbox
            .callback(0, Word::MirrorGone as i32, |w| w.u32(id));
    }
}

impl Mirror {
    /// Whether no launch under way may read or write any of its bytes.
    pub fn is_idle(&self) -> bool {
        let idle = |m: &Mirror| m.busy.load(Ordering::Acquire) == 0;
        let near = lock(&self.near);
        idle(self) && near.iter().filter_map(Weak::upgrade).all(|m| idle(&m))
    }

    /// Writes some of its packed bytes.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result {
        let end = offset.checked_add(bytes.len() as u64);
        if end.is_none_or(|end| end > self.len as u64) {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let mut from = bytes;
        self.rows.each(offset as usize, bytes.len(), |at, n| {
            let (row, rest) = from.split_at(n);
            // SAFETY: within the mirror, by the check above.
            unsafe {
                let to = (self.ptr as *mut u8).add(at);
                std::ptr::copy_nonoverlapping(row.as_ptr(), to, n);
            }
            from = rest;
        });
        Ok(())
    }

    /// Where its packed bytes are, if they lie one behind the other.
    pub fn whole(&self) -> Option<(*const u8, usize)> {
        let (_, span) = self.rows.extent()?;
        (span == self.len).then_some((self.ptr as *const u8, self.len))
    }

    /// Its packed bytes as they are now.
    pub fn read(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len);
        self.rows.each(0, self.len, |at, n| {
            // SAFETY: within the mirror.
            let row = unsafe { std::slice::from_raw_parts((self.ptr as *const u8).add(at), n) };
            bytes.extend_from_slice(row);
        });
        bytes
    }
}

/// Mirrors by the client's numbers: functions of the program's find them ahead of the queue.
pub type ById = Arc<Mutex<HashMap<u32, Weak<Mirror>>>>;

pub fn find(all: &ById, id: u32) -> Result<Arc<Mirror>> {
    let m = lock(all).get(&id).and_then(Weak::upgrade);
    m.ok_or(CUDA_ERROR_INVALID_VALUE)
}

/// The session's mirrors.
#[derive(Default)]
pub struct Mirrors {
    by_id: ById,
    by_ptr: HashMap<u64, Weak<Mirror>>,
    ended: Ended,
    free: Free,
    /// What the mirrors show.
    pub image: Image,
    /// Bytes of page-locked memory that were taken.
    taken: usize,
}

/// The most page-locked memory that a session's mirrors take: a part of what the machine has, since
/// nothing else can use it meanwhile.
fn most_taken() -> usize {
    crate::host::memory() as usize / 4
}

impl Mirrors {
    /// Whether any mirror is alive.
    pub fn any(&self) -> bool {
        lock(&self.by_id).values().any(|m| m.strong_count() > 0)
    }

    /// A context is gone: page-locked memory that nobody uses may have gone with it.
    pub fn forget_free(&self) {
        let free = self.free.lock();
        free.unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn take(&mut self, len: usize) -> Result {
        let taken = self.taken.saturating_add(len);
        refuse_if(taken > most_taken(), CUDA_ERROR_OUT_OF_MEMORY)?;
        self.taken = taken;
        Ok(())
    }

    /// Room for bytes, which `alloc` gets from the driver where none is free.
    pub fn room(
        &mut self,
        len: usize,
        alloc: impl FnOnce(usize) -> Result<u64>,
    ) -> Result<Arc<Room>> {
        let size = room(len);
        let known = lock(&self.free).get_mut(&size).and_then(Vec::pop);
        let ptr = match known {
            Some(p) => p,
            None => {
                self.take(size)?;
                alloc(size).inspect_err(|_| self.taken -= size)?
            }
        };
        let free = self.free.clone();
        Ok(Arc::new(Room { ptr, len, free }))
    }

    /// Makes the mirror `id` of what the program has at `program`; `register` makes it known to the
    /// driver. What has one already keeps that, under its own number: a driver takes boxes in the
    /// place of others only where their memory is the same.
    pub fn make(
        &mut self,
        id: u32,
        (program, rows): (u64, Rows),
        named: Named,
        outbox: &Outbox,
        register: impl FnOnce(&View) -> Result,
    ) -> Result<Arc<Mirror>> {
        const PAGE: u64 = 4096;
        const BAD: CUresult = CUDA_ERROR_INVALID_VALUE;
        let (len, span) = rows.extent().ok_or(BAD)?;
        let end = program.checked_add(span as u64).ok_or(BAD)?;
        if let Some(same) = self.same((program, end), rows, named) {
            outbox.callback(0, Word::MirrorGone as i32, |w| w.u32(id));
            return Ok(same);
        }
        let origin = program & !(PAGE - 1);
        let pages = end.checked_next_multiple_of(PAGE).ok_or(BAD)? - origin;
        self.take(pages as usize)?;
        let view = self.image.show(None, origin, pages);
        let view = view.map_err(|_| CUDA_ERROR_OUT_OF_MEMORY);
        let view = view.and_then(|v| register(&v).map(|()| v).inspect_err(|_| self.hide(v)));
        let view = view.inspect_err(|_| self.taken -= pages as usize)?;
        let ptr = view.at + (program - origin);
        let m = Arc::new(Mirror {
            id,
            ptr,
            rows,
            len,
            program: (program, end),
            named,
            view,
            near: Mutex::default(),
            busy: AtomicU32::new(0),
            ended: self.ended.clone(),
            outbox: outbox.clone(),
        });
        let mut by_id = lock(&self.by_id);
        by_id.retain(|_, m| m.strong_count() > 0);
        self.by_ptr.retain(|_, m| m.strong_count() > 0);
        for other in by_id.values().filter_map(Weak::upgrade) {
            if other.program.0 < end && program < other.program.1 {
                lock(&m.near).push(Arc::downgrade(&other));
                let mut near = lock(&other.near);
                near.retain(|m| m.strong_count() > 0);
                near.push(Arc::downgrade(&m));
            }
        }
        by_id.insert(id, Arc::downgrade(&m));
        self.by_ptr.insert(ptr, Arc::downgrade(&m));
        drop(by_id);
        Ok(m)
    }

    fn same(&self, program: (u64, u64), rows: Rows, named: Named) -> Option<Arc<Mirror>> {
        let by_id = lock(&self.by_id);
        let mut all = by_id.values().filter_map(Weak::upgrade);
        all.find(|m| (m.program, m.rows, m.named) == (program, rows, named))
    }

    fn hide(&self, v: View) {
        // SAFETY: a view of ours that nobody has heard of.
        unsafe { self.image.hide(v) };
    }

    /// Takes the views of mirrors that are gone. Whoever does has the driver forget them, and
    /// hides them.
    pub fn take_ended(&mut self) -> Vec<View> {
        let ended = std::mem::take(&mut *lock(&self.ended));
        self.taken -= ended.iter().map(|v| v.len as usize).sum::<usize>();
        ended
    }

    /// The mirror at an address.
    pub fn at(&self, ptr: u64) -> Option<Arc<Mirror>> {
        self.by_ptr.get(&ptr)?.upgrade()
    }

    pub fn get(&self, id: u32) -> Result<Arc<Mirror>> {
        find(&self.by_id, id)
    }

    /// The list of them, to be looked at by another thread.
    pub fn by_id(&self) -> ById {
        self.by_id.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(m: &mut Mirrors, id: u32, program: u64, rows: Rows) -> Arc<Mirror> {
        let made = m.make(id, (program, rows), READ, &Outbox::default(), |_| Ok(()));
        made.unwrap_or_else(|e| panic!("error {e}"))
    }

    const P: u64 = 0x7000_1000;
    const READ: Named = Named {
        kind: CU_MEMORYTYPE_HOST as _,
        at: [0; 3],
        written: false,
    };

    fn line(width: usize) -> Rows {
        Rows {
            width,
            height: 1,
            depth: 1,
            pitch: width,
            slice: 1,
        }
    }

    #[test]
    fn mirrors_of_memory_that_overlaps_have_the_same_bytes() {
        let mut all = Mirrors::default();
        let rows = Rows {
            width: 2,
            height: 2,
            depth: 2,
            pitch: 10,
            slice: 3,
        };
        let a = made(&mut all, 1, P + 4000, line(200));
        let b = made(&mut all, 2, P + 4005, rows);
        b.write(0, &[1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
        let seen = a.read();
        let lit: Vec<_> = (0..200).filter(|i| seen[*i] != 0).collect();
        assert_eq!(lit, [5, 6, 15, 16, 35, 36, 45, 46]);
        a.write(16, &[9]).unwrap();
        assert_eq!(b.read(), [1, 2, 3, 9, 5, 6, 7, 8]);
        assert!(a.whole().is_some() && b.whole().is_none());
        b.write(3, &[7, 7]).unwrap();
        assert_eq!(b.read(), [1, 2, 3, 7, 7, 6, 7, 8]);
        assert!(b.write(7, &[0, 0]).is_err() && b.write(u64::MAX, &[0]).is_err());
        // What one launch uses, the others of the same bytes know to be in use.
        let c = made(&mut all, 3, P + 4200, line(8));
        b.busy.fetch_add(1, Ordering::AcqRel);
        assert!(!a.is_idle() && !b.is_idle() && c.is_idle());
        drop(b);
        assert!(a.is_idle());
        let ended = all.take_ended();
        assert_eq!(ended.len(), 1);
        ended.into_iter().for_each(|v| all.hide(v));
        assert!(all.get(2).is_err() && all.get(1).is_ok() && all.any());
    }

    #[test]
    fn what_has_a_mirror_gets_no_other() {
        let mut all = Mirrors::default();
        let a = made(&mut all, 1, P, line(200));
        let again = made(&mut all, 2, P, line(200));
        assert!(Arc::ptr_eq(&a, &again) && all.get(2).is_err());
        // Nor is it the same where it is written, longer, or called otherwise.
        for (id, rows, named) in [
            (
                3,
                line(200),
                Named {
                    written: true,
                    ..READ
                },
            ),
            (4, line(201), READ),
            (
                5,
                line(200),
                Named {
                    at: [4, 0, 0],
                    ..READ
                },
            ),
        ] {
            let other = all.make(id, (P, rows), named, &Outbox::default(), |_| Ok(()));
            assert_ne!(other.unwrap_or_else(|e| panic!("error {e}")).ptr, a.ptr);
        }
        drop((a, again));
        assert_eq!(made(&mut all, 6, P, line(200)).id, 6);
    }

    #[test]
    fn boxes_that_no_program_has_are_refused() {
        let mut all = Mirrors::default();
        let good = Rows {
            width: 8,
            height: 2,
            depth: 2,
            pitch: 16,
            slice: 2,
        };
        let bad = [
            Rows { width: 0, ..good },
            Rows { height: 0, ..good },
            Rows { depth: 0, ..good },
            Rows { pitch: 7, ..good },
            Rows { slice: 0, ..good },
            Rows {
                width: 1 << 41,
                pitch: 1 << 41,
                ..good
            },
            Rows {
                pitch: usize::MAX,
                ..good
            },
        ];
        for rows in bad {
            let made = all.make(1, (P, rows), READ, &Outbox::default(), |_| Ok(()));
            assert!(made.is_err(), "{rows:?}");
        }
        let far = all.make(
            1,
            (u64::MAX - 3, good),
            READ,
            &Outbox::default(),
            |_| Ok(()),
        );
        assert!(far.is_err() && all.taken == 0);
        let refused = all.make(1, (P, good), READ, &Outbox::default(), |_| {
            Err(CUDA_ERROR_UNKNOWN)
        });
        assert!(refused.is_err() && all.taken == 0);
    }
}
