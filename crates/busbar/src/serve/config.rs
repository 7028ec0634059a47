//! The server's settings: flags over file over defaults.

use crate::folder::Folder;
use crate::isolation::Level;
use crate::vault::Vault;
use anyhow::{Context, Result, bail};
use busbar_control::hello::with_port;
use busbar_control::time;
use busbar_transport::rdma::{Wish, ib};
use busbar_transport::tls;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::ffi::CStr;
use std::io::ErrorKind;
use std::net::{IpAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// When sessions on one device take turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Turns {
    /// While one of them has a share or a priority
    #[default]
    Asked,
    /// Always
    Always,
}

/// Flags of `busbar serve`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  busbar serve                                            # for programs on this machine
  busbar serve --listen 0.0.0.0:7400                      # for others; prints how they log in
  busbar serve --devices 0,2 --api cuda                   # some of the GPUs, and no OpenCL
  busbar serve --config /etc/busbar/serve.toml --check    # are the settings valid?")]
pub struct Args {
    /// Address to listen on; any but loopback is encrypted and takes a token
    /// [default: 127.0.0.1:7400]
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// Address of the port for people and programs that speak HTTP: the API, metrics
    #[arg(long, value_name = "HOST:PORT")]
    http: Option<String>,
    /// GPUs to offer, by ordinal (0,2,3) [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = ordinal)]
    devices: Option<Vec<u32>>,
    /// Where there is no accelerator yet, wait until there is one: a driver may come later
    #[arg(long)]
    wait_for_devices: bool,
    /// APIs to offer [default: cuda,opencl]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    api: Option<Vec<String>>,
    /// File whose first line is a token that clients may show, beside those of `busbar token`
    #[arg(long, value_name = "FILE", env = "BUSBAR_TOKEN_FILE")]
    token_file: Option<PathBuf>,
    /// Where the server keeps its key and the tokens of `busbar token`
    /// [default: /var/lib/busbar for root and its owner, else the user's state folder]
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Encrypt and ask for tokens on a loopback address, too, as on all others
    #[arg(long, conflicts_with = "plaintext")]
    tls: bool,
    /// Do not encrypt: everybody on the way reads and changes all there is
    #[arg(long)]
    plaintext: bool,
    /// Certificate (PEM) to show instead of the server's own, with those that vouch for it
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// Its private key (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Certificates (PEM) of the authority whose clients are let in; their tenant is that of the
    /// name busbar://TENANT/NAME in their certificate
    #[arg(long, value_name = "FILE")]
    client_ca: Option<PathBuf>,
    /// What each tenant may do (TOML), read again when it changes and at SIGHUP
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Configuration file (TOML); flags win over it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Check the settings, say what they are, and end
    #[arg(long)]
    pub check: bool,
    /// CUDA driver to load instead of the system's libcuda.so.1
    #[arg(long, value_name = "PATH")]
    cuda_library: Option<PathBuf>,
    /// OpenCL loader or driver to load instead of the system's libOpenCL.so.1
    #[arg(long, value_name = "PATH")]
    opencl_library: Option<PathBuf>,
    /// NCCL to load instead of the loader's libnccl.so.2, or that of a Python installation
    #[arg(long, value_name = "PATH")]
    nccl_library: Option<PathBuf>,
    /// CUPTI, for profilers, to load instead of that of a Python installation, of CUDA's toolkit,
    /// or of the loader
    #[arg(long, value_name = "PATH")]
    cupti_library: Option<PathBuf>,
    /// Threads of a session that submit launches of several streams side by side; 0 is none
    /// [default: one for 4 cores, at most 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(..=64))]
    submitters: Option<u16>,
    /// NVML to load instead of the system's libnvidia-ml.so.1
    #[arg(long, value_name = "PATH")]
    nvml_library: Option<PathBuf>,
    /// What starts NVIDIA's MPS, for sessions with --mode dense
    /// [default: nvidia-cuda-mps-control on the path]
    #[arg(long, value_name = "PATH")]
    mps_control: Option<PathBuf>,
    /// Where module images and built programs are kept between sessions
    /// [default: the user's cache folder]
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,
    /// How much of them is kept, in MiB [default: 4096]
    #[arg(long, value_name = "MIB")]
    cache_size: Option<u64>,
    /// How long a session without a connection is kept, in seconds [default: 60]
    #[arg(long, value_name = "SECONDS")]
    resume_timeout: Option<u64>,
    /// The most sessions at a time [default: 1024]
    #[arg(long, value_name = "N")]
    max_sessions: Option<usize>,
    /// What keeps sessions of one tenant from others and from this machine [default: best]
    #[arg(long, value_name = "LEVEL")]
    isolation: Option<Level>,
    /// The first and the last number of the users that workers run as, where the server is root;
    /// nothing else may use them [default: 2000000000-2000065535]
    #[arg(long, value_name = "FIRST-LAST")]
    worker_uids: Option<String>,
    /// Note each session, lease and refusal in this file, as `busbar audit` checks it
    #[arg(long, value_name = "FILE")]
    audit: Option<PathBuf>,
    /// How long sessions may go on after a SIGTERM or Ctrl-C (90s, 5m, 1h) [default: 5m]
    #[arg(long, value_name = "TIME")]
    drain: Option<String>,
    /// When sessions on one GPU take turns [default: asked]
    #[arg(long, value_name = "WHEN")]
    turns: Option<Turns>,
    /// Where there are turns, how long one kernel may keep others waiting before its session is
    /// ended: 30s, 10m, or `off` [default: 30m]
    #[arg(long, value_name = "TIME")]
    kernel_limit: Option<String>,
    /// After how long in which a session does nothing its share of time (-p) may be promised to
    /// others: 10m, 2h, or `off` [default: off]
    #[arg(long, value_name = "TIME")]
    idle_timeout: Option<String>,
    /// After how long in which a session does nothing it gives way to one that lacks device memory:
    /// what it has is in this machine's memory until it works again: 5m, 2h, or `off`
    /// [default: off]
    #[arg(long, value_name = "TIME")]
    swap_idle: Option<String>,
    /// Make no links to other servers, for copies between their devices and this one's: these go
    /// through the client
    #[arg(long)]
    no_links: bool,
    /// Address or network interface at which the workers of other servers reach those of this one,
    /// for jobs over several servers [default: where the job's client reaches the server]
    #[arg(long, value_name = "ADDR")]
    fabric: Option<String>,
    /// Whether sessions move to RDMA: if both ends can, always or never: auto, on, off
    /// [default: off]
    #[arg(long, value_name = "WHEN")]
    rdma: Option<String>,
    /// Over which port, and how: DEVICE[:PORT[:GID]][,class=,level=,mtu=,timeout=,retries=]
    /// [default: the port that has the address a client talks to]
    #[arg(long, value_name = "PORT")]
    rdma_device: Option<String>,
    /// Do not encrypt what goes over RDMA, for clients that say so, too
    #[arg(long)]
    rdma_plaintext: bool,
    /// Write logs as JSON lines
    #[arg(long)]
    json: bool,
    /// Where the server is that this one takes the place of, which has started it
    #[arg(long, hide = true)]
    predecessor_fd: Option<i32>,
}

