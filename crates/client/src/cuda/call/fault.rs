//! Accesses of the program to pages that are closed to it.
//!
//! The signal handler does three things that are allowed anywhere: it looks the address up in
//! tables of plain numbers, writes a request to a pipe, and sleeps until the request is answered.
//! A thread of its own reads the pipe and does the rest. Faults elsewhere go to whoever handled
//! them before.

use super::instruction::{self, Instruction, Registers};
use crate::cuda::state::shadows::{Outcome, Waits};
use crate::prelude::*;
use crate::replace;
use crate::threads;
use busbar_abi::cuda::*;
use libc::sigset_t;
use std::cell::{OnceCell, UnsafeCell};
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicPtr, AtomicU8};
use std::sync::{Once, mpsc};
use std::time::Duration;

/// Who knows what a fault needs.
pub trait Owner: Send + Sync {
    /// What becomes of an access to `p`, as [`crate::cuda::state::shadows::Areas::fault`] says it.
    /// The device may do `what` the program wants instead.
    fn fault(
        &self,
        p: u64,
        write: Option<bool>,
        waits: Waits,
        what: &dyn Fn() -> Option<Instruction>,
    ) -> Outcome;
    /// Waits for work, up to a mark.
    fn wait(&self, owed: &[(u32, u32)], mark: u64) -> Result<()>;
    /// Work has outlasted the patience of an access to `p`.
    fn outlasts(&self, p: u64, owed: &[(u32, u32)], mark: u64);
}

/// Who handles what is not ours: the latest of several places, so that a handler which reads one
/// finds it whole while another thread changes the program's mind.
struct Behind {
    places: [UnsafeCell<MaybeUninit<libc::sigaction>>; HANDLERS],
    latest: AtomicUsize,
    next: AtomicUsize,
}
// SAFETY: a place is written before it is the latest, by one who has drawn its number.
unsafe impl Sync for Behind {}

const HANDLERS: usize = 64;

impl Behind {
    fn get(&self) -> libc::sigaction {
        let place = &self.places[self.latest.load(Ordering::Acquire) % HANDLERS];
        // SAFETY: zero, or written before it became the latest.
        unsafe { (*place.get()).assume_init() }
    }

    fn set(&self, new: libc::sigaction) {
        let n = self.next.fetch_add(1, Ordering::AcqRel) + 1;
        // SAFETY: nobody reads it yet.
        unsafe { *self.places[n % HANDLERS].get() = MaybeUninit::new(new) };
        self.latest.store(n, Ordering::Release);
    }
}

/// The program changes who handles what is not ours, or asks: who did so until now.
pub fn behind(new: Option<libc::sigaction>) -> libc::sigaction {
    let before = FAULTS.behind.get();
    if let Some(new) = new {
        FAULTS.behind.set(new);
    }
    before
}

/// Whether accesses of the system's may meet something that is closed: a load, as a rule.
#[inline]
pub fn is_active() -> bool {
    FAULTS.guarded.load(Ordering::Relaxed) > 0
}

/// The system is about to read or write memory of the program's: what is closed of it is opened, by
/// an access of our own to each page. Says whether there is such memory.
pub fn open(p: u64, len: u64, writes: bool) -> bool {
    // SAFETY: no arguments.
    let here = || FAULTS.process.load(Ordering::Acquire) == unsafe { libc::getpid() };
    if !is_active() || len == 0 || !here() {
        return false;
    }
    // Some say of a buffer only that it is as long as can be.
    let end = p.saturating_add(len).min(LEAVES as u64 * LEAF * PAGE);
    let (mut at, mut any) = (p, false);
    while at < end {
        if FAULTS.watched.has(at) {
            any = true;
            // SAFETY: a byte of memory that is shadowed, which the program gave as its own.
            unsafe {
                match writes {
                    true => rewrite(AtomicU8::from_ptr(at as *mut u8)),
                    false => _ = (at as *const u8).read_volatile(),
                }
            }
        }
        at = FAULTS.watched.next(at);
    }
    any
}

