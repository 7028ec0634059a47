//! Who somebody is who has come: by a token or a certificate. Noticed are tokens that are made,
//! revoked and expire while the server runs.

use super::config::Config;
use crate::folder::{Version, version};
use crate::vault::{Token, Vault};
use anyhow::{Context, Result, bail};
use blake3::Hash;
use busbar_control::hello::{Hello, Refusal};
use busbar_control::succession::Bearer;
use busbar_control::text::is_plain;
use busbar_transport::lock::{read, write};
use busbar_transport::stream::Stream;
use busbar_transport::tls::Certificate;
use std::path::{Path, PathBuf};
use std::sync::RwLock;

/// What a URI begins with by which a certificate says whose it is: `busbar://TENANT/NAME`.
const SCHEME: &str = "busbar://";

/// By what somebody is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
enum Proof {
    /// By nothing: none is asked for.
    #[default]
    None,
    /// The token of `--token-file`.
    File(Hash),
    /// One of those that have a name.
    Token(Hash),
    /// A certificate that the authority has signed.
    Certificate,
}

/// Somebody.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Who {
    proof: Proof,
    /// The token's name, or the certificate's.
    pub name: String,
    /// Whose sessions these are.
    pub tenant: String,
    /// It shows what all tenants do.
    pub admin: bool,
}

impl Who {
    /// As another server's process is told.
    pub(super) fn bearer(&self) -> Bearer {
        let proof = match self.proof {
            Proof::None => String::new(),
            Proof::File(hash) => format!("file:{}", hash.to_hex()),
            Proof::Token(hash) => format!("token:{}", hash.to_hex()),
            Proof::Certificate => "certificate".into(),
        };
        Bearer {
            proof,
            name: self.name.clone(),
            tenant: self.tenant.clone(),
            admin: self.admin,
        }
    }

    /// As another server's process has told. What this release does not know is nobody's proof.
    pub(super) fn of_bearer(b: &Bearer) -> Self {
        let hash = |text: &str| Hash::from_hex(text).ok();
        let hashed = b.proof.split_once(':');
        let hashed = hashed.and_then(|(kind, text)| Some((kind, hash(text)?)));
        let unknown = Proof::Token(blake3::hash(b.proof.as_bytes()));
        let proof = match (b.proof.as_str(), hashed) {
            ("", _) => Proof::None,
            ("certificate", _) => Proof::Certificate,
            (_, Some(("file", hash))) => Proof::File(hash),
            (_, Some(("token", hash))) => Proof::Token(hash),
            _ => unknown,
        };
        Self {
            proof,
            name: b.name.clone(),
            tenant: b.tenant.clone(),
            admin: b.admin,
        }
    }

    /// The server itself, which sees what all tenants do.
    pub(super) fn server() -> Self {
        Self {
            admin: true,
            ..Self::default()
        }
    }
}

/// Somebody who is known.
pub(super) struct Known {
    pub conn: Stream,
    pub hello: Hello,
    pub protocol: u32,
    pub who: Who,
}

#[derive(Default)]
struct Table {
    /// The token of `--token-file`.
    file: Option<Hash>,
    tokens: Vec<(Hash, Token)>,
    /// What tells whether they have changed.
    versions: [Option<Version>; 2],
}

/// All that are let in.
pub(crate) struct Identities {
    file: Option<PathBuf>,
    vault: Option<Vault>,
    certificates: bool,
    table: RwLock<Table>,
}

/// The hash of the token in a file; hashes compare in constant time.
fn token_in(path: &Path) -> Result<Hash> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the token file {}", path.display()))?;
    let token = text.lines().next().unwrap_or_default().trim();
    if token.len() < 16 {
        bail!(
            "the token in {} is too short to be a secret: use at least 16 characters, as from \
             `openssl rand -hex 32`",
            path.display()
        );
    }
    Ok(blake3::hash(token.as_bytes()))
}

fn no(why: &str) -> Refusal {
    let how = "log in with the line that `busbar token new` prints there, or set BUSBAR_TOKEN_FILE \
               to a file with the server's token";
    Refusal::new("token", format!("{why}: {how}"))
}

