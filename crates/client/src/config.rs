//! What the environment tells a client.
//!
//! In a program that has more rights than its caller (setuid, setgid, file capabilities) the
//! environment is the caller's, and says nothing here: it would have the program send a file that
//! only it can read to a server of the caller's choice, and write where the caller cannot.

pub use crate::env::var;
use crate::ranks::{self, Spot};
use crate::servers::{Server, Servers};
pub use crate::shared::Sharing;
use busbar_control::hello::Mode;
use busbar_control::{share, size};
use busbar_transport::Dialer;
use busbar_transport::rdma::Settings;
use busbar_transport::stream::Route;
use busbar_transport::tcp::Address;
use busbar_transport::tls::{self, Client, Trust};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// A client's settings, all from `BUSBAR_*` variables, which `busbar run` sets.
#[derive(Debug, Clone)]
pub struct Config {
    /// `BUSBAR_SERVER`: `HOST:PORT` of the server; several, for servers side by side, with commas.
    /// One may be a whole line, as `busbar login` takes it.
    pub servers: Vec<String>,
    /// What those lines say.
    pub lines: Vec<Server>,
    /// What is wrong with them.
    pub mistake: Option<String>,
    /// `BUSBAR_CONFIG`: the list of the servers that somebody has logged in to.
    pub list: Option<PathBuf>,
    /// `BUSBAR_TOKEN`: the token.
    pub token: Option<String>,
    /// `BUSBAR_TOKEN_FILE`: a file whose first line is the token.
    pub token_file: Option<String>,
    /// `BUSBAR_PLAINTEXT`: 1 for talking in clear to servers whose key is not known.
    pub plaintext: bool,
    /// `BUSBAR_LEASE`: the lease that `busbar run` holds for its programs; of several servers, each
    /// one's as `HOST:PORT=LEASE`, with commas.
    pub lease: String,
    /// `BUSBAR_MEMORY`: the bytes of device memory that a session is to have for itself; 0 for a
    /// share of what is free.
    pub memory: u64,
    /// `BUSBAR_SHARE`: the thousandths of a device's time that are to be promised to a session; 0
    /// for as much as others have.
    pub share: u32,
    /// `BUSBAR_PRIORITY`: who goes first, the higher.
    pub priority: i32,
    /// `BUSBAR_IDLE_TIMEOUT` in seconds: for how long a session may do nothing until its share of
    /// time is others'; 0 for ever.
    pub idle: u32,
    /// `BUSBAR_MODE`: `isolated` or `dense`: how a session has its devices beside others.
    pub mode: Mode,
    /// `BUSBAR_PARTS`: on how many devices a session is to have its part; 0 for one.
    pub parts: u32,
    /// `BUSBAR_DRAWN`: 1 where the program's lease has parts of its devices, of which each session
    /// has those that its process uses.
    pub drawn: bool,
    /// `BUSBAR_DEVICES`: the devices of the program, in its order, where it has not just all of
    /// each of its servers.
    pub devices: Vec<Spot>,
    /// `BUSBAR_CONNECT_TIMEOUT` in seconds: how long to try to reach a server at first.
    pub connect_timeout: Duration,
    /// `BUSBAR_RESUME_TIMEOUT` in seconds: how long to try to get a lost link back.
    pub resume_timeout: Duration,
    /// `BUSBAR_SILENCE_TIMEOUT` in seconds: how long a server may say nothing, though it is asked,
    /// before the link counts as lost; 0 for ever.
    pub silence_timeout: Option<Duration>,
    /// Optimisations that are switched off, by name; see [`busbar_channel::switches`].
    pub off: Vec<String>,
    /// What the driver is told by the environment: see [`busbar_control::driver`].
    pub driver: Vec<(String, String)>,
    /// `BUSBAR_SHM`: 0 for no memory shared with a worker on the same host; 1 for sharing it even
    /// when the connection is forwarded.
    pub sharing: Sharing,
    /// `BUSBAR_SIDE`: how many side connections there are from the start; 0 for none ever is in
    /// `off`.
    pub sides_at_once: usize,
    /// `BUSBAR_RDMA`: `auto`, `on` or `off`; `BUSBAR_RDMA_DEVICE`: the port to use, and how;
    /// `BUSBAR_RDMA_PLAINTEXT`: 1 for not encrypting what goes over it, if the server says so, too.
    pub rdma: Settings,
    /// `CUDA_MODULE_LOADING`: whether modules are loaded whole, as the driver says of itself.
    pub eager: bool,
}