/// Whether any of some memory may be closed.
pub fn meets(p: u64, len: u64) -> bool {
    let end = p.saturating_add(len);
    let mut at = p;
    while is_active() && at < end {
        if FAULTS.watched.has(at) {
            return true;
        }
        at = FAULTS.watched.next(at);
    }
    false
}

/// Whether a page may be closed.
pub fn is_watched(p: u64) -> bool {
    FAULTS.watched.has(p)
}

/// Writes what a byte has, by an instruction that the device does not do in its place: the page is
/// to be open.
#[cfg(target_arch = "x86_64")]
fn rewrite(byte: &AtomicU8) {
    // SAFETY: adds nothing to a byte that may be written.
    unsafe {
        std::arch::asm!("clc", "lock adc byte ptr [{}], 0", in(reg) byte.as_ptr());
    }
}

/// Writes what a byte has. Adding nothing to it would be made a mere look by the compiler.
#[cfg(not(target_arch = "x86_64"))]
fn rewrite(byte: &AtomicU8) {
    let mut has = byte.load(Ordering::Relaxed);
    while let Err(now) = byte.compare_exchange_weak(has, has, Ordering::AcqRel, Ordering::Relaxed) {
        has = now;
    }
}

/// The most threads that do what streams wait for: a client has two.
const MOST_FUNCTIONS: usize = 16;

/// What the handler looks at: a process has one.
struct Faults {
    /// Where the pipe's writing end is; -1 until faults are handled.
    pipe: AtomicI32,
    /// The process that the thread belongs to: a child of a fork has none.
    process: AtomicI32,
    /// The thread that answers, which must not wait for itself.
    helper: AtomicI32,
    /// Threads that do what streams wait for, while they do.
    in_function: [AtomicI32; MOST_FUNCTIONS],
    /// Guarded memory outside our own address ranges.
    watched: Watched,
    /// Areas with pages that are guarded.
    guarded: AtomicUsize,
    /// Who else handles faults.
    behind: Behind,
    /// The C library's functions have ours in front of them.
    first: Once,
    /// Those that the client takes itself.
    own: OnceLock<Own>,
    /// Whose memory it may be.
    owners: Mutex<Vec<(usize, &'static dyn Owner)>>,
}

static FAULTS: Faults = Faults {
    pipe: AtomicI32::new(-1),
    process: AtomicI32::new(0),
    helper: AtomicI32::new(0),
    in_function: [const { AtomicI32::new(0) }; MOST_FUNCTIONS],
    watched: Watched([const { AtomicPtr::new(std::ptr::null_mut()) }; LEAVES]),
    guarded: AtomicUsize::new(0),
    behind: Behind {
        places: [const { UnsafeCell::new(MaybeUninit::zeroed()) }; HANDLERS],
        latest: AtomicUsize::new(0),
        next: AtomicUsize::new(0),
    },
    first: Once::new(),
    own: OnceLock::new(),
    owners: Mutex::new(Vec::new()),
};

/// A fault, on the stack of the thread that waits for it.
struct Request {
    address: u64,
    write: Option<bool>,
    in_function: bool,
    /// The thread's registers, which it has when the handler returns.
    context: *mut c_void,
    answer: AtomicU32,
}

const OPEN: u32 = 0;
const RETRY: u32 = 1;
const REFUSE: u32 = 2;

const PAGE: u64 = 4096;
/// Pages of a leaf of the table: those of a gigabyte.
const LEAF: u64 = 1 << 18;
/// So many leaves have all addresses of a program that does not ask for others.
const LEAVES: usize = 1 << 17;

type Leaf = [AtomicU64; LEAF as usize / 64];

/// A bit for each page, where the handler can look. A leaf that is there stays.
struct Watched([AtomicPtr<Leaf>; LEAVES]);

impl Watched {
    fn leaf(&self, page: u64) -> Option<&AtomicPtr<Leaf>> {
        self.0.get((page / LEAF) as usize)
    }

