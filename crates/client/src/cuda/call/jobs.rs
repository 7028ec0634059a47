//! Threads that do what the device waits for: one runs the program's functions, which may take long
//! and wait for each other's streams, the other what is done at once.

use super::client::{Client, Job};
use crate::prelude::*;
use crate::threads;
use busbar_abi::cuda::*;
use std::sync::mpsc::{Sender, channel};

/// Which of a client's threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Does {
    /// The program's functions.
    Functions,
    /// Bytes that are read, or brought to their places, and gates.
    Reads,
}

/// The way to a thread, which runs its jobs one after the other. It is there before the first is
/// queued: a stream must not wait for what nobody can do.
pub fn jobs(client: &'static Client, does: Does) -> Result<Sender<Job>> {
    let (jobs, name) = match does {
        Does::Functions => (&client.jobs, "busbar-callback"),
        Does::Reads => (&client.reads, "busbar-read"),
    };
    let mut jobs = lock(jobs);
    if let Some(tx) = &*jobs {
        return Ok(tx.clone());
    }
    let (tx, rx) = channel::<Job>();
    let run = move || {
        for job in rx {
            job();
            client.waiting.fetch_sub(1, Ordering::AcqRel);
        }
    };
    threads::start(name, run).map_err(|_| CUDA_ERROR_OPERATING_SYSTEM)?;
    Ok(jobs.insert(tx).clone())
}

/// Runs something on the thread that reads for a client.
pub fn soon(client: &'static Client, job: impl FnOnce() + Send + 'static) {
    client.waiting.fetch_add(1, Ordering::AcqRel);
    if let Ok(tx) = jobs(client, Does::Reads) {
        let _ = tx.send(Box::new(job));
    }
}
