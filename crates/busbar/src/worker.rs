//! `busbar worker`: the process behind one session, and the probe that lists devices.

use crate::fabric::end;
use crate::isolation::Part;
use crate::isolation::cell::{self, Entry, Plan};
use crate::{confine, filter, mps};
use anyhow::{Result, anyhow, bail};
use busbar_control::store::Answer;
use busbar_store::Store;
use busbar_transport::handover;
use busbar_transport::rdma::ib::Choice;
use busbar_transport::rdma::{Settings, Wish};
use busbar_worker::apis::APIS;
use busbar_worker::run::{Given, Options};
use std::net::IpAddr;
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
    /// The NCCL to load
    #[arg(long)]
    nccl_library: Option<String>,
    /// The CUPTI to load
    #[arg(long)]
    cupti_library: Option<String>,
    /// Threads that submit launches side by side
    #[arg(long)]
    submitters: Option<usize>,
    /// The NVML to load
    #[arg(long)]
    nvml_library: Option<String>,
    /// Whether connections move to RDMA
    #[arg(long, default_value = "off")]
    rdma: Wish,
    /// Over what
    #[arg(long, default_value = "")]
    rdma_device: Choice,
    /// In clear
    #[arg(long)]
    rdma_plaintext: bool,
    /// Where the sockets of NVIDIA's MPS are
    #[arg(long)]
    mps: Option<PathBuf>,
    /// The most of a device's processors to use with it, in hundredths
    #[arg(long)]
    mps_part: Option<u32>,
    /// Start it with this, and keep it
    #[arg(long)]
    keep_mps: Option<PathBuf>,
    /// Print readings of the GPUs as JSON for each line on stdin
    #[arg(long)]
    readings: bool,
    /// The descriptor of the socket over which it is told what to measure of the fabric
    #[arg(long)]
    fabric_fd: Option<i32>,
    /// This machine's address for that
    #[arg(long)]
    fabric_near: Option<IpAddr>,
    /// The descriptor of the socket where a client of this host hands memory over
    #[arg(long)]
    door_fd: Option<i32>,
    /// Make a cell, and keep it (JSON)
    #[arg(long)]
    cell: Option<String>,
    /// Enter a cell first of all (JSON)
    #[arg(long)]
    enter: Option<String>,
}

