//! Communicators: how ranks find each other, what they exchange, and how that ends.

use crate::connect;
use crate::cuda;
use crate::hub::{self, Ask, Question};
use crate::said;
use crate::stranger;
use busbar_abi::nccl::*;
use std::io::Write as _;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What `ncclComm_t` points to.
pub struct Comm {
    hub: String,
    pub name: String,
    pub rank: u64,
    pub ranks: u64,
    pub device: i32,
    pub blocking: bool,
    pub code: AtomicI32,
    pub aborted: AtomicBool,
    /// Steps so far: collectives, splits, and messages to and from each rank.
    step: AtomicU64,
    splits: AtomicU64,
    messages: Mutex<Vec<[u64; 2]>>,
    /// Connections that are open: an abort ends them.
    open: Mutex<Vec<TcpStream>>,
    live: Mutex<Option<TcpStream>>,
    /// Values that operators multiply with, or where they are; none where an operator has ended.
    pub ops: Mutex<Vec<Option<Scalar>>>,
    /// Buffers that are registered, each by a number.
    pub registered: Mutex<Vec<usize>>,
    /// Whether it is finalized, and revoked.
    pub finalized: AtomicBool,
    pub revoked: AtomicBool,
}

/// The value of an operator.
#[derive(Clone)]
pub enum Scalar {
    Value(Vec<u8>),
    At(usize),
}

impl Comm {
    pub fn new(id: &[u8], (rank, ranks): (i32, i32), device: i32, blocking: bool) -> Self {
        let end = id.iter().position(|b| *b == 0).unwrap_or(id.len());
        let hub = String::from_utf8_lossy(&id[..end]).into_owned();
        Self::named(
            hub.clone(),
            hub,
            (rank as u64, ranks as u64),
            device,
            blocking,
        )
    }

    fn named(
        hub: String,
        name: String,
        (rank, ranks): (u64, u64),
        device: i32,
        blocking: bool,
    ) -> Self {
        Self {
            hub,
            name,
            rank,
            ranks,
            device,
            blocking,
            code: AtomicI32::new(ncclInProgress),
            aborted: AtomicBool::new(false),
            step: AtomicU64::new(0),
            splits: AtomicU64::new(0),
            messages: Mutex::new(vec![[0; 2]; ranks as usize]),
            open: Mutex::default(),
            live: Mutex::default(),
            ops: Mutex::default(),
            registered: Mutex::default(),
            finalized: AtomicBool::new(false),
            revoked: AtomicBool::new(false),
        }
    }

    /// Says on stdout what it is, and by which of some variables, to who wants to know.
    pub fn tell(&self) {
        let of = |name: &str| std::env::var(name).unwrap_or_default();
        if of("NCCL_DEBUG") == "INFO" {
            println!(
                "NCCL INFO rank {} of {}: algo {}, interface {}",
                self.rank,
                self.ranks,
                of("NCCL_ALGO"),
                of("NCCL_SOCKET_IFNAME")
            );
        }
    }

