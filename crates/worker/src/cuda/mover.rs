//! Device memory that the program has pages of, too: its bytes come and go ahead of the queue, on
//! streams of their own that wait for no other. So do those of mirrors, for host nodes of graphs.
//!
//! The executor may sit in a call that waits for a function of the program's, which cannot return
//! before it has had such bytes. So nothing here touches the executor's state. Nor does it then use
//! the session's contexts: a call that waits for work may keep all other threads out of its
//! context (to destroy an executable graph that runs does, and to free an array), and streams of
//! one context share a few channels to the device, in which a copy waits behind a stream that is
//! held. What such a function needs comes and goes by a context that nothing else is done in.

use super::atomics::Atomics;
use super::blame::Blame;
use super::driver::{CONTEXT, of_device, relax};
use super::prelude::*;
use super::state::mapped::within;
use super::state::mirrors::{self, ById};
use super::state::twins::Twins;
use crate::Setup;
use crate::ahead::Urgent;
use crate::callback::Callbacks;
use crate::memory::{Charge, Gate, Use};
use crate::outbox::Outbox;
use crate::staging::{Arena, Lent};
use busbar_wire::atomics::Atomic;
use busbar_wire::changes::{Parts, read_map, regular};
use busbar_wire::codec::Message as _;
use busbar_wire::limits::BULK_CHUNK;
use busbar_wire::promise::Word;
use busbar_wire::record::{
    Header, Heard, OP_MEMORY_APART, OP_MEMORY_ATOMIC, OP_MEMORY_CLOSE, OP_MEMORY_IN,
    OP_MEMORY_LOOK, OP_MEMORY_OPEN, OP_MEMORY_OUT, OP_MEMORY_PARTS, OP_MEMORY_WATCH, OP_MIRROR_IN,
    OP_MIRROR_OUT,
};
use busbar_wire::sums;

/// A stream to copy on, and its context.
#[derive(Clone, Copy)]
struct Lane {
    context: u64,
    stream: u64,
}

/// A lane in a context that nothing else is done in, and what that takes.
struct Apart {
    lane: Lane,
    _charge: Charge,
    /// Once there has been an atomic operation.
    atomics: Option<Atomics>,
}

/// A context of the session's; its device and the lane in it once they are known.
struct Place {
    context: u64,
    device: Option<CUdevice>,
    lane: Option<Lane>,
}

#[derive(Default)]
struct Contexts {
    /// The session's, by id.
    known: HashMap<u32, Place>,
    /// Those that nothing else is done in, by device; `None` where there is no room for one.
    apart: HashMap<CUdevice, Option<Apart>>,
}

impl Contexts {
    fn has(&self, stream: u64) -> bool {
        let mut own = self.known.values().filter_map(|p| p.lane);
        let mut apart = self.apart.values().flatten();
        own.any(|l| l.stream == stream) || apart.any(|a| a.lane.stream == stream)
    }
}

/// The contexts that copies are made in. Locked while one is used. Cheap to clone.
#[derive(Clone, Default)]
pub struct Places {
    all: Arc<Mutex<Contexts>>,
}

impl Places {
    /// An id stands for this context from now on.
    pub fn know(&self, id: u32, context: u64) {
        let known = &mut self.lock().known;
        if known.get(&id).is_none_or(|p| p.context != context) {
            let (device, lane) = (None, None);
            let place = Place {
                context,
                device,
                lane,
            };
            known.insert(id, place);
        }
    }

    /// A context is about to go.
    pub fn forget(&self, id: u32) {
        self.lock().known.remove(&id);
    }

    fn lock(&self) -> MutexGuard<'_, Contexts> {
        lock(&self.all)
    }
}

/// Where bytes wait that go to the client.
enum Room {
    Slab(Lent),
    Bytes(Vec<u8>),
}

/// What is told once the copies before it are done.
struct Piece {
    call: u32,
    offset: u64,
    len: usize,
    room: Room,
    /// The sums of what the client has of it, if it wants only what differs.
    known: Vec<u8>,
}

