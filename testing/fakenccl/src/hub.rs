//! Where ranks meet: a thread of the process that made the unique id. All that it does is to give
//! each rank what all have brought, and to hand on messages between two; ranks compute themselves.

use std::collections::{HashMap, HashSet};
use std::io::{Read, Result, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What a connection is for.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Ask {
    /// This rank lives for as long as the connection does.
    Live = 0,
    /// What all ranks bring at this step.
    All = 1,
    /// A message for another rank.
    Put = 2,
    /// The message of another rank.
    Take = 3,
}

/// A question: the communicator's name, who asks, of how many, at which step, and the other rank.
pub struct Question<'a> {
    pub ask: Ask,
    pub name: &'a str,
    pub rank: u64,
    pub ranks: u64,
    pub step: u64,
    pub peer: u64,
}

#[derive(Default)]
struct State {
    /// What ranks have brought, by communicator and step.
    brought: HashMap<(String, u64), Vec<Option<Vec<u8>>>>,
    /// How many have what is there.
    served: HashMap<(String, u64), u64>,
    /// Messages, by communicator, the two ranks and their number.
    messages: HashMap<(String, u64, u64, u64), Vec<u8>>,
    /// Communicators of which a rank is gone.
    broken: HashSet<String>,
}

#[derive(Default)]
struct Hub {
    state: Mutex<State>,
    changed: Condvar,
}

/// Connections that are served here, and those of this process's own ranks that live.
static OPEN: AtomicUsize = AtomicUsize::new(0);
static OWN: AtomicUsize = AtomicUsize::new(0);

/// The longest that this process waits for other ranks to leave.
const PATIENCE: Duration = Duration::from_secs(5);

/// A rank of this process lives.
pub fn came() {
    OWN.fetch_add(1, Ordering::AcqRel);
}

/// It is gone.
pub fn gone() {
    OWN.fetch_sub(1, Ordering::AcqRel);
}

/// It has left in good order: those of other processes get what they asked for, and leave, too.
pub fn left() {
    gone();
    let since = Instant::now();
    while OPEN.load(Ordering::Acquire) > OWN.load(Ordering::Acquire) && since.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn numbers<const N: usize>(from: &mut impl Read) -> Result<[u64; N]> {
    let mut all = [0; N];
    for n in &mut all {
        let mut bytes = [0; 8];
        from.read_exact(&mut bytes)?;
        *n = u64::from_le_bytes(bytes);
    }
    Ok(all)
}

fn bytes(from: &mut impl Read) -> Result<Vec<u8>> {
    let [n] = numbers(from)?;
    let mut all = vec![0; n as usize];
    from.read_exact(&mut all)?;
    Ok(all)
}

fn pack(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    out.extend_from_slice(bytes);
}

impl Hub {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `f` has something, or a rank of the communicator is gone.
    fn until<T>(&self, name: &str, mut f: impl FnMut(&mut State) -> Option<T>) -> Option<T> {
        let mut s = self.lock();
        loop {
            if let Some(found) = f(&mut s) {
                return Some(found);
            }
            if s.broken.contains(name) {
                return None;
            }
            s = self.changed.wait(s).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn serve(&self, mut c: TcpStream) -> Result<()> {
        let [ask, rank, ranks, step, peer] = numbers(&mut c)?;
        let name = String::from_utf8(bytes(&mut c)?).unwrap_or_default();
        if ask == Ask::Live as u64 {
            let mut bye = [0];
            // Over NVLink nobody hears of the end of another rank.
            let deaf = std::env::var_os("FAKENCCL_DEAF").is_some();
            if !matches!(c.read(&mut bye), Ok(1)) && !deaf {
                self.lock().broken.insert(name);
                self.changed.notify_all();
            }
            return Ok(());
        }
        let payload = bytes(&mut c)?;
        let answer = if ask == Ask::All as u64 {
            self.all((name, step), rank as usize, ranks, payload)
        } else if ask == Ask::Put as u64 {
            let key = (name, rank, peer, step);
            self.lock().messages.insert(key, payload);
            self.changed.notify_all();
            Some(Vec::new())
        } else {
            let key = (name, peer, rank, step);
            self.until(&key.0, |s| s.messages.remove(&key))
        };
        let mut out = vec![u8::from(answer.is_some())];
        pack(&mut out, &answer.unwrap_or_default());
        c.write_all(&out)
    }

    fn all(&self, key: (String, u64), rank: usize, ranks: u64, mine: Vec<u8>) -> Option<Vec<u8>> {
        let none = || vec![None; ranks as usize];
        let mut s = self.lock();
        let slots = s.brought.entry(key.clone()).or_insert_with(none);
        *slots.get_mut(rank)? = Some(mine);
        drop(s);
        self.changed.notify_all();
        self.until(&key.0, |s| {
            let slots = s.brought.get(&key)?;
            let mut out = Vec::new();
            for slot in slots {
                pack(&mut out, slot.as_ref()?);
            }
            let served = s.served.entry(key.clone()).or_default();
            *served += 1;
            if *served == ranks {
                s.served.remove(&key);
                s.brought.remove(&key);
            }
            Some(out)
        })
    }
}

/// Starts a place to meet: its address.
pub fn start() -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let name = listener.local_addr()?.to_string();
    let hub = Arc::new(Hub::default());
    std::thread::Builder::new().spawn(move || {
        for c in listener.incoming().flatten() {
            let hub = hub.clone();
            OPEN.fetch_add(1, Ordering::AcqRel);
            let _ = std::thread::Builder::new().spawn(move || {
                let _ = hub.serve(c);
                OPEN.fetch_sub(1, Ordering::AcqRel);
            });
        }
    })?;
    Ok(name)
}

/// Asks; the answer is read from what comes back. `opened` is told of the connection.
pub fn ask(
    hub: &str,
    q: &Question<'_>,
    payload: &[u8],
    opened: impl FnOnce(&TcpStream),
) -> Result<Option<Vec<u8>>> {
    let mut c = connect(hub, q)?;
    opened(&c);
    let mut out = Vec::new();
    pack(&mut out, payload);
    c.write_all(&out)?;
    let mut good = [0];
    c.read_exact(&mut good)?;
    let answer = bytes(&mut c)?;
    Ok((good == [1]).then_some(answer))
}

/// Opens a connection and says what it is for.
pub fn connect(hub: &str, q: &Question<'_>) -> Result<TcpStream> {
    let mut c = TcpStream::connect(hub)?;
    let mut out = Vec::new();
    for n in [q.ask as u64, q.rank, q.ranks, q.step, q.peer] {
        out.extend_from_slice(&n.to_le_bytes());
    }
    pack(&mut out, q.name.as_bytes());
    c.write_all(&out)?;
    Ok(c)
}

/// What each rank has brought.
pub fn parts(mut all: &[u8]) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    while let Ok(part) = bytes(&mut all) {
        out.push(part);
    }
    out
}
