//! Taking clients in, each in a thread of its own from its first words on until a worker has it;
//! and telling them when there is no room for them.

use super::lobby::{Lobby, Speaker};
use super::state::Server;
use super::{connection, reception};
use busbar_transport::lock::lock;
use busbar_transport::tcp;
use std::fs::File;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const FILES: &str = "the server has too many files open to take another client: try later, or give \
                     it more (`ulimit -n`, a service's LimitNOFILE)";
const THREADS: &str = "the server can start no thread for another client: try later, or give it \
                       more (`ulimit -u`, a service's TasksMax and MemoryMax)";

/// The most clients that are accepted before those that wait are looked at again.
const AT_ONCE: usize = 64;

/// Takes clients for as long as the process lives.
pub(super) fn run(server: &Arc<Server>, listener: &TcpListener, mut lobby: Lobby) {
    let mut door = Door::new();
    tcp::hold_many(listener);
    loop {
        let (quiet, limit) = (lobby.as_fd(), lobby.quiet_for());
        server.succession.wait_for_client(quiet, limit);
        for client in lobby.spoken() {
            door.settle(welcome(server, client, door.usual));
        }
        for _ in 0..AT_ONCE {
            // Another server's process takes the clients, or has taken them all.
            if server.succession.yields() || !take(server, listener, &mut door, &mut lobby) {
                break;
            }
        }
    }
}

/// Takes the next client, if there is one.
fn take(server: &Arc<Server>, listener: &TcpListener, door: &mut Door, lobby: &mut Lobby) -> bool {
    let (stream, from, room) = match door.next(listener) {
        Ok(next) => next,
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => return false,
        Err(e) => {
            // Existing sessions matter more than new ones.
            door.note(Some(&format!("cannot accept: {e}")));
            std::thread::sleep(Duration::from_millis(50));
            return false;
        }
    };
    // Whoever says nothing has no better right to a descriptor than whoever comes.
    let room = room || lobby.make_room() && door.fill();
    if !room {
        door.settle(Err((stream, FILES)));
        return true;
    }
    match lobby.enter(stream, from) {
        Ok(Some(speaker)) => door.settle(welcome(server, speaker, door.usual)),
        Ok(None) => door.note(None),
        Err(e) => door.note(Some(&format!("cannot wait for a client: {e}"))),
    }
    true
}

/// Serves a client in a thread; gives it back, and what there is too little of for it.
fn welcome(
    server: &Arc<Server>,
    (stream, until): Speaker,
    usual: i32,
) -> Result<(), (TcpStream, &'static str)> {
    let Some(guest) = server.greeting.enter(&stream, until) else {
        return Err((stream, FILES));
    };
    // A thread that does not start must not take the client along.
    let client = Arc::new(Mutex::new(Some((stream, guest))));
    let (s, theirs) = (server.clone(), client.clone());
    let run = move || {
        // Unlike the one that has started it.
        set_niceness(usual);
        let taken = lock(&theirs).take();
        if let Some((stream, guest)) = taken {
            connection::serve(&s, stream, guest);
        }
    };
    let spawned = std::thread::Builder::new()
        .name("hello".into())
        .stack_size(256 << 10)
        .spawn(run);
    let left = match spawned {
        Ok(_) => None,
        Err(_) => lock(&client).take(),
    };
    match left {
        Some((stream, _)) => Err((stream, THREADS)),
        None => Ok(()),
    }
}

/// By how much the thread that takes clients goes before others, as `nice` counts, if the process
/// may have it so: it does little for each of them, and while it waits for a processor the system's
/// queue for it fills, from which on others' connections are dropped.
const URGENT: i32 = 10;

fn set_niceness(n: i32) {
    // SAFETY: a plain call, for the calling thread alone.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, n) };
}

/// Descriptors in reserve. Another thread may take the one that is given up for a client.
const RESERVE: usize = 4;

/// Accepts, with descriptors in reserve: without them a process that is out of descriptors could
/// not even say so to who comes.
struct Door {
    reserve: Vec<File>,
    short: bool,
    /// How nice the server's other threads are.
    usual: i32,
}

impl Door {
    /// For the thread that calls this.
    fn new() -> Self {
        // SAFETY: a plain call.
        let usual = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
        set_niceness(usual - URGENT);
        let mut door = Self {
            reserve: Vec::new(),
            short: false,
            usual,
        };
        door.fill();
        door
    }

    /// Whether the reserve is whole, as far as that can be had.
    fn fill(&mut self) -> bool {
        while self.reserve.len() < RESERVE
            && let Ok(file) = File::open("/dev/null")
        {
            self.reserve.push(file);
        }
        self.reserve.len() == RESERVE
    }

    /// The next client, and whether there are descriptors left beside its own.
    fn next(&mut self, listener: &TcpListener) -> io::Result<(TcpStream, SocketAddr, bool)> {
        loop {
            let e = match listener.accept() {
                Ok((s, from)) => return Ok((s, from, self.fill())),
                Err(e) => e,
            };
            let short = matches!(e.raw_os_error(), Some(libc::EMFILE | libc::ENFILE));
            if !short || self.reserve.pop().is_none() {
                self.fill();
                return Err(e);
            }
        }
    }

    /// Tells a client that there is no room for it.
    fn settle(&mut self, welcome: Result<(), (TcpStream, &'static str)>) {
        self.note(welcome.as_ref().err().map(|r| r.1));
        if let Err((stream, why)) = welcome {
            reception::turn_away(stream, why);
        }
    }

    /// Logs that clients are turned away, and that they are no longer, once each.
    fn note(&mut self, why: Option<&str>) {
        if why.is_some() == self.short {
            return;
        }
        self.short = why.is_some();
        match why {
            Some(why) => tracing::warn!(why, "new clients are turned away"),
            None => tracing::info!("new clients are taken again"),
        }
    }
}
