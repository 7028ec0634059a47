//! `busbar serve`: listens, checks who comes, and gives each session a worker process of its own.

mod asking;
mod budget;
mod busy;
mod cells;
mod change;
mod checkpoint;
mod config;
mod connection;
mod counts;
mod dense;
mod desk;
mod dials;
mod door;
mod drain;
mod entry;
mod events;
mod fabric;
mod greeting;
mod groups;
mod held;
mod heritage;
mod http;
mod identity;
mod idle;
mod jobs;
mod keeper;
mod link;
mod lobby;
mod monitor;
mod neighbours;
mod notify;
mod questions;
mod reach;
mod reception;
mod refusals;
mod replacing;
mod report;
mod revoke;
mod room;
mod rules;
mod sessions;
mod signals;
mod silent;
mod sockets;
mod spawner;
mod state;
mod succession;
mod swap;
mod tickets;
mod timekeeper;
mod turns;
mod voices;
mod workers;

pub use config::Args;

use crate::audit::Audit;
use crate::isolation::Part;
use crate::vault::Vault;
use anyhow::{Result, anyhow, bail};
use busbar_client::servers;
use busbar_control::device::{Device, Found};
use busbar_control::text::host_name;
use busbar_pool::Pool;
use busbar_transport::lock::lock;
use busbar_transport::tls::Fingerprint;
use config::Config;
use dials::Dials;
use heritage::Heritage;
use identity::Identities;
use lobby::Lobby;
use rules::Rules;
use serde_json::json;
use signals::Signals;
use state::Server;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, Condvar, Mutex, Once};
use std::time::{Duration, Instant};
use succession::Succession;
use turns::Turns;
use workers::Workers;

/// How often is looked for devices where there are none.
const LOOK: Duration = Duration::from_secs(5);
/// How long a file may be locked that another server has given up.
const GIVEN_UP: Duration = Duration::from_secs(3);

/// Logs what was found, and makes a pool of what of it is to be offered.
fn offer(config: &Config, found: Vec<Device>) -> Result<Pool> {
    for d in &found {
        tracing::info!(api = d.api, ordinal = d.ordinal, name = d.name, "device");
    }
    Pool::new(found, config.devices.as_deref(), config.max_sessions)
        .map_err(|bad| anyhow!("--devices names GPU {bad}, which this machine does not have"))
}

/// Why there is nothing to offer.
fn nothing(found: &Found) -> String {
    let why = found
        .missing
        .iter()
        .map(|(api, why)| format!("{api}: {why}"));
    let why: Vec<_> = why.collect();
    format!("no accelerator to offer ({})", why.join("; "))
}

/// Looks for devices until there are some; `None` when the server is told to end before.
fn wait_for_devices(workers: &Workers, signals: &Signals) -> Result<Option<Found>> {
    loop {
        // The service manager need not hear of more for a while.
        notify::say("EXTEND_TIMEOUT_USEC=60000000\nSTATUS=waiting for an accelerator");
        if signals.wait(LOOK) {
            return Ok(None);
        }
        let found = workers.probe()?;
        if !found.devices.is_empty() {
            return Ok(Some(found));
        }
    }
}

/// By what address others reach this machine, as far as it knows itself.
fn reached_at(local: SocketAddr) -> String {
    if !local.ip().is_unspecified() {
        return local.to_string();
    }
    // Nothing is sent: the system chooses the address that it would send from.
    let from = |to: &str, any: &str| {
        let socket = UdpSocket::bind(any)?;
        socket.connect(to)?;
        socket.local_addr()
    };
    let ours = from("192.0.2.1:9", "0.0.0.0:0").or_else(|_| from("[2001:db8::1]:9", "[::]:0"));
    match ours {
        Ok(a) if !a.ip().is_unspecified() => SocketAddr::new(a.ip(), local.port()).to_string(),
        _ => format!("{}:{}", host_name(), local.port()),
    }
}

/// What is said of how clients log in. At the first start there is a token in it, unless the system
/// keeps what is printed for others to read.
fn invite(config: &Config, vault: &Vault, key: Fingerprint, local: SocketAddr) -> Result<String> {
    let at = reached_at(local);
    vault.set_place(&at, key)?;
    let first = config.token_file.is_none()
        && config.client_ca.is_none()
        && vault.tokens()?.is_empty()
        && std::env::var_os("JOURNAL_STREAM").is_none();
    if !first {
        return Ok(format!(
            "busbar: its key is {key}; `busbar token new NAME` prints a line to log in with"
        ));
    }
    let token = vault.add("first", "default", None, false)?;
    let line = servers::Server {
        address: at,
        token: token.to_string(),
        key: key.to_string(),
        ..servers::Server::default()
    };
    Ok(format!(
        "busbar: paste this once where programs are to run:\nbusbar login '{}'",
        line.line()
    ))
}

