//! A session's CUDA side: the executor's state, and what a record's handler asks of it.

use super::compiled::Compiled;
use super::driver::{CONTEXT, is_capturing};
use super::image::{Checked, checked};
use super::prelude::*;
use super::state::handles::{Body, Handles};
use super::state::repeats;
use super::state::{execs, exports, given, listeners, mapped, segments, settled};
use super::taken::Taken;
use super::{blame, cupti, done, mover, promised, submit, turns};
use crate::across::Links;
use crate::ahead::Ahead;
use crate::answer::Outcome;
use crate::checkpoint::Checkpoints;
use crate::content::{Content, Hash};
use crate::memory::{Charge, Gate};
use crate::neighbours::Neighbours;
use crate::objects::{Creates, Dead, Key};
use crate::outbox::Outbox;
use crate::staging::{Arena, Lent};
use busbar_wire::record::Header;
use std::ops::Deref;

/// A session's CUDA side.
pub struct Cuda {
    /// The driver.
    pub driver: &'static Driver,
    pub outbox: Outbox,
    /// The record that is being executed.
    pub record: Header,
    pub blame: blame::Blame,
    pub content: Content,
    pub compiled: Compiled,
    pub promises: promised::Promises,
    /// What streams wait for that the client is still to send.
    pub reads: promised::Reads,
    /// Records that are executed ahead of the queue, and the contexts that they find.
    pub ahead: Ahead,
    pub places: mover::Places,
    /// Physical ordinals of the devices the session may use.
    pub allowed: Vec<i32>,
    /// Of those, the ones the program sees, in its order.
    pub devices: Vec<i32>,
    pub handles: Handles,
    /// Pointers to the parameters of the launch in progress.
    pub pointers: Vec<*mut c_void>,
    /// What comes again, and is named by its place.
    pub kept_parameters: repeats::Parameters,
    pub kept_bytes: repeats::Copies,
    pub current: u32,
    /// The memory that the record being executed came in.
    pub slab: Option<Lent>,
    /// Memory that bulk records land in.
    pub incoming: Arena,
    /// Memory for what goes to the client.
    pub outgoing: Arena,
    /// What is used in the place of slabs: as many more owners as there is of it.
    pub detours: Arc<()>,
    /// No slab for what goes out came back when one was last waited for.
    pub hurried: bool,
    pub completer: done::Completer,
    /// Ways to sessions at other servers.
    pub links: Links,
    /// What device memory passes.
    pub gate: Gate,
    /// Whether another program has locked the driver.
    pub checkpoints: Checkpoints,
    pub neighbours: Neighbours,
    /// Physical memory that the program has mapped, by address: its size, and what keeps it.
    pub physical: BTreeMap<u64, mapped::Physical>,
    /// Memory of pools and what graphs have left, by address.
    pub pooled: HashMap<u64, mapped::Pooled>,
    /// Bytes of each pool that are counted, by the pool's handle.
    pub in_pools: HashMap<u64, u64>,
    /// What pools keep that nobody uses, by handle.
    pub kept: HashMap<u64, Charge>,
    /// What the driver has taken beyond what is counted.
    pub taken: Taken,
    /// On which devices pools are.
    pub pools: HashMap<u64, i32>,
    /// What primary contexts take that somebody keeps, by physical ordinal.
    pub primaries: HashMap<i32, Weak<Charge>>,
    /// Primary contexts that were retained here for their kernels' sake, likewise.
    pub retained: HashMap<i32, Arc<Charge>>,
    /// Memory that was mapped where the client said, by address.
    pub mapped: BTreeMap<u64, mapped::Mapped>,
    /// Memory that the program and we both have mapped.
    pub shared: segments::Shared,
    /// What other processes may import, and the thread that hands it out.
    pub exports: exports::Exports,
    /// Addresses and objects that the driver gave.
    pub given: given::Given,
    /// Ranges of addresses that are reserved, by number.
    pub reserved: HashSet<u32>,
    pub graphs: execs::Graphs,
    /// Streams on which captures have begun and not ended, by id.
    pub captures: HashSet<u32>,
    /// Which device, by physical ordinal, may use memory of which other.
    pub peers: HashSet<(i32, i32)>,
    /// Whether the executor's thread has been made harmless to captures.
    pub relaxed: bool,
    /// Whether the end of this process while work is under way is a fault of others' work.
    pub dense: bool,
    pub settled: settled::Settled,
    pub turns: turns::Turns,
    /// Who submits launches of several streams side by side.
    pub submitters: submit::Submitters,
    /// Lines that may still go to the server's log.
    pub complaints: u32,
    /// Who listens to the driver's log.
    pub logs: listeners::Logs,
    /// What is kept of what devices do.
    pub activity: cupti::Activity,
}