impl Identities {
    /// What the settings say; `vault` where tokens with names are taken.
    pub(super) fn new(c: &Config, vault: Option<Vault>) -> Result<Self> {
        let it = Self {
            file: c.token_file.clone(),
            vault,
            certificates: c.client_ca.is_some(),
            table: RwLock::default(),
        };
        *write(&it.table) = it.load()?;
        Ok(it)
    }

    fn versions(&self) -> [Option<Version>; 2] {
        let file = self.file.as_ref().and_then(|p| std::fs::metadata(p).ok());
        [
            file.as_ref().map(version),
            self.vault.as_ref().and_then(Vault::version),
        ]
    }

    fn load(&self) -> Result<Table> {
        let versions = self.versions();
        let file = self.file.as_deref().map(token_in).transpose()?;
        let all = self.vault.as_ref().map(Vault::tokens).transpose()?;
        let hashed = |t: Token| Some((Hash::from_hex(&t.hash).ok()?, t));
        Ok(Table {
            file,
            tokens: all.into_iter().flatten().filter_map(hashed).collect(),
            versions,
        })
    }

    /// Looks whether tokens have changed. What cannot be read changes nothing, but for a file that
    /// is gone.
    pub(super) fn refresh(&self) {
        let versions = self.versions();
        if versions == read(&self.table).versions {
            return;
        }
        match self.load() {
            Ok(table) => *write(&self.table) = table,
            Err(e) => {
                let why = format!("{e:#}");
                tracing::error!(why, "the tokens have changed and cannot be read");
                let mut table = write(&self.table);
                table.versions = versions;
                if versions[0].is_none() {
                    table.file = None;
                }
            }
        }
    }

    /// Whether somebody has to show something.
    pub(super) fn asks(&self) -> bool {
        self.file.is_some() || self.vault.is_some() || self.certificates
    }

    /// Who it is that shows this.
    pub(super) fn admit(
        &self,
        token: &str,
        certificate: Option<&Certificate>,
    ) -> Result<Who, Refusal> {
        if let Some(c) = certificate {
            return of_certificate(c);
        }
        if !self.asks() {
            return Ok(Who::default());
        }
        if token.is_empty() {
            return Err(no("the server asks for a token"));
        }
        // One that was made just now is good at once.
        self.refresh();
        let (hash, table) = (blake3::hash(token.as_bytes()), read(&self.table));
        if table.file == Some(hash) {
            return Ok(of_file(hash));
        }
        let Some((_, t)) = table.tokens.iter().find(|(h, _)| *h == hash) else {
            return Err(no("the server knows another token"));
        };
        match t.over() {
            Some(why) => Err(no(&why)),
            None => Ok(of_token(hash, t)),
        }
    }

    /// Who is likely to come first, if anybody is.
    pub(super) fn first(&self) -> Option<Who> {
        if !self.asks() {
            return Some(Who::default());
        }
        let table = read(&self.table);
        let mut tokens = table.tokens.iter().filter(|(_, t)| t.over().is_none());
        let token = || tokens.next().map(|(hash, t)| of_token(*hash, t));
        table.file.map(of_file).or_else(token)
    }

    /// Why somebody who was let in is so no more.
    pub(super) fn over(&self, who: &Who) -> Option<String> {
        let table = read(&self.table);
        match who.proof {
            Proof::None | Proof::Certificate => None,
            Proof::File(hash) if table.file == Some(hash) => None,
            Proof::File(_) => Some("the server has another token now".into()),
            Proof::Token(hash) => match table.tokens.iter().find(|(h, _)| *h == hash) {
                Some((_, t)) => t.over(),
                None => Some(format!("the token `{}` was revoked", who.name)),
            },
        }
    }
}

fn of_file(hash: Hash) -> Who {
    Who {
        proof: Proof::File(hash),
        name: "token-file".into(),
        tenant: "default".into(),
        admin: false,
    }
}

fn of_token(hash: Hash, t: &Token) -> Who {
    Who {
        proof: Proof::Token(hash),
        name: t.name.clone(),
        tenant: t.tenant.clone(),
        admin: t.admin,
    }
}

