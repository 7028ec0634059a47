//! What the environment tells a client.
//!
//! In a program that has more rights than its caller (setuid, setgid, file capabilities) the
//! environment is the caller's, and says nothing here: it would have the program send a file that
//! only it can read to a server of the caller's choice, and write where the caller cannot.

pub use crate::shared::Sharing;
use busbar_control::hello::with_port;
use std::time::Duration;

/// A client's settings, all from `BUSBAR_*` variables, which `busbar run` sets.
#[derive(Debug, Clone)]
pub struct Config {
    /// `BUSBAR_SERVER`: `HOST:PORT` of the server; several, for servers side by side, with commas.
    pub servers: Vec<String>,
    /// `BUSBAR_TOKEN_FILE`: a file whose first line is the token.
    pub token_file: Option<String>,
    /// `BUSBAR_LEASE`: the lease that `busbar run` holds for its programs.
    pub lease: String,
    /// `BUSBAR_CONNECT_TIMEOUT` in seconds: how long to try to reach a server at first.
    pub connect_timeout: Duration,
    /// `BUSBAR_RESUME_TIMEOUT` in seconds: how long to try to get a lost link back.
    pub resume_timeout: Duration,
    /// `BUSBAR_SILENCE_TIMEOUT` in seconds: how long a server may say nothing, though it is asked,
    /// before the link counts as lost; 0 for ever.
    pub silence_timeout: Option<Duration>,
    /// Optimisations that are switched off, by name; see [`busbar_channel::switches`].
    pub off: Vec<String>,
    /// `BUSBAR_SHM`: 0 for no memory shared with a worker on the same host; 1 for sharing it even
    /// when the connection is forwarded.
    pub sharing: Sharing,
    /// `BUSBAR_SIDE`: 1 for a second connection from the start; 0 for none is in `off`.
    pub side_at_once: bool,
    /// `BUSBAR_POINTERS`: whether every word of a kernel's parameters that could be an address of
    /// page-locked memory counts as one.
    pub all_pointers: bool,
}

/// A variable of the environment, if that is to be trusted.
pub fn var(name: &str) -> Option<String> {
    // SAFETY: reads what the kernel told the process as it started.
    let secure = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    std::env::var(name).ok().filter(|_| !secure)
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
        let servers = var("BUSBAR_SERVER")
            .split(',')
            .map(|s| with_port(s.trim()))
            .filter(|s| !s.is_empty())
            .collect();
        Self {
            servers,
            token_file: Some(var("BUSBAR_TOKEN_FILE")).filter(|s| !s.is_empty()),
            lease: var("BUSBAR_LEASE"),
            connect_timeout: seconds("BUSBAR_CONNECT_TIMEOUT", 4),
            resume_timeout: seconds("BUSBAR_RESUME_TIMEOUT", 60),
            // A busy worker says four times a second that it lives.
            silence_timeout: Some(seconds("BUSBAR_SILENCE_TIMEOUT", 60))
                .filter(|d| !d.is_zero())
                .map(|d| d.max(Duration::from_secs(1))),
            off: busbar_channel::switches::read_off(env),
            sharing: match var("BUSBAR_SHM").as_str() {
                "0" => Sharing::Never,
                "1" => Sharing::Always,
                _ => Sharing::Direct,
            },
            side_at_once: var("BUSBAR_SIDE") == "1",
            all_pointers: var("BUSBAR_POINTERS") == "all",
        }
    }

    /// The token, or why it cannot be read.
    pub fn token(&self) -> Result<String, String> {
        let Some(path) = &self.token_file else {
            return Ok(String::new());
        };
        let text = std::fs::read_to_string(path)
            .map_err(|e| format!("cannot read the token file {path}: {e}"))?;
        Ok(text.lines().next().unwrap_or_default().trim().to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::{Config, var};
    use std::os::unix::fs::{PermissionsExt, chown};
    use std::process::Command;

    const CHILD: &str = "TEST_OF_SETUID";

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
            let seen = (c.servers, c.token_file, var("BUSBAR_STATS"), log);
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
        assert!(setuid.contains("=[([], None, None, false)]"), "{setuid}");
    }
}
