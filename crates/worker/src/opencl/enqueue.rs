//! How commands are enqueued: their events, and the memory that they read from and into.

use super::Made;
use super::done::{Answer, Events, Held, Then};
use super::objects::{Object, Queue};
use super::prelude::*;
use super::session::Data;
use busbar_wire::limits::BULK_CHUNK;
use busbar_wire::pieces::{Piece, pieces};

/// Slabs that writes may hold. Beyond that, bytes move to ordinary memory: commands may wait for
/// something that the client has yet to say, and then the slabs are needed to hear it.
const MOST_SLABS: usize = 24;

impl OpenCl {
    /// Runs the enqueue of a command that the device works for, in the session's turn. `f` gets the
    /// queue, the wait list and the place for the event, which is null when neither the client
    /// (`event`) nor the caller (`want`) needs one. Returns the event with a reference of the
    /// caller's, if wanted. When it fails, the client's event fails too.
    pub fn enqueue(
        &mut self,
        queue: u32,
        event: u32,
        waits: &[u32],
        want: bool,
        f: impl FnOnce(&Self, Handle, u32, *const Handle, *mut Handle) -> Result<i32, i32>,
    ) -> Result<Handle, Fail> {
        if !self.turn.is_free() {
            self.pass(queue)?;
        }
        self.enqueue_at_once(queue, event, waits, want, f)
    }

    /// As [`OpenCl::enqueue`], of what leaves the device nothing to do: nobody waits behind what
    /// waits for a turn for something that was done before.
    pub fn enqueue_at_once(
        &mut self,
        queue: u32,
        event: u32,
        waits: &[u32],
        want: bool,
        f: impl FnOnce(&Self, Handle, u32, *const Handle, *mut Handle) -> Result<i32, i32>,
    ) -> Result<Handle, Fail> {
        let Queue {
            raw: q, context, ..
        } = self.objects.queue(queue)?;
        let mut list = std::mem::take(&mut self.handles);
        list.clear();
        let run = || -> Result<Handle, i32> {
            for id in waits {
                list.push(self.objects.event(*id)?);
            }
            let mut e = null_mut();
            let place = match event != 0 || want {
                true => &raw mut e,
                false => null_mut(),
            };
            let p = if list.is_empty() {
                null()
            } else {
                list.as_ptr()
            };
            ok(f(self, q, list.len() as u32, p, place)?)?;
            Ok(e)
        };
        let done = run();
        self.handles = list;
        let e = match done {
            Ok(e) => e,
            Err(code) => {
                self.fail_event(event, context, code)?;
                return Err(Fail::Code(code));
            }
        };
        if let Some(Object::Queue(q)) = self.objects.get_mut(queue)
            && !q.dirty
        {
            q.dirty = true;
            self.dirty.push(queue);
        }
        if event != 0 {
            if want {
                // SAFETY: an event of ours, now with one more owner.
                unsafe { (self.cl.clRetainEvent)(e) };
            }
            self.put_event(event, e)?;
        }
        Ok(e)
    }

    /// As [`OpenCl::enqueue`], of a command whose end nobody here waits for.
    pub fn command(
        &mut self,
        queue: u32,
        event: u32,
        waits: &[u32],
        f: impl FnOnce(&Self, Handle, u32, *const Handle, *mut Handle) -> Result<i32, i32>,
    ) -> Result<(), Fail> {
        self.enqueue(queue, event, waits, false, f).map(drop)
    }

    fn put_event(&mut self, id: u32, e: Handle) -> Result<(), Fail> {
        let old = self.objects.take(id);
        old.release(self.cl);
        match self.objects.put(id, Object::Event(e)) {
            true => Ok(()),
            false => Err(Fail::Wire(WireError::BadValue("object id"))),
        }
    }

    /// An event of the client's whose command could not be enqueued: it ends with that error.
    fn fail_event(&mut self, id: u32, context: Handle, code: i32) -> Result<(), Fail> {
        if id == 0 {
            return Ok(());
        }
        let mut failed = CL_INVALID_OPERATION;
        // SAFETY: a context of ours; the event is set once.
        unsafe {
            let e = (self.cl.clCreateUserEvent)(context, &raw mut failed);
            if failed == CL_SUCCESS {
                (self.cl.clSetUserEventStatus)(e, code);
                return self.put_event(id, e);
            }
        }
        self.objects.put(id, Object::Failed(code));
        Ok(())
    }

