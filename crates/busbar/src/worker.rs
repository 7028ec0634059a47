//! `busbar worker`: the process behind one session, and the probe that lists devices.

use crate::confine;
use anyhow::{Result, anyhow, bail};
use busbar_control::store::Answer;
use busbar_store::Store;
use busbar_transport::handover;
use busbar_worker::apis::APIS;
use busbar_worker::run::Options;
use busbar_worker::scratch::Scratch;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What `serve` passes on. Not for people.
#[derive(clap::Args)]
pub struct Args {
    /// The control socket's descriptor
    #[arg(long)]
    control_fd: Option<i32>,
    /// Print the devices of these APIs as JSON, and exit
    #[arg(long, value_delimiter = ',')]
    probe: Vec<String>,
    /// Load what these APIs take before a session needs it
    #[arg(long, value_delimiter = ',')]
    warm: Vec<String>,
    /// The descriptor of the socket that leads to the store
    #[arg(long)]
    store_fd: Option<i32>,
    /// Keep the store in this folder
    #[arg(long)]
    store: Option<PathBuf>,
    /// How much of the disk the store takes, in bytes
    #[arg(long, default_value_t = 4 << 30)]
    store_limit: u64,
    /// The CUDA driver to load
    #[arg(long)]
    cuda_library: Option<String>,
    /// The OpenCL library to load
    #[arg(long)]
    opencl_library: Option<String>,
    /// The NVML to load
    #[arg(long)]
    nvml_library: Option<String>,
    /// Print readings of the GPUs as JSON for each line on stdin
    #[arg(long)]
    readings: bool,
    /// Write only where a worker must, and open no TCP connections
    #[arg(long)]
    sandbox: bool,
}

/// Serves one session, or probes.
pub fn run(a: Args) -> Result<()> {
    confine::keep_to_itself();
    if a.readings {
        confine::give_up_rights();
        busbar_worker::nvml::serve(a.nvml_library.as_deref());
        return Ok(());
    }
    let options = Options {
        sandboxed: a.sandbox,
        cuda_library: a.cuda_library,
        opencl_library: a.opencl_library,
    };
    if !a.probe.is_empty() {
        println!("{}", busbar_worker::apis::probe(&a.probe, &options));
        return Ok(());
    }
    let Some(control) = a.control_fd.map(ours) else {
        bail!("`busbar worker` is started by `busbar serve`")
    };
    if let Some(folder) = &a.store {
        return keep_store(folder, a.store_limit, a.sandbox, &control);
    }
    // After the probe, not before: a driver's helper may have to make device files, with rights
    // that nothing started from here can get any more.
    confine::harden();
    let scratch = match a.sandbox {
        true => Some(Scratch::new()?),
        false => None,
    };
    if let Some(scratch) = &scratch {
        // What a compiler for the processor keeps is run by whoever finds it.
        // SAFETY: there is no other thread yet.
        unsafe { std::env::set_var("POCL_CACHE_DIR", scratch.path()) };
        let libraries = [&options.cuda_library, &options.opencl_library].map(Option::as_deref);
        let writable = confine::writable();
        for folder in &writable {
            // What does not exist cannot be allowed, and could not be made afterwards.
            let _ = std::fs::create_dir_all(folder);
        }
        let done = confine::sandbox(&writable, &confine::readable(&libraries));
        done.map_err(|why| anyhow!("no sandbox, so no worker: {why}"))?;
    }
    let store = a.store_fd.map(ours);
    let warm = || busbar_worker::apis::warm(&a.warm, &options);
    if let Err(why) = busbar_worker::run::run(control, &options, store, APIS, warm) {
        bail!("worker: {why}");
    }
    drop(scratch);
    // Exit handlers of a vendor's library may take long or hang, and the kernel frees all there is.
    // SAFETY: _exit has no preconditions; nothing is buffered.
    unsafe { libc::_exit(0) }
}

/// A descriptor that the server has given us.
fn ours(fd: i32) -> OwnedFd {
    // SAFETY: the server made it for us and nothing else in this process knows it.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Keeps the store for the workers that the server names, until the server is gone. First of all
/// says whether it can.
fn keep_store(folder: &Path, limit: u64, sandbox: bool, control: &OwnedFd) -> Result<()> {
    confine::give_up_rights();
    let mut opened = busbar_store::try_writing(folder).map_err(|e| e.to_string());
    if opened.is_ok() && sandbox {
        opened = confine::sandbox(&[folder.into()], &confine::readable(&[]));
    }
    let open = || Store::open(folder, limit).map_err(|e| e.to_string());
    let store = opened.and_then(|()| open());
    let error = store.as_ref().err().cloned();
    handover::send(control, &Answer { error }.to_json(), None)?;
    if let Ok(store) = store {
        Arc::new(store).serve(control);
    }
    Ok(())
}