/// A context, for work of another library's.
#[derive(Clone, Copy)]
pub(crate) struct Visit {
    driver: &'static Driver,
    context: u64,
}

impl Visit {
    /// Makes the context current to the calling thread.
    pub(crate) fn enter(self) {
        // SAFETY: a live context or none; one that has ended meanwhile is refused.
        unsafe { self.driver.cuCtxSetCurrent(self.context as CUcontext) };
    }

    /// Makes what a thread of its own does harmless to captures.
    pub(crate) fn relax(self) {
        super::driver::relax(self.driver);
    }

    /// Whether what is submitted to a stream of the current context runs now, and is not captured.
    pub(crate) fn runs(self, stream: u64) -> bool {
        super::driver::has_no_capture(self.driver, stream as CUstream)
    }

    /// Puts a mark behind what a stream of the current context has to do: one that was passed, if
    /// it is of the same context.
    pub(crate) fn mark(self, stream: u64, passed: Option<Mark>) -> Option<Mark> {
        let stream = stream as CUstream;
        let mark = match passed.filter(|m| m.of.context == self.context) {
            Some(mark) => mark,
            None => {
                const DISABLE_TIMING: u32 = 2;
                let mut event: CUevent = std::ptr::null_mut();
                // SAFETY: a pointer to a live handle.
                let rc = unsafe { self.driver.cuEventCreate(&mut event, DISABLE_TIMING) };
                (rc == CUDA_SUCCESS).then_some(Mark {
                    of: self,
                    event: event as u64,
                })?
            }
        };
        // SAFETY: a live event and stream of the current context.
        let rc = unsafe { self.driver.cuEventRecord(mark.event as CUevent, stream) };
        (rc == CUDA_SUCCESS).then_some(mark)
    }
}

/// A place in a stream's work. It lives as long as its context.
pub(crate) struct Mark {
    of: Visit,
    event: u64,
}

impl Mark {
    /// Whether the device has come there, or never will.
    pub(crate) fn is_passed(&self) -> bool {
        // SAFETY: an event that is not destroyed before its context, which the driver says.
        let rc = unsafe { self.of.driver.cuEventQuery(self.event as CUevent) };
        rc != CUDA_ERROR_NOT_READY
    }
}

/// Lines that one session may put into the server's log: a client must not be able to fill it.
pub const COMPLAINTS: u32 = 16;

/// The driver's functions are the session's.
impl Deref for Cuda {
    type Target = Driver;
    #[inline]
    fn deref(&self) -> &Driver {
        self.driver
    }
}

impl Cuda {
    /// Whether one more line may go to the server's log.
    pub fn may_complain(&mut self) -> bool {
        let yes = self.complaints > 0;
        self.complaints = self.complaints.saturating_sub(1);
        yes
    }

    /// A launch was refused: the log hears of it.
    #[cold]
    pub fn refuse(&mut self, why: &submit::Refusal) {
        if self.may_complain() {
            crate::complain!("{why}");
        }
    }

    /// What is next comes after every launch before it.
    pub fn come_after(&mut self) {
        self.submitters.settle();
        if self.submitters.have_failed() {
            self.tell_refused();
        }
    }

    /// Tells the client of launches that were refused in a lane.
    #[cold]
    pub fn tell_refused(&mut self) {
        for (record, why) in self.submitters.refused() {
            self.refuse(&why);
            let now = std::mem::replace(&mut self.record, record);
            self.done(why.rc);
            self.record = now;
        }
    }

