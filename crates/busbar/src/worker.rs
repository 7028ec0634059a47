//! `busbar worker`: the process behind one session, and the probe that lists devices.

use crate::confine;
use anyhow::{Result, bail};
use busbar_worker::content;
use busbar_worker::run::Options;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::PathBuf;

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
    /// Where content is kept
    #[arg(long)]
    cache_dir: Option<PathBuf>,
    /// How much content is kept, in bytes
    #[arg(long, default_value_t = 4 << 30)]
    cache_limit: u64,
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
    /// Say whether the cache can be written to
    #[arg(long)]
    try_cache: bool,
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
        cache_dir: a.cache_dir,
        cache_limit: a.cache_limit,
        cuda_library: a.cuda_library,
        opencl_library: a.opencl_library,
    };
    if !a.probe.is_empty() {
        println!("{}", busbar_worker::apis::probe(&a.probe, &options));
        return Ok(());
    }
    if a.control_fd.is_none() && !a.try_cache {
        bail!("`busbar worker` is started by `busbar serve`")
    }
    // After the probe, not before: a driver's helper may have to make device files, with rights
    // that nothing started from here can get any more.
    confine::harden();
    if a.sandbox
        && let Err(why) = confine::sandbox(
            &confine::writable(options.cache_dir.as_deref()),
            &confine::readable(&[
                options.cuda_library.as_deref(),
                options.opencl_library.as_deref(),
            ]),
        )
    {
        bail!("no sandbox, so no worker: {why}");
    }
    let Some(fd) = a.control_fd else {
        let tried = options.cache_dir.as_deref().map(content::try_writing);
        return tried.unwrap_or(Ok(())).map_err(Into::into);
    };
    // SAFETY: the server made this descriptor for us and nothing else in this process knows it.
    let control = unsafe { OwnedFd::from_raw_fd(fd) };
    let warm = || busbar_worker::apis::warm(&a.warm, &options);
    if let Err(why) = busbar_worker::run::run(control, &options, busbar_worker::apis::APIS, warm) {
        bail!("worker: {why}");
    }
    // Exit handlers of a vendor's library may take long or hang, and the kernel frees all there is.
    // SAFETY: _exit has no preconditions; nothing is buffered.
    unsafe { libc::_exit(0) }
}