    fn has(&self, p: u64) -> bool {
        let page = p / PAGE;
        let leaf = self.leaf(page).map(|l| l.load(Ordering::Acquire));
        // SAFETY: null, or a leaf, which stays.
        let leaf = leaf.and_then(|l| unsafe { l.as_ref() });
        let word = (page % LEAF / 64) as usize;
        leaf.is_some_and(|l| l[word].load(Ordering::Acquire) >> (page % 64) & 1 != 0)
    }

    /// Where to look next: the next page, or the next leaf if there is none.
    fn next(&self, p: u64) -> u64 {
        let leaf = self.leaf(p / PAGE).map(|l| l.load(Ordering::Acquire));
        let pages = match leaf {
            Some(l) if !l.is_null() => 1,
            _ => LEAF,
        };
        (p | (pages * PAGE - 1)).saturating_add(1)
    }

    /// Sets the bits of whole pages.
    fn set(&self, at: u64, len: u64, on: bool) -> Result<()> {
        let (mut page, end) = (at / PAGE, (at + len) / PAGE);
        while page < end {
            let n = (64 - page % 64).min(end - page);
            let bits = u64::MAX >> (64 - n) << (page % 64);
            let slot = self.leaf(page).ok_or(CUDA_ERROR_OUT_OF_MEMORY)?;
            if slot.load(Ordering::Acquire).is_null() {
                let new =
                    Box::into_raw(Box::new([const { AtomicU64::new(0) }; LEAF as usize / 64]));
                let none = std::ptr::null_mut();
                let ours = slot.compare_exchange(none, new, Ordering::AcqRel, Ordering::Acquire);
                if ours.is_err() {
                    // SAFETY: nobody else has seen it.
                    drop(unsafe { Box::from_raw(new) });
                }
            }
            // SAFETY: a leaf, which stays.
            let word = unsafe { &(&*slot.load(Ordering::Acquire))[(page % LEAF / 64) as usize] };
            match on {
                true => word.fetch_or(bits, Ordering::AcqRel),
                false => word.fetch_and(!bits, Ordering::AcqRel),
            };
            page += n;
        }
        Ok(())
    }
}

/// Guards an area's pages.
pub fn watch(at: u64, len: u64) -> Result<()> {
    FAULTS.watched.set(at, len, true)?;
    FAULTS.guarded.fetch_add(1, Ordering::AcqRel);
    Ok(())
}

/// Guards an area's pages no longer.
pub fn unwatch(at: u64, len: u64) {
    let _ = FAULTS.watched.set(at, len, false);
    FAULTS.guarded.fetch_sub(1, Ordering::AcqRel);
}

/// Whether a thread runs what a stream waits for.
fn is_in_function(thread: i32) -> bool {
    let mut all = FAULTS.in_function.iter();
    all.any(|slot| slot.load(Ordering::Acquire) == thread)
}

fn thread_id() -> i32 {
    // SAFETY: no arguments.
    unsafe { libc::syscall(libc::SYS_gettid) as i32 }
}

/// What kind of access it was: of the processors, only some tell in a place that is fixed.
#[cfg(target_arch = "x86_64")]
unsafe fn was_write(context: *mut c_void) -> Option<bool> {
    // SAFETY: the kernel's own structure, given to a handler with SA_SIGINFO.
    let error =
        unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs }[libc::REG_ERR as usize];
    Some(error & 2 != 0)
}

#[cfg(not(target_arch = "x86_64"))]
unsafe fn was_write(_context: *mut c_void) -> Option<bool> {
    None
}

/// Where the general registers are, as instructions number them.
#[cfg(target_arch = "x86_64")]
const GENERAL: [c_int; 16] = [
    libc::REG_RAX,
    libc::REG_RCX,
    libc::REG_RDX,
    libc::REG_RBX,
    libc::REG_RSP,
    libc::REG_RBP,
    libc::REG_RSI,
    libc::REG_RDI,
    libc::REG_R8,
    libc::REG_R9,
    libc::REG_R10,
    libc::REG_R11,
    libc::REG_R12,
    libc::REG_R13,
    libc::REG_R14,
    libc::REG_R15,
];

