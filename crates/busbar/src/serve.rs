//! `busbar serve`: listens, checks who comes, and gives each session a worker process of its own.

mod config;
mod connection;
mod greeting;
mod monitor;
mod workers;

pub use config::Args;

use anyhow::{Context, Result, bail};
use busbar_pool::{DeviceId, Pool};
use busbar_worker::apis::Found;
use config::Config;
use std::collections::HashMap;
use std::net::TcpListener;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use workers::Workers;

/// A session as the server sees it.
pub(crate) struct SessionEntry {
    pub api: String,
    pub secret: String,
    pub client: busbar_wire::hello::ClientInfo,
    pub peer: String,
    pub devices: Vec<u32>,
    pub since: SystemTime,
    pub connected: bool,
    pub worker: Arc<workers::Worker>,
}

/// Everything the server's threads share.
pub(crate) struct Server {
    pub config: Config,
    pub token: Option<blake3::Hash>,
    pub found: Found,
    pub pool: Mutex<Pool>,
    pub sessions: Mutex<HashMap<String, SessionEntry>>,
    /// Sessions that ended lately, and why: what a client hears that tries to resume one.
    pub ended: Mutex<std::collections::VecDeque<(String, String)>>,
    pub workers: Workers,
    pub monitor: monitor::Monitor,
    pub started: Instant,
    pub greeting: greeting::Greetings,
    /// Clients that are known and being served, other than by a worker.
    pub busy: AtomicUsize,
}

pub(crate) fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs the server until it is killed.
pub fn run(args: Args) -> Result<()> {
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
    let listener = TcpListener::bind(&config.listen).with_context(|| {
        format!(
            "cannot listen on {}; is another server running there?",
            config.listen
        )
    })?;
    config::allow_many_files();
    let workers = Workers::new(&config)?;
    let found = workers.probe()?;
    let wanted = |ordinal: u32| config.devices.as_ref().is_none_or(|d| d.contains(&ordinal));
    let devices: Vec<_> = found
        .devices
        .iter()
        .filter(|d| d.api != "cuda" || wanted(d.ordinal))
        .map(|d| DeviceId {
            api: d.api.clone(),
            ordinal: d.ordinal,
        })
        .collect();
    if let Some(bad) = config.devices.iter().flatten().find(|o| {
        !found
            .devices
            .iter()
            .any(|d| d.api == "cuda" && d.ordinal == **o)
    }) {
        bail!("--devices names GPU {bad}, which this machine does not have");
    }
    for d in &found.devices {
        tracing::info!(api = d.api, ordinal = d.ordinal, name = d.name, "device");
    }
    for (api, why) in &found.missing {
        tracing::info!(api, why, "no devices");
    }
    if devices.is_empty() {
        tracing::warn!("no accelerator found: clients will be refused until there is one");
    }
    let local = listener.local_addr()?;
    let server = Arc::new(Server {
        pool: Mutex::new(Pool::new(devices, config.max_sessions)),
        config,
        token,
        found,
        sessions: Mutex::default(),
        ended: Mutex::default(),
        workers,
        monitor: monitor::Monitor::default(),
        started: Instant::now(),
        greeting: greeting::Greetings::default(),
        busy: AtomicUsize::new(0),
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
    println!("busbar: listening on {local}");
    for stream in listener.incoming() {
        let stream = match stream {
            Ok(s) => s,
            Err(e) => {
                // Out of descriptors, most likely: existing sessions matter more than new ones.
                tracing::warn!(error = %e, "cannot accept");
                std::thread::sleep(Duration::from_millis(50));
                continue;
            }
        };
        let Some(guest) = server.greeting.enter(&stream) else {
            continue;
        };
        let s = server.clone();
        let run = move || connection::serve(&s, stream, guest);
        let spawned = std::thread::Builder::new()
            .name("hello".into())
            .stack_size(256 << 10)
            .spawn(run);
        if let Err(e) = spawned {
            tracing::warn!(error = %e, "cannot start a thread");
        }
    }
    Ok(())
}
