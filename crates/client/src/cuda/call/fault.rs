//! Accesses of the program to pages that are closed to it.
//!
//! The signal handler does three things that are allowed anywhere: it looks the address up in
//! tables of plain numbers, writes a request to a pipe, and sleeps until the request is answered.
//! A thread of its own reads the pipe and does the rest. Faults elsewhere go to whoever handled
//! them before.

use crate::cuda::state::shadows::Outcome;
use crate::cuda::state::space;
use crate::lock::lock;
use crate::threads;
use busbar_abi::cuda::*;
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// Who knows what a fault needs.
pub trait Owner: Send + Sync {
    /// What becomes of an access to `p`, as [`crate::cuda::state::shadows::Areas::fault`] says it.
    fn fault(&self, p: u64, write: Option<bool>, now: bool) -> Outcome;
    /// Waits for work, up to a mark.
    fn wait(&self, owed: &[(u32, u32)], mark: u64) -> Result<()>;
}

struct Previous(UnsafeCell<MaybeUninit<libc::sigaction>>);
// SAFETY: written while `Faults::owners` is locked, before the handler that reads it is in place.
unsafe impl Sync for Previous {}

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
    /// Who handled faults before.
    previous: Previous,
    /// Whose memory it may be.
    owners: Mutex<Vec<(usize, &'static dyn Owner)>>,
}

static FAULTS: Faults = Faults {
    pipe: AtomicI32::new(-1),
    process: AtomicI32::new(0),
    helper: AtomicI32::new(0),
    in_function: [const { AtomicI32::new(0) }; MOST_FUNCTIONS],
    watched: Watched([const { AtomicPtr::new(std::ptr::null_mut()) }; LEAVES]),
    previous: Previous(UnsafeCell::new(MaybeUninit::zeroed())),
    owners: Mutex::new(Vec::new()),
};

/// A fault, on the stack of the thread that waits for it.
struct Request {
    address: u64,
    write: Option<bool>,
    in_function: bool,
    answer: AtomicU32,
}

const OPEN: u32 = 0;
const RETRY: u32 = 1;
const REFUSE: u32 = 2;

fn in_our_ranges(p: u64) -> bool {
    matches!(space::number(p), Some(space::MANAGED | space::HOST))
}

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
    if in_our_ranges(at) {
        return Ok(());
    }
    FAULTS.watched.set(at, len, true)
}

/// Guards an area's pages no longer.
pub fn unwatch(at: u64, len: u64) {
    if !in_our_ranges(at) {
        let _ = FAULTS.watched.set(at, len, false);
    }
}

fn watched(p: u64) -> bool {
    in_our_ranges(p) || FAULTS.watched.has(p)
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

/// Asks the thread, and sleeps until it has answered.
fn ask(r: &Request) -> u32 {
    let p: *const Request = r;
    // SAFETY: a write of one address, which a pipe takes whole.
    let sent = unsafe {
        libc::write(
            FAULTS.pipe.load(Ordering::Acquire),
            (&raw const p).cast(),
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
    // SAFETY: no arguments.
    let ours = watched(address)
        && me != FAULTS.helper.load(Ordering::Acquire)
        && unsafe { libc::getpid() } == FAULTS.process.load(Ordering::Acquire);
    let mut answer = REFUSE;
    if ours {
        let r = Request {
            address,
            // SAFETY: the handler's own argument.
            write: unsafe { was_write(context) },
            in_function: is_in_function(me),
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

/// Gives a fault to whoever handled them before us; by default it ends the program.
unsafe fn pass_on(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: written before this handler was in place.
    let old = unsafe { (*FAULTS.previous.0.get()).assume_init_ref() };
    match old.sa_sigaction {
        libc::SIG_DFL | libc::SIG_IGN => {
            // The access is tried again when the handler returns, and then it counts.
            // SAFETY: the default action, in the form that the kernel gives it.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        handler if old.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: a handler of this signature, by its flags.
            let f: extern "C" fn(i32, *mut libc::siginfo_t, *mut c_void) =
                unsafe { std::mem::transmute(handler) };
            f(signal, info, context);
        }
        handler => {
            // SAFETY: a handler of the plain signature, by its flags.
            let f: extern "C" fn(i32) = unsafe { std::mem::transmute(handler) };
            f(signal);
        }
    }
}

/// Puts the handler in place. Programs that set one of their own later have ours put back in front
/// of it the next time that something is shadowed.
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
    // SAFETY: pointers to live structures.
    unsafe {
        if libc::sigaction(libc::SIGSEGV, std::ptr::null(), &mut now) != 0 {
            return Err(CUDA_ERROR_OPERATING_SYSTEM);
        }
        if now.sa_sigaction == ours.sa_sigaction {
            return Ok(());
        }
        *FAULTS.previous.0.get() = MaybeUninit::new(now);
        if libc::sigaction(libc::SIGSEGV, &ours, std::ptr::null_mut()) != 0 {
            return Err(CUDA_ERROR_OPERATING_SYSTEM);
        }
    }
    Ok(())
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

    /// Does what the fault needs. What has to wait for the device goes to a thread of its own: a
    /// function that the device itself waits for may fault meanwhile.
    fn serve(self) {
        // SAFETY: not answered yet.
        let (p, write, now) = unsafe {
            let r = &*self.0;
            (r.address, r.write, r.in_function)
        };
        let owners = lock(&FAULTS.owners).clone();
        for (_, owner) in owners {
            match owner.fault(p, write, now) {
                Outcome::Retry => return self.answer(RETRY),
                Outcome::Refuse => {}
                Outcome::Wait { owed, mark } => {
                    let asked = self;
                    let run = move || {
                        let asked = asked;
                        match owner.wait(&owed, mark) {
                            Ok(()) => asked.serve(),
                            Err(e) => {
                                crate::log!(
                                    Error,
                                    "the memory at {p:#x} is lost: the work before failed with {e}"
                                );
                                asked.answer(REFUSE);
                            }
                        }
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

/// The thread that answers faults.
fn serve(pipe: &OwnedFd) {
    FAULTS.helper.store(thread_id(), Ordering::Release);
    loop {
        let mut p: *const Request = std::ptr::null();
        // SAFETY: room for one address; writes of that size arrive whole.
        let n = unsafe { libc::read(pipe.as_raw_fd(), (&raw mut p).cast(), 8) };
        match n {
            8 => Asked(p).serve(),
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
        libc::pthread_sigmask(libc::SIG_UNBLOCK, faults.as_ptr(), std::ptr::null_mut());
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
            assert!(watched(of(i)) && watched(of(i) + 2 * PAGE - 1), "{i}");
            assert!(!watched(of(i) + 2 * PAGE), "{i}");
        }
        (0..some).step_by(2).for_each(|i| unwatch(of(i), 2 * PAGE));
        assert!((0..some).all(|i| watched(of(i) + 5000) == (i % 2 == 1)));
        // Across leaves.
        let (from, len) = (0x1_3fff_f000, (1 << 30) + 2 * PAGE);
        watch(from, len).unwrap();
        assert!(watched(from) && watched(from + len - 1));
        assert!(!watched(from - 1) && !watched(from + len));
        unwatch(from, len);
        assert!(!watched(from) && !watched(from + (1 << 29)));
        assert!(watch(1 << 50, PAGE).is_err(), "no program has that address");
    }
}