impl Config {
    /// Reads the environment.
    pub fn from_env() -> Self {
        let env = var;
        let var = |name: &str| env(name).unwrap_or_default();
        let seconds = |name: &str, default: u64| {
            let v = var(name).parse().unwrap_or(default as f64);
            Duration::from_secs_f64(v.clamp(0.0, 86_400.0))
        };
        let named = var("BUSBAR_SERVER");
        let named = named.split(',').filter(|s| !s.trim().is_empty());
        let (mut lines, mut mistake) = (Vec::<Server>::new(), None);
        for s in named {
            match s.parse::<Server>() {
                Ok(s) if s.domain().is_some() => {
                    let why = "BUSBAR_SERVER names a domain: `busbar run` asks DNS for its servers";
                    mistake = Some(why.into());
                }
                Ok(s) => lines.push(s),
                Err(e) => mistake = Some(e),
            }
        }
        let memory = match var("BUSBAR_MEMORY").as_str() {
            "" => 0,
            text => size::parse(text).unwrap_or_else(|e| {
                mistake = Some(format!("BUSBAR_MEMORY: {e}"));
                0
            }),
        };
        let mut number = |name: &str| match var(name).as_str() {
            "" => 0,
            text => text.trim().parse::<i32>().unwrap_or_else(|_| {
                mistake = Some(format!("{name}: `{text}` is no number"));
                0
            }),
        };
        let (priority, parts) = (number("BUSBAR_PRIORITY"), number("BUSBAR_PARTS"));
        let devices = ranks::parse(&var("BUSBAR_DEVICES")).unwrap_or_else(|e| {
            mistake = Some(e);
            Vec::new()
        });
        let share = match var("BUSBAR_SHARE").as_str() {
            "" => 0,
            text => share::parse(text).unwrap_or_else(|e| {
                mistake = Some(format!("BUSBAR_SHARE: {e}"));
                0
            }),
        };
        let mode = var("BUSBAR_MODE").parse().unwrap_or_else(|e| {
            mistake = Some(format!("BUSBAR_MODE: {e}"));
            Mode::default()
        });
        let mut rdma = Settings::default();
        match (
            var("BUSBAR_RDMA").parse(),
            var("BUSBAR_RDMA_DEVICE").parse(),
        ) {
            (Ok(wish), Ok(choice)) => (rdma.wish, rdma.choice) = (wish, choice),
            (Err(e), _) => mistake = Some(format!("BUSBAR_RDMA: {e}")),
            (_, Err(e)) => mistake = Some(format!("BUSBAR_RDMA_DEVICE: {e}")),
        }
        rdma.plain = var("BUSBAR_RDMA_PLAINTEXT") == "1";
        Self {
            rdma,
            memory,
            share,
            mode,
            devices,
            drawn: var("BUSBAR_DRAWN") == "1",
            idle: seconds("BUSBAR_IDLE_TIMEOUT", 0).as_secs() as u32,
            priority,
            parts: parts.clamp(0, 64) as u32,
            servers: lines.iter().map(|s| s.address.clone()).collect(),
            lines,
            mistake,
            list: Servers::path(),
            token: Some(var("BUSBAR_TOKEN")).filter(|s| !s.is_empty()),
            plaintext: var("BUSBAR_PLAINTEXT") == "1",
            token_file: Some(var("BUSBAR_TOKEN_FILE")).filter(|s| !s.is_empty()),
            lease: var("BUSBAR_LEASE"),
            connect_timeout: seconds("BUSBAR_CONNECT_TIMEOUT", 4),
            resume_timeout: seconds("BUSBAR_RESUME_TIMEOUT", 60),
            // A busy worker says four times a second that it lives.
            silence_timeout: Some(seconds("BUSBAR_SILENCE_TIMEOUT", 60))
                .filter(|d| !d.is_zero())
                .map(|d| d.max(Duration::from_secs(1))),
            off: busbar_channel::switches::read_off(env),
            driver: busbar_control::driver::of_environment(env),
            sharing: match var("BUSBAR_SHM").as_str() {
                "0" => Sharing::Never,
                "1" => Sharing::Always,
                _ => Sharing::Direct,
            },
            sides_at_once: var("BUSBAR_SIDE").parse().unwrap_or(0),
            eager: var("CUDA_MODULE_LOADING").eq_ignore_ascii_case("eager"),
        }
    }

