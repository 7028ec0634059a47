//! What a worker offers to the others of its server, and the socket where they get it.

use super::prelude::*;
use busbar_transport::handover;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

/// What opens an offer.
pub type Secret = [u8; 16];

/// How long the other worker may take: it only hands out a descriptor.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Default)]
struct Offered {
    /// What is given for a secret: a file, and how many bytes of memory it stands for.
    files: HashMap<Secret, (OwnedFd, u64)>,
}

/// Memory that may be offered.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Memory {
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
}

fn random<const N: usize>() -> Result<[u8; N]> {
    let mut b = [0; N];
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

/// Answers one worker: one secret, and what it opens.
fn answer(mut s: UnixStream, offered: &Mutex<Offered>) {
    let mut secret = [0; 16];
    let limits = s.set_read_timeout(Some(PATIENCE));
    if limits.is_err() || s.read_exact(&mut secret).is_err() {
        return;
    }
    let file = lock(offered)
        .files
        .get(&secret)
        .and_then(|(f, bytes)| Some((f.try_clone().ok()?, *bytes)));
    if let Some((f, bytes)) = file {
        // A worker that has gone meanwhile does not need it.
        let _ = handover::send(&s.into(), &bytes.to_le_bytes(), Some(&f));
    }
}

impl Exports {
    /// The name of the socket, which listens from the first export on.
    fn listen(&mut self) -> Result<[u8; 8]> {
        if let Some(tag) = self.tag {
            return Ok(tag);
        }
        let tag = random()?;
        let os = |_| CUDA_ERROR_OPERATING_SYSTEM;
        let listener = UnixListener::bind_addr(&address(&tag).map_err(os)?).map_err(os)?;
        let offered = self.offered.clone();
        let run = move || {
            for s in listener.incoming().flatten() {
                answer(s, &offered);
            }
        };
        std::thread::Builder::new()
            .name("ipc".into())
            .spawn(run)
            .map_err(os)?;
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
                let secret = random()?;
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
