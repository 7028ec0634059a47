//! Contexts: what they are, how often primary ones are retained, and which errors they owe.

use super::prelude::*;
use super::space;
use super::space::first_serial;
use crate::chunks::Chunks;

/// What a context is.
#[derive(Debug, Clone, Copy)]
pub struct Info {
    /// The program's ordinal of its device.
    pub device: CUdevice,
    /// Whether it is the device's primary context.
    pub primary: bool,
    /// As the program set them.
    pub flags: u32,
    /// A number that no other context of the process has or had.
    pub serial: u64,
}

/// A context's entry. Ids are used again, so it changes.
#[derive(Default)]
struct Context {
    /// The device's ordinal + 1, and in bit 16 whether it is primary; 0 for no context.
    device: AtomicU32,
    flags: AtomicU32,
    serial: AtomicU64,
    /// The error that has lost it, which every later call in it returns; 0 for none.
    failed: AtomicI32,
    /// The first failure of a queued call that no waiting call has reported yet; 0 for none.
    deferred: AtomicI32,
}

/// A device's primary context, whether it is there or not.
#[derive(Default)]
pub struct Primary {
    /// How often it is retained. Changed while [`Contexts::primaries`] is locked.
    pub retained: AtomicU32,
    /// Flags for when it is made.
    pub flags: AtomicU32,
}

/// The contexts of a client.
pub struct Contexts {
    all: Chunks<Context>,
    serials: AtomicU64,
    primaries: Box<[Primary]>,
    /// One thread at a time retains or releases.
    changing: Mutex<()>,
    /// The error of every call once the session is over before its time; 0 until then.
    lost: AtomicI32,
    /// Whether the session is lost, or any context is, and twice the number of the program's
    /// functions that run in stream order: only then a call looks closer.
    trouble: AtomicU32,
    /// Whether what begins work on a device waits for it.
    blocking: AtomicBool,
    /// Devices, and those that were let in to their memory by `cuCtxEnablePeerAccess`.
    peers: Mutex<BTreeSet<(CUdevice, CUdevice)>>,
}

/// Keeps an error, unless there is an earlier one.
fn first(place: &AtomicI32, error: CUresult) {
    let _ = place.compare_exchange(0, error, Ordering::AcqRel, Ordering::Relaxed);
}

impl Default for Contexts {
    /// None, of as many devices as there is room for.
    fn default() -> Self {
        let primaries = space::DEVICES.map(|_| Primary::default());
        Self {
            all: Chunks::default(),
            serials: AtomicU64::new(1),
            primaries: primaries.collect(),
            changing: Mutex::default(),
            lost: AtomicI32::new(0),
            trouble: AtomicU32::new(0),
            blocking: AtomicBool::new(false),
            peers: Mutex::default(),
        }
    }
}

impl Contexts {
    /// None, of one of several servers: no two give a serial.
    pub fn of(server: usize) -> Self {
        Self {
            serials: AtomicU64::new(first_serial(server) + 1),
            ..Self::default()
        }
    }

    /// Whether a call must look whether its session and context still work.
    #[inline]
    pub fn in_trouble(&self) -> bool {
        self.trouble.load(Ordering::Acquire) != 0
    }

    /// From now on calls look whether their context still works.
    pub fn look_closer(&self) {
        self.trouble.fetch_or(1, Ordering::AcqRel);
    }

    /// Runs a function of the program's, in which hardly any call of the driver's is permitted.
    pub fn without_calls<T>(&self, f: impl FnOnce() -> T) -> T {
        const ONE: u32 = 2;
        self.trouble.fetch_add(ONE, Ordering::AcqRel);
        let done = f();
        self.trouble.fetch_sub(ONE, Ordering::AcqRel);
        done
    }

    /// The session is over: the error of everything from now on. Work that was ended lest others
    /// wait for it is why, if it was.
    pub fn lose_session(&self) -> CUresult {
        first(&self.lost, CUDA_ERROR_DEVICE_UNAVAILABLE);
        self.look_closer();
        self.lost.load(Ordering::Acquire)
    }