/// A record whose copies are under way.
struct Begun {
    header: Header,
    context: u64,
    rc: CUresult,
    pieces: Vec<Piece>,
    /// What a word was.
    had: Option<u64>,
    /// Bytes that went to the client.
    told: usize,
}

/// Pieces that are copied before they are sent.
const AT_ONCE: usize = 4;

/// Copies in and out.
pub struct Mover {
    driver: &'static Driver,
    places: Places,
    mirrors: ById,
    twins: Twins,
    outgoing: Arena,
    outbox: Outbox,
    /// Functions of the program's that something waits for.
    callbacks: Callbacks,
    gate: Gate,
    blame: Blame,
    begun: Vec<Begun>,
    /// The program is let in beside work that lasts, which may wait for it.
    beside: bool,
    /// The executor is in a call that may wait for such work, and keep others out of its context.
    still: bool,
    /// A function of the program's has run that something may have waited for.
    functions: bool,
    /// Streams with copies under way, by context.
    used: BTreeMap<u64, u64>,
    /// What became of those that were waited for before the others.
    failed: CUresult,
    relaxed: bool,
}

/// The first error of two results.
fn first(a: CUresult, b: CUresult) -> CUresult {
    if a == CUDA_SUCCESS { b } else { a }
}

/// Payload: an address, and what is behind it.
fn address(payload: &[u8]) -> Result<(u64, &[u8])> {
    let (at, rest) = payload
        .split_first_chunk()
        .ok_or(CUDA_ERROR_INVALID_VALUE)?;
    Ok((u64::from_le_bytes(*at), rest))
}

/// Payload: an address, and bytes that lie among others from there on.
fn parts(payload: &[u8]) -> Result<(u64, Parts<'_>)> {
    let (at, rest) = address(payload)?;
    let parts = read_map(rest, BULK_CHUNK).ok_or(CUDA_ERROR_INVALID_VALUE)?;
    Ok((at, parts))
}

/// Sums are of all that is asked for, or there are none.
fn refuse_sums(known: &[u8], len: u64) -> Result {
    let right = known.is_empty() || known.len() as u64 == sums::len_of(len);
    if right {
        Ok(())
    } else {
        Err(CUDA_ERROR_INVALID_VALUE)
    }
}

/// Tells the client what devices have changed, ahead of what it is told next; whether there is
/// more.
pub fn tell(twins: &Twins, outbox: &Outbox, heard: Heard) -> bool {
    twins.tell(heard, |m| {
        outbox.put_word(Word::MemoryTold as i32, |w| m.encode(w))
    })
}

impl Mover {
    /// Moves bytes of these contexts.
    pub fn new(
        driver: &'static Driver,
        places: Places,
        (mirrors, twins): (ById, Twins),
        blame: Blame,
        setup: &Setup,
    ) -> Self {
        Self {
            driver,
            places,
            mirrors,
            twins,
            outgoing: setup.outgoing.clone(),
            outbox: setup.outbox.clone(),
            callbacks: setup.callbacks.clone(),
            gate: setup.inventory.gate.clone(),
            blame,
            begun: Vec::new(),
            beside: false,
            still: false,
            functions: false,
            used: BTreeMap::new(),
            failed: CUDA_SUCCESS,
            relaxed: false,
        }
    }

    fn set_current(&self, context: u64) -> Result {
        // SAFETY: a live context: whoever ends it forgets it first, and the list is locked.
        check(unsafe { self.driver.cuCtxSetCurrent(context as CUcontext) })
    }

    /// A lane in the current context.
    fn lane(&self, context: u64) -> Result<Lane> {
        const NON_BLOCKING: u32 = 1;
        let mut s: CUstream = std::ptr::null_mut();
        // SAFETY: a pointer to a live handle.
        check(unsafe { self.driver.cuStreamCreate(&mut s, NON_BLOCKING) })?;
        let stream = s as u64;
        Ok(Lane { context, stream })
    }