    /// The handle of an id. What is not there, or not any more, does not get to the driver.
    #[inline]
    pub fn handle(&mut self, kind: Kind, id: u32) -> Result<u64> {
        match kind {
            Kind::Function => self.function_here(id),
            _ => self.handles.get(kind, id),
        }
    }

    /// The handle of a stream that is about to be used; 0 is the legacy default stream.
    #[inline]
    pub fn stream(&mut self, id: u32) -> Result<u64> {
        let raw = match id {
            0 => 0,
            _ => self.handle(Kind::Stream, id)?,
        };
        if !self.turns.are_free() {
            self.take_turn(raw);
        }
        self.settled.before_use(self.driver, self.current, id, raw);
        Ok(raw)
    }

    /// The same for work that uses memory of ours until it is done. What a stream that captures
    /// takes in is done when its graph is launched, each time, which nothing here would wait for;
    /// so it is refused. Copies of the program's memory are captured by records of their own.
    pub fn running_stream(&mut self, id: u32) -> Result<u64> {
        let raw = self.stream(id)?;
        let captured = !self.captures.is_empty() && is_capturing(self.driver, raw as CUstream);
        refuse_if(captured, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)?;
        Ok(raw)
    }

    #[cold]
    fn take_turn(&mut self, stream: u64) {
        let over = || self.outbox.closed();
        let of = (self.record.op, stream);
        self.turns.take(self.driver, &self.completer, of, over);
    }

    /// Has the completion engine say when what was submitted is done.
    #[cold]
    pub fn mark(&mut self) {
        self.turns.mark(self.driver, &self.completer);
        self.current = u32::MAX;
    }

    /// As [`Cuda::mark`], for what was submitted while nobody asked.
    #[cold]
    pub fn mark_all(&mut self) {
        let of = |kind| self.handles.of(kind).collect();
        let all = (of(Kind::Context), of(Kind::Stream));
        self.turns.mark_all(self.driver, &self.completer, all);
        self.current = u32::MAX;
    }

    /// Does something with a live context current, and the one before it again afterwards.
    pub fn within<T>(&mut self, context: u64, f: impl FnOnce(&mut Self) -> T) -> Result<T> {
        // SAFETY: a live context.
        check(unsafe { self.cuCtxPushCurrent_v2(context as CUcontext) })?;
        let out = f(self);
        // SAFETY: the context pushed above.
        unsafe { self.cuCtxPopCurrent_v2(&mut std::ptr::null_mut()) };
        Ok(out)
    }

    /// Waits until nothing of the session's is under way. Whoever waits for the end of the session
    /// does so for a while only.
    pub fn finish(&mut self) {
        let all: Vec<_> = self.handles.of(Kind::Context).collect();
        for context in all {
            // SAFETY: no arguments; what it says of its work, nobody hears any more.
            let _ = self.within(context, |w| unsafe { w.cuCtxSynchronize() });
        }
    }

    /// The physical ordinal of one of the program's devices.
    #[inline]
    pub fn device(&self, dev: i32) -> Result<i32> {
        usize::try_from(dev)
            .ok()
            .and_then(|i| self.devices.get(i).copied())
            .filter(|d| *d >= 0)
            .ok_or(CUDA_ERROR_INVALID_DEVICE)
    }

    /// An image that the client has named, as it may go to the driver.
    pub fn image(&mut self, hash: &Hash) -> Result<Checked> {
        let bytes = self.content.get(hash).ok_or(CUDA_ERROR_INVALID_IMAGE)?;
        let image = checked(bytes)?;
        if image.compiles {
            self.compiled.begins(&self.content, self.driver);
        }
        Ok(image)
    }

    /// What a call makes is there: the spec says what it is, and whose child.
    pub fn made(&mut self, m: &impl Creates<Kind>, body: impl Into<Body>) {
        m.created(self.record.aux, |key, parents| {
            self.put(key, body.into(), parents)
        });
    }

    /// As [`Cuda::made`], for what takes device memory.
    pub fn made_of(
        &mut self,
        m: &impl Creates<Kind>,
        body: impl Into<Body>,
        of: impl Into<Arc<Charge>>,
    ) {
        self.made(m, body);
        m.created(self.record.aux, |key, _| {
            self.handles.charge(key, 0, of.into())
        });
    }

