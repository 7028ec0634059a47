//! The servers that somebody has logged in to: where they are, by what they are known, what they
//! are shown. `busbar login` writes the list, and each program looks its server up in it.

use crate::env::var;
use busbar_control::hello::with_port;
use busbar_transport::tls::Fingerprint;
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A server.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Server {
    /// `HOST:PORT`
    pub address: String,
    /// The fingerprint of its key.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// What it is shown.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub token: String,
    /// Where there is no key: a file with the certificates that vouch for it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ca: String,
    /// A file with the certificate that it is shown, and one with the key of that.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cert: String,
    #[allow(missing_docs)]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cert_key: String,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.address, self.key)
    }
}

/// How a line begins that says all there is to know of a server.
const SCHEME: &str = "busbar://";

/// How the name of a domain begins whose servers DNS names.
const SRV: &str = "srv:";

/// A server's address with its port, or why it is none.
fn address(text: &str) -> Result<String, String> {
    if let Some(domain) = text.strip_prefix(SRV) {
        let domain = domain.trim_end_matches('.').to_lowercase();
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        return match !domain.is_empty() && domain.chars().all(plain) {
            true => Ok(format!("{SRV}{domain}")),
            false => Err(format!(
                "`{text}` names no domain: say {SRV}gpus.example.org"
            )),
        };
    }
    if let Some((scheme, rest)) = text.split_once("://") {
        let host = rest.split(['/', ':', '?']).next().unwrap_or_default();
        return Err(format!(
            "`{text}` is an address for {scheme}: a server's is HOST:PORT, such as {}, or the line \
             that it printed, which begins with {SCHEME}",
            with_port(host)
        ));
    }
    let address = with_port(text);
    let (host, port) = address.rsplit_once(':').unwrap_or_default();
    if host.contains(|c: char| c.is_whitespace() || matches!(c, '/' | '@' | '?')) {
        return Err(format!(
            "`{text}` is no HOST:PORT; the line that a server printed begins with {SCHEME}"
        ));
    }
    match port.parse::<u16>() {
        Err(_) | Ok(0) if !text.is_empty() => Err(format!(
            "`{text}` has no port from 1 to 65535 behind its colon: say HOST:PORT"
        )),
        _ => Ok(address),
    }
}

impl FromStr for Server {
    type Err = String;

    /// `HOST[:PORT]`, or `busbar://[TOKEN@]HOST[:PORT][?key=FINGERPRINT]`.
    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let Some(line) = text.strip_prefix(SCHEME) else {
            return Ok(Self {
                address: address(text)?,
                ..Self::default()
            });
        };
        let (place, asked) = line.split_once('?').unwrap_or((line, ""));
        let (token, host) = place.rsplit_once('@').unwrap_or(("", place));
        let host = host.trim_end_matches('/');
        if host.is_empty() {
            return Err("the line names no host: busbar://TOKEN@HOST:PORT?key=KEY".into());
        }
        let mut server = Self {
            address: address(host)?,
            token: token.into(),
            ..Self::default()
        };
        for pair in asked.split('&').filter(|p| !p.is_empty()) {
            match pair.split_once('=') {
                Some(("key", _)) if server.domain().is_some() => {
                    return Err(
                        "a key is one server's: those that DNS names are known by an authority \
                         (busbar login --ca FILE)"
                            .into(),
                    );
                }
                Some(("key", key)) => server.key = Fingerprint::from_str(key)?.to_string(),
                _ => {
                    return Err(format!(
                        "the line has `{pair}`, and only key=KEY makes sense"
                    ));
                }
            }
        }
        Ok(server)
    }
}

impl Server {
    /// The line that says all there is to know of it.
    pub fn line(&self) -> String {
        let at = if self.token.is_empty() { "" } else { "@" };
        let key = if self.key.is_empty() { "" } else { "?key=" };
        let (token, address) = (&self.token, &self.address);
        format!("{SCHEME}{token}{at}{address}{key}{}", self.key)
    }

    /// The domain whose servers DNS names, if it stands for these.
    pub fn domain(&self) -> Option<&str> {
        self.address.strip_prefix(SRV)
    }