/// The registers of a thread that sleeps in the handler.
#[cfg(target_arch = "x86_64")]
unsafe fn registers(context: *mut c_void) -> Option<Registers> {
    // SAFETY: the kernel's own structure, given to a handler with SA_SIGINFO.
    let all = unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let get = |which: c_int| all[which as usize] as u64;
    Some(Registers {
        general: GENERAL.map(get),
        ip: get(libc::REG_RIP),
        flags: get(libc::REG_EFL),
    })
}

/// It has these when the handler returns.
#[cfg(target_arch = "x86_64")]
unsafe fn set_registers(context: *mut c_void, r: &Registers) {
    // SAFETY: as above.
    let all = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let mut set = |which: c_int, to: u64| all[which as usize] = to as i64;
    for (which, to) in GENERAL.into_iter().zip(r.general) {
        set(which, to);
    }
    set(libc::REG_RIP, r.ip);
    set(libc::REG_EFL, r.flags);
}

/// Elsewhere no instruction is known.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn registers(_context: *mut c_void) -> Option<Registers> {
    None
}

#[cfg(not(target_arch = "x86_64"))]
unsafe fn set_registers(_context: *mut c_void, _r: &Registers) {}

/// Asks the thread, and sleeps until it has answered.
fn ask(r: &Request) -> u32 {
    let p: *const Request = r;
    // SAFETY: a write of one address, which a pipe takes whole; past what may be ahead of the C
    // library, for the program may be in the middle of that.
    let sent = unsafe {
        libc::syscall(
            libc::SYS_write,
            FAULTS.pipe.load(Ordering::Acquire),
            &raw const p,
            8,
        )
    };
    if sent != 8 {
        return REFUSE;
    }
    loop {
        match r.answer.load(Ordering::Acquire) {
            OPEN => {
                // SAFETY: a wait on a word of this stack, which the answer changes before it wakes.
                unsafe {
                    libc::syscall(
                        libc::SYS_futex,
                        r.answer.as_ptr(),
                        libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                        OPEN,
                        std::ptr::null::<libc::timespec>(),
                    )
                };
            }
            a => return a,
        }
    }
}

extern "C" fn on_fault(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel's own structure; the place of errno is this thread's.
    let (address, errno) = unsafe { ((*info).si_addr() as u64, libc::__errno_location()) };
    // SAFETY: as above.
    let saved = unsafe { *errno };
    let me = thread_id();
    // SAFETY: as above; no arguments. What a process or thread has sent is no access.
    let (access, process) = unsafe { ((*info).si_code > 0, libc::getpid()) };
    let ours = access
        && FAULTS.watched.has(address)
        && me != FAULTS.helper.load(Ordering::Acquire)
        && process == FAULTS.process.load(Ordering::Acquire);
    let mut answer = REFUSE;
    if ours {
        let r = Request {
            address,
            // SAFETY: the handler's own argument.
            write: unsafe { was_write(context) },
            in_function: is_in_function(me),
            context,
            answer: AtomicU32::new(OPEN),
        };
        answer = ask(&r);
    }
    // SAFETY: as above.
    unsafe { *errno = saved };
    if answer != RETRY {
        // SAFETY: the handler's own arguments.
        unsafe { pass_on(signal, info, context) };
    }
}

type Action = libc::sigaction;
type SetAction = unsafe extern "C" fn(c_int, *const Action, *mut Action) -> c_int;
type SetMask = unsafe extern "C" fn(c_int, *const sigset_t, *mut sigset_t) -> c_int;

/// The C library's own functions, whatever libraries are ahead of it: one that looks up late what
/// is behind it would find what we have put there.
struct Own {
    action: SetAction,
    mask: SetMask,
}

fn own() -> &'static Own {
    FAULTS.own.get_or_init(|| {
        let find = replace::library_function;
        // SAFETY: null, or functions of these names.
        let (action, mask) = unsafe {
            (
                std::mem::transmute::<*mut c_void, Option<SetAction>>(find(c"sigaction")),
                std::mem::transmute::<*mut c_void, Option<SetMask>>(find(c"pthread_sigmask")),
            )
        };
        Own {
            action: action.unwrap_or(libc::sigaction),
            mask: mask.unwrap_or(libc::pthread_sigmask),
        }
    })
}

