//! What the driver compiles, from one session to the next.
//!
//! Code that is text is compiled for the device when it is loaded, and the driver keeps what came
//! of that in a folder: natively a program waits for it once. The folder of a confined worker goes
//! with it. So the first time that there is something to compile, the folder is filled with what
//! the tenant's earlier sessions left in the store, and at the end it goes there again if there is
//! more. What is in its files is the driver's own business.

use super::prelude::*;
use crate::content::{Content, Hash};
use busbar_wire::codec::{Reader, Writer};
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

/// Part of the key: files that are packed otherwise get another number.
const LAYOUT: &str = "busbar compiled by cuda 1";
/// The most that goes into the store of one folder, of what was written last: who needs one file of
/// it waits for all.
const MOST: u64 = 32 << 20;
/// Folders in folders of a folder.
const DEPTH: usize = 4;

/// The folder of a session.
pub struct Compiled {
    folder: Option<PathBuf>,
    /// The files that were there in the beginning, and how long they are, once they are there.
    before: Option<BTreeMap<PathBuf, u64>>,
}

impl Compiled {
    /// Where a worker is `confined`, the folder that the driver is told of is its own.
    pub fn new(confined: bool) -> Self {
        let folder = std::env::var_os("CUDA_CACHE_PATH").filter(|_| confined);
        Self {
            folder: folder.map(Into::into),
            before: None,
        }
    }

    /// The driver is about to compile something.
    pub fn begins(&mut self, content: &Content, d: &Driver) {
        let Some(folder) = self.folder.as_ref().filter(|_| self.before.is_none()) else {
            return;
        };
        if let Some(kept) = content.kept(&key(d)) {
            // Whatever cannot be written is compiled again.
            let _ = unpack(&kept, folder);
        }
        self.before = Some(lengths(&files(folder)));
    }

    /// The session is over.
    pub fn close(&mut self, content: &Content, d: &Driver) {
        let (Some(folder), Some(before)) = (&self.folder, self.before.take()) else {
            return;
        };
        let now = files(folder);
        if lengths(&now) != before {
            content.keep(&key(d), &pack(folder, now));
        }
    }
}

/// What is kept is one driver's.
fn key(d: &Driver) -> Hash {
    let mut version = 0;
    // SAFETY: a pointer to a live number.
    unsafe { d.cuDriverGetVersion(&mut version) };
    let mut h = blake3::Hasher::new();
    h.update(LAYOUT.as_bytes()).update(&version.to_le_bytes());
    *h.finalize().as_bytes()
}

/// A file of a folder: its path there, its length, and when it was last written to.
type Found = (PathBuf, u64, SystemTime);

fn files(folder: &Path) -> Vec<Found> {
    let mut found = Vec::new();
    let mut folders = vec![(folder.to_path_buf(), 0)];
    while let Some((at, depth)) = folders.pop() {
        for e in fs::read_dir(at).into_iter().flatten().flatten() {
            // Of a link it says that it is one.
            let Ok(m) = e.metadata() else { continue };
            if m.is_dir() && depth < DEPTH {
                folders.push((e.path(), depth + 1));
            } else if let (true, Ok(path)) = (m.is_file(), e.path().strip_prefix(folder)) {
                let at = m.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                found.push((path.into(), m.len(), at));
            }
        }
    }
    found
}

fn lengths(files: &[Found]) -> BTreeMap<PathBuf, u64> {
    files.iter().map(|(p, n, _)| (p.clone(), *n)).collect()
}

/// All files with their paths, or of those that were written last as many as there is room for. The
/// oldest is the first, so that it is the oldest again where they are unpacked.
fn pack(folder: &Path, mut files: Vec<Found>) -> Vec<u8> {
    files.sort_by_key(|f| std::cmp::Reverse(f.2));
    let mut left = MOST;
    files.retain(|(path, len, _)| {
        let rest = left.checked_sub(len + path.as_os_str().len() as u64);
        left = rest.unwrap_or(left);
        rest.is_some()
    });
    let mut packed = Vec::new();
    for (path, ..) in files.iter().rev() {
        if let Ok(bytes) = fs::read(folder.join(path)) {
            let mut w = Writer::new(&mut packed);
            w.bytes(path.as_os_str().as_encoded_bytes());
            w.bytes(&bytes);
        }
    }
    packed
}

/// Makes the files again that were packed.
fn unpack(packed: &[u8], folder: &Path) -> std::io::Result<()> {
    let bad = |_| std::io::Error::from(std::io::ErrorKind::InvalidData);
    let mut r = Reader::new(packed);
    while r.left() > 0 {
        let (name, bytes) = (r.bytes().map_err(bad)?, r.bytes().map_err(bad)?);
        let name = std::str::from_utf8(name).map_err(|_| std::io::ErrorKind::InvalidData)?;
        let path = Path::new(name);
        if !path.components().all(|c| matches!(c, Component::Normal(_))) {
            return Err(std::io::ErrorKind::InvalidData.into());
        }
        let path = folder.join(path);
        if let Some(parent) = path.parent() {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(parent)?;
        }
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(path);
        file?.write_all(bytes)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_comes_back_as_it_was() {
        let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir_all(a.path().join("4/c/deep")).unwrap();
        for (path, bytes) in [
            ("index", &b"one"[..]),
            ("4/c/deep/x", b""),
            ("4/y", &[7; 5000]),
        ] {
            fs::write(a.path().join(path), bytes).unwrap();
        }
        // No link leads out of it.
        std::os::unix::fs::symlink("/etc/passwd", a.path().join("link")).unwrap();
        std::os::unix::fs::symlink("/etc", a.path().join("4/links")).unwrap();
        let packed = pack(a.path(), files(a.path()));
        unpack(&packed, b.path()).unwrap();
        let there = lengths(&files(b.path()));
        assert_eq!(there, lengths(&files(a.path())));
        assert_eq!(there.len(), 3);
        assert_eq!(fs::read(b.path().join("4/y")).unwrap(), [7; 5000]);
        // What is there is not written over, and damage is an error.
        assert!(unpack(&packed, b.path()).is_err());
        let c = tempfile::tempdir().unwrap();
        assert!(unpack(&packed[..packed.len() - 9], c.path()).is_err());
    }

    #[test]
    fn nothing_is_written_outside_of_the_folder() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("inner");
        fs::create_dir(&inner).unwrap();
        for name in ["../out", "/tmp/busbar-out", "a/../../out", ".", ""] {
            let mut packed = Vec::new();
            let mut w = Writer::new(&mut packed);
            w.bytes(name.as_bytes());
            w.bytes(b"bytes");
            assert!(unpack(&packed, &inner).is_err(), "{name:?}");
        }
        assert_eq!(files(dir.path()), []);
    }

    #[test]
    fn what_was_written_last_is_kept_where_there_is_no_room_for_all() {
        let dir = tempfile::tempdir().unwrap();
        let at = |s| SystemTime::UNIX_EPOCH + Duration::from_secs(s);
        fs::write(dir.path().join("old"), [1; 64]).unwrap();
        fs::write(dir.path().join("new"), [2; 64]).unwrap();
        let found = |name: &str, len, s| (PathBuf::from(name), len, at(s));
        let of = |new| pack(dir.path(), vec![found("old", 64, 1), found("new", new, 2)]);
        let place = |packed: &[u8], byte| packed.windows(64).position(|w| w == [byte; 64]);
        let both = of(64);
        let (old, new) = (place(&both, 1), place(&both, 2));
        assert!(old.is_some() && old < new, "the oldest is made again first");
        let large = of(MOST);
        assert!(place(&large, 1).is_some() && place(&large, 2).is_none());
    }
}