/// Opens the audit, where there is one.
fn open_audit(config: &Config) -> Result<Audit> {
    let audit = config.audit.as_deref().map(Audit::open).transpose()?;
    Ok(audit.unwrap_or_default())
}

/// Likewise, when another server has just given it up: the system may take a moment to see that.
fn wait_for_audit(config: &Config) -> Result<Audit> {
    let deadline = Instant::now() + GIVEN_UP;
    loop {
        match open_audit(config) {
            Err(_) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(20)),
            done => return done,
        }
    }
}

/// Opens the store before the first worker needs it.
fn open_store(config: &Config, workers: &Workers) {
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
}

/// How clients come that need no key.
fn in_clear(local: SocketAddr) -> String {
    let here = local.ip().is_loopback();
    let (at, more) = match here {
        true => (local.to_string(), ""),
        false => (reached_at(local), "--plaintext --token-file FILE "),
    };
    format!("busbar: use it with: busbar run --server {at} {more}-- PROGRAM")
}

/// Runs the server until it is killed.
pub fn run(args: Args) -> Result<()> {
    crate::confine::keep_to_itself();
    let check = args.check;
    let config = Config::resolve(args)?;
    if check {
        // What it says must be good, too; the key is made when the server starts.
        Identities::new(&config, None)?;
        if let Some(policy) = &config.policy {
            crate::policy::read(policy)?;
        }
        println!("{}", config.describe());
        return Ok(());
    }
    config::start_log(config.json_logs);
    // Without a policy there is nothing to read again, and a terminal that goes takes its server
    // along.
    let mut held = vec![libc::SIGTERM, libc::SIGINT, libc::SIGUSR2];
    held.extend(config.policy.as_ref().map(|_| libc::SIGHUP));
    let signals = Signals::hold(&held);
    let vault = || Vault::open(config.state_dir.as_deref());
    let vault = config.tls.then(vault).transpose()?;
    let tls = vault.as_ref().map(|v| config.own(v)).transpose()?;
    let bind = || {
        TcpListener::bind(&config.listen).map_err(|e| {
            anyhow!(
                "cannot listen on {}: {e}; is another server running there?",
                config.listen
            )
        })
    };
    // What lies there now is another release perhaps when this one is told to make room for it.
    let program = std::env::current_exe().ok();
    let begun = config.predecessor_fd.map(Heritage::begin).transpose()?;
    let (heritage, mut listener) = match begun {
        Some((heritage, listener)) => {
            if heritage.listen != config.listen {
                bail!(
                    "the settings say to listen on {} now, where {} was: end the server and start \
                     it again for that",
                    config.listen,
                    heritage.listen
                );
            }
            (Some(heritage), Some(listener))
        }
        None => (None, Some(notify::listener()?.map_or_else(bind, Ok)?)),
    };
    config::allow_many_files();
    let mut audit = Audit::default();
    let users = heritage.as_ref().map(|h| h.users.clone());
    let workers = Workers::new(&config, users.unwrap_or_default())?;
    if heritage.is_none() {
        audit = open_audit(&config)?;
        open_store(&config, &workers);
    }
    let isolation = workers.isolation();
    if isolation.has(Part::Landlock)
        && !isolation.has(Part::Folders)
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
            "workers can write where the cache is: give another --cache-dir"
        );
    }
    let mut found = workers.probe()?;
    if found.devices.is_empty() {
        let nothing = nothing(&found);
        if !config.wait_for_devices {
            bail!(
                "{nothing}; mend that, or say --wait-for-devices to have the server begin when \
                 there is one"
            );
        }
        tracing::warn!("{nothing}: waiting for one");
        let _ = writeln!(std::io::stdout(), "busbar: {nothing}: waiting for one");
        // Whoever comes meanwhile hears at once that nobody is there.
        if !notify::gives_listener() && heritage.is_none() {
            listener = None;
        }
        match wait_for_devices(&workers, &signals)? {
            Some(some) => found = some,
            None => return Ok(()),
        }
    }
    let listener = listener.map_or_else(bind, Ok)?;
    for (api, why) in &found.missing {
        tracing::info!(api, why, "no devices");
    }
    let pool = Mutex::new(offer(&config, found.devices)?);
    let mut http = match heritage {
        None => http::bind(&config)?,
        Some(_) => None,
    };
    let rules = Rules::new(config.policy.clone(), &pool)?;
    let local = listener.local_addr()?;
    let greeting = match (&vault, &tls) {
        (Some(vault), Some(tls)) => Some(invite(&config, vault, tls.key(), local)?),
        _ => None,
    };
    let identities = Identities::new(&config, vault)?;
    let always = config.turns == config::Turns::Always;
    let time = timekeeper::Timekeeper::start(config.kernel_limit, always)?;
    // From here on it is this server's, unless this one fails.
    let before = match heritage {
        None => None,
        Some(heritage) => {
            let (before, users) = heritage.take(&mut lock(&pool))?;
            workers.set_others(users);
            audit = wait_for_audit(&config)?;
            open_store(&config, &workers);
            http = http::bind(&config)?;
            Some(before)
        }
    };
    let succession = Succession::new(program, &listener, before)?;
    let strangers = greeting::Greetings::default();
    let server = Arc::new(Server {
        pool,
        rules,
        config,
        identities,
        tls,
        handshakes: Turns::new(Turns::of_strangers()),
        missing: found.missing,
        sessions: Mutex::default(),
        kept: Mutex::default(),
        told: Condvar::new(),
        leaving: AtomicU64::new(0),
        swaps: Mutex::default(),
        ended: Mutex::default(),
        workers,
        monitor: monitor::Monitor::default(),
        time,
        started: Instant::now(),
        address: local,
        greeting: strangers.clone(),
        refusals: refusals::Refusals::new(audit.clone()),
        counts: counts::Counts::default(),
        audit,
        busy: Arc::default(),
        losses: groups::Losses::default(),
        talks: groups::Talks::default(),
        sockets: sockets::Exchange::new(strangers)?,
        tickets: tickets::Tickets::default(),
        dials: Dials::default(),
        idle: Once::new(),
        measuring: AtomicBool::new(false),
        silent: silent::Silent::default(),
        told_to_end: AtomicU32::new(0),
        succession,
    });
    let of = Arc::downgrade(&server);
    let of_tenants = move |tenant: &str| lock(&of.upgrade()?.pool).rdma_device(tenant);
    server.workers.set_devices(Box::new(of_tenants));
    if let Some(first) = server.identities.first() {
        server.workers.keep_spare(&first);
    }
    if server.has_gpus() {
        // NVML takes its time to start; the first who asks for the status need not wait for it.
        let s = server.clone();
        let read = move || drop(s.monitor.read(&s.workers, true));
        std::thread::Builder::new()
            .name("monitor".into())
            .spawn(read)?;
    }
    let line = server.workers.isolation().line(server.config.isolation);
    tracing::info!("{line}");
    let note = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "address": local.to_string(),
        "isolation": line,
        "takes over": server.succession.predecessor.as_ref().map(|p| &p.version),
    });
    server
        .audit
        .note("server begins", note)
        .map_err(anyhow::Error::msg)?;
    tracing::info!(address = %local, "listening");
    // Whoever does not read it does without.
    let _ = writeln!(std::io::stdout(), "busbar: listening on {local}");
    if let Some(line) = &greeting {
        let _ = writeln!(std::io::stdout(), "{line}");
    }
    let _ = writeln!(std::io::stdout(), "busbar: {line}");
    if let Some(http) = http {
        let at = http::serve(&server, http)?;
        let _ = writeln!(std::io::stdout(), "busbar: HTTP on {at}");
    }
    if greeting.is_none() {
        let _ = writeln!(std::io::stdout(), "{}", in_clear(local));
    }
    let lobby = Lobby::new()?;
    signals.heed(&server)?;
    replacing::follow(&server)?;
    notify::say("READY=1");
    if server.identities.asks() || server.rules.any() {
        let s = server.clone();
        std::thread::Builder::new()
            .name("revoke".into())
            .stack_size(256 << 10)
            .spawn(move || revoke::run(&s))?;
    }
    door::run(&server, &listener, lobby);
    Ok(())
}