/// `sigaction` for our signal.
fn set_action(new: Option<&Action>, old: Option<&mut Action>) -> c_int {
    let new = new.map_or(std::ptr::null(), std::ptr::from_ref);
    let old = old.map_or(std::ptr::null_mut(), std::ptr::from_mut);
    // SAFETY: null, or structures of the caller's.
    unsafe { (own().action)(libc::SIGSEGV, new, old) }
}

/// `pthread_sigmask`.
pub fn set_mask(how: c_int, new: &sigset_t, old: Option<&mut sigset_t>) -> c_int {
    let old = old.map_or(std::ptr::null_mut(), std::ptr::from_mut);
    // SAFETY: null, or sets of the caller's.
    unsafe { (own().mask)(how, new, old) }
}

/// Gives a fault to whoever handles them beside us; by default it ends the program.
unsafe fn pass_on(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    let other = FAULTS.behind.get();
    // SAFETY: the handler's own arguments, and a handler of the signature that its flags say.
    unsafe {
        let sent = (*info).si_code <= 0;
        match other.sa_sigaction {
            libc::SIG_IGN if sent => return,
            libc::SIG_DFL | libc::SIG_IGN => {
                // An access is tried again when the handler returns, and then it counts.
                let none: Action = std::mem::zeroed();
                set_action(Some(&none), None);
                if sent {
                    libc::raise(signal);
                }
                return;
            }
            _ => {}
        }
        if other.sa_flags & libc::SA_RESETHAND != 0 {
            let none = libc::sigaction {
                sa_sigaction: libc::SIG_DFL,
                ..other
            };
            FAULTS.behind.set(none);
        }
        // Ours is never blocked: what the handler looks at may be shadowed.
        let (mut during, mut before) = (other.sa_mask, std::mem::zeroed());
        libc::sigdelset(&mut during, signal);
        set_mask(libc::SIG_BLOCK, &during, Some(&mut before));
        if other.sa_flags & libc::SA_SIGINFO != 0 {
            let f: extern "C" fn(i32, *mut libc::siginfo_t, *mut c_void) =
                std::mem::transmute(other.sa_sigaction);
            f(signal, info, context);
        } else {
            let f: extern "C" fn(i32) = std::mem::transmute(other.sa_sigaction);
            f(signal);
        }
        set_mask(libc::SIG_SETMASK, &before, None);
    }
}

/// Puts the handler in place. One that a program sets later, past the C library, has ours put back
/// in front of it the next time that something is shadowed.
fn install() -> Result<()> {
    let mut ours: libc::sigaction = {
        // SAFETY: zero is a valid value of it.
        unsafe { std::mem::zeroed() }
    };
    ours.sa_sigaction = on_fault as *const () as usize;
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER | libc::SA_RESTART;
    let mut now: libc::sigaction = {
        // SAFETY: as above.
        unsafe { std::mem::zeroed() }
    };
    if set_action(None, Some(&mut now)) != 0 {
        return Err(CUDA_ERROR_OPERATING_SYSTEM);
    }
    if now.sa_sigaction == ours.sa_sigaction {
        return Ok(());
    }
    FAULTS.behind.set(now);
    match set_action(Some(&ours), None) {
        0 => Ok(()),
        _ => Err(CUDA_ERROR_OPERATING_SYSTEM),
    }
}

/// Makes sure that faults are handled, those in memory of the owner `key` among them.
pub fn start(key: usize, owner: impl FnOnce() -> Box<dyn Owner>) -> Result<()> {
    let mut owners = lock(&FAULTS.owners);
    if owners.is_empty() {
        let mut ends = [0; 2];
        // SAFETY: room for two descriptors.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
            return Err(CUDA_ERROR_OPERATING_SYSTEM);
        }
        // SAFETY: just made, and nobody else's.
        let reader = unsafe { OwnedFd::from_raw_fd(ends[0]) };
        // SAFETY: no arguments.
        FAULTS
            .process
            .store(unsafe { libc::getpid() }, Ordering::Release);
        let served = threads::start("busbar-memory", move || serve(&reader));
        served.map_err(|_| CUDA_ERROR_OPERATING_SYSTEM)?;
        FAULTS.pipe.store(ends[1], Ordering::Release);
    }
    if owners.iter().all(|(k, _)| *k != key) {
        owners.push((key, Box::leak(owner())));
    }
    install()
}

