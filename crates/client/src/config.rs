//! What the environment tells a client.

use crate::shared::Sharing;
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

impl Config {
    /// Reads the environment.
    pub fn from_env() -> Self {
        let var = |name: &str| std::env::var(name).unwrap_or_default();
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
            off: busbar_channel::switches::read_off(|name| std::env::var(name).ok()),
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

/// `addr` with the default port where it names none.
pub fn with_port(addr: &str) -> String {
    let has_port = match addr.rfind(':') {
        None => false,
        Some(i) => {
            !addr.starts_with('[') && addr.matches(':').count() == 1 || addr[..i].ends_with(']')
        }
    };
    if addr.is_empty() || has_port {
        addr.to_string()
    } else if addr.contains(':') && !addr.starts_with('[') {
        format!("[{addr}]:{}", busbar_wire::hello::DEFAULT_PORT)
    } else {
        format!("{addr}:{}", busbar_wire::hello::DEFAULT_PORT)
    }
}

#[cfg(test)]
mod tests {
    use super::with_port;

    #[test]
    fn a_server_without_a_port_gets_the_default() {
        assert_eq!(with_port("gpu-host"), "gpu-host:7400");
        assert_eq!(with_port("gpu-host:1"), "gpu-host:1");
        assert_eq!(with_port("[::1]"), "[::1]:7400");
        assert_eq!(with_port("[::1]:5"), "[::1]:5");
        assert_eq!(with_port("fe80::1"), "[fe80::1]:7400");
        assert_eq!(with_port(""), "");
    }
}