/// What starts NVIDIA's MPS, on the path or where drivers have it that is not there.
fn mps_control() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let elsewhere = ["/usr/bin", "/usr/local/nvidia/bin"].map(PathBuf::from);
    let mut all = std::env::split_paths(&path).chain(elsewhere);
    all.find_map(|f| {
        Some(f.join("nvidia-cuda-mps-control")).filter(|p| p.is_absolute() && p.is_file())
    })
}

fn ordinal(text: &str) -> Result<u32, String> {
    let ordinal = text.trim().parse();
    ordinal.map_err(|_| "GPUs are numbered from 0: say 0,2".into())
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct File {
    listen: Option<String>,
    http: Option<String>,
    devices: Option<Vec<u32>>,
    wait_for_devices: bool,
    api: Option<Vec<String>>,
    token_file: Option<PathBuf>,
    state_dir: Option<PathBuf>,
    tls: bool,
    plaintext: bool,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
    client_ca: Option<PathBuf>,
    policy: Option<PathBuf>,
    cuda_library: Option<PathBuf>,
    opencl_library: Option<PathBuf>,
    nccl_library: Option<PathBuf>,
    cupti_library: Option<PathBuf>,
    submitters: Option<u16>,
    nvml_library: Option<PathBuf>,
    mps_control: Option<PathBuf>,
    cache_dir: Option<PathBuf>,
    cache_size: Option<u64>,
    resume_timeout: Option<u64>,
    max_sessions: Option<usize>,
    isolation: Option<Level>,
    worker_uids: Option<String>,
    audit: Option<PathBuf>,
    drain: Option<String>,
    turns: Option<Turns>,
    kernel_limit: Option<String>,
    idle_timeout: Option<String>,
    swap_idle: Option<String>,
    no_links: bool,
    fabric: Option<String>,
    rdma: Option<String>,
    rdma_device: Option<String>,
    rdma_plaintext: bool,
    json_logs: bool,
}

/// What the server goes by.
pub(crate) struct Config {
    pub listen: String,
    /// Where HTTP is spoken, and whether that is encrypted.
    pub http: Option<(String, bool)>,
    pub devices: Option<Vec<u32>>,
    /// Where there is none, wait for one.
    pub wait_for_devices: bool,
    pub apis: Vec<String>,
    pub token_file: Option<PathBuf>,
    pub state_dir: Option<PathBuf>,
    /// Encrypt, and ask who comes.
    pub tls: bool,
    pub cert: Option<(PathBuf, PathBuf)>,
    pub client_ca: Option<PathBuf>,
    pub policy: Option<PathBuf>,
    pub cuda_library: Option<PathBuf>,
    pub opencl_library: Option<PathBuf>,
    pub nccl_library: Option<PathBuf>,
    pub cupti_library: Option<PathBuf>,
    /// Threads of a session that submit launches; `None`: as suits the machine.
    pub submitters: Option<u16>,
    pub nvml_library: Option<PathBuf>,
    /// What starts NVIDIA's MPS.
    pub mps_control: Option<PathBuf>,
    pub cache_dir: Option<PathBuf>,
    pub cache_limit: u64,
    pub resume_seconds: u64,
    pub max_sessions: usize,
    pub isolation: Level,
    pub worker_uids: (u32, u32),
    pub audit: Option<PathBuf>,
    pub drain: Duration,
    /// When sessions on one device take turns.
    pub turns: Turns,
    /// How long one kernel may keep others waiting.
    pub kernel_limit: Option<Duration>,
    /// How long a session may do nothing and keep its share from others.
    pub idle_timeout: Option<Duration>,
    /// How long a session may do nothing and keep its memory from one that lacks some.
    pub swap_idle: Option<Duration>,
    /// Dial other servers for clients, and be dialled.
    pub links: bool,
    /// Where the workers of other servers reach those of this one.
    pub fabric: Option<IpAddr>,
    /// Whether sessions move to RDMA.
    pub rdma: Wish,
    /// Over what, as the workers read it.
    pub rdma_device: String,
    pub rdma_plaintext: bool,
    pub json_logs: bool,
    pub predecessor_fd: Option<i32>,
}

impl Config {
    /// Flags over file over defaults.
    pub fn resolve(a: Args) -> Result<Self> {
        let file: File = match &a.config {
            None => File::default(),
            Some(p) => {
                let text = std::fs::read_to_string(p)
                    .with_context(|| format!("cannot read the configuration {}", p.display()))?;
                toml::from_str(&text).map_err(|e| mistake(p, &text, &e))?
            }
        };
        let apis = a
            .api
            .or(file.api)
            .unwrap_or_else(|| vec!["cuda".into(), "opencl".into()]);
        if let Some(bad) = apis
            .iter()
            .find(|n| !["cuda", "opencl"].contains(&n.as_str()))
        {
            bail!("there is no API `{bad}`: choose from cuda, opencl");
        }
        let worker_uids = match a.worker_uids.or(file.worker_uids) {
            Some(text) => uids(&text)?,
            None => UIDS,
        };
        let cache_dir = a.cache_dir.or(file.cache_dir).or_else(default_cache);
        // Confined processes are elsewhere.
        let cache_dir = cache_dir.map(std::path::absolute).transpose()?;
        if let Some(dir) = &cache_dir {
            check_cache(dir)?;
        }
        let exists = |what: &str, p: Option<PathBuf>| match p {
            Some(p) if !p.exists() => bail!("{what} {} does not exist", p.display()),
            p => Ok(p.map(std::path::absolute).transpose()?),
        };
        let listen = with_port(a.listen.or(file.listen).as_deref().unwrap_or("127.0.0.1"));
        let here = is_loopback(&listen)?;
        let cert = match (a.cert.or(file.cert), a.key.or(file.key)) {
            (Some(c), Some(k)) => Some((c, k)),
            (None, None) => None,
            _ => bail!("a certificate and its private key go together: --cert FILE --key FILE"),
        };
        let client_ca = a.client_ca.or(file.client_ca);
        let plaintext = a.plaintext || (file.plaintext && !a.tls);
        let wanted = a.tls || file.tls || cert.is_some() || client_ca.is_some();
        if plaintext && wanted {
            bail!("--plaintext is the opposite of --tls, --cert and --client-ca: choose");
        }
        let token_file = a.token_file.or(file.token_file);
        if plaintext && !here && token_file.is_none() {
            bail!(
                "{listen} can be reached from other machines: give a token with --token-file FILE \
                 (its first line is the secret that clients show with BUSBAR_TOKEN_FILE), or leave \
                 --plaintext away, or listen on 127.0.0.1"
            );
        }
        let encrypts = !plaintext && (wanted || !here);
        let http = a.http.or(file.http);
        let http = http.map(|at| http_at(at, encrypts, wanted, token_file.is_some()));
        Ok(Self {
            http: http.transpose()?,
            listen,
            tls: encrypts,
            state_dir: a.state_dir.or(file.state_dir),
            cert,
            client_ca,
            policy: a.policy.or(file.policy),
            devices: a.devices.or(file.devices),
            wait_for_devices: a.wait_for_devices || file.wait_for_devices,
            apis,
            token_file,
            cuda_library: exists("the CUDA library", a.cuda_library.or(file.cuda_library))?,
            opencl_library: exists(
                "the OpenCL library",
                a.opencl_library.or(file.opencl_library),
            )?,
            nccl_library: exists("NCCL", a.nccl_library.or(file.nccl_library))?
                .or_else(busbar_worker::nccl::installed),
            cupti_library: exists("CUPTI", a.cupti_library.or(file.cupti_library))?
                .or_else(busbar_worker::cuda::installed_cupti),
            submitters: a.submitters.or(file.submitters),
            nvml_library: exists("the NVML library", a.nvml_library.or(file.nvml_library))?,
            mps_control: exists("what starts MPS,", a.mps_control.or(file.mps_control))?
                .or_else(mps_control),
            cache_dir,
            cache_limit: a
                .cache_size
                .or(file.cache_size)
                .unwrap_or(4096)
                .saturating_mul(1 << 20),
            resume_seconds: a.resume_timeout.or(file.resume_timeout).unwrap_or(60),
            isolation: a.isolation.or(file.isolation).unwrap_or_default(),
            worker_uids,
            audit: a.audit.or(file.audit),
            drain: match a.drain.or(file.drain) {
                Some(text) => {
                    time::parse(&text).map_err(|why| anyhow::anyhow!("--drain: {why}"))?
                }
                None => Duration::from_secs(300),
            },
            max_sessions: a.max_sessions.or(file.max_sessions).unwrap_or(1024),
            turns: a.turns.or(file.turns).unwrap_or_default(),
            kernel_limit: limit(
                "kernel-limit",
                a.kernel_limit.or(file.kernel_limit),
                Some(Duration::from_secs(1800)),
            )?,
            idle_timeout: limit("idle-timeout", a.idle_timeout.or(file.idle_timeout), None)?,
            swap_idle: limit("swap-idle", a.swap_idle.or(file.swap_idle), None)?,
            links: !(a.no_links || file.no_links),
            fabric: (a.fabric.or(file.fabric).as_deref().map(fabric)).transpose()?,
            rdma: rdma(a.rdma.or(file.rdma).as_deref())?,
            rdma_device: rdma_device(a.rdma_device.or(file.rdma_device))?,
            rdma_plaintext: a.rdma_plaintext || file.rdma_plaintext,
            json_logs: a.json || file.json_logs,
            predecessor_fd: a.predecessor_fd,
        })
    }

    /// What is in force, for `--check`: a line a setting, or JSON.
    pub fn describe(&self) -> String {
        let all = [
            ("listen", json!(self.listen)),
            ("tls", json!(self.tls)),
            ("http", json!(self.http.as_ref().map(|h| &h.0))),
            ("token_file", json!(self.token_file)),
            ("state_dir", json!(self.state_dir)),
            ("cert", json!(self.cert.as_ref().map(|c| &c.0))),
            ("key", json!(self.cert.as_ref().map(|c| &c.1))),
            ("client_ca", json!(self.client_ca)),
            ("policy", json!(self.policy)),
            ("api", json!(self.apis)),
            ("devices", json!(self.devices)),
            ("wait_for_devices", json!(self.wait_for_devices)),
            ("cuda_library", json!(self.cuda_library)),
            ("opencl_library", json!(self.opencl_library)),
            ("nccl_library", json!(self.nccl_library)),
            ("cupti_library", json!(self.cupti_library)),
            ("submitters", json!(self.submitters)),
            ("nvml_library", json!(self.nvml_library)),
            ("mps_control", json!(self.mps_control)),
            ("cache_dir", json!(self.cache_dir)),
            ("cache_size", json!(self.cache_limit >> 20)),
            ("resume_timeout", json!(self.resume_seconds)),
            ("max_sessions", json!(self.max_sessions)),
            ("isolation", json!(self.isolation)),
            ("turns", json!(self.turns)),
            ("kernel_limit", json!(shown(self.kernel_limit))),
            ("idle_timeout", json!(shown(self.idle_timeout))),
            ("swap_idle", json!(shown(self.swap_idle))),
            (
                "worker_uids",
                json!(format!("{}-{}", self.worker_uids.0, self.worker_uids.1)),
            ),
            ("audit", json!(self.audit)),
            ("drain", json!(time::show(self.drain))),
            ("links", json!(self.links)),
            ("fabric", json!(self.fabric)),
            ("rdma", json!(self.rdma.to_string())),
            ("rdma_device", json!(self.rdma_device)),
            ("rdma_plaintext", json!(self.rdma_plaintext)),
            ("json_logs", json!(self.json_logs)),
        ];
        if self.json_logs {
            let all: serde_json::Map<_, _> = all.map(|(k, v)| (k.into(), v)).into_iter().collect();
            return format!("{:#}", serde_json::Value::Object(all));
        }
        let line = |(name, value): (&str, serde_json::Value)| {
            let value = match value {
                serde_json::Value::Null if name == "devices" => "all".into(),
                serde_json::Value::Null => "-".into(),
                serde_json::Value::String(s) => s,
                other => other.to_string(),
            };
            format!("{name:<16} {value}")
        };
        all.map(line).join("\n")
    }

    /// What this server shows to clients that it encrypts for.
    pub fn own(&self, vault: &Vault) -> Result<tls::Server> {
        let read =
            |p: &Path| std::fs::read(p).with_context(|| format!("cannot read {}", p.display()));
        let of = |p: &Path| format!("{} is not good", p.display());
        let own = match &self.cert {
            None => vault.own()?,
            Some((cert, key)) => (
                tls::certificates(&read(cert)?).with_context(|| of(cert))?,
                tls::private_key(&read(key)?).with_context(|| of(key))?,
            ),
        };
        let authority = match &self.client_ca {
            None => None,
            Some(path) => Some(tls::certificates(&read(path)?).with_context(|| of(path))?),
        };
        tls::Server::new(own, authority.as_deref()).map_err(anyhow::Error::msg)
    }
}

/// Whether sessions move to RDMA. A server that must and cannot is none.
/// An address of this machine: as it is said, or that of an interface.
fn fabric(text: &str) -> Result<IpAddr> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let found = addresses_of(text).into_iter().find(|a| match a {
        IpAddr::V4(a) => !a.is_link_local(),
        IpAddr::V6(a) => !a.is_unicast_link_local(),
    });
    found.with_context(|| format!("--fabric {text}: no interface of this name has an address"))
}