    /// Puts what was made under an id.
    fn put(&mut self, (kind, id): Key<Kind>, body: Body, parents: &[Key<Kind>]) {
        match (kind, &body) {
            (Kind::Context, Body::Handle(raw)) => {
                self.blame.add(*raw, id);
                self.places.know(id, *raw);
                self.turns.come(self.driver, *raw);
                self.current = u32::MAX;
            }
            // The id may have been another's.
            (Kind::Stream, _) => self.settled.forget_stream(id),
            _ => {}
        }
        let dead = self.handles.put((kind, id), body, parents);
        self.bury(dead);
    }

    /// Ends an object and all that dies with it. The dispatch does so after a call that destroys
    /// one; here is only who must forget it before.
    pub fn remove(&mut self, key: Key<Kind>) {
        let dead = self.handles.retire(key);
        self.bury(dead);
    }

    /// The current context's device.
    pub fn current_device(&self) -> On {
        let mut dev = 0;
        // SAFETY: a pointer to a live number.
        let rc = unsafe { self.cuCtxGetDevice(&mut dev) };
        (rc == CUDA_SUCCESS).then_some(dev)
    }

    /// The device of a pool, where that is known.
    pub fn pool_is_on(&self, pool: CUmemoryPool) -> On {
        self.pools.get(&(pool as u64)).copied()
    }

    /// What a device's primary context takes, for each who keeps that.
    pub fn primary(&mut self, dev: i32) -> Result<Arc<Charge>> {
        if let Some(known) = self.primaries.get(&dev).and_then(Weak::upgrade) {
            return Ok(known);
        }
        let charge = Arc::new(self.charge(Use::Context, Some(dev), CONTEXT)?);
        self.primaries.insert(dev, Arc::downgrade(&charge));
        Ok(charge)
    }

    /// Memory of a pool is the session's no more.
    pub fn gives_back(&mut self, p: mapped::Pooled) {
        if let Some(counted) = self.in_pools.get_mut(&p.pool) {
            *counted = counted.saturating_sub(p.charge.bytes());
        }
    }

    /// Forgets what else is known of objects that are dead.
    pub fn bury(&mut self, dead: Dead<Kind, Body>) {
        for ((kind, id), body) in dead {
            match (kind, body) {
                (Kind::Context, Body::Handle(raw)) => {
                    self.blame.remove(raw);
                    self.places.forget(id);
                    self.turns.forget(raw);
                    self.settled.forget(raw);
                    let lost = self.pooled.extract_if(|_, p| p.context == id);
                    for p in lost.map(|(_, p)| p).collect::<Vec<_>>() {
                        if p.charge.kind() == Use::Graph {
                            self.graphs.there -= p.charge.bytes().min(self.graphs.there);
                        }
                        self.gives_back(p);
                        // What pools keep of that is found with all the rest.
                        self.taken.expire();
                    }
                    // With the context the driver has lost what they are made of.
                    self.graphs.lingering.retain(|l| l.context != id);
                    if self.current == id {
                        self.current = u32::MAX;
                    }
                }
                (Kind::Stream, _) => {
                    self.settled.forget_stream(id);
                    self.captures.remove(&id);
                }
                (Kind::Event, _) => self.exports.forget(exports::Memory::Event(id)),
                (Kind::MemoryPool, body) => {
                    self.exports.forget(exports::Memory::Pool(id));
                    if let Body::Handle(raw) = body {
                        self.kept.remove(&raw);
                        self.pools.remove(&raw);
                        self.in_pools.remove(&raw);
                        // What it has is there until all of it is freed.
                        self.taken.expire();
                    }
                }
                (Kind::GraphNode, Body::Handle(raw)) => _ = self.graphs.bodies.remove(&raw),
                (Kind::GraphExec, _) => {
                    self.graphs.uncounted |= self.graphs.leaves.remove(&id).is_some();
                }
                _ => {}
            }
        }
    }