    /// Whether it stands for the server at an address as one of its domain: DNS is believed by
    /// nobody, so what is known of them holds for hosts below that domain, and for no others.
    fn has(&self, address: &str) -> bool {
        let host = address.rsplit_once(':').map_or(address, |(h, _)| h);
        self.domain().is_some_and(|d| {
            let below = host.strip_suffix(d);
            below.is_some_and(|b| b.is_empty() || b.ends_with('.'))
        })
    }

    /// What of it is not known, as `other` says it.
    pub fn or(self, other: Self) -> Self {
        let or = |a: String, b: String| if a.is_empty() { b } else { a };
        // One by which it is known is enough: the other could be an older one's.
        let known = !self.key.is_empty() || !self.ca.is_empty();
        let (key, ca) = match known {
            true => (self.key, self.ca),
            false => (other.key, other.ca),
        };
        Self {
            address: or(self.address, other.address),
            key,
            token: or(self.token, other.token),
            ca,
            cert: or(self.cert, other.cert),
            cert_key: or(self.cert_key, other.cert_key),
        }
    }
}

/// The most servers that a program has CUDA devices of.
pub const MOST_SERVERS: usize = 16;

/// The PCI domain of a device of so manieth a server of its program, as all of the program's
/// processes see it: libraries know a device by where it is on the bus, and servers of one kind
/// have theirs at the same places. Domains have 16 bits, and a machine's own are small numbers.
pub fn domain(server: usize, own: u32) -> u32 {
    own ^ (server as u32 & 0xff) << 8
}

/// The list.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Servers {
    /// The one that is used where none is named comes first.
    pub server: Vec<Server>,
}

impl Servers {
    /// Where the list is: `BUSBAR_CONFIG`, or a place in the user's configuration.
    pub fn path() -> Option<PathBuf> {
        let some = |name: &str| var(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        let home = || Some(some("HOME")?.join(".config"));
        some("BUSBAR_CONFIG").or_else(|| {
            let base = some("XDG_CONFIG_HOME").or_else(home)?;
            Some(base.join("busbar/config.toml"))
        })
    }

    /// The list that a file's text is, or what is wrong in which line of it.
    fn parse(text: &str) -> Result<Self, String> {
        let line = |at: usize| text[..text.floor_char_boundary(at)].split('\n').count();
        let all: Self = toml::from_str(text).map_err(|e| {
            let at = e.span().map(|s| format!(", line {}", line(s.start)));
            let why = e.message().replace('\n', ", ");
            format!("{} is not valid: {why}", at.unwrap_or_default())
        })?;
        match all.server.iter().find_map(|s| address(&s.address).err()) {
            Some(why) => Err(format!(" is not valid: {why}")),
            None => Ok(all),
        }
    }

    /// The list, or why it cannot be read; where there is no file, there is nobody on it.
    pub fn read(path: &Path) -> Result<Self, String> {
        let show = path.display();
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(&text).map_err(|e| format!("{show}{e}")),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(e) => Err(format!("cannot read {show}: {e}")),
        }
    }

