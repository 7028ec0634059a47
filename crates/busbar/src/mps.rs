//! The process that keeps NVIDIA's MPS for the dense sessions of one login: in their cell, as their
//! user. It starts the daemon, says when that takes clients, and ends it when the server lets go.

use busbar_transport::handover;
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Where clients of a daemon find it.
pub const PIPES: &str = "CUDA_MPS_PIPE_DIRECTORY";
/// Where a daemon writes what it has to say.
pub const LOGS: &str = "CUDA_MPS_LOG_DIRECTORY";
/// The most of a device's processors that a client uses, in hundredths.
pub const THREADS: &str = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE";
/// Where, beside the daemon's sockets, its keeper is asked to take a client off.
const KEEPER: &str = "keeper";
/// How long the daemon may take to take clients.
const START: Duration = Duration::from_secs(10);
/// How long it may take to end when it is told to.
const END: Duration = Duration::from_secs(2);
/// How often is looked whether it lives.
const OFTEN: Duration = Duration::from_millis(500);
const LOOK: Duration = Duration::from_millis(5);
/// The most that is kept of what the daemon says, in bytes.
const LONGEST: usize = 400;

/// What is said to the server.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// Clients may come.
    Ready,
    /// There is no daemon, and why.
    No(String),
}

impl Word {
    fn say(&self, to: &OwnedFd) {
        let text = serde_json::to_vec(self).unwrap_or_default();
        let _ = handover::send(to, &text, None);
    }
}

/// Keeps a daemon whose sockets are in `folder`, until the server lets go of `server`, or the
/// daemon ends.
pub fn keep(server: OwnedFd, program: &Path, folder: &Path) -> io::Result<()> {
    let made = DirBuilder::new().mode(0o700).create(folder);
    let started = made.and_then(|()| start(program, folder));
    let mut daemon = match started {
        Ok(daemon) => daemon,
        Err(e) => {
            Word::No(format!("{}: {e}", program.display())).say(&server);
            return Ok(());
        }
    };
    let out = daemon.stdout.take();
    let listen = move || {
        let mut last = String::new();
        for line in out.into_iter().flat_map(|o| BufReader::new(o).lines()) {
            let Ok(line) = line else { break };
            last = line;
        }
        last.truncate(last.floor_char_boundary(LONGEST));
        last
    };
    let said = std::thread::spawn(listen);
    let until = Instant::now() + START;
    let listener = UnixListener::bind(folder.join(KEEPER))?;
    let (daemons, at) = (program.to_path_buf(), folder.to_path_buf());
    std::thread::spawn(move || take_off(&listener, &daemons, &at));
    let ready = loop {
        if folder.join("control").exists() && tell(program, folder, "get_server_list").is_ok() {
            break true;
        }
        if daemon.try_wait()?.is_some() || Instant::now() > until {
            break false;
        }
        std::thread::sleep(LOOK);
    };
    if ready {
        Word::Ready.say(&server);
        handover::recv_timeout(&server, Some(OFTEN))?;
        // Nothing is said here but the end.
        let goes_on = |e: &io::Error| e.kind() == io::ErrorKind::WouldBlock;
        while daemon.try_wait()?.is_none() && handover::recv(&server).is_err_and(|e| goes_on(&e)) {}
        let _ = tell(program, folder, "quit");
        let until = Instant::now() + END;
        while daemon.try_wait()?.is_none() && Instant::now() < until {
            std::thread::sleep(LOOK);
        }
    }
    let _ = (daemon.kill(), daemon.wait());
    let last = said.join().unwrap_or_default();
    if !ready {
        Word::No(format!("{} does not start: {last}", program.display())).say(&server);
    }
    let _ = fs::remove_dir_all(folder);
    Ok(())
}

fn start(program: &Path, folder: &Path) -> io::Result<Child> {
    // Both of its outputs are one pipe: it may write its log to either.
    let (out, into) = io::pipe()?;
    let mut daemon = Command::new(program);
    daemon
        .arg("-f")
        .env(PIPES, folder)
        .env(LOGS, folder)
        .stdin(Stdio::null())
        .stdout(into.try_clone()?)
        .stderr(into);
    let mut child = daemon.spawn()?;
    child.stdout = Some(OwnedFd::from(out).into());
    Ok(child)
}

/// Tells a daemon something, and gives what it answers.
fn tell(program: &Path, folder: &Path, what: &str) -> io::Result<String> {
    let mut c = Command::new(program)
        .env(PIPES, folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    if let Some(mut input) = c.stdin.take() {
        writeln!(input, "{what}")?;
    }
    let out = c.wait_with_output()?;
    if !out.status.success() {
        return Err(io::Error::other("it does not listen"));
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// Takes clients off the devices that ask for it, each for itself: a client's own rules keep it
/// from signals, by which the daemon's program looks whether there is one.
fn take_off(listener: &UnixListener, program: &Path, folder: &Path) {
    for client in listener.incoming().flatten() {
        let Some(pid) = peer(&client) else { continue };
        let servers = tell(program, folder, "get_server_list").unwrap_or_default();
        let servers = servers.split_whitespace();
        for server in servers.filter(|s| s.parse::<u32>().is_ok()) {
            let _ = tell(program, folder, &format!("terminate_client {server} {pid}"));
        }
    }
}

/// The process at the other end, as this process counts.
fn peer(socket: &UnixStream) -> Option<i32> {
    let mut who = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let mut size = size_of::<libc::ucred>() as libc::socklen_t;
    let fd = socket.as_raw_fd();
    // SAFETY: an open socket, and room of the size that is said.
    let rc = unsafe {
        let to = (&raw mut who).cast();
        libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERCRED, to, &raw mut size)
    };
    (rc == 0 && who.pid > 0).then_some(who.pid)
}

/// Has MPS end what this process has under way on devices, so that the end of the process is no
/// fault of others'.
pub fn withdraw() {
    let Some(folder) = std::env::var_os(PIPES) else {
        return;
    };
    if let Ok(mut keeper) = UnixStream::connect(Path::new(&folder).join(KEEPER)) {
        let _ = keeper.set_read_timeout(Some(END));
        // It says nothing, and hangs up when that is done.
        let _ = keeper.read(&mut [0]);
    }
}