/// Runs once in a process, when faults are handled.
pub fn once(f: impl FnOnce()) {
    FAULTS.first.call_once(f);
}

/// A request on another thread's stack.
#[derive(Clone, Copy)]
struct Asked(*const Request);
// SAFETY: that thread sleeps until the request is answered, and the fields but for the answer,
// which is atomic, do not change.
unsafe impl Send for Asked {}

impl Asked {
    fn answer(self, a: u32) {
        // SAFETY: the request lives until its answer is stored; after that only its address is
        // used.
        let word = unsafe { (*self.0).answer.as_ptr() };
        // SAFETY: as above; waking a word that is gone wakes nobody who does not look again.
        unsafe {
            (*self.0).answer.store(a, Ordering::Release);
            libc::syscall(
                libc::SYS_futex,
                word,
                libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
                1,
            );
        }
    }

    /// The instruction that faults, if it is one that the device may do.
    fn instruction(self) -> Option<Instruction> {
        /// The longest there is.
        const MOST: usize = 15;
        // SAFETY: not answered yet.
        let r = unsafe { &*self.0 };
        // SAFETY: the thread sleeps in its handler.
        let registers = unsafe { registers(r.context)? };
        let mut bytes = [0u8; MOST];
        let to = libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: MOST,
        };
        // Two pages may have it, and the second may not be there.
        let first = (PAGE - registers.ip % PAGE).min(MOST as u64) as usize;
        let piece = |at: usize, n: usize| libc::iovec {
            iov_base: (registers.ip + at as u64) as *mut c_void,
            iov_len: n,
        };
        let from = [piece(0, first), piece(first, MOST - first)];
        // SAFETY: room for as many bytes; of what cannot be read less comes.
        let n = unsafe { libc::process_vm_readv(libc::getpid(), &to, 1, from.as_ptr(), 2, 0) };
        let came = bytes.get(..usize::try_from(n).ok()?)?;
        let found = instruction::read(came, &registers)?;
        let at = found.atomic.at;
        let is_there = (at..at + u64::from(found.atomic.width)).contains(&r.address);
        is_there.then_some(found)
    }

    /// The instruction found has been done, to a word that was this before.
    fn done(self, found: Instruction, had: u64) {
        // SAFETY: not answered yet, and the thread sleeps in its handler.
        unsafe {
            let context = (*self.0).context;
            if let Some(mut r) = registers(context) {
                found.done(&mut r, had);
                set_registers(context, &r);
            }
        }
    }

    /// Does what the fault needs. What has to wait for the device goes to a thread of its own: a
    /// function that the device itself waits for may fault meanwhile. Once it has `waited` it is
    /// let in beside what other threads have queued since, of which there may be more each time;
    /// and once its patience is over, beside all work.
    fn serve(self, waits: Waits) {
        // SAFETY: not answered yet.
        let (p, write, waits) = unsafe {
            let r = &*self.0;
            let waits = if r.in_function { Waits::Never } else { waits };
            (r.address, r.write, waits)
        };
        // Read once at most: the instruction that is done is the instruction that is stepped over.
        let read = OnceCell::new();
        let found = || *read.get_or_init(|| self.instruction());
        let owners = lock(&FAULTS.owners).clone();
        for (_, owner) in owners {
            match owner.fault(p, write, waits, &found) {
                Outcome::Retry => return self.answer(RETRY),
                Outcome::Done(had) => {
                    if let Some(found) = found() {
                        self.done(found, had);
                    }
                    return self.answer(RETRY);
                }
                Outcome::Refuse => {}
                Outcome::Wait {
                    owed,
                    mark,
                    patience,
                } => {
                    let asked = self;
                    let run = move || {
                        let asked = asked;
                        match wait(owner, &owed, mark, patience) {
                            Some(Err(e)) => {
                                crate::log!(
                                    Error,
                                    "the memory at {p:#x} is lost: the work before failed with {e}"
                                );
                                return asked.answer(REFUSE);
                            }
                            Some(Ok(())) => {}
                            None => owner.outlasts(p, &owed, mark),
                        }
                        asked.serve(Waits::NoMore);
                    };
                    if threads::start("busbar-fetch", run).is_err() {
                        self.answer(REFUSE);
                    }
                    return;
                }
            }
        }
        self.answer(REFUSE);
    }
}

