//! Signals that the server heeds, in a thread of their own.

use super::state::Server;
use super::{drain, notify, replacing};
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::time::Duration;

/// The signals that are waited for.
pub(super) struct Signals(libc::sigset_t);

impl Signals {
    /// Has these signals wait for [`Signals::heed`]; to be called before there are threads.
    pub(super) fn hold(which: &[i32]) -> Self {
        let mut set = MaybeUninit::uninit();
        // SAFETY: a set that the first call makes whole.
        let set = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for s in which {
                libc::sigaddset(set.as_mut_ptr(), *s);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
            set.assume_init()
        };
        Self(set)
    }

    /// Waits for so long; whether the server is told to end meanwhile.
    pub(super) fn wait(&self, time: Duration) -> bool {
        let time = libc::timespec {
            tv_sec: time.as_secs() as _,
            tv_nsec: time.subsec_nanos().into(),
        };
        let none = std::ptr::null_mut();
        // SAFETY: a whole set and a live time; nothing is to be written.
        let signal = unsafe { libc::sigtimedwait(&raw const self.0, none, &raw const time) };
        matches!(signal, libc::SIGTERM | libc::SIGINT)
    }

    /// Does what signals say, for as long as the server runs: SIGHUP reads the policy again,
    /// SIGUSR2 has a new server take this one's place, the first SIGTERM or Ctrl-C lets sessions
    /// run to their end, and the second one ends them.
    pub(super) fn heed(self, server: &Arc<Server>) -> std::io::Result<()> {
        let s = server.clone();
        let run = move || {
            loop {
                let mut signal = 0;
                // SAFETY: a whole set and a live number.
                if unsafe { libc::sigwait(&raw const self.0, &raw mut signal) } != 0 {
                    continue;
                }
                match signal {
                    libc::SIGHUP => {
                        notify::say(&notify::reloading());
                        s.rules.refresh(&s.pool, true);
                        notify::say("READY=1");
                    }
                    libc::SIGUSR2 => replacing::begin(&s),
                    _ => drain::told_to_end(&s),
                }
            }
        };
        std::thread::Builder::new()
            .name("signals".into())
            .stack_size(256 << 10)
            .spawn(run)
            .map(drop)
    }
}