    /// Runs an enqueue that reads host memory, and keeps that memory until it has run.
    pub fn enqueue_from(
        &mut self,
        (queue, event): (u32, u32),
        waits: &[u32],
        data: Data<'_>,
        f: impl FnOnce(&Self, Handle, &[u8], u32, *const Handle, *mut Handle) -> Result<i32, i32>,
    ) -> Result<(), Fail> {
        // Inline bytes that came in a slab stay there.
        let kept = match data {
            Data::Blob(v) => Held::Own(v.into_boxed_slice()),
            Data::Inline(b) if self.completer.held() < MOST_SLABS => match self.slab.take() {
                Some(slab) => Held::Slab(slab, b.as_ptr(), b.len()),
                None => Held::Own(b.into()),
            },
            Data::Inline(b) => Held::Own(b.into()),
        };
        let e = self.enqueue(queue, event, waits, true, |this, q, n, list, e| {
            f(this, q, kept.bytes(), n, list, e)
        })?;
        self.completer.keep(Events::one(e), kept);
        Ok(())
    }

    /// Runs enqueues that fill memory of ours with the pieces of a box, in order; the answer
    /// follows the last one. The box has elements of `element` bytes.
    pub fn enqueue_to(
        &mut self,
        (queue, event): (u32, u32),
        waits: &[u32],
        (region, element): ([u64; 3], u64),
        f: impl Fn(&Self, Handle, &Piece, &mut [u8], u32, *const Handle, Made) -> Result<i32, i32>,
    ) -> Result<Answered, Fail> {
        let q = self.objects.queue(queue)?;
        let call = self.record.call;
        // Where commands overtake each other, the client's event must be that of all of it, and so
        // it must where a program asks how long it took.
        let whole = q.loose || q.timed && event != 0;
        let most = if whole { u64::MAX } else { BULK_CHUNK as u64 };
        let bytes = packed(&region).and_then(|n| n.checked_mul(element));
        let mut started = Vec::new();
        let mut failed = match bytes {
            Some(n) if n <= 1 << 40 => None,
            _ => Some(Fail::Code(CL_OUT_OF_HOST_MEMORY)),
        };
        let mut cut = pieces(region, element, most).peekable();
        while failed.is_none()
            && let Some(piece) = cut.next()
        {
            // No device here has more than the machine.
            let landing = match piece.bytes <= crate::host::memory() / 2 {
                true => self.pool.take(piece.bytes as usize),
                false => Err(CL_OUT_OF_HOST_MEMORY),
            };
            let id = if cut.peek().is_none() { event } else { 0 };
            let begun = landing.map_err(Fail::Code).and_then(|mut landing| {
                let e = self.enqueue(queue, id, waits, true, |this, q, n, list, e| {
                    f(this, q, &piece, landing.bytes_mut(), n, list, e)
                });
                Ok((e?, landing))
            });
            match begun {
                Ok(x) => started.push(x),
                Err(e) => failed = Some(e),
            }
        }
        if let Some(fail) = failed {
            for (e, landing) in started {
                self.completer.keep(Events::one(e), Held::Landing(landing));
            }
            if let Fail::Code(code) = fail {
                self.fail_event(event, q.context, code)?;
            }
            return Err(fail);
        }
        let single = started.len() == 1;
        let all: Vec<_> = started.iter().map(|(e, _)| *e).collect();
        if !single {
            for e in &all {
                // SAFETY: an event of ours, now with one more owner.
                unsafe { (self.cl.clRetainEvent)(*e) };
            }
        }
        let mut offset = 0;
        for (e, landing) in started {
            let len = landing.bytes().len() as u64;
            let then = Then::Send {
                call,
                offset,
                bytes: landing,
                last: single.then_some(Answer::Strict),
            };
            offset += len;
            self.completer.after(Events::one(e), then);
        }
        if !single {
            self.answer_after(Events::all(all), Answer::Strict);
        }
        Ok(Answered)
    }
}

/// Bytes (or pixels) of a box without gaps.
pub fn packed(region: &[u64; 3]) -> Option<u64> {
    region[0].checked_mul(region[1])?.checked_mul(region[2])
}
