//! The policy that is in force: read at the start, when its file changes, and at SIGHUP.

use crate::folder::{Version, version};
use crate::policy;
use anyhow::{Result, anyhow};
use busbar_pool::Pool;
use busbar_transport::lock::lock;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Where the policy is, if there is one.
pub(crate) struct Rules {
    path: Option<PathBuf>,
    seen: Mutex<Seen>,
}

/// What is known of the file.
struct Seen {
    /// As it was read last, good or not.
    read: Option<Version>,
    /// As it was when somebody looked last: one that is just being written is not read.
    last: Option<Version>,
}

fn version_of(path: &Path) -> Option<Version> {
    std::fs::metadata(path).as_ref().map(version).ok()
}

fn apply(path: &Path, pool: &Mutex<Pool>) -> Result<()> {
    let new = policy::read(path)?;
    lock(pool).set_policy(new).map_err(|(tenant, n)| {
        anyhow!(
            "the policy {} gives `{tenant}` GPU {n}, which this server does not offer",
            path.display()
        )
    })
}

impl Rules {
    /// Reads the policy for the first time; one that is not good is an error.
    pub(super) fn new(path: Option<PathBuf>, pool: &Mutex<Pool>) -> Result<Self> {
        let read = path.as_deref().and_then(version_of);
        if let Some(path) = &path {
            apply(path, pool)?;
        }
        let seen = Mutex::new(Seen { read, last: read });
        Ok(Self { path, seen })
    }

    /// Whether there is one.
    pub(super) fn any(&self) -> bool {
        self.path.is_some()
    }

    /// Reads the policy again if it has changed and stays as it is from one look to the next, or
    /// `anyway`. One that is not good
    /// changes nothing.
    pub(super) fn refresh(&self, pool: &Mutex<Pool>, anyway: bool) {
        let Some(path) = &self.path else { return };
        let mut seen = lock(&self.seen);
        let now = version_of(path);
        let still = std::mem::replace(&mut seen.last, now) == now;
        if !anyway && (seen.read == now || !still) {
            return;
        }
        seen.read = now;
        match apply(path, pool) {
            Ok(()) => tracing::info!(policy = %path.display(), "a new policy is in force"),
            Err(e) => {
                let why = format!("{e:#}");
                tracing::error!(why, "the policy stays as it was");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use busbar_control::device::Device;
    use busbar_pool::Asker;
    use std::fs;

    #[test]
    fn what_is_not_good_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("policy.toml");
        let device = Device {
            api: "cuda".into(),
            ..Device::default()
        };
        let pool = Mutex::new(Pool::new(vec![device], None, 9).unwrap());
        let new = || Rules::new(Some(path.clone()), &pool);
        let said = new().err().unwrap().to_string();
        assert!(said.contains("cannot read the policy"), "{said}");
        fs::write(&path, "[default]\nsesions = 1").unwrap();
        let said = new().err().unwrap().to_string();
        assert!(said.contains("line 2, column 1: there is no key"), "{said}");
        fs::write(&path, "[default]\ndevices = [3]").unwrap();
        let said = new().err().unwrap().to_string();
        assert!(said.contains("`default` GPU 3"), "{said}");
        fs::write(&path, "[default]\nsessions = 0").unwrap();
        let rules = new().unwrap();
        let look = || rules.refresh(&pool, false);
        let open = || lock(&pool).open("s", "cuda", &Asker::default()).is_ok();
        assert!(!open());
        for bad in ["[default]\nsessions = ", "[default]\ndevices = [3]"] {
            fs::write(&path, bad).unwrap();
            look();
            look();
            assert!(!open());
        }
        fs::remove_file(&path).unwrap();
        look();
        look();
        assert!(!open());
        // A file that is just being written may be empty.
        fs::write(&path, "").unwrap();
        look();
        fs::write(&path, "[default]\nsessions = 0 # and nothing else").unwrap();
        look();
        look();
        assert!(!open());
        fs::write(&path, "[default]\nsessions = 1").unwrap();
        look();
        assert!(!open());
        look();
        assert!(open());
    }
}