    /// Writes the list, for its owner's eyes alone.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let text = toml::to_string(self).map_err(io::Error::other)?;
        if let Some(folder) = path.parent() {
            let mut make = std::fs::DirBuilder::new();
            make.recursive(true).mode(0o700).create(folder)?;
        }
        // Whoever reads it meanwhile finds the old one or the new one.
        let new = path.with_extension(format!("{}.new", std::process::id()));
        let mut how = std::fs::OpenOptions::new();
        how.write(true).create_new(true).mode(0o600);
        let written = how
            .open(&new)
            .and_then(|mut f| f.write_all(text.as_bytes()).and_then(|()| f.sync_all()))
            .and_then(|()| std::fs::rename(&new, path));
        written.inspect_err(|_| drop(std::fs::remove_file(&new)))
    }

    /// What is known of the server at an address.
    pub fn at(&self, address: &str) -> Option<&Server> {
        let own = self.server.iter().find(|s| s.address == address);
        own.or_else(|| self.server.iter().find(|s| s.has(address)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_line_says_where_a_server_is_and_by_what_it_is_known() {
        let key = "0123456789abcdef".repeat(4);
        let line = format!("busbar://secret@gpu-host:7401?key={key}");
        let s: Server = line.parse().unwrap();
        assert_eq!((&*s.address, &*s.token), ("gpu-host:7401", "secret"));
        assert_eq!((&s.key, s.line()), (&key, line));
        assert!(!format!("{s:?}").contains("secret"));
        let s: Server = format!("busbar://[::1]?key={key}").parse().unwrap();
        assert_eq!((&*s.address, &*s.token), ("[::1]:7400", ""));
        let s: Server = " gpu-host".parse().unwrap();
        assert_eq!((&*s.address, &*s.key), ("gpu-host:7400", ""));
        for (bad, why) in [
            ("busbar://", "no host"),
            ("busbar://x@?key=1", "no host"),
            ("busbar://h?key=12", "64 hexadecimal"),
            (
                &format!("busbar://h?key={}", "+1".repeat(32)),
                "64 hexadecimal",
            ),
            ("busbar://h?kex=1", "only key=KEY"),
            ("http://gpu-host:8080/x", "such as gpu-host:7400"),
            ("https://gpu", "an address for https"),
            ("gpu-host:http", "no port from 1 to 65535"),
            ("gpu-host:0", "no port from 1 to 65535"),
            ("gpu-host:99999", "no port from 1 to 65535"),
            ("secret@gpu-host", "begins with busbar://"),
            ("gpu host", "is no HOST:PORT"),
            ("busbar://t@h:x?key=1", "no port from 1 to 65535"),
            ("srv:", "names no domain"),
            ("srv:a/b", "names no domain"),
            ("busbar://t@srv:a?key=1", "known by an authority"),
        ] {
            let e = bad.parse::<Server>().unwrap_err();
            assert!(e.contains(why), "{e}");
        }
    }

    #[test]
    fn a_list_is_its_owners_alone_and_stays_as_it_was_written() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("new/busbar/config.toml");
        assert_eq!(Servers::read(&path), Ok(Servers::default()));
        let one: Server = format!("busbar://t@a?key={}", "0f".repeat(32))
            .parse()
            .unwrap();
        let two: Server = "b:1".parse().unwrap();
        let list = Servers {
            server: vec![one.clone(), two],
        };
        list.write(&path).unwrap();
        list.write(&path).unwrap();
        assert_eq!(Servers::read(&path).as_ref(), Ok(&list));
        assert_eq!(list.at("a:7400"), Some(&one));
        assert_eq!(list.at("a:7401"), None);
        let mode = |p: &Path| std::fs::metadata(p).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        for (bad, word) in [
            ("adress = 1", ", line 2 is not valid"),
            ("address = 'a:x'", "`a:x`"),
        ] {
            std::fs::write(&path, format!("[[server]]\n{bad}\n")).unwrap();
            assert!(Servers::read(&path).unwrap_err().contains(word));
        }
    }

    #[test]
    fn a_domain_stands_for_the_servers_below_it_and_for_no_others() {
        let pool: Server = "busbar://t@srv:GPUs.example.".parse().unwrap();
        assert_eq!(pool.address, "srv:gpus.example");
        assert_eq!(pool.line(), "busbar://t@srv:gpus.example");
        let own: Server = "busbar://own@a.gpus.example:1".parse().unwrap();
        let list = Servers {
            server: vec![pool, own],
        };
        let token = |at: &str| list.at(at).map(|s| s.token.as_str());
        assert_eq!(token("a.gpus.example:7400"), Some("t"));
        assert_eq!(token("gpus.example:9"), Some("t"));
        assert_eq!(token("a.gpus.example:1"), Some("own"));
        for other in ["evilgpus.example:1", "gpus.example.evil:1", "evil:1"] {
            assert_eq!(token(other), None, "{other}");
        }
    }

    #[test]
    fn what_is_said_last_counts_and_a_key_is_never_mixed_with_an_authority() {
        let server = |key: &str, ca: &str, token: &str| Server {
            key: key.into(),
            ca: ca.into(),
            token: token.into(),
            ..Server::default()
        };
        assert_eq!(
            server("", "", "new").or(server("k", "", "old")),
            server("k", "", "new")
        );
        assert_eq!(
            server("k", "", "").or(server("", "c", "t")),
            server("k", "", "t")
        );
    }
}