    /// A context of its own on a device, which becomes current.
    fn context_apart(&self, device: CUdevice) -> Result<Apart> {
        let charge = self.gate.take(Use::Context, Some(device), CONTEXT);
        let charge = charge.map_err(|_| CUDA_ERROR_OUT_OF_MEMORY)?;
        let mut context: CUcontext = std::ptr::null_mut();
        // SAFETY: a pointer to a live handle, and a device of the session's.
        check(unsafe { self.driver.cuCtxCreate_v2(&mut context, 0, device) })?;
        Ok(Apart {
            lane: self.lane(context as u64)?,
            _charge: charge,
            atomics: None,
        })
    }

    /// A context's device.
    fn device_of(&self, context: u64) -> Result<CUdevice> {
        self.set_current(context)?;
        let mut device = 0;
        // SAFETY: a pointer to a live number.
        check(unsafe { self.driver.cuCtxGetDevice(&mut device) })?;
        Ok(device)
    }

    /// The lane apart on a device, if copies go by it: once a record has come while a function of
    /// the program's ran that something may wait for; and where the program is let in beside work
    /// that lasts, while the executor stands still. Two contexts have the device in turns, so each
    /// such copy takes milliseconds beside a kernel. And a context takes memory: few programs need
    /// this one.
    fn apart(&mut self, places: &mut Contexts, device: CUdevice) -> Option<Lane> {
        self.functions |= self.callbacks.any();
        match self.functions || self.still {
            true => self.made_apart(places, device).map(|apart| apart.lane),
            false => None,
        }
    }