fn of_certificate(c: &Certificate) -> Result<Who, Refusal> {
    let plain = |s: &&str| !s.is_empty() && s.len() <= 64 && s.chars().all(is_plain);
    let named = |uri: &String| {
        let (tenant, name) = uri.strip_prefix(SCHEME)?.split_once('/')?;
        let good = [tenant, name].iter().all(plain) && !name.contains('/');
        good.then(|| Who {
            proof: Proof::Certificate,
            name: name.into(),
            tenant: tenant.into(),
            admin: false,
        })
    };
    c.uris.iter().find_map(named).ok_or_else(|| {
        let why = "the certificate does not say whose it is: it must have the URI \
                   busbar://TENANT/NAME among its alternative names";
        Refusal::new("token", why)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate(uris: &[&str]) -> Certificate {
        Certificate {
            uris: uris.iter().map(|u| u.to_string()).collect(),
            key: "0a".repeat(32).parse().unwrap(),
        }
    }

    #[test]
    fn a_certificate_says_whose_it_is() {
        let who = of_certificate(&certificate(&["https://x/y", "busbar://lab/ann"])).unwrap();
        assert_eq!((&*who.tenant, &*who.name), ("lab", "ann"));
        let long = format!("busbar://{}/x", "t".repeat(65));
        for bad in [
            "busbar://lab",
            "busbar:///x",
            "busbar://lab/",
            "busbar://a/b/c",
            &long,
        ] {
            let e = of_certificate(&certificate(&[bad])).unwrap_err();
            assert!(e.message.contains("whose it is"), "{bad}");
        }
    }

    #[test]
    fn somebody_is_the_same_for_another_process_of_the_server() {
        let hash = blake3::hash(b"secret");
        let all = [
            Who::default(),
            of_file(hash),
            Who {
                proof: Proof::Token(hash),
                name: "ann".into(),
                tenant: "lab".into(),
                admin: true,
            },
            of_certificate(&certificate(&["busbar://lab/ann"])).unwrap(),
        ];
        for who in &all {
            assert_eq!(Who::of_bearer(&who.bearer()), *who);
        }
        // What is not known is nobody who needs to show nothing.
        for proof in ["word", "token:12", "file:", "key:00"] {
            let proof = proof.into();
            let who = Who::of_bearer(&Bearer {
                proof,
                ..all[0].bearer()
            });
            assert!(!all.contains(&who) && who.proof != Proof::None);
        }
    }

    #[test]
    fn tokens_come_and_go_while_the_server_runs() {
        let home = tempfile::tempdir().unwrap();
        let open = || Vault::open(Some(&home.path().join("state"))).unwrap();
        let file = home.path().join("token");
        std::fs::write(&file, "0123456789abcdef\n").unwrap();
        let all = Identities {
            file: Some(file.clone()),
            vault: Some(open()),
            certificates: false,
            table: RwLock::default(),
        };
        let admit = |token: &str| all.admit(token, None).map_err(|r| r.message);
        assert!(admit("").unwrap_err().contains("asks for a token"));
        assert!(
            admit("0123456789abcdeg")
                .unwrap_err()
                .contains("another token")
        );
        let simple = admit("0123456789abcdef").unwrap();
        let secret = open().add("ann", "lab", None, false).unwrap();
        let ann = admit(&secret).unwrap();
        assert_eq!((&*ann.name, &*ann.tenant), ("ann", "lab"));
        assert_eq!((all.over(&ann), all.over(&simple)), (None, None));
        open().revoke("ann").unwrap();
        all.refresh();
        assert!(all.over(&ann).is_some());
        assert!(admit(&secret).unwrap_err().contains("`ann` was revoked"));
        assert!(all.over(&ann).unwrap().contains("was revoked"));
        // One of the same name is another.
        let again = open().add("ann", "lab", None, false).unwrap();
        assert_ne!(admit(&again).unwrap(), ann);
        assert!(all.over(&ann).unwrap().contains("was revoked"));
        std::fs::write(&file, "fedcba9876543210\n").unwrap();
        assert!(admit("0123456789abcdef").is_err());
        assert!(all.over(&simple).unwrap().contains("another token now"));
        assert_ne!(admit("fedcba9876543210").unwrap(), simple);
        // What makes no sense changes nothing; a token that is gone is.
        std::fs::write(&file, "short\n").unwrap();
        assert!(admit("fedcba9876543210").is_ok());
        std::fs::remove_file(&file).unwrap();
        assert!(admit("fedcba9876543210").is_err() && admit(&again).is_ok());
    }
}