/// The addresses of an interface, those of the older kind first.
fn addresses_of(interface: &str) -> Vec<IpAddr> {
    let (mut all, mut list) = (Vec::new(), std::ptr::null_mut());
    // SAFETY: a list of the C library's, which is walked to its end and given back; each address is
    // of the kind that its family says.
    unsafe {
        if libc::getifaddrs(&mut list) != 0 {
            return all;
        }
        let mut next = list;
        while let Some(one) = next.as_ref() {
            next = one.ifa_next;
            let named = CStr::from_ptr(one.ifa_name).to_bytes() == interface.as_bytes();
            let Some(address) = one.ifa_addr.as_ref().filter(|_| named) else {
                continue;
            };
            match i32::from(address.sa_family) {
                libc::AF_INET => {
                    let v4 = &*one.ifa_addr.cast::<libc::sockaddr_in>();
                    all.push(IpAddr::from(v4.sin_addr.s_addr.to_ne_bytes()));
                }
                libc::AF_INET6 => {
                    let v6 = &*one.ifa_addr.cast::<libc::sockaddr_in6>();
                    all.push(IpAddr::from(v6.sin6_addr.s6_addr));
                }
                _ => {}
            }
        }
        libc::freeifaddrs(list);
    }
    all.sort_by_key(IpAddr::is_ipv6);
    all
}