    /// The lane apart on a device, which is made if there is none.
    fn made_apart<'a>(
        &mut self,
        places: &'a mut Contexts,
        device: CUdevice,
    ) -> Option<&'a mut Apart> {
        if !places.apart.contains_key(&device) {
            // What was begun in the session's comes first.
            let before = self.wait(places);
            self.failed = first(self.failed, before);
            let made = self.context_apart(device).inspect_err(|e| {
                crate::complain!("no context for what the program looks at beside work: error {e}");
            });
            places.apart.insert(device, made.ok());
        }
        places.apart.get_mut(&device)?.as_mut()
    }

    /// Does an atomic operation. In a context of its own: code is loaded there, and launched, while
    /// kernels of the session's run, which may wait for just this.
    fn atomic(&mut self, places: &mut Contexts, id: u32, payload: &[u8]) -> Result<u64> {
        let atomic = Atomic::decode(payload).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        self.may(atomic.at, u64::from(atomic.width))?;
        let device = self.known_device(places, id)?;
        // What was to be there before is.
        check(self.wait(places))?;
        let driver = self.driver;
        let apart = self.made_apart(places, device);
        let apart = apart.ok_or(CUDA_ERROR_OUT_OF_MEMORY)?;
        // SAFETY: a live context, which is nobody else's.
        check(unsafe { driver.cuCtxSetCurrent(apart.lane.context as CUcontext) })?;
        let atomics = match &mut apart.atomics {
            Some(atomics) => atomics,
            none => none.insert(Atomics::load(driver)?),
        };
        atomics.run(driver, apart.lane.stream as CUstream, &atomic)
    }

    /// The device of a context of the session's.
    fn known_device(&mut self, places: &mut Contexts, id: u32) -> Result<CUdevice> {
        if !std::mem::replace(&mut self.relaxed, true) {
            relax(self.driver);
        }
        let of = places.known.get_mut(&id);
        let of = of.ok_or(CUDA_ERROR_INVALID_CONTEXT)?;
        if of.device.is_none() {
            of.device = self.device_of(of.context).ok();
        }
        of.device.ok_or(CUDA_ERROR_INVALID_CONTEXT)
    }

    /// Makes a context current that a record's copies are made in: the record's own context, and
    /// the lane.
    fn enter(&mut self, places: &mut Contexts, id: u32) -> Result<(u64, Lane)> {
        let device = self.known_device(places, id).ok();
        let of = places.known.get(&id).ok_or(CUDA_ERROR_INVALID_CONTEXT)?;
        let (context, own) = (of.context, of.lane);
        let apart = device.and_then(|device| self.apart(places, device));
        let lane = match apart.or(own) {
            Some(lane) => {
                self.set_current(lane.context)?;
                lane
            }
            None => {
                self.set_current(context)?;
                let lane = self.lane(context)?;
                if let Some(of) = places.known.get_mut(&id) {
                    of.lane = Some(lane);
                }
                lane
            }
        };
        self.used.insert(lane.context, lane.stream);
        Ok((context, lane))
    }

    /// Whether all of some addresses are the device's.
    fn may(&self, at: u64, len: u64) -> Result {
        let last = at.checked_add(len).and_then(|end| end.checked_sub(1));
        let last = last.ok_or(CUDA_ERROR_INVALID_VALUE)?;
        let variable = || of_device(self.driver, at) && of_device(self.driver, last);
        if within(at, len).is_ok() || variable() {
            Ok(())
        } else {
            Err(CUDA_ERROR_INVALID_VALUE)
        }
    }

    fn copy_in(&self, stream: u64, payload: &[u8]) -> Result {
        let (dst, bytes) = address(payload)?;
        self.may(dst, bytes.len() as u64)?;
        let (p, n) = (bytes.as_ptr().cast(), bytes.len());
        let stream = stream as CUstream;
        // SAFETY: the payload stays until the stream has been waited for; a live stream.
        check(unsafe { self.driver.cuMemcpyHtoDAsync_v2(dst, p, n, stream) })
    }

    /// Copies runs of bytes that lie among others. Those that are regular, as the low bytes of
    /// numbers are, go at once.
    fn copy_parts(&self, stream: u64, dst: u64, parts: &Parts<'_>) -> Result {
        self.may(dst, parts.len as u64)?;
        let (runs, mut bytes) = (&parts.runs, parts.bytes);
        let stream = stream as CUstream;
        let mut at = 0;
        while at < runs.len() {
            let (n, first) = (regular(&runs[at..]), &runs[at]);
            let p = bytes.as_ptr();
            let to = dst + first.start as u64;
            let (own, behind) = bytes.split_at(n * first.len());
            let apart = runs.get(at + 1).map_or(0, |next| next.start - first.start);
            // SAFETY: the payload stays until the stream has been waited for, and the runs are in
            // memory of the device's.
            let rc = unsafe {
                match n {
                    1 => self
                        .driver
                        .cuMemcpyHtoDAsync_v2(to, p.cast(), own.len(), stream),
                    _ => {
                        let rows = CUDA_MEMCPY2D {
                            srcMemoryType: CU_MEMORYTYPE_HOST,
                            srcHost: p.cast(),
                            srcPitch: first.len(),
                            dstMemoryType: CU_MEMORYTYPE_DEVICE,
                            dstDevice: to,
                            dstPitch: apart,
                            WidthInBytes: first.len(),
                            Height: n,
                            ..std::mem::zeroed()
                        };
                        self.driver.cuMemcpy2DAsync_v2(&rows, stream)
                    }
                }
            };
            check(rc)?;
            (at, bytes) = (at + n, behind);
        }
        Ok(())
    }

    /// Copies a piece that is to be sent.
    fn copy_out(&self, stream: u64, src: u64, len: usize) -> Result<Room> {
        let mut room = match self.outgoing.try_take() {
            Some(slab) => Room::Slab(slab),
            // Copies that wait for a function may have them all.
            None => Room::Bytes(vec![0; len]),
        };
        let p = match &mut room {
            Room::Slab(slab) => slab.ptr(),
            Room::Bytes(b) => b.as_mut_ptr(),
        };
        let stream = stream as CUstream;
        // SAFETY: room for as many bytes, which stays until the stream has been waited for.
        check(unsafe { self.driver.cuMemcpyDtoHAsync_v2(p.cast(), src, len, stream) })?;
        Ok(room)
    }

    /// Sends a piece, or what differs of it; how many bytes that is.
    fn send(&self, p: Piece) -> usize {
        match p.room {
            Room::Bytes(b) => self.tell(p.call, p.offset, &b[..p.len], &p.known),
            Room::Slab(slab) if p.known.is_empty() => {
                let at = slab.ptr();
                // SAFETY: the slab holds the bytes, which nobody writes until it is dropped.
                unsafe { self.outbox.put_owned(p.call, p.offset, (at, p.len), slab) };
                self.outbox.flush();
                p.len
            }
            Room::Slab(slab) => {
                // SAFETY: as above.
                let bytes = unsafe { std::slice::from_raw_parts(slab.ptr(), p.len) };
                self.tell(p.call, p.offset, bytes, &p.known)
            }
        }
    }

    /// Sends blocks whose sums are others than those `known`; how many bytes they have.
    fn tell(&self, call: u32, offset: u64, bytes: &[u8], known: &[u8]) -> usize {
        let differing = sums::differing(bytes, known);
        let sent = differing.map(|r| {
            let n = r.len();
            self.outbox.chunk(call, offset + r.start as u64, &bytes[r]);
            n
        });
        sent.sum()
    }

    /// Waits for the copies that are under way: the first error.
    fn wait(&mut self, places: &Contexts) -> CUresult {
        let mut rc = CUDA_SUCCESS;
        for (context, stream) in std::mem::take(&mut self.used) {
            // It may have gone meanwhile, and its copies with it.
            if !places.has(stream) {
                continue;
            }
            // SAFETY: a live context and stream of it, as in `enter`.
            let waited = unsafe {
                self.driver.cuCtxSetCurrent(context as CUcontext);
                self.driver.cuStreamSynchronize(stream as CUstream)
            };
            rc = first(rc, waited);
        }
        rc
    }

    fn read(&mut self, places: &Contexts, b: &mut Begun, lane: Lane, payload: &[u8]) -> Result {
        let (src, rest) = address(payload)?;
        let (len, known) = address(rest)?;
        refuse_sums(known, len)?;
        self.may(src, len)?;
        for offset in (0..len).step_by(BULK_CHUNK) {
            let len = (len - offset).min(BULK_CHUNK as u64) as usize;
            let known = known.iter().skip(sums::len_of(offset) as usize);
            let known = known.take(sums::len_of(len as u64) as usize).copied();
            let known = known.collect();
            let room = self.copy_out(lane.stream, src + offset, len)?;
            let call = b.header.call;
            b.pieces.push(Piece {
                call,
                offset,
                len,
                room,
                known,
            });
            if b.pieces.len() == AT_ONCE {
                check(self.wait(places))?;
                self.used.insert(lane.context, lane.stream);
                b.told += b.pieces.drain(..).map(|p| self.send(p)).sum::<usize>();
            }
        }
        Ok(())
    }
}

