//! Signals that `busbar run` gets while it holds devices: they are for its program, which may want
//! to write down how far it has come, and not for the lease.

use busbar_transport::lock::lock;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};

/// Those that somebody may send to a program.
const ALL: [i32; 6] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
];

/// Passes signals on.
pub struct Signals {
    /// The program's process, once there is one. Whoever starts it holds this meanwhile.
    program: Arc<Mutex<Option<i32>>>,
    /// What was held back before.
    before: libc::sigset_t,
}

impl Signals {
    /// Begins, while there is no other thread. Until there is a program, signals do what they
    /// always do.
    pub fn hold() -> io::Result<Self> {
        let mut all = MaybeUninit::uninit();
        let mut before = MaybeUninit::uninit();
        // SAFETY: the first call makes one set whole, and the last one the other.
        let (all, before) = unsafe {
            libc::sigemptyset(all.as_mut_ptr());
            for s in ALL {
                libc::sigaddset(all.as_mut_ptr(), s);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), before.as_mut_ptr());
            (all.assume_init(), before.assume_init())
        };
        let program = Arc::new(Mutex::new(None));
        let to = program.clone();
        let thread = std::thread::Builder::new().name("signals".into());
        thread.spawn(move || pass_on(&all, &to))?;
        Ok(Self { program, before })
    }

    /// Starts the program, with the signals held back that were before, and no others. From now on
    /// all are for it, even one that comes before it is known which process that is.
    pub fn start(&self, c: &mut Command) -> io::Result<Child> {
        let before = self.before;
        let set = move || {
            // SAFETY: a whole set; nothing is to be written.
            match unsafe { libc::sigprocmask(libc::SIG_SETMASK, &before, std::ptr::null_mut()) } {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        };
        // SAFETY: that one call is safe between fork and exec.
        unsafe { c.pre_exec(set) };
        let mut program = lock(&self.program);
        let child = c.spawn()?;
        *program = Some(child.id() as i32);
        Ok(child)
    }
}

fn pass_on(all: &libc::sigset_t, program: &Mutex<Option<i32>>) {
    loop {
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        // SAFETY: a whole set, and a place for what is told; zeros are good there.
        let (signal, info) = unsafe {
            let signal = libc::sigwaitinfo(all, info.as_mut_ptr());
            (signal, info.assume_init())
        };
        if signal < 0 {
            continue;
        }
        match *lock(program) {
            None => as_always(all, signal),
            // What a terminal sends, the program has got, too.
            Some(_) if info.si_code > libc::SI_USER => {}
            // SAFETY: a number that was a child's a moment ago; at worst nobody is there.
            Some(pid) => drop(unsafe { libc::kill(pid, signal) }),
        }
    }
}

/// What a signal does that nobody holds back.
fn as_always(all: &libc::sigset_t, signal: i32) {
    let none = std::ptr::null_mut();
    // SAFETY: a whole set; the signal is this thread's and comes at once.
    unsafe {
        libc::pthread_sigmask(libc::SIG_UNBLOCK, all, none);
        libc::raise(signal);
        libc::pthread_sigmask(libc::SIG_BLOCK, all, none);
    }
}