fn rdma(text: Option<&str>) -> Result<Wish> {
    let wish = text.unwrap_or("off").parse();
    let wish: Wish = wish.map_err(|e| anyhow::anyhow!("--rdma: {e}"))?;
    if let (Wish::On, Err(why)) = (wish, ib::seen()) {
        bail!("--rdma on: {why}");
    }
    Ok(wish)
}

fn rdma_device(text: Option<String>) -> Result<String> {
    let text = text.unwrap_or_default();
    let read = text.parse::<ib::Choice>();
    read.map_err(|e| anyhow::anyhow!("--rdma-device: {e}"))?;
    Ok(text)
}

/// How long something may last.
fn limit(flag: &str, text: Option<String>, unless: Option<Duration>) -> Result<Option<Duration>> {
    match text.as_deref() {
        None => Ok(unless),
        Some("off") => Ok(None),
        Some(text) => match time::parse(text) {
            Ok(d) if !d.is_zero() => Ok(Some(d)),
            _ => bail!("--{flag} {text}: say 30s, 10m or off"),
        },
    }
}

/// A limit, as it is set.
fn shown(limit: Option<Duration>) -> String {
    limit.map_or("off".into(), time::show)
}

/// What is wrong with a configuration file, and where, in one line.
fn mistake(path: &Path, text: &str, e: &toml::de::Error) -> anyhow::Error {
    let before = e.span().and_then(|s| text.get(..s.start));
    let line = before.map(|b| format!(", line {}", b.matches('\n').count() + 1));
    let what = e.message().trim().replace('\n', ", ");
    anyhow::anyhow!(
        "the configuration {}{} is not valid: {}",
        path.display(),
        line.unwrap_or_default(),
        what.replace("unknown field", "there is no key")
            .replace(", expected one of", ": choose from")
    )
}

