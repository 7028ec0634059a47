//! What a service manager is told, and gives: `sd_notify(3)` and `sd_listen_fds(3)`.

use anyhow::{Result, bail};
use std::net::TcpListener;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The first descriptor that a service manager gives.
const FIRST: i32 = 3;

/// Tells the service manager something, if there is one that listens.
pub(super) fn say(text: &str) {
    let Some(to) = std::env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    let name = to.as_encoded_bytes();
    let address = match name.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&to),
    };
    let sent = address.and_then(|a| UnixDatagram::unbound()?.send_to_addr(text.as_bytes(), &a));
    if let Err(e) = sent {
        let why = e.to_string();
        tracing::warn!(why, "the service manager does not hear");
    }
}

/// That settings are read again: a service manager wants to know when that began.
pub(super) fn reloading() -> String {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a pointer to a live structure.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    let us = now.tv_sec * 1_000_000 + now.tv_nsec / 1000;
    format!("RELOADING=1\nMONOTONIC_USEC={us}")
}

/// How many sockets the service manager listens on for us.
fn listeners() -> u32 {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
    match number("LISTEN_PID") == Some(std::process::id()) {
        true => number("LISTEN_FDS").unwrap_or(0),
        false => 0,
    }
}

/// Whether it listens for us: whoever comes waits until we answer.
pub(super) fn gives_listener() -> bool {
    listeners() > 0
}

/// The socket that the service manager listens on for us, if it does.
pub(super) fn listener() -> Result<Option<TcpListener>> {
    match listeners() {
        0 => Ok(None),
        1 => {
            // SAFETY: it was given to this process, and nothing else here knows it.
            let fd = unsafe { OwnedFd::from_raw_fd(FIRST) };
            // SAFETY: a descriptor of ours.
            unsafe { libc::fcntl(FIRST, libc::F_SETFD, libc::FD_CLOEXEC) };
            let listener = TcpListener::from(fd);
            if let Err(e) = listener.local_addr() {
                bail!("what the service manager gives (LISTEN_FDS) is no TCP socket: {e}");
            }
            Ok(Some(listener))
        }
        n => bail!("the service manager gives {n} sockets (LISTEN_FDS); give one"),
    }
}
