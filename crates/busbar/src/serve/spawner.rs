//! The one thread that starts processes. It lasts as long as the server: a worker is killed when
//! the *thread* that started it ends; and it alone may be sent into other process namespaces, where
//! what it starts then is.

use crate::confine;
use anyhow::{Context, Result};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::mpsc::{Sender, channel};

/// In which process namespace something is started.
pub(super) enum Inside {
    /// The server's.
    Here,
    /// A new one.
    New,
    /// One that is there.
    Of(OwnedFd),
}

/// A command to start, and where what became of it goes.
type Order = (Command, Inside, Sender<io::Result<Child>>);

#[derive(Clone)]
pub(super) struct Spawner(Sender<Order>);

fn check(rc: i32) -> io::Result<()> {
    match rc {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Starts something; `home` is the server's namespace.
fn start(c: &mut Command, inside: &Inside, home: Option<&File>) -> io::Result<Child> {
    // SAFETY: plain system calls on open descriptors. They are for what this thread starts.
    unsafe {
        match inside {
            Inside::Here => {}
            Inside::New => check(libc::unshare(libc::CLONE_NEWPID))?,
            Inside::Of(way) => check(libc::setns(way.as_raw_fd(), libc::CLONE_NEWPID))?,
        }
    }
    // Ctrl-C is for the server, which tells its workers what they have to know.
    let started = c.process_group(0).spawn();
    if let (Inside::New | Inside::Of(_), Some(home)) = (inside, home) {
        // SAFETY: as above.
        check(unsafe { libc::setns(home.as_raw_fd(), libc::CLONE_NEWPID) })?;
    }
    started
}

impl Spawner {
    pub(super) fn start() -> Result<Self> {
        let (tx, rx) = channel::<Order>();
        let run = move || {
            let home = File::open("/proc/self/ns/pid").ok();
            for (mut c, inside, back) in rx {
                let _ = back.send(start(&mut c, &inside, home.as_ref()));
            }
        };
        std::thread::Builder::new()
            .name("spawner".into())
            .stack_size(256 << 10)
            .spawn(run)
            .context("cannot start a thread")?;
        Ok(Self(tx))
    }

    pub(super) fn spawn(&self, c: Command, inside: Inside) -> io::Result<Child> {
        let (tx, rx) = channel();
        let gone = |()| io::Error::other("the thread that starts workers is gone");
        self.0.send((c, inside, tx)).map_err(|_| gone(()))?;
        rx.recv().map_err(|_| gone(()))?
    }
}

/// Has a command's process keep these descriptors, and no others but the standard ones.
pub(super) fn with_descriptors(c: &mut Command, keep: Vec<i32>) {
    // SAFETY: only async-signal-safe calls between fork and exec.
    unsafe {
        c.pre_exec(move || {
            confine::close_the_rest();
            match keep
                .iter()
                .all(|fd| libc::fcntl(*fd, libc::F_SETFD, 0) == 0)
            {
                true => Ok(()),
                false => Err(io::Error::last_os_error()),
            }
        });
    }
}
