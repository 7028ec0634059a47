//! The servers before and after this one, and which of them a connection is for.

use super::heritage::{Predecessor, as_json, pass};
use super::identity::Known;
use crate::confine;
use busbar_control::succession::ToHeir;
use busbar_transport::handover;
use busbar_transport::lock::{lock, read};
use busbar_transport::stream::Stream;
use busbar_transport::{Alarm, wait_readable};
use std::ffi::OsString;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, RwLock, RwLockReadGuard};
use std::time::Duration;

/// The flag by which a new server learns where the old one is.
pub(super) const FLAG: &str = "--predecessor-fd";

/// The server that takes this one's place.
pub(super) struct Heir {
    pub(super) control: OwnedFd,
    pub(super) pid: u32,
}

impl Heir {
    pub(super) fn tell(&self, what: &ToHeir) -> io::Result<()> {
        handover::send(&self.control, &as_json(what), None)
    }
}

/// What there is to know of servers before and after this one.
pub(crate) struct Succession {
    /// The program, as it was called.
    program: Option<PathBuf>,
    pub(super) listener: TcpListener,
    /// Whoever begins something new holds this.
    pub(super) gate: RwLock<()>,
    heir: Mutex<Option<Arc<Heir>>>,
    /// One is being started.
    pub(super) starting: AtomicBool,
    /// Rings when somebody is to look who takes clients.
    alarm: Alarm,
    pub(super) predecessor: Option<Predecessor>,
    pub(super) http: Mutex<Option<busbar_web::Running>>,
}

impl Succession {
    pub(super) fn new(
        program: Option<PathBuf>,
        listener: &TcpListener,
        predecessor: Option<Predecessor>,
    ) -> io::Result<Self> {
        // Two servers may wait for clients at the socket; one of them gets each.
        listener.set_nonblocking(true)?;
        Ok(Self {
            program,
            listener: listener.try_clone()?,
            gate: RwLock::default(),
            heir: Mutex::default(),
            starting: AtomicBool::new(false),
            alarm: Alarm::new()?,
            predecessor,
            http: Mutex::default(),
        })
    }

    /// From now on, or no longer, there is another server.
    pub(super) fn set_heir(&self, heir: Option<Arc<Heir>>) {
        *lock(&self.heir) = heir;
        self.alarm.ring();
    }

    fn heir(&self) -> Option<Arc<Heir>> {
        lock(&self.heir).clone()
    }

    /// Leave to begin something new here, for as long as it is held; none where another server
    /// does that.
    pub(super) fn begins(&self) -> Option<RwLockReadGuard<'_, ()>> {
        let gate = read(&self.gate);
        self.heir().is_none().then_some(gate)
    }

    /// Waits until there may be a client for this server, one that is here already may have
    /// spoken, or it is time to look.
    pub(super) fn wait_for_client(&self, here: BorrowedFd<'_>, limit: Option<Duration>) {
        let others = self.heir().is_some();
        let all = [here, self.alarm.as_fd(), self.listener.as_fd()];
        let _ = wait_readable(if others { &all[..2] } else { &all }, limit);
        self.alarm.silence();
    }

    /// Whether clients are another server's.
    pub(super) fn yields(&self) -> bool {
        self.heir().is_some()
    }

    /// Tells the server that has taken this one's place, if there is one.
    pub(super) fn tell_heir(&self, what: &ToHeir) {
        if let Some(heir) = self.heir() {
            let _ = heir.tell(what);
        }
    }

    /// Passes a connection on; gives it back if that cannot be.
    pub(super) fn pass_to_heir(&self, known: Known) -> Result<(), Stream> {
        match self.heir() {
            Some(heir) => pass(&heir.control, known, |p| as_json(&ToHeir::Passed(p))),
            None => Err(known.conn),
        }
    }

    /// What starts the new server, which hears over a descriptor.
    pub(super) fn command(&self, fd: i32) -> io::Result<Command> {
        let program = self.program.as_ref();
        let mut c = Command::new(program.ok_or(io::ErrorKind::NotFound)?);
        let mut args = std::env::args_os();
        let name = args.next().unwrap_or_default();
        let old = |a: &OsString| a.as_encoded_bytes().starts_with(FLAG.as_bytes());
        c.arg0(name).args(args.filter(|a| !old(a)));
        c.arg(format!("{FLAG}={fd}")).stdin(Stdio::null());
        // These speak of this process.
        for name in ["LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"] {
            c.env_remove(name);
        }
        // SAFETY: only async-signal-safe calls between fork and exec.
        unsafe {
            c.pre_exec(move || {
                confine::take_all_signals();
                match libc::fcntl(fd, libc::F_SETFD, 0) {
                    0 => Ok(()),
                    _ => Err(io::Error::last_os_error()),
                }
            });
        }
        Ok(c)
    }
}