    fn question(&self, ask: Ask, step: u64, peer: u64) -> Question<'_> {
        Question {
            ask,
            name: &self.name,
            rank: self.rank,
            ranks: self.ranks,
            step,
            peer,
        }
    }

    fn ask(&self, q: &Question<'_>, payload: &[u8]) -> Result<Vec<u8>> {
        let note = |c: &TcpStream| {
            if let Ok(c) = c.try_clone() {
                let mut open = lock(&self.open);
                if self.aborted.load(Ordering::Acquire) {
                    let _ = c.shutdown(Shutdown::Both);
                }
                open.push(c);
            }
        };
        let answer = hub::ask(&self.hub, q, payload, note);
        // Nothing else is open: calls of a communicator come one after the other.
        lock(&self.open).clear();
        match answer {
            Ok(Some(answer)) => Ok(answer),
            _ => {
                said::say("another rank of the communicator is gone");
                self.code.store(ncclRemoteError, Ordering::Release);
                Err(ncclRemoteError)
            }
        }
    }

    /// Meets the other ranks.
    pub fn join(&self) -> Result {
        connect::is_here(&self.name, self.rank);
        let live = hub::connect(&self.hub, &self.question(Ask::Live, 0, 0));
        if let Ok(live) = live {
            hub::came();
            *lock(&self.live) = Some(live);
        }
        let host = std::env::var("NCCL_HOSTID").unwrap_or_default();
        let place = format!("{host}:{}", self.device);
        let all = self.ask(&self.question(Ask::All, u64::MAX, 0), place.as_bytes());
        let rc = all.map_or_else(
            |rc| rc,
            |all| {
                let mut places = hub::parts(&all);
                places.sort();
                places.dedup();
                if places.len() as u64 == self.ranks {
                    return ncclSuccess;
                }
                said::say("Duplicate GPU detected");
                ncclInvalidUsage
            },
        );
        if let Ok(to) = std::env::var("FAKENCCL_STRANGER") {
            stranger::tries(&to, &self.hub);
        }
        self.code.store(rc, Ordering::Release);
        refuse_if(rc != ncclSuccess, rc)
    }

    /// Gives each rank what all have brought.
    pub fn all(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        let step = self.step.fetch_add(1, Ordering::AcqRel);
        let all = self.ask(&self.question(Ask::All, step, 0), mine)?;
        Ok(hub::parts(&all))
    }

    /// Sends to a rank, or receives from one.
    pub fn exchange(&self, peer: usize, mine: Option<&[u8]>) -> Result<Vec<u8>> {
        let (which, ask) = match mine {
            Some(_) => (0, Ask::Put),
            None => (1, Ask::Take),
        };
        let number = {
            let mut messages = lock(&self.messages);
            let next = &mut messages[peer][which];
            *next += 1;
            *next
        };
        let q = self.question(ask, number, peer as u64);
        self.ask(&q, mine.unwrap_or_default())
    }

    /// The child that this rank is in, if it is in one, and whether that waits.
    pub fn split(&self, color: i32, key: i32, blocking: bool) -> Result<Option<Self>> {
        let n = self.splits.fetch_add(1, Ordering::AcqRel);
        let mine = [color.to_le_bytes(), key.to_le_bytes()].concat();
        let q = self.question(Ask::All, u64::MAX / 2 + n, 0);
        let all = hub::parts(&self.ask(&q, &mine)?);
        let number = |b: &[u8]| i32::from_le_bytes(b.try_into().unwrap_or_default());
        let mut mates: Vec<(i32, u64)> = Vec::new();
        for (rank, words) in all.iter().enumerate() {
            if number(&words[..4]) == color {
                mates.push((number(&words[4..]), rank as u64));
            }
        }
        mates.sort();
        let place = mates.iter().position(|m| m.1 == self.rank);
        let Some(place) = place.filter(|_| color != NCCL_SPLIT_NOCOLOR) else {
            return Ok(None);
        };
        let name = format!("{}/{n}/{color}", self.name);
        let places = (place as u64, mates.len() as u64);
        let (hub, device) = (self.hub.clone(), self.device);
        Ok(Some(Self::named(hub, name, places, device, blocking)))
    }

    /// The child that all are in but these.
    pub fn shrink(&self, without: &[i32], blocking: bool) -> Self {
        let n = self.splits.fetch_add(1, Ordering::AcqRel);
        let stays = |r: &u64| !without.contains(&(*r as i32));
        let mates = (0..self.ranks).filter(stays).count() as u64;
        let place = (0..self.rank).filter(stays).count() as u64;
        let name = format!("{}/{n}", self.name);
        let (hub, device) = (self.hub.clone(), self.device);
        Self::named(hub, name, (place, mates), device, blocking)
    }

    /// Whether it can be used: what the library says first in nearly every function.
    pub fn ready(&self) -> Result {
        match self.code.load(Ordering::Acquire) {
            ncclSuccess => Ok(()),
            ncclInProgress => Err(ncclInvalidArgument),
            rc => Err(rc),
        }
    }

    /// This rank leaves in good order. Where the ranks meet in this process, those of others leave
    /// first: it may end now.
    pub fn leave(&self) {
        if let Some(mut live) = lock(&self.live).take() {
            let _ = live.write_all(&[1]);
            drop(live);
            hub::left();
        }
    }

    /// What waits ends now; the others hear that this rank is gone.
    pub fn abort(&self) {
        self.aborted.store(true, Ordering::Release);
        for c in lock(&self.open).drain(..) {
            let _ = c.shutdown(Shutdown::Both);
        }
        if lock(&self.live).take().is_some() {
            hub::gone();
        }
    }
}

/// The device of the calling thread.
pub fn here() -> Result<i32> {
    cuda::device().ok_or(ncclUnhandledCudaError)
}