    /// The lease at a server; empty without one.
    pub fn lease_at(&self, server: &str) -> &str {
        let mut all = self
            .lease
            .split(',')
            .filter_map(|l| match l.rsplit_once('=') {
                Some((of, lease)) => (of == server).then_some(lease),
                None => Some(l),
            });
        all.next().unwrap_or_default()
    }

    /// The token that the environment names, or why it cannot be read.
    pub fn token(&self) -> Result<String, String> {
        if let Some(token) = &self.token {
            return Ok(token.trim().to_string());
        }
        let Some(path) = &self.token_file else {
            return Ok(String::new());
        };
        let text = std::fs::read_to_string(path)
            .map_err(|e| format!("cannot read the token file {path}: {e}"))?;
        Ok(text.lines().next().unwrap_or_default().trim().to_string())
    }

    /// What is known of the server at an address: what the environment says of it goes before what
    /// is on the list.
    pub fn server(&self, address: &str) -> Result<Server, String> {
        if let Some(why) = &self.mistake {
            return Err(why.clone());
        }
        let line = self.lines.iter().find(|s| s.address == address);
        let line = line.cloned().unwrap_or_else(|| Server {
            address: address.into(),
            ..Server::default()
        });
        let token = match line.token.is_empty() {
            true => self.token()?,
            false => line.token.clone(),
        };
        let said = Server { token, ..line };
        let list = self.list.as_deref().map(Servers::read).transpose()?;
        let listed = list.and_then(|l| l.at(address).cloned());
        Ok(said.or(listed.unwrap_or_default()))
    }

    /// The way to the server at an address: encrypted, but on this very machine and where somebody
    /// said otherwise.
    pub fn route(&self, address: Address) -> Result<Route, String> {
        let server = self.server(&address.peer())?;
        let host = server.address.rsplit_once(':').map_or("", |(h, _)| h);
        let host = host.trim_matches(['[', ']']);
        let read = |what: &str, path: &str| {
            std::fs::read(path).map_err(|e| format!("cannot read the {what} {path}: {e}"))
        };
        let of = |what: &str, path: &str, e| format!("the {what} {path} is not good: {e}");
        let own = match server.cert.as_str() {
            "" => None,
            path => {
                let chain = tls::certificates(&read("certificate", path)?);
                let chain = chain.map_err(|e| of("certificate", path, e))?;
                // Both may be in one file.
                let path = Some(&*server.cert_key)
                    .filter(|k| !k.is_empty())
                    .unwrap_or(path);
                let key = tls::private_key(&read("certificate's key", path)?);
                Some((chain, key.map_err(|e| of("certificate's key", path, e))?))
            }
        };
        let trust = if !server.key.is_empty() {
            Some(Trust::Key(server.key.parse()?))
        } else if !server.ca.is_empty() {
            let all = tls::certificates(&read("authority's certificate", &server.ca)?);
            let all = all.map_err(|e| of("authority's certificate", &server.ca, e))?;
            Some(Trust::Authority(all))
        } else if self.plaintext || is_here(host) {
            None
        } else {
            return Err(format!(
                "the key of the server {} is not known: log in with the line that it prints \
                 (`busbar login busbar://...`); --plaintext (BUSBAR_PLAINTEXT=1) talks to it in \
                 clear, for everybody on the way to read and to change",
                server.address
            ));
        };
        let tls = trust.map(|t| Client::new(host, t, own)).transpose()?;
        Ok(Route::new(address, tls))
    }
}