impl Mover {
    /// Memory that stands for the program's: nothing of the driver's is asked. False when it is
    /// something else.
    fn twin(&self, b: &mut Begun, payload: &[u8]) -> Result<bool> {
        let (at, rest) = address(payload)?;
        if b.header.op == OP_MEMORY_IN {
            return Ok(self.twins.write(at, rest));
        }
        let (len, rest) = address(rest)?;
        let bytes = match b.header.op {
            OP_MEMORY_OPEN => {
                let (host, heard) = address(rest)?;
                let heard = heard.first().copied().map(Heard::from_byte);
                let heard = heard.and_then(Result::ok).ok_or(CUDA_ERROR_INVALID_VALUE)?;
                let bytes = self.twins.open(at, len, host, heard);
                Some(bytes.ok_or(CUDA_ERROR_INVALID_VALUE)?)
            }
            OP_MEMORY_CLOSE => {
                self.twins.close(at, len);
                return Ok(true);
            }
            _ => {
                refuse_sums(rest, len)?;
                self.twins.read(at, len)
            }
        };
        let Some(bytes) = bytes else {
            return Ok(false);
        };
        let call = b.header.call;
        if call == 0 {
            return Ok(true);
        }
        let known = match b.header.op {
            OP_MEMORY_OUT => rest,
            _ => &[],
        };
        b.told = self.tell(call, 0, &bytes, known);
        Ok(true)
    }

