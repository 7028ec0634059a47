//! Taking clients in, each in a thread of its own until a worker has it; and telling them when
//! there is no room for them.

use super::state::Server;
use super::{connection, reception};
use busbar_transport::lock::lock;
use busbar_transport::tcp;
use std::fs::File;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const FILES: &str = "the server has too many files open to take another client: try later, or give \
                     it more (`ulimit -n`, a service's LimitNOFILE)";
const THREADS: &str = "the server can start no thread for another client: try later, or give it \
                       more (`ulimit -u`, a service's TasksMax and MemoryMax)";

/// Takes clients for as long as the process lives.
pub(super) fn run(server: &Arc<Server>, listener: &TcpListener) {
    let mut door = Door::new();
    tcp::hold_many(listener);
    loop {
        server.succession.wait_for_client();
        if server.succession.yields() {
            continue;
        }
        let (stream, room) = match door.next(listener) {
            Ok(s) => s,
            // Another server's process has taken the client.
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => continue,
            Err(e) => {
                // Existing sessions matter more than new ones.
                door.note(Some(&format!("cannot accept: {e}")));
                std::thread::sleep(Duration::from_millis(50));
                continue;
            }
        };
        let refused = if room {
            welcome(server, stream).err()
        } else {
            Some((stream, FILES))
        };
        door.note(refused.as_ref().map(|r| r.1));
        if let Some((stream, why)) = refused {
            reception::turn_away(stream, why);
        }
    }
}

/// Serves a client in a thread; gives it back, and what there is too little of for it.
fn welcome(server: &Arc<Server>, stream: TcpStream) -> Result<(), (TcpStream, &'static str)> {
    let Some(guest) = server.greeting.enter(&stream) else {
        return Err((stream, FILES));
    };
    // A thread that does not start must not take the client along.
    let client = Arc::new(Mutex::new(Some((stream, guest))));
    let (s, theirs) = (server.clone(), client.clone());
    let run = move || {
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

/// Descriptors in reserve. Another thread may take the one that is given up for a client.
const RESERVE: usize = 4;

/// Accepts, with descriptors in reserve: without them a process that is out of descriptors could
/// not even say so to who comes.
struct Door {
    reserve: Vec<File>,
    short: bool,
}

impl Door {
    fn new() -> Self {
        let mut door = Self {
            reserve: Vec::new(),
            short: false,
        };
        door.fill();
        door
    }

    fn fill(&mut self) {
        while self.reserve.len() < RESERVE
            && let Ok(file) = File::open("/dev/null")
        {
            self.reserve.push(file);
        }
    }

    /// The next client, and whether there are descriptors left beside its own.
    fn next(&mut self, listener: &TcpListener) -> io::Result<(TcpStream, bool)> {
        loop {
            let e = match listener.accept() {
                Ok((s, _)) => {
                    self.fill();
                    return Ok((s, self.reserve.len() == RESERVE));
                }
                Err(e) => e,
            };
            let short = matches!(e.raw_os_error(), Some(libc::EMFILE | libc::ENFILE));
            if !short || self.reserve.pop().is_none() {
                self.fill();
                return Err(e);
            }
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