    /// Whether the session is there.
    pub fn session_lives(&self) -> Result<()> {
        as_result(self.lost.load(Ordering::Acquire))
    }

    /// Whether no error has lost a context.
    pub fn works(&self, id: u32) -> Result<()> {
        let f = self.all.get(id).map(|c| c.failed.load(Ordering::Acquire));
        as_result(f.unwrap_or(0))
    }

    /// An error has lost a context. The first one stays.
    pub fn lose(&self, id: u32, error: CUresult) {
        if let Some(c) = self.all.get(id) {
            first(&c.failed, error);
        }
        // Only a server says so, which ends the session with it.
        if error == CUDA_ERROR_LAUNCH_TIMEOUT {
            first(&self.lost, error);
        }
        self.look_closer();
    }

    /// A queued call in a context has failed: a later call that waits reports it.
    pub fn defer(&self, id: u32, error: CUresult) {
        if let Some(c) = self.all.get(id) {
            first(&c.deferred, error);
        }
    }

    /// Whether a failure of a queued call waits to be reported.
    #[inline]
    pub fn has_deferred(&self, id: u32) -> bool {
        let c = self.all.get(id);
        c.is_some_and(|c| c.deferred.load(Ordering::Acquire) != 0)
    }

    /// Reports the failure of a queued call, once.
    pub fn deferred(&self, id: u32) -> Result<()> {
        let c = self.all.get(id);
        as_result(c.map_or(0, |c| c.deferred.swap(0, Ordering::AcqRel)))
    }

    /// A context begins anew: its errors are history.
    pub fn forget_errors(&self, id: u32) {
        if let Some(c) = self.all.get(id) {
            c.failed.store(0, Ordering::Release);
            c.deferred.store(0, Ordering::Release);
        }
    }

    /// A context is made: what the environment says by now counts, as with the driver.
    pub fn heed_environment(&self) {
        let asked = std::env::var_os("CUDA_LAUNCH_BLOCKING").is_some_and(|v| v == "1");
        self.blocking.store(asked, Ordering::Relaxed);
    }

    /// Whether the program wants kernels to be over when their launch returns.
    #[inline]
    pub fn are_blocking(&self) -> bool {
        self.blocking.load(Ordering::Relaxed)
    }

    /// Makes a context known, which has no errors yet.
    pub fn remember(&self, id: u32, device: CUdevice, flags: u32, primary: bool) {
        let c = self.all.get_or_make(id, Context::default);
        let serial = self.serials.fetch_add(1, Ordering::Relaxed);
        c.serial.store(serial, Ordering::Relaxed);
        c.flags.store(flags, Ordering::Relaxed);
        self.forget_errors(id);
        let device = (device as u32 + 1) | (u32::from(primary) << 16);
        c.device.store(device, Ordering::Release);
    }

    /// The serial of the context that is made next.
    pub fn next_serial(&self) -> u64 {
        self.serials.load(Ordering::Relaxed)
    }

    /// What the context with this id is.
    pub fn info(&self, id: u32) -> Option<Info> {
        let c = self.all.get(id)?;
        let v = c.device.load(Ordering::Acquire);
        Some(Info {
            device: (v & 0xffff).checked_sub(1)? as CUdevice,
            primary: v >> 16 & 1 == 1,
            flags: c.flags.load(Ordering::Relaxed),
            serial: c.serial.load(Ordering::Relaxed),
        })
    }

    /// The program's ordinal of a context's device.
    #[inline]
    pub fn device(&self, id: u32) -> Option<CUdevice> {
        let v = self.all.get(id)?.device.load(Ordering::Acquire);
        (v & 0xffff).checked_sub(1).map(|d| d as CUdevice)
    }

    /// Sets the flags of a context that is not primary.
    pub fn set_flags(&self, id: u32, flags: u32) {
        if let Some(c) = self.all.get(id) {
            c.flags.store(flags, Ordering::Relaxed);
        }
    }