/// Waits for work as long as there is patience; the waiting goes on, so that it is known when the
/// work is over.
fn wait(
    owner: &'static dyn Owner,
    owed: &[(u32, u32)],
    mark: u64,
    patience: Duration,
) -> Option<Result<()>> {
    let (over, heard) = mpsc::channel();
    let work = owed.to_vec();
    let waiting = threads::start("busbar-wait", move || {
        // Nobody hears of what took too long.
        let _ = over.send(owner.wait(&work, mark));
    });
    match waiting {
        Ok(_) => heard.recv_timeout(patience).ok(),
        Err(_) => Some(owner.wait(owed, mark)),
    }
}

/// The thread that answers faults.
fn serve(pipe: &OwnedFd) {
    FAULTS.helper.store(thread_id(), Ordering::Release);
    loop {
        let mut p: *const Request = std::ptr::null();
        // SAFETY: room for one address; writes of that size arrive whole.
        let n = unsafe { libc::read(pipe.as_raw_fd(), (&raw mut p).cast(), 8) };
        match n {
            8 => Asked(p).serve(Waits::Yes),
            _ if n < 0
                && std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted => {}
            _ => return,
        }
    }
}

/// Runs a function that the device waits for on this thread, which may have been born with signals
/// blocked: a fault that is blocked ends the program.
pub fn in_function<T>(f: impl FnOnce() -> T) -> T {
    let mut faults = MaybeUninit::uninit();
    // SAFETY: a set of signals that is made before it is used.
    unsafe {
        libc::sigemptyset(faults.as_mut_ptr());
        libc::sigaddset(faults.as_mut_ptr(), libc::SIGSEGV);
        set_mask(libc::SIG_UNBLOCK, faults.assume_init_ref(), None);
    }
    let me = thread_id();
    let free = |slot: &&AtomicI32| {
        let taken = slot.compare_exchange(0, me, Ordering::AcqRel, Ordering::Relaxed);
        taken.is_ok()
    };
    let slot = FAULTS.in_function.iter().find(free);
    let done = f();
    if let Some(slot) = slot {
        slot.store(0, Ordering::Release);
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_any_number_of_pages_it_is_known_whether_they_are_guarded() {
        let of = |i: u64| 0x7000_0000_0000 + i * 3 * PAGE;
        let some = 40_000;
        for i in 0..some {
            watch(of(i), 2 * PAGE).unwrap();
        }
        for i in 0..some {
            assert!(
                FAULTS.watched.has(of(i)) && FAULTS.watched.has(of(i) + 2 * PAGE - 1),
                "{i}"
            );
            assert!(!FAULTS.watched.has(of(i) + 2 * PAGE), "{i}");
        }
        (0..some).step_by(2).for_each(|i| unwatch(of(i), 2 * PAGE));
        assert!((0..some).all(|i| FAULTS.watched.has(of(i) + 5000) == (i % 2 == 1)));
        // Across leaves.
        let (from, len) = (0x1_3fff_f000, (1 << 30) + 2 * PAGE);
        watch(from, len).unwrap();
        assert!(FAULTS.watched.has(from) && FAULTS.watched.has(from + len - 1));
        assert!(!FAULTS.watched.has(from - 1) && !FAULTS.watched.has(from + len));
        unwatch(from, len);
        assert!(!FAULTS.watched.has(from) && !FAULTS.watched.has(from + (1 << 29)));
        assert!(watch(1 << 50, PAGE).is_err(), "no program has that address");
    }
}
