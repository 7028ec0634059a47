//! What a worker offers to the others of its server, and the socket where they get it.

use super::prelude::*;
use busbar_channel::alone;
use busbar_transport::handover;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

/// What opens an offer.
pub type Secret = [u8; 16];

/// How long the other worker may take: it only hands out a descriptor.
const PATIENCE: Duration = Duration::from_secs(5);
/// The most that have connected and said nothing.
const MOST_SILENT: usize = 64;

#[derive(Default)]
struct Offered {
    /// What is given for a secret: a file, and how many bytes of memory it stands for, or
    /// [`OF_EVENT`].
    files: HashMap<Secret, (OwnedFd, u64)>,
}

/// Said of a file that has the driver's own name of an event: no memory has so many bytes.
pub const OF_EVENT: u64 = u64::MAX;

/// What may be offered.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Memory {
    /// No memory, but an event: the client's id.
    Event(u32),
    /// Mapped by us, at an address.
    Mapping(u64),
    /// Not mapped by us: the client's id.
    Allocation(u32),
    /// A pool: the client's id.
    Pool(u32),
}

/// What this worker offers.
#[derive(Default)]
pub struct Exports {
    offered: Arc<Mutex<Offered>>,
    secrets: HashMap<Memory, Secret>,
    /// The socket's name, once it listens.
    tag: Option<[u8; 8]>,
    /// How many secrets there were.
    made: u64,
}

/// What nobody guesses; where everything is to be the same each time, the `nth` of these.
fn random<const N: usize>(nth: u64) -> Result<[u8; N]> {
    let mut b = [0; N];
    if alone::is_set() {
        b[..8].copy_from_slice(&nth.to_le_bytes());
        return Ok(b);
    }
    let read = File::open("/dev/urandom").and_then(|mut f| f.read_exact(&mut b));
    read.map(|()| b).map_err(|_| CUDA_ERROR_OPERATING_SYSTEM)
}

fn address(tag: &[u8; 8]) -> std::io::Result<SocketAddr> {
    let mut name = b"busbar-ipc-".to_vec();
    for b in tag {
        name.extend_from_slice(format!("{b:02x}").as_bytes());
    }
    SocketAddr::from_abstract_name(&name)
}

/// Whether whoever is at the other end runs as the same user: all workers that may share something
/// do, and of those who do not none gets in another's way.
fn is_one_of_us(s: &UnixStream) -> bool {
    let none = libc::uid_t::MAX;
    let mut peer = libc::ucred {
        pid: 0,
        uid: none,
        gid: none,
    };
    let mut size = size_of::<libc::ucred>() as libc::socklen_t;
    let to = (&raw mut peer).cast();
    // SAFETY: a live structure of the size given, and no preconditions.
    unsafe {
        let (at, what) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
        libc::getsockopt(s.as_raw_fd(), at, what, to, &raw mut size) == 0
            && peer.uid == libc::geteuid()
    }
}

/// Answers one worker that has said something: one secret, and what it opens.
fn answer(mut s: UnixStream, offered: &Mutex<Offered>) {
    // It is said in one piece.
    let mut secret = [0; 16];
    if !matches!(s.read(&mut secret), Ok(16)) {
        return;
    }
    let file = lock(offered)
        .files
        .get(&secret)
        .and_then(|(f, bytes)| Some((f.try_clone().ok()?, *bytes)));
    if let Some((f, bytes)) = file {
        // A worker that has gone meanwhile does not need it, and there is room for one answer.
        let _ = handover::send(&s.into(), &bytes.to_le_bytes(), Some(&f));
    }
}