    fn look(&self, heard: Heard) -> Result<(), CUresult> {
        match tell(&self.twins, &self.outbox, heard) {
            true => Err(CUDA_ERROR_NOT_READY),
            false => Ok(()),
        }
    }

    /// The program's memory that a graph copies from or to, before and behind a host node.
    fn mirror(&self, h: &Header, payload: &[u8]) -> Result {
        let (id, rest) = payload
            .split_first_chunk()
            .ok_or(CUDA_ERROR_INVALID_VALUE)?;
        let id = u32::from_le_bytes(*id);
        if h.op == OP_MIRROR_IN {
            let (offset, bytes) = address(rest)?;
            return mirrors::find(&self.mirrors, id)?.write(offset, bytes);
        }
        let bytes = mirrors::find(&self.mirrors, id)?.read();
        self.outbox.chunk(h.call, 0, &bytes);
        Ok(())
    }
}

impl Urgent for Mover {
    fn minds(&self) -> bool {
        self.beside
    }

    fn stands_still(&mut self, still: bool) {
        self.still = still;
    }

    fn begin(&mut self, h: &Header, payload: &[u8]) {
        let mut b = Begun {
            header: *h,
            context: 0,
            rc: CUDA_SUCCESS,
            pieces: Vec::new(),
            had: None,
            told: 0,
        };
        let places = self.places.clone();
        b.rc = attempt(|| {
            match h.op {
                OP_MIRROR_IN | OP_MIRROR_OUT => return self.mirror(h, payload),
                OP_MEMORY_WATCH => return self.look(Heard::Watched),
                OP_MEMORY_LOOK => return self.look(Heard::AtWaits),
                OP_MEMORY_APART => {
                    self.beside = true;
                    return Ok(());
                }
                _ => {}
            }
            let parts = match h.op {
                OP_MEMORY_PARTS => Some(parts(payload)?),
                _ => None,
            };
            let is_twin = match &parts {
                Some((at, parts)) => self.twins.write_parts(*at, parts),
                None if h.op == OP_MEMORY_ATOMIC => false,
                None => self.twin(&mut b, payload)?,
            };
            if is_twin {
                return Ok(());
            }
            let mut places = places.lock();
            if h.op == OP_MEMORY_ATOMIC {
                b.had = Some(self.atomic(&mut places, h.aux, payload)?);
                return Ok(());
            }
            let (context, lane) = self.enter(&mut places, h.aux)?;
            b.context = context;
            match (&parts, h.op) {
                (Some((dst, parts)), _) => self.copy_parts(lane.stream, *dst, parts),
                (None, OP_MEMORY_IN) => self.copy_in(lane.stream, payload),
                (None, _) => self.read(&places, &mut b, lane, payload),
            }
        });
        self.begun.push(b);
    }

    fn finish(&mut self) {
        let places = self.places.clone();
        let before = std::mem::replace(&mut self.failed, CUDA_SUCCESS);
        let waited = match self.used.is_empty() {
            true => CUDA_SUCCESS,
            false => self.wait(&places.lock()),
        };
        let waited = first(before, waited);
        for mut b in std::mem::take(&mut self.begun) {
            let rc = first(b.rc, waited);
            let h = b.header;
            let known = rc != CUDA_SUCCESS && self.blame.failed(rc, h.op, b.context);
            if h.call != 0 {
                if rc == CUDA_SUCCESS {
                    b.told += b.pieces.drain(..).map(|p| self.send(p)).sum::<usize>();
                }
                self.outbox.reply(h.call, rc, |w| match (h.op, b.had) {
                    (OP_MEMORY_OUT, _) => w.u64(b.told as u64),
                    (_, Some(had)) => w.u64(had),
                    _ => {}
                });
            } else if rc != CUDA_SUCCESS && !known {
                self.outbox.error(rc, |w| {
                    w.u16(h.op);
                    w.u32(h.aux);
                    w.u8(0);
                });
            }
        }
    }
}