    /// A context is gone. It may be current to other threads, which look closer from now on.
    pub fn forget(&self, id: u32) {
        if let Some(c) = self.all.get(id) {
            c.device.store(0, Ordering::Release);
        }
        self.forget_errors(id);
        self.look_closer();
    }

    /// A device may use what the other of a pair has, or no longer.
    pub fn let_in(&self, pair: (CUdevice, CUdevice), yes: bool) {
        let mut peers = lock(&self.peers);
        match yes {
            true => peers.insert(pair),
            false => peers.remove(&pair),
        };
    }

    /// Whether a device may use what another one has.
    pub fn may_use(&self, user: CUdevice, owner: CUdevice) -> bool {
        lock(&self.peers).contains(&(user, owner))
    }

    /// A device's primary context ends, and what it let in and was let in to.
    pub fn leave_peers(&self, id: u32) {
        if let Some(info) = self.info(id).filter(|info| info.primary) {
            let with = |(user, owner): &(i32, i32)| *user == info.device || *owner == info.device;
            lock(&self.peers).retain(|pair| !with(pair));
        }
    }

    /// A device's primary context.
    pub fn primary(&self, device: CUdevice) -> Result<&Primary> {
        let i = usize::try_from(device).ok();
        i.and_then(|i| self.primaries.get(i))
            .ok_or(CUDA_ERROR_INVALID_DEVICE)
    }

    /// Keeps other threads from retaining and releasing primary contexts.
    pub fn change_primaries(&self) -> MutexGuard<'_, ()> {
        lock(&self.changing)
    }
}

/// A code as a result.
pub fn as_result(e: CUresult) -> Result<()> {
    match e {
        CUDA_SUCCESS => Ok(()),
        e => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_reported_once_and_one_that_loses_a_context_for_ever() {
        let c = Contexts::default();
        c.remember(1, 0, 0, false);
        c.remember(2, 0, 0, false);
        c.defer(1, CUDA_ERROR_INVALID_VALUE);
        c.defer(1, CUDA_ERROR_UNKNOWN);
        assert!(c.has_deferred(1) && !c.has_deferred(2));
        assert_eq!(c.deferred(1), Err(CUDA_ERROR_INVALID_VALUE), "the first");
        assert_eq!(c.deferred(1), Ok(()));
        assert!(!c.in_trouble());
        c.lose(2, CUDA_ERROR_ILLEGAL_ADDRESS);
        c.lose(2, CUDA_ERROR_UNKNOWN);
        assert!(c.in_trouble());
        for _ in 0..2 {
            assert_eq!(c.works(2), Err(CUDA_ERROR_ILLEGAL_ADDRESS));
        }
        assert_eq!((c.works(1), c.session_lives()), (Ok(()), Ok(())));
    }

    #[test]
    fn an_id_that_is_used_again_is_another_context() {
        let c = Contexts::default();
        c.remember(7, 1, 4, false);
        let first = c.info(7).expect("it lives");
        assert_eq!((first.device, first.primary, first.flags), (1, false, 4));
        c.defer(7, CUDA_ERROR_UNKNOWN);
        c.lose(7, CUDA_ERROR_UNKNOWN);
        c.forget(7);
        assert!(c.info(7).is_none() && c.device(7).is_none());
        c.remember(7, 0, 0, true);
        let next = c.info(7).expect("it lives");
        assert_ne!(next.serial, first.serial);
        assert_eq!((c.works(7), c.deferred(7)), (Ok(()), Ok(())));
    }

    #[test]
    fn what_is_not_there_has_no_errors_to_report() {
        let c = Contexts::default();
        assert_eq!((c.works(9), c.deferred(9)), (Ok(()), Ok(())));
        assert!(
            c.info(9).is_none()
                && c.primary(space::DEVICES.len() as _).is_err()
                && c.primary(-1).is_err()
        );
    }
}
