//! What a server keeps from start to start: its key, and the tokens that it takes.
//!
//! Of a token only its hash is kept, so that whoever reads the folder cannot show one. The folder
//! and its files are the server's user's alone.

use crate::folder::{Folder, Version};
use anyhow::{Context, Result, bail};
use busbar_control::text::to_hex;
use busbar_transport::tls::{Fingerprint, Own};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde::{Deserialize, Serialize};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use zeroize::Zeroizing;

const KEY: &str = "key.der";
const TOKENS: &str = "tokens.toml";
/// Where the server was last, and by what it is known: what a line to log in with is made of.
const PLACE: &str = "place";

/// The folder.
pub struct Vault {
    folder: Folder,
    path: PathBuf,
}

/// A token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Token {
    /// What it is called.
    pub name: String,
    /// Whose sessions are opened with it.
    pub tenant: String,
    /// Whether it shows what all tenants do.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub admin: bool,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// When it is good no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
    /// When it was revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<u64>,
    /// BLAKE3 of the secret, in hexadecimal digits.
    pub hash: String,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Tokens {
    token: Vec<Token>,
}

impl Token {
    /// Why it is good no more, if it is not.
    pub fn over(&self) -> Option<String> {
        let name = &self.name;
        if self.revoked.is_some() {
            return Some(format!("the token `{name}` was revoked"));
        }
        let expired = self.expires.is_some_and(|e| e <= now());
        expired.then(|| format!("the token `{name}` has expired"))
    }
}

/// Seconds since 1970.
pub fn now() -> u64 {
    let since = SystemTime::UNIX_EPOCH.elapsed();
    since.map_or(0, |d| d.as_secs())
}

/// The folder of a server that is a service: of root's, or of the user that it belongs to.
const OF_THE_SERVICE: &str = "/var/lib/busbar";

/// The folder that is used where none is named.
pub fn default_folder() -> Option<PathBuf> {
    // SAFETY: no preconditions.
    let me = unsafe { libc::geteuid() };
    let owner = std::fs::metadata(OF_THE_SERVICE).map(|m| m.uid());
    if me == 0 || owner.is_ok_and(|o| o == me) {
        return Some(OF_THE_SERVICE.into());
    }
    let some = |name| {
        std::env::var_os(name)
            .filter(|v| !v.is_empty())
            .map(PathBuf::from)
    };
    let home = || Some(some("HOME")?.join(".local/state"));
    Some(some("XDG_STATE_HOME").or_else(home)?.join("busbar"))
}

/// Random bytes that nobody can guess, in digits.
pub fn random(bytes: usize) -> Result<Zeroizing<String>> {
    let mut bytes = Zeroizing::new(vec![0; bytes]);
    getrandom::fill(&mut bytes[..]).context("there are no random numbers")?;
    Ok(Zeroizing::new(to_hex(&bytes)))
}

/// Whether a text does for a token's name, or a tenant's.
fn check_name(what: &str, name: &str) -> Result<()> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.@".contains(c);
    if name.is_empty() || name.len() > 64 || !name.chars().all(plain) {
        bail!("`{name}` is no name for a {what}: use up to 64 letters, digits, and - _ . @");
    }
    Ok(())
}

impl Vault {
    /// Opens the folder, and makes it if it is not there.
    pub fn open(path: Option<&Path>) -> Result<Self> {
        let Some(path) = path.map(Path::to_path_buf).or_else(default_folder) else {
            bail!("there is no home folder to keep a key and tokens in: name one with --state-dir");
        };
        let owner = std::fs::metadata(&path).map_or(0, |m| m.uid());
        // SAFETY: no preconditions.
        if unsafe { libc::geteuid() } == 0 && owner != 0 {
            // The server could not read what root puts there.
            bail!(
                "{} belongs to the server's user: say `sudo -u '#{owner}' busbar ...`",
                path.display()
            );
        }
        let folder = Folder::private(&path);
        let folder = folder
            .with_context(|| format!("cannot keep a key and tokens in {}", path.display()))?;
        Ok(Self { folder, path })
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let read = self.folder.read(name);
        read.with_context(|| format!("cannot use what is in {}", self.path.display()))
    }

    fn write(&self, name: &str, bytes: &[u8], again: bool) -> Result<bool> {
        let done = self.folder.write(name, bytes, again);
        done.with_context(|| format!("cannot write to {}", self.path.display()))
    }

    /// The server's key, made at the first call, and a certificate for it.
    pub fn own(&self) -> Result<Own> {
        if self.read(KEY)?.is_none() {
            let key = rcgen::KeyPair::generate().context("cannot make a key")?;
            self.write(KEY, &Zeroizing::new(key.serialize_der()), false)?;
        }
        let der = Zeroizing::new(self.read(KEY)?.context("the key is gone")?);
        let bad = || {
            format!(
                "{} is no key: remove it, for a new one",
                self.path.join(KEY).display()
            )
        };
        let private = PrivatePkcs8KeyDer::from(&der[..]);
        let key = rcgen::KeyPair::try_from(&private).with_context(bad)?;
        let made = rcgen::CertificateParams::new(vec!["busbar".into()])
            .and_then(|p| p.self_signed(&key))
            .with_context(bad)?;
        let private = PrivateKeyDer::from(private).clone_key();
        Ok((vec![made.der().clone()], private))
    }

