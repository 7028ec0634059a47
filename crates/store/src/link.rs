//! A worker's way to the store.

use busbar_control::store::{Answer, Ask, Name};
use busbar_transport::handover;
use busbar_transport::lock::lock;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::Mutex;
use std::time::Duration;

/// How long the store may take for one answer: as long as it takes to write the longest piece.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection to the store, or none.
pub struct Link(Mutex<Option<OwnedFd>>);

impl Link {
    /// Over that socket; without one there is no store.
    pub fn new(store: Option<OwnedFd>) -> Self {
        if let Some(store) = &store {
            let _ = handover::recv_timeout(store, Some(PATIENCE));
        }
        Self(Mutex::new(store))
    }

    /// What is kept under a name.
    pub fn get(&self, name: Name) -> Option<Vec<u8>> {
        let file = File::from(self.ask(Ask::Get(name), None).ok()??);
        const MOST: u64 = 2 * crate::LONGEST;
        let len = file.metadata().map_or(0, |m| m.len().min(MOST));
        let mut bytes = Vec::with_capacity(len as usize);
        let read = file.take(MOST).read_to_end(&mut bytes);
        let content = read.ok().and_then(|_| crate::content(name, bytes));
        if content.is_none() {
            let _ = self.ask(Ask::Damaged(name), None);
        }
        content
    }

    /// Has something kept. An error says why it is not.
    pub fn put(&self, name: Name, bytes: &[u8]) -> Result<(), String> {
        if lock(&self.0).is_none() {
            return Ok(());
        }
        let memory = in_memory(bytes).map_err(|e| e.to_string())?;
        self.ask(Ask::Put(name), Some(&memory)).map(drop)
    }

    /// From now on code of a client's may speak here.
    pub fn distrust(&self) {
        // If the store does not hear it, it hears nothing more.
        let _ = self.ask(Ask::Distrust, None);
    }

    fn ask(&self, ask: Ask, bytes: Option<&OwnedFd>) -> Result<Option<OwnedFd>, String> {
        let mut store = lock(&self.0);
        let Some(to) = &*store else {
            return Ok(None);
        };
        let answered = handover::send(to, &ask.to_json(), bytes).and_then(|()| handover::recv(to));
        let Ok(Some((answer, file))) = answered else {
            *store = None;
            return Err("the process that keeps it is gone".into());
        };
        let answer: Answer = busbar_control::read("the store's answer", &answer)?;
        answer.error.map_or(Ok(file), Err)
    }
}

/// Bytes as a file.
fn in_memory(bytes: &[u8]) -> io::Result<OwnedFd> {
    // SAFETY: a C string; the descriptor that comes is ours.
    let mut file = unsafe {
        let fd = libc::memfd_create(c"busbar-piece".as_ptr(), libc::MFD_CLOEXEC);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        File::from_raw_fd(fd)
    };
    file.write_all(bytes)?;
    Ok(file.into())
}