/// Users that no system gives to anybody.
const UIDS: (u32, u32) = (2_000_000_000, 2_000_065_535);

/// A range of users.
fn uids(text: &str) -> Result<(u32, u32)> {
    let number = |t: &str| t.trim().parse::<u32>().ok();
    let ends = text.split_once('-').map(|(a, b)| (number(a), number(b)));
    match ends {
        Some((Some(first), Some(last))) if 0 < first && first <= last && last < u32::MAX => {
            Ok((first, last))
        }
        _ => bail!("{text} is no range of users that nobody has: say 2000000000-2000065535"),
    }
}

/// Root's cache must be a folder that only root can write to. The server itself opens nothing in
/// it.
fn check_cache(dir: &Path) -> Result<()> {
    let cannot = || format!("cannot use {} as the cache", dir.display());
    // SAFETY: no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        return Ok(());
    }
    match Folder::make(dir) {
        Ok(f) if !f.guarded(false).with_context(cannot)? => bail!(
            "others than root can write to the cache {}: choose a folder of root's",
            dir.display()
        ),
        // A link on the way that others could have made.
        Err(e) if e.kind() == ErrorKind::Other => Err(e).with_context(cannot),
        // Where none can be made the server does without.
        _ => Ok(()),
    }
}

/// Raises the limit of open files as far as it goes: each session takes some.
pub(crate) fn allow_many_files() {
    let mut l = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: a pointer to a live structure.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut l) == 0 {
            l.rlim_cur = l.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const l);
        }
    }
}