    /// All tokens, the oldest first.
    pub fn tokens(&self) -> Result<Vec<Token>> {
        let Some(bytes) = self.read(TOKENS)? else {
            return Ok(Vec::new());
        };
        let text = String::from_utf8_lossy(&bytes);
        let read: Tokens = toml::from_str(&text).map_err(|e| {
            let path = self.path.join(TOKENS);
            anyhow::anyhow!("{} is not valid: {}", path.display(), e.message())
        })?;
        Ok(read.token)
    }

    /// What tells whether the tokens have changed.
    pub fn version(&self) -> Option<Version> {
        self.folder.version(TOKENS)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Vec<Token>) -> Result<T>) -> Result<T> {
        let _alone = self.folder.lock()?;
        let mut token = self.tokens()?;
        let done = change(&mut token)?;
        self.write(TOKENS, toml::to_string(&Tokens { token })?.as_bytes(), true)?;
        Ok(done)
    }

    /// A new token's secret, which is told here and never again.
    pub fn add(
        &self,
        name: &str,
        tenant: &str,
        expires: Option<u64>,
        admin: bool,
    ) -> Result<Zeroizing<String>> {
        check_name("token", name)?;
        check_name("tenant", tenant)?;
        let secret = random(32)?;
        self.change(|all| {
            if all.iter().any(|t| t.name == name && t.over().is_none()) {
                bail!("there is a token `{name}` already: choose another name, or revoke it first");
            }
            all.retain(|t| t.name != name);
            all.push(Token {
                name: name.into(),
                tenant: tenant.into(),
                admin,
                created: now(),
                expires,
                revoked: None,
                hash: blake3::hash(secret.as_bytes()).to_hex().to_string(),
            });
            Ok(())
        })?;
        Ok(secret)
    }

    /// Makes a token good no more.
    pub fn revoke(&self, name: &str) -> Result<()> {
        self.change(|all| match all.iter_mut().find(|t| t.name == name) {
            None => bail!("there is no token `{name}`: `busbar token list` shows all"),
            Some(t) => {
                t.revoked.get_or_insert_with(now);
                Ok(())
            }
        })
    }

    /// Where the server is and by what it is known, as it said last.
    pub fn place(&self) -> Result<Option<(String, Fingerprint)>> {
        let Some(bytes) = self.read(PLACE)? else {
            return Ok(None);
        };
        let text = String::from_utf8_lossy(&bytes);
        let parsed = text.trim().split_once(' ');
        Ok(parsed.and_then(|(at, key)| Some((at.to_string(), key.parse().ok()?))))
    }

    /// Says so.
    pub fn set_place(&self, at: &str, key: Fingerprint) -> Result<()> {
        self.write(PLACE, format!("{at} {key}\n").as_bytes(), true)
            .map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use busbar_transport::tls::Server;

    #[test]
    fn root_puts_nothing_into_the_folder_of_a_server_that_is_not_root() {
        // SAFETY: no preconditions.
        if unsafe { libc::geteuid() } != 0 {
            return;
        }
        let home = tempfile::tempdir().unwrap();
        std::os::unix::fs::chown(home.path(), Some(65534), None).unwrap();
        let why = Vault::open(Some(home.path())).err().unwrap().to_string();
        assert!(why.contains("`sudo -u '#65534' busbar"), "{why}");
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_key_is_made_once() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("state");
        let key = || {
            let own = Vault::open(Some(&path)).unwrap().own().unwrap();
            Server::new(own, None).unwrap().key()
        };
        assert_eq!(key(), key());
        std::fs::remove_file(path.join(KEY)).unwrap();
        let other = key();
        assert_eq!(other, key());
        std::fs::write(path.join(KEY), "junk").unwrap();
        let e = Vault::open(Some(&path)).unwrap().own().unwrap_err();
        assert!(e.to_string().contains("is no key"), "{e}");
    }

    #[test]
    fn of_tokens_only_hashes_are_kept() {
        let home = tempfile::tempdir().unwrap();
        let v = Vault::open(Some(home.path())).unwrap();
        assert_eq!(v.tokens().unwrap(), []);
        let secret = v.add("alice", "research", None, false).unwrap();
        let old = v.add("bob", "default", Some(now() - 1), false).unwrap();
        let text = std::fs::read_to_string(home.path().join(TOKENS)).unwrap();
        assert!(!text.contains(&*secret) && !text.contains(&*old) && secret.len() == 64);
        let all = v.tokens().unwrap();
        assert_eq!(
            all[0].hash,
            blake3::hash(secret.as_bytes()).to_hex().to_string()
        );
        assert_eq!((all[0].over(), &*all[0].tenant), (None, "research"));
        assert!(all[1].over().unwrap().contains("`bob` has expired"));
        assert!(
            v.add("alice", "x", None, false).is_err(),
            "the name is taken"
        );
        v.revoke("alice").unwrap();
        assert!(
            v.tokens().unwrap()[0]
                .over()
                .unwrap()
                .contains("was revoked")
        );
        assert!(v.revoke("carol").is_err());
        assert_ne!(v.add("alice", "x", None, false).unwrap(), secret);
        assert_eq!(v.tokens().unwrap().len(), 2);
        for bad in ["", "a b", "a/b", "ä", &"x".repeat(65), "a\nb"] {
            assert!(v.add(bad, "t", None, false).is_err() && v.add("t", bad, None, false).is_err());
        }
        assert_eq!(v.place().unwrap(), None);
        let key: Fingerprint = "0a".repeat(32).parse().unwrap();
        v.set_place("h:1", key).unwrap();
        assert_eq!(v.place().unwrap(), Some(("h:1".into(), key)));
    }
}
