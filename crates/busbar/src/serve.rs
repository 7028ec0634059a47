//! `busbar serve`: listens, checks who comes, and gives each session a worker process of its own.

mod config;
mod connection;
mod door;
mod greeting;
mod monitor;
mod refusals;
mod workers;

pub use config::Args;

use anyhow::{Result, anyhow, bail};
use busbar_pool::{DeviceId, Pool};
use busbar_worker::apis::{Device, Found};
use config::Config;
use std::collections::HashMap;
use std::io::Write;
use std::net::TcpListener;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use workers::Workers;

/// A session as the server sees it.
pub(crate) struct SessionEntry {
    pub api: String,
    pub secret: String,
    pub client: busbar_wire::hello::ClientInfo,
    pub peer: String,
    pub devices: Vec<u32>,
    pub since: Instant,
    pub connected: bool,
    pub worker: Arc<workers::Worker>,
}

/// Everything the server's threads share.
pub(crate) struct Server {
    pub config: Config,
    pub token: Option<blake3::Hash>,
    /// The devices that are offered, and why there are none of an API.
    pub found: Found,
    pub pool: Mutex<Pool>,
    pub sessions: Mutex<HashMap<String, SessionEntry>>,
    /// Sessions that ended lately, and why: what a client hears that tries to resume one.
    pub ended: Mutex<std::collections::VecDeque<(String, String)>>,
    pub workers: Workers,
    pub monitor: monitor::Monitor,
    pub started: Instant,
    pub greeting: greeting::Greetings,
    /// What the log says of clients that are refused.
    pub refusals: refusals::Refusals,
    /// Clients that are known and being served, other than by a worker.
    pub busy: Arc<AtomicUsize>,
}

pub(crate) fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Logs what was found, leaves of it what is to be offered, and makes a pool of that.
///
/// Devices are numbered as CUDA does, or as OpenCL does where there is no CUDA.
fn offer(config: &Config, found: &mut Found) -> Result<Pool> {
    let cuda = found.devices.iter().any(|d| d.api == "cuda");
    let leader = if cuda { "cuda" } else { "opencl" };
    let leading = || found.devices.iter().filter(|d| d.api == leader);
    let listed = config.devices.as_ref();
    let wanted = |d: &Device| listed.is_none_or(|l| l.contains(&d.ordinal));
    // The same device as another API lists it.
    let twin = |d: &Device| leading().find(|l| !d.uuid.is_empty() && l.uuid == d.uuid);
    let id = |d: &Device| DeviceId {
        api: d.api.clone(),
        ordinal: d.ordinal,
    };
    let is_there = |ordinal: &u32| leading().any(|d| d.ordinal == *ordinal);
    if let Some(bad) = listed.into_iter().flatten().find(|o| !is_there(o)) {
        bail!("--devices names GPU {bad}, which this machine does not have");
    }
    for d in &found.devices {
        tracing::info!(api = d.api, ordinal = d.ordinal, name = d.name, "device");
    }
    for (api, why) in &found.missing {
        tracing::info!(api, why, "no devices");
    }
    let offered: Vec<_> = found
        .devices
        .iter()
        .filter(|d| match d.api == leader {
            true => wanted(d),
            false => twin(d).is_none_or(wanted),
        })
        .collect();
    if offered.is_empty() {
        tracing::warn!("no accelerator found: clients will be refused until there is one");
    }
    let devices = offered.iter().map(|d| id(d)).collect();
    let mut pool = Pool::new(devices, config.max_sessions);
    for d in offered.iter().filter(|d| d.api != leader) {
        if let Some(t) = twin(d) {
            pool.same(id(t), id(d));
        }
    }
    found.devices = offered.into_iter().cloned().collect();
    Ok(pool)
}

/// Runs the server until it is killed.
pub fn run(args: Args) -> Result<()> {
    crate::confine::keep_to_itself();
    let check = args.check;
    let config = Config::resolve(args)?;
    let token = config.token()?;
    if !config::is_loopback(&config.listen)? && token.is_none() {
        bail!(
            "{} can be reached from other machines: give a token with --token-file FILE (its first \
             line is the secret that clients show with BUSBAR_TOKEN_FILE), or listen on 127.0.0.1",
            config.listen
        );
    }
    if check {
        println!("{}", config.describe());
        return Ok(());
    }
    config::start_log(config.json_logs);
    let listener = TcpListener::bind(&config.listen).map_err(|e| {
        anyhow!(
            "cannot listen on {}: {e}; is another server running there?",
            config.listen
        )
    })?;
    config::allow_many_files();
    let workers = Workers::new(&config)?;
    if let Some(dir) = &config.cache_dir
        && let Err(e) = workers.try_cache()
    {
        // Workers do without; it costs their clients time, and nothing else.
        tracing::warn!(
            cache = %dir.display(),
            error = e,
            "the cache cannot be written to: programs send their modules in each session again"
        );
    }
    let mut found = workers.probe()?;
    let pool = offer(&config, &mut found)?;
    let local = listener.local_addr()?;
    let server = Arc::new(Server {
        pool: Mutex::new(pool),
        config,
        token,
        found,
        sessions: Mutex::default(),
        ended: Mutex::default(),
        workers,
        monitor: monitor::Monitor::default(),
        started: Instant::now(),
        greeting: greeting::Greetings::default(),
        refusals: refusals::Refusals::default(),
        busy: Arc::default(),
    });
    server.workers.keep_spare();
    if server.found.devices.iter().any(|d| d.api == "cuda") {
        // NVML takes its time to start; the first who asks for the status need not wait for it.
        let s = server.clone();
        let read = move || drop(s.monitor.read(&s.workers));
        std::thread::Builder::new()
            .name("monitor".into())
            .spawn(read)?;
    }
    tracing::info!(address = %local, "listening");
    // Whoever does not read it does without.
    let _ = writeln!(std::io::stdout(), "busbar: listening on {local}");
    door::run(&server, &listener);
    Ok(())
}