/// Answers whoever comes, for as long as the process lives. Those who say nothing keep nobody
/// waiting: when there are too many, the one that has been there for longest goes.
fn serve(listener: &UnixListener, offered: &Mutex<Offered>) {
    let mut silent = VecDeque::<UnixStream>::new();
    loop {
        let entry = |fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        let all = silent.iter().map(AsRawFd::as_raw_fd);
        let mut polled: Vec<_> = all.map(entry).collect();
        polled.push(entry(listener.as_raw_fd()));
        // SAFETY: as many live entries as said.
        let n = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, -1) };
        if n < 0 {
            continue;
        }
        let said: Vec<_> = polled.iter().map(|p| p.revents != 0).collect();
        for at in (0..silent.len()).rev().filter(|at| said[*at]) {
            if let Some(s) = silent.remove(at) {
                answer(s, offered);
            }
        }
        if said.last() != Some(&true) {
            continue;
        }
        match listener.accept() {
            Ok((s, _)) if is_one_of_us(&s) && s.set_nonblocking(true).is_ok() => {
                silent.push_back(s);
                if silent.len() > MOST_SILENT {
                    silent.pop_front();
                }
            }
            Ok(_) => {}
            // Too many files are open.
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

impl Exports {
    /// The name of the socket, which listens from the first export on.
    fn listen(&mut self) -> Result<[u8; 8]> {
        if let Some(tag) = self.tag {
            return Ok(tag);
        }
        let tag = random(0)?;
        let os = |_| CUDA_ERROR_OPERATING_SYSTEM;
        let listener = UnixListener::bind_addr(&address(&tag).map_err(os)?).map_err(os)?;
        let offered = self.offered.clone();
        let run = move || serve(&listener, &offered);
        if !alone::is_set() {
            std::thread::Builder::new()
                .name("ipc".into())
                .spawn(run)
                .map_err(os)?;
        }
        self.tag = Some(tag);
        Ok(tag)
    }

    /// Offers so many bytes of memory, whose file `open` gives: the socket's name, and the secret.
    pub fn offer(
        &mut self,
        memory: Memory,
        bytes: u64,
        open: impl FnOnce() -> Result<OwnedFd>,
    ) -> Result<([u8; 8], Secret)> {
        let tag = self.listen()?;
        let secret = match self.secrets.get(&memory) {
            Some(s) => *s,
            None => {
                let file = open()?;
                self.made += 1;
                let secret = random(self.made)?;
                lock(&self.offered).files.insert(secret, (file, bytes));
                self.secrets.insert(memory, secret);
                secret
            }
        };
        Ok((tag, secret))
    }

    /// Memory is gone: who has not imported it comes too late.
    pub fn forget(&mut self, memory: Memory) {
        if let Some(secret) = self.secrets.remove(&memory) {
            lock(&self.offered).files.remove(&secret);
        }
    }
}

/// Asks the worker of that name for what the secret opens: a file, and how many bytes of memory it
/// stands for.
pub fn fetch(tag: &[u8; 8], secret: &Secret) -> Result<(OwnedFd, u64)> {
    let ask = || {
        let mut s = UnixStream::connect_addr(&address(tag)?)?;
        if !is_one_of_us(&s) {
            return Err(std::io::ErrorKind::PermissionDenied.into());
        }
        s.set_read_timeout(Some(PATIENCE))?;
        s.write_all(secret)?;
        handover::recv(&s.into())
    };
    match ask() {
        Ok(Some((bytes, Some(f)))) => {
            let bytes = bytes.try_into().map_err(|_| CUDA_ERROR_INVALID_VALUE)?;
            Ok((f, u64::from_le_bytes(bytes)))
        }
        // The worker is gone, or of another server, or the memory was freed.
        _ => Err(CUDA_ERROR_INVALID_VALUE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offers() -> (Exports, [u8; 8], Secret) {
        let mut exports = Exports::default();
        let open = || Ok(OwnedFd::from(File::open("/dev/null").unwrap()));
        let (tag, secret) = exports.offer(Memory::Pool(1), 7, open).unwrap();
        (exports, tag, secret)
    }

    #[test]
    fn those_who_say_nothing_keep_nobody_waiting() {
        let (_exports, tag, secret) = offers();
        let connect = || UnixStream::connect_addr(&address(&tag).unwrap()).unwrap();
        let one = connect();
        let mut half = connect();
        half.write_all(&secret[..8]).unwrap();
        // Each of those before was waited for, and the asker gave up by then.
        assert_eq!(fetch(&tag, &secret).unwrap().1, 7);
        let crowd: Vec<_> = (0..3 * MOST_SILENT).map(|_| connect()).collect();
        assert_eq!(fetch(&tag, &secret).unwrap().1, 7);
        // The first one had to go, and half a secret is none.
        for mut s in [&one, &half] {
            s.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            assert!(matches!(s.read(&mut [0]), Ok(0) | Err(_)));
        }
        let mut last = crowd.last().unwrap();
        last.write_all(&secret).unwrap();
        assert_eq!(last.read(&mut [0; 8]).unwrap(), 8, "it is there still");
        assert!(fetch(&tag, &[0; 16]).is_err());
    }

    #[test]
    fn another_user_gets_nothing_whatever_it_knows() {
        // SAFETY: no preconditions.
        if unsafe { libc::geteuid() } != 0 {
            return;
        }
        let (_exports, tag, secret) = offers();
        let ask = move || {
            // SAFETY: a plain system call, for this thread alone.
            let rc = unsafe { libc::syscall(libc::SYS_setresuid, -1, 65534, -1) };
            assert_eq!(rc, 0);
            let mut s = UnixStream::connect_addr(&address(&tag).unwrap()).unwrap();
            let _ = s.write_all(&secret);
            s.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            // The end, or a reset.
            s.read(&mut [0; 8]).unwrap_or(0)
        };
        assert_eq!(std::thread::spawn(ask).join().unwrap(), 0);
        assert_eq!(fetch(&tag, &secret).unwrap().1, 7);
    }
}
