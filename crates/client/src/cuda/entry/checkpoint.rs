//! Checkpoints of processes that have a session at a server of this one's: of others, or its own.
//!
//! A call is said to the server beside the session, over a connection of its own, as `busbar` does:
//! what a process's session is locked for does not come between the two, and the caller needs no
//! session itself.

use super::prelude::*;
use crate::config::Config;
use crate::cuda::life::{enter_anywhere, guard};
use crate::hello;
use crate::stats::OURS;
use busbar_control::checkpoint::{Reached, Step};
use busbar_control::hello::{Hello, Intent, LAST_READINGS};

/// A session of the process: the server, and what that calls it.
type Theirs = (String, String);

/// The sessions of a process.
fn sessions(config: &Config, pid: i32) -> Result<Vec<Theirs>> {
    // Of one that has just ended a server may not have heard yet.
    let there = std::path::Path::new("/proc").join(pid.to_string()).exists();
    refuse_if(!there, CUDA_ERROR_OPERATING_SYSTEM)?;
    let mut found = Vec::new();
    for server in &config.servers {
        let status = hello::status(config, server, &[LAST_READINGS]).map_err(|why| {
            crate::log!(Warn, "cannot ask for the sessions of process {pid}: {why}");
            CUDA_ERROR_NOT_SUPPORTED
        })?;
        let all = status.sessions.into_iter();
        let theirs = all.filter(|s| s.here && s.pid == pid && s.api == "cuda");
        found.extend(theirs.map(|s| (server.clone(), s.session)));
    }
    refuse_if(found.is_empty(), CUDA_ERROR_NOT_INITIALIZED)?;
    Ok(found)
}

/// Has one session take a step.
fn ask(config: &Config, (server, session): &Theirs, step: Step) -> Result<CUprocessState> {
    let mut hello = Hello::new(Intent::Checkpoint);
    hello.session.clone_from(session);
    hello.checkpoint = step;
    let reached: Reached = hello::ask(config, server, hello).map_err(|why| {
        crate::log!(
            Warn,
            "session {session} takes no step to a checkpoint: {why}"
        );
        CUDA_ERROR_NOT_SUPPORTED
    })?;
    match reached.status {
        CUDA_SUCCESS => Ok(reached.state),
        status => Err(status),
    }
}

/// Has all sessions of a process take a step, or none.
fn take(pid: i32, step: Step) -> Result<CUprocessState> {
    let config = Config::from_env();
    let all = sessions(&config, pid)?;
    let mut state = CU_PROCESS_STATE_RUNNING;
    for (i, session) in all.iter().enumerate() {
        state = ask(&config, session, step).inspect_err(|_| {
            for done in &all[..i] {
                let back = step.undone_by().map(|back| ask(&config, done, back));
                if let Some(Err(e)) = back {
                    crate::log!(Warn, "session {} stays as it is: error {e}", done.1);
                }
            }
        })?;
    }
    Ok(state)
}

/// Refuses arguments with anything in them that has no meaning yet.
fn refuse_unknown<T: PartialEq + Default>(reserved: &[T]) -> Result<()> {
    let known = reserved.iter().all(|r| *r == T::default());
    refuse_if(!known, CUDA_ERROR_INVALID_VALUE)
}

pub unsafe fn cuCheckpointProcessGetState(pid: i32, state: *mut CUprocessState) -> CUresult {
    guard(|| {
        refuse_if(state.is_null(), CUDA_ERROR_INVALID_VALUE)?;
        let reached = take(pid, Step::State)?;
        // SAFETY: the program's pointer, which is not null.
        unsafe { put(state, reached) }
    })
}

/// Natively it is the thread that a process which is put back has to have: of those here that do
/// what the program's calls ask for, the first.
pub unsafe fn cuCheckpointProcessGetRestoreThreadId(pid: i32, tid: *mut i32) -> CUresult {
    guard(|| {
        refuse_if(tid.is_null(), CUDA_ERROR_INVALID_VALUE)?;
        sessions(&Config::from_env(), pid)?;
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
        let tasks = tasks.map_err(|_| CUDA_ERROR_OPERATING_SYSTEM)?;
        let ours = |task: std::fs::DirEntry| {
            let name = std::fs::read_to_string(task.path().join("comm")).ok()?;
            let id = task.file_name().to_str()?.parse().ok()?;
            name.starts_with(OURS).then_some(id)
        };
        let first = tasks.flatten().filter_map(ours).min();
        // SAFETY: the program's pointer, which is not null.
        unsafe { put(tid, first.unwrap_or(pid)) }
    })
}

pub unsafe fn cuCheckpointProcessLock(pid: i32, args: *mut CUcheckpointLockArgs) -> CUresult {
    guard(|| {
        let mut timeout_ms = 0;
        // SAFETY: null, or the program's arguments.
        if let Some(a) = unsafe { args.as_ref() } {
            refuse_unknown(&[a.reserved0])?;
            refuse_unknown(&a.reserved1)?;
            timeout_ms = a.timeoutMs;
        }
        if std::process::id() as i32 == pid && take(pid, Step::State)? == CU_PROCESS_STATE_RUNNING {
            // What the program has submitted is before the lock.
            let cx = enter_anywhere()?;
            std::iter::once(cx).chain(cx.rest()).try_for_each(Cx::ask)?;
        }
        take(pid, Step::Lock { timeout_ms }).map(drop)
    })
}

pub unsafe fn cuCheckpointProcessCheckpoint(
    pid: i32,
    args: *mut CUcheckpointCheckpointArgs,
) -> CUresult {
    guard(|| {
        // SAFETY: null, or the program's arguments.
        if let Some(a) = unsafe { args.as_ref() } {
            refuse_unknown(&a.reserved)?;
        }
        take(pid, Step::Checkpoint).map(drop)
    })
}

pub unsafe fn cuCheckpointProcessRestore(pid: i32, args: *mut CUcheckpointRestoreArgs) -> CUresult {
    guard(|| {
        // SAFETY: null, or the program's arguments.
        if let Some(a) = unsafe { args.as_ref() } {
            refuse_unknown(&a.reserved)?;
            refuse_unknown(&[a.reserved1])?;
            refuse_if(
                a.gpuPairs.is_null() && a.gpuPairsCount > 0,
                CUDA_ERROR_INVALID_VALUE,
            )?;
            for i in 0..a.gpuPairsCount as usize {
                // SAFETY: the program's array of that length.
                let pair = unsafe { a.gpuPairs.add(i).read_unaligned() };
                if pair.oldUuid.bytes != pair.newUuid.bytes {
                    let why = "a session stays on its server's devices: it is put back there";
                    crate::log!(Warn, "cuCheckpointProcessRestore with other devices: {why}");
                    return Err(CUDA_ERROR_NOT_SUPPORTED);
                }
            }
        }
        take(pid, Step::Restore).map(drop)
    })
}

pub unsafe fn cuCheckpointProcessUnlock(pid: i32, args: *mut CUcheckpointUnlockArgs) -> CUresult {
    guard(|| {
        // SAFETY: null, or the program's arguments.
        if let Some(a) = unsafe { args.as_ref() } {
            refuse_unknown(&a.reserved)?;
        }
        take(pid, Step::Unlock).map(drop)
    })
}