    /// The id of a handle; 0 if it has none.
    pub fn known(&self, kind: Kind, raw: u64) -> u32 {
        self.handles.known(kind, raw)
    }

    /// The id of a handle that came into being here, as a child of what it dies with.
    pub fn adopt(&mut self, kind: Kind, raw: u64, parents: &[Key<Kind>]) -> u32 {
        self.handles.adopt(kind, raw, parents)
    }

    /// The function of an id in the current context: of a kernel, the driver makes one per context.
    pub fn function_here(&mut self, id: u32) -> Result<u64> {
        let f = self.handles.function(id)?;
        if !f.kernel {
            return Ok(f.raw);
        }
        if let Some(raw) = self.handles.in_context(id, self.current) {
            return Ok(raw);
        }
        let mut out: CUfunction = std::ptr::null_mut();
        // SAFETY: a live kernel and a pointer to a live handle.
        check(unsafe { self.cuKernelGetFunction(&mut out, f.raw as CUkernel) })?;
        self.handles.told(id, self.current, out as u64);
        Ok(out as u64)
    }

    /// The record is executed as far as its handler goes: the client is told what there is to tell.
    #[inline]
    pub fn answer<T: Outcome, E: Into<Fail>>(
        &mut self,
        given: Result<T, E>,
    ) -> Result<(), WireError> {
        let call = self.record.call;
        match given.map_err(Into::into) {
            Ok(told) => match told.code() {
                None => {}
                Some(rc) if call == 0 => self.done(rc),
                Some(rc) => {
                    if rc != CUDA_SUCCESS {
                        self.failed(rc);
                    }
                    self.outbox.reply(call, rc, |w| told.encode(w));
                }
            },
            Err(Fail::Wire(e)) => return Err(e),
            Err(Fail::Code(rc)) => self.done(rc),
            Err(Fail::Behind(rc)) => self.completer.now(rc, done::reply(call)),
        }
        Ok(())
    }

    /// A call is done that brings nothing back. The failure of a queued one is told, since mostly
    /// nobody waits for it.
    pub fn done(&mut self, rc: CUresult) {
        let known = rc != CUDA_SUCCESS && self.failed(rc);
        let Header { call, op, aux, .. } = self.record;
        if call != 0 {
            self.outbox.reply(call, rc, |_| {});
        } else if rc != CUDA_SUCCESS && !known {
            self.outbox.error(rc, |w| {
                w.u16(op);
                w.u32(aux);
                w.u8(0);
            });
        }
    }

    /// A call has failed. If that means that a context is lost, the client is told.
    #[cold]
    fn failed(&mut self, rc: CUresult) -> bool {
        let near = self.scope();
        self.blame.failed(rc, self.record.op, near)
    }

    /// What it takes to work in a context on any thread.
    pub(crate) fn visit(&mut self, scope: u32) -> Visit {
        self.come_after();
        // It is a record of its own, and may be work, whatever the last one was.
        self.record.op = 0;
        self.turns.before(0);
        let context = match scope {
            0 => 0,
            _ => self.handle(Kind::Context, scope).unwrap_or(0),
        };
        let driver = self.driver;
        Visit { driver, context }
    }

    /// Another has made a context current on this thread.
    pub(crate) fn visited(&mut self) {
        self.current = u32::MAX;
    }

    /// The context that the record is executed in; 0 for none.
    pub fn scope(&mut self) -> u64 {
        self.handle(Kind::Context, self.record.aux).unwrap_or(0)
    }

    /// Makes the context of a record current.
    #[inline]
    pub fn enter(&mut self, scope: u32) {
        if scope == self.current {
            return;
        }
        let ctx = if scope == 0 {
            0
        } else {
            self.handle(Kind::Context, scope).unwrap_or(0)
        };
        // SAFETY: a live context or none.
        unsafe { self.cuCtxSetCurrent(ctx as CUcontext) };
        self.current = scope;
    }
}

impl Cuda {
    /// The stream and context that an entry of the completer belongs to.
    pub fn here(&mut self, stream: u32) -> (CUstream, u64) {
        let ctx = self.scope();
        (self.stream(stream).unwrap_or(0) as CUstream, ctx)
    }
}
