//! `busbar serve`: listens, checks who comes, and gives each session a worker process of its own.

mod budget;
mod config;
mod connection;
mod door;
mod greeting;
mod keeper;
mod monitor;
mod refusals;
mod state;
mod turns;
mod voices;
mod workers;

pub use config::Args;

use anyhow::{Result, anyhow, bail};
use busbar_control::device::Device;
use busbar_pool::Pool;
use config::Config;
use state::Server;
use std::io::Write;
use std::net::TcpListener;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;
use workers::Workers;

/// Logs what was found, and makes a pool of what of it is to be offered.
fn offer(config: &Config, found: Vec<Device>) -> Result<Pool> {
    for d in &found {
        tracing::info!(api = d.api, ordinal = d.ordinal, name = d.name, "device");
    }
    let pool = Pool::new(found, config.devices.as_deref(), config.max_sessions)
        .map_err(|bad| anyhow!("--devices names GPU {bad}, which this machine does not have"))?;
    if pool.is_empty() {
        tracing::warn!("no accelerator found: clients will be refused until there is one");
    }
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
        && let Err(e) = workers.open_store()
    {
        // Workers do without; it costs their clients time, and nothing else.
        tracing::warn!(
            cache = %dir.display(),
            error = e,
            "the cache cannot be written to: programs send their modules in each session again"
        );
    }
    if config.sandbox
        && let Some(dir) = config
            .cache_dir
            .as_deref()
            .and_then(|d| d.canonicalize().ok())
        && crate::confine::writable()
            .iter()
            .any(|w| dir.starts_with(w))
    {
        tracing::warn!(
            cache = %dir.display(),
            "workers in a sandbox can write where the cache is: give another --cache-dir"
        );
    }
    let found = workers.probe()?;
    for (api, why) in &found.missing {
        tracing::info!(api, why, "no devices");
    }
    let pool = offer(&config, found.devices)?;
    let local = listener.local_addr()?;
    let server = Arc::new(Server {
        pool: Mutex::new(pool),
        config,
        token,
        missing: found.missing,
        sessions: Mutex::default(),
        told: Condvar::new(),
        ended: Mutex::default(),
        workers,
        monitor: monitor::Monitor::default(),
        started: Instant::now(),
        greeting: greeting::Greetings::default(),
        refusals: refusals::Refusals::default(),
        busy: Arc::default(),
    });
    server.workers.keep_spare();
    if server.has_gpus() {
        // NVML takes its time to start; the first who asks for the status need not wait for it.
        let s = server.clone();
        let read = move || drop(s.monitor.read(&s.workers, true));
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