/// Whether what is sent to a host stays on this machine.
fn is_here(host: &str) -> bool {
    let host = host.trim_end_matches('.');
    host == "localhost" || host.parse().is_ok_and(|a: IpAddr| a.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::{Config, is_here, var};
    use crate::servers::Servers;
    use busbar_transport::tcp::Address;
    use std::os::unix::fs::{PermissionsExt, chown};
    use std::process::Command;

    const CHILD: &str = "TEST_OF_SETUID";

    fn config(servers: &[&str]) -> Config {
        let mut c = Config::from_env();
        c.lines = servers.iter().map(|s| s.parse().unwrap()).collect();
        (c.token, c.token_file, c.list, c.plaintext) = (None, None, None, false);
        c
    }

    #[test]
    fn nothing_is_sent_in_clear_to_another_machine_unless_somebody_says_so() {
        let route = |c: &Config, a: &str| c.route(Address::new(a)).map(|r| r.is_encrypted());
        let mut c = config(&[]);
        for here in ["127.0.0.1:7400", "localhost:1", "[::1]:7400"] {
            assert_eq!(route(&c, here), Ok(false), "{here}");
        }
        for there in [
            "10.0.0.1:7400",
            "localhost.example:1",
            "127.0.0.1.example:1",
            "[::2]:1",
        ] {
            assert!(
                route(&c, there).unwrap_err().contains("is not known"),
                "{there}"
            );
        }
        c.plaintext = true;
        assert_eq!(route(&c, "10.0.0.1:7400"), Ok(false));
        // Where a key is known, nothing else will do.
        let line = format!("busbar://10.0.0.1?key={}", "0a".repeat(32));
        let mut c = config(&[&line]);
        c.plaintext = true;
        assert_eq!(route(&c, "10.0.0.1:7400"), Ok(true));
        assert!(!is_here("") && !is_here("127.1.example"));
    }

    #[test]
    fn the_environment_goes_before_the_list() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("config.toml");
        let key = "0a".repeat(32);
        let server = vec![format!("busbar://listed@gpu?key={key}").parse().unwrap()];
        Servers { server }.write(&path).unwrap();
        let mut c = config(&["gpu", "busbar://line@gpu:1"]);
        c.list = Some(path);
        let token = |c: &Config, at: &str| c.server(at).unwrap().token;
        assert_eq!(token(&c, "gpu:7400"), "listed");
        assert_eq!(c.server("gpu:7400").unwrap().key, key);
        assert_eq!(token(&c, "gpu:1"), "line");
        assert_eq!(token(&c, "gpu:2"), "");
        c.token = Some("said".into());
        assert_eq!(token(&c, "gpu:7400"), "said");
        assert_eq!(token(&c, "gpu:1"), "line");
        c.mistake = Some("no".into());
        assert!(c.server("gpu:7400").is_err());
    }

    /// Runs this very test in a copy of this program that belongs to another user, as that user or
    /// not.
    fn child(exe: &std::path::Path, mode: u32) -> String {
        std::fs::set_permissions(exe, PermissionsExt::from_mode(mode)).unwrap();
        let out = Command::new(exe)
            .args(["--exact", "--nocapture"])
            .arg("config::tests::a_setuid_program_heeds_nothing_in_its_environment")
            .env(CHILD, "1")
            .env("BUSBAR_SERVER", "evil")
            .env("BUSBAR_TOKEN_FILE", "/etc/shadow")
            .env("BUSBAR_TOKEN", "token")
            .env("BUSBAR_CONFIG", "/etc/gshadow")
            .env("BUSBAR_PLAINTEXT", "1")
            .env("BUSBAR_LOG", "debug:/tmp/busbar-setuid.log")
            .env("BUSBAR_STATS", "1")
            .output()
            .unwrap();
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    #[test]
    fn a_setuid_program_heeds_nothing_in_its_environment() {
        if std::env::var_os(CHILD).is_some() {
            let c = Config::from_env();
            let log = crate::log::enabled(crate::log::Level::Error);
            let secret = (c.token, c.token_file, c.list, c.plaintext);
            let seen = (c.servers, secret, var("BUSBAR_STATS"), log);
            std::io::Write::write_all(&mut std::io::stdout(), format!("=[{seen:?}]\n").as_bytes())
                .unwrap();
            return;
        }
        // SAFETY: no preconditions.
        if unsafe { libc::geteuid() } != 0 {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let exe = dir.path().join("program");
        std::fs::copy(std::env::current_exe().unwrap(), &exe).unwrap();
        chown(&exe, Some(65534), Some(65534)).unwrap();
        let plain = child(&exe, 0o755);
        assert!(
            plain.contains("evil:7400") && plain.contains("shadow"),
            "{plain}"
        );
        let setuid = child(&exe, 0o4755);
        assert!(
            setuid.contains("=[([], (None, None, None, false), None, false)]"),
            "{setuid}"
        );
    }
}