fn default_cache() -> Option<PathBuf> {
    let home = || std::env::var_os("HOME").map(|h| PathBuf::from(h).join(".cache"));
    let base = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(home)?;
    Some(base.join("busbar"))
}

/// Whether every address that `listen` names is reachable from this machine alone.
pub(crate) fn is_loopback(listen: &str) -> Result<bool> {
    let mut addresses = listen
        .to_socket_addrs()
        .with_context(|| format!("{listen} is no address to listen on"))?;
    Ok(addresses.len() > 0 && addresses.all(|a| a.ip().is_loopback()))
}

/// Where HTTP is to be spoken, and whether that is encrypted: on an address that others reach as on
/// the port for programs, on one of this machine alone if that is `wanted`.
fn http_at(at: String, encrypts: bool, wanted: bool, token: bool) -> Result<(String, bool)> {
    let here = is_loopback(&at).with_context(|| format!("--http {at}: say 127.0.0.1:7480"))?;
    if !here && !encrypts && !token {
        bail!(
            "--http {at} can be reached from other machines, and this server asks nobody who they \
             are: add --tls, or say --http 127.0.0.1:PORT"
        );
    }
    Ok((at, encrypts && (wanted || !here)))
}

/// Starts the structured log on stderr. A line that cannot be written (a full disk, a reader that
/// is gone) is left out: the sessions matter more. `BUSBAR_LOG=debug` says more, as of a program,
/// and `trace` each word about whose turn a device is.
pub(crate) fn start_log(json: bool) {
    let level = std::env::var("BUSBAR_LOG").unwrap_or_default();
    let level = match level.as_str() {
        "debug" => tracing::Level::DEBUG,
        "trace" => tracing::Level::TRACE,
        _ => tracing::Level::INFO,
    };
    let b = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .log_internal_errors(false)
        .with_target(false);
    let _ = if json {
        b.json().try_init()
    } else {
        b.with_ansi(false).try_init()
    };
}