/// Serves one session, or probes.
pub fn run(a: Args) -> Result<()> {
    confine::keep_to_itself();
    if let (Some(plan), Some(control)) = (&a.cell, a.control_fd) {
        let plan: Plan = serde_json::from_str(plan)?;
        return Ok(cell::keep(&plan, &ours(control))?);
    }
    let mut entry: Option<Entry> = a.enter.as_deref().map(serde_json::from_str).transpose()?;
    let mut options = Options {
        confined: entry.as_ref().is_some_and(|e| e.have.confines()),
        cuda_library: a.cuda_library,
        opencl_library: a.opencl_library,
        nccl_library: a.nccl_library,
        nvml_library: a.nvml_library.clone(),
        cupti_library: a.cupti_library,
        submitters: a.submitters,
        lent_sockets: false,
        withdraw: (a.mps.is_some() && a.keep_mps.is_none()).then(|| Arc::new(mps::withdraw) as _),
        rdma: Settings {
            wish: a.rdma,
            choice: a.rdma_device,
            plain: a.rdma_plaintext,
        },
    };
    if let (Some(folder), None) = (&a.mps, &a.keep_mps) {
        // SAFETY: there is no other thread yet.
        unsafe {
            std::env::set_var(mps::PIPES, folder);
            std::env::set_var(mps::LOGS, folder);
            if let Some(part) = a.mps_part {
                std::env::set_var(mps::THREADS, part.to_string());
            }
        }
    }
    let control = a.control_fd.map(ours);
    if let (Some(folder), Some(control)) = (&a.store, &control) {
        return keep_store(folder, a.store_limit, entry.as_ref(), control);
    }
    // A driver's helper may have to make device files, with rights that nothing started from here
    // can get any more: the server has seen to that.
    if let (Some(_), Some(entry)) = (&a.keep_mps, &mut entry) {
        // Under these rules NVIDIA's daemon takes no client. It is bound by the cell's folders.
        entry.have.parts.retain(|p| *p != Part::Landlock);
    }
    match &entry {
        Some(entry) => {
            let ways: Vec<_> = entry.ways.iter().map(|fd| ours(*fd)).collect();
            let mps = a.keep_mps.as_ref().map(|p| p.display().to_string());
            let libraries = [
                &options.cuda_library,
                &options.opencl_library,
                &options.nccl_library,
                &options.cupti_library,
                &a.nvml_library,
                &mps,
            ];
            let libraries = libraries.map(Option::as_deref);
            let entered = entry.enter(&ways, &libraries, options.nccl_library.is_some());
            options.lent_sockets =
                entered.map_err(|why| anyhow!("no isolation, so no worker: {why}"))?;
        }
        None if a.probe.is_empty() => confine::harden(),
        None => {}
    }
    if let (Some(folder), Some(program)) = (&a.mps, &a.keep_mps) {
        let server = control.ok_or_else(by_serve)?;
        return Ok(mps::keep(server, program, folder)?);
    }
    if a.readings {
        busbar_worker::nvml::serve(a.nvml_library.as_deref());
        end();
    }
    if let Some(fd) = a.fabric_fd {
        end::run(&ours(fd).into(), options.rdma, a.fabric_near);
        return Ok(());
    }
    if !a.probe.is_empty() {
        println!("{}", busbar_worker::apis::probe(&a.probe, &options));
        return Ok(());
    }
    let control = control.ok_or_else(by_serve)?;
    let given = Given {
        store: a.store_fd.map(ours),
        door: a.door_fd.map(ours),
    };
    let warm = || busbar_worker::apis::warm(&a.warm, &options);
    if let Err(why) = busbar_worker::run::run(control, &options, given, APIS, warm) {
        bail!("worker: {why}");
    }
    end()
}

/// Ends the process. Exit handlers of a vendor's library may take long or hang, and the kernel
/// frees all there is.
fn end() -> ! {
    // SAFETY: _exit has no preconditions; nothing is buffered.
    unsafe { libc::_exit(0) }
}

/// Nobody starts a worker by hand.
fn by_serve() -> anyhow::Error {
    anyhow!("`busbar worker` is started by `busbar serve`")
}

/// A descriptor that the server has given us.
fn ours(fd: i32) -> OwnedFd {
    // SAFETY: the server made it for us and nothing else in this process knows it.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Keeps the store for the workers that the server names, until the server is gone. First of all
/// says whether it can.
fn keep_store(folder: &Path, limit: u64, entry: Option<&Entry>, control: &OwnedFd) -> Result<()> {
    confine::give_up_rights();
    let confined = || {
        let Some(entry) = entry else { return Ok(()) };
        cell::drop_rights();
        if entry.have.has(Part::Landlock) {
            let system = confine::SYSTEM.map(PathBuf::from);
            confine::sandbox(&[folder.into()], &system)?;
        }
        match entry.have.has(Part::Calls) {
            true => filter::install(false).map_err(|e| e.to_string()),
            false => Ok(()),
        }
    };
    let text = |e: std::io::Error| e.to_string();
    let made = std::fs::create_dir_all(folder).map_err(text);
    let store = made
        .and_then(|()| confined())
        .and_then(|()| busbar_store::try_writing(folder).map_err(text))
        .and_then(|()| Store::open(folder, limit).map_err(text));
    let error = store.as_ref().err().cloned();
    handover::send(control, &Answer { error }.to_json(), None)?;
    if let Ok(store) = store {
        Arc::new(store).serve(control);
    }
    Ok(())
}
