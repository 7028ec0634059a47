//! Module images by hash: asked for once, kept on disk for every later session. What was made here,
//! such as built programs, is kept beside them under the hash of all that it was made from.
//!
//! The name of a file is the BLAKE3 hash of its bytes, checked on the way in and on the way out, so
//! sessions of different users can share the store: nobody can put anything under another's hash,
//! and a damaged file is only a miss. A file of what was made begins with a sum of its bytes that
//! only its own name gives: under another name it is a miss, too. No link is followed.

use crate::lock::lock;
use crate::outbox::Outbox;
use std::collections::HashMap;
use std::fs::{DirEntry, File};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// The name of a piece of content.
pub type Hash = [u8; 32];

/// How the files end that are named by how their content was made.
const MADE: &str = "made";

/// The longest piece that is accepted.
const MAX_CONTENT: u64 = 1 << 30;

#[derive(Default)]
struct State {
    wanted: Option<Hash>,
    arriving: HashMap<Hash, Vec<u8>>,
    here: HashMap<Hash, Option<Arc<[u8]>>>,
}

struct Inner {
    dir: Option<PathBuf>,
    limit: u64,
    state: Mutex<State>,
    came: Condvar,
    wanting: AtomicBool,
    /// Bytes that have come of all that was wanted.
    came_so_far: AtomicUsize,
    outbox: Outbox,
    /// The log has heard that the store cannot be written to.
    complained: AtomicBool,
}

/// A session's view of the content store.
#[derive(Clone)]
pub struct Content {
    inner: Arc<Inner>,
}

impl Content {
    /// The store in `dir` (none: nothing outlives the session), kept under `limit` bytes.
    pub fn new(dir: Option<PathBuf>, limit: u64, outbox: Outbox) -> Self {
        let dir = dir.filter(|d| std::fs::create_dir_all(d).is_ok());
        Self {
            inner: Arc::new(Inner {
                dir,
                limit,
                state: Mutex::default(),
                came: Condvar::new(),
                wanting: AtomicBool::new(false),
                came_so_far: AtomicUsize::new(0),
                outbox,
                complained: AtomicBool::new(false),
            }),
        }
    }

    /// The bytes with this hash, from disk or from the client; `None` when the client does not have
    /// them or is gone.
    pub fn get(&self, hash: &Hash) -> Option<Arc<[u8]>> {
        if let Some(bytes) = self.read_disk(hash) {
            return Some(bytes);
        }
        let i = &*self.inner;
        lock(&i.state).wanted = Some(*hash);
        i.wanting.store(true, Ordering::Release);
        i.outbox.need_content(hash);
        let mut s = lock(&i.state);
        let got = loop {
            if let Some(got) = s.here.remove(hash) {
                break got;
            }
            if i.outbox.closed() {
                break None;
            }
            let wait = Duration::from_millis(100);
            s = i
                .came
                .wait_timeout(s, wait)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        };
        i.wanting.store(false, Ordering::Release);
        s.wanted = None;
        s.arriving.clear();
        drop(s);
        if let Some(bytes) = &got {
            self.write_disk(hash, bytes);
        }
        got
    }

    /// Whether the executor waits for content at this moment: the intake must then go on reading
    /// whatever happens.
    pub fn wanting(&self) -> bool {
        self.inner.wanting.load(Ordering::Acquire)
    }

    /// Bytes of wanted content that the session has sent, up to the most that one piece has.
    pub fn arrived_bytes(&self) -> usize {
        let n = self.inner.came_so_far.load(Ordering::Relaxed);
        n.min(MAX_CONTENT as usize)
    }

    /// A piece has arrived: hash, u64 total, u64 offset, bytes.
    pub fn arrived(&self, payload: &[u8]) -> Result<(), String> {
        let Some((head, bytes)) = payload.split_at_checked(48) else {
            return Err("a piece of content is cut short".into());
        };
        let u64_at = |i: usize| {
            let mut b = [0; 8];
            b.copy_from_slice(&head[i..i + 8]);
            u64::from_le_bytes(b)
        };
        let mut hash = [0; 32];
        hash.copy_from_slice(&head[..32]);
        let (total, offset) = (u64_at(32), u64_at(40));
        if total > MAX_CONTENT {
            return Err(format!(
                "content of {total} bytes is above the limit of {MAX_CONTENT}"
            ));
        }
        // What nobody waits for is dropped: a client cannot fill memory with content unasked.
        let mut s = lock(&self.inner.state);
        if s.wanted != Some(hash) {
            return Ok(());
        }
        let have = s.arriving.get(&hash).map_or(0, |v| v.len() as u64);
        if offset != have || offset + bytes.len() as u64 > total {
            return Err("a piece of content is out of place".into());
        }
        let v = s.arriving.entry(hash).or_default();
        v.extend_from_slice(bytes);
        self.inner
            .came_so_far
            .fetch_add(bytes.len(), Ordering::Relaxed);
        if v.len() as u64 == total {
            let v = s.arriving.remove(&hash).unwrap_or_default();
            let good = total > 0 && *blake3::hash(&v).as_bytes() == hash;
            s.here.insert(hash, good.then(|| v.into()));
            drop(s);
            self.inner.came.notify_all();
        }
        Ok(())
    }

    /// What an earlier session has put under `key`, which names how it was made instead of what it
    /// is.
    pub fn kept(&self, key: &Hash) -> Option<Vec<u8>> {
        let path = self.path(key)?.with_extension(MADE);
        let (mut bytes, file) = read_file(&path)?;
        let whole = bytes
            .split_first_chunk::<32>()
            .is_some_and(|(sum, made)| blake3::keyed_hash(key, made) == *sum);
        if !whole {
            let _ = std::fs::remove_file(&path);
            return None;
        }
        used_now(&file);
        Some(bytes.split_off(32))
    }

    /// Puts something that was made here under `key`, for later sessions.
    pub fn keep(&self, key: &Hash, made: &[u8]) {
        if let Some(path) = self.path(key) {
            let sum = blake3::keyed_hash(key, made);
            self.write_file(&path.with_extension(MADE), &[sum.as_bytes(), made].concat());
        }
    }

    fn path(&self, hash: &Hash) -> Option<PathBuf> {
        let hex: String = hash.iter().map(|b| format!("{b:02x}")).collect();
        Some(self.inner.dir.as_ref()?.join(&hex[..2]).join(hex))
    }

    fn read_disk(&self, hash: &Hash) -> Option<Arc<[u8]>> {
        let path = self.path(hash)?;
        let (bytes, file) = read_file(&path)?;
        if blake3::hash(&bytes).as_bytes() != hash {
            let _ = std::fs::remove_file(&path);
            return None;
        }
        used_now(&file);
        Some(bytes.into())
    }

    fn write_disk(&self, hash: &Hash, bytes: &[u8]) {
        if let Some(path) = self.path(hash) {
            self.write_file(&path, bytes);
        }
    }

    fn write_file(&self, path: &Path, bytes: &[u8]) {
        let (Some(folder), Some(dir)) = (path.parent(), &self.inner.dir) else {
            return;
        };
        // Written aside and renamed, so that no other worker or thread ever reads half a file.
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let aside = folder.join(format!(".{}-{n}.part", std::process::id()));
        let written = std::fs::create_dir_all(folder)
            .and_then(|()| write_locked(&aside, bytes))
            .and_then(|_locked| std::fs::rename(&aside, path));
        if let Err(e) = written {
            let _ = std::fs::remove_file(&aside);
            // A full disk is full for whatever comes next, too.
            if !self.inner.complained.swap(true, Ordering::Relaxed) {
                crate::complain!(
                    "cannot write to the cache {}: {e}; what this session loads is not kept",
                    dir.display()
                );
            }
        }
        trim(dir, self.inner.limit);
    }
}

/// Writes a file and holds a lock on it for as long as the result lives: by that it can be told
/// from what a worker left that was killed while it wrote.
fn write_locked(path: &Path, bytes: &[u8]) -> std::io::Result<File> {
    let mut f = File::create_new(path)?;
    // Where files cannot be locked, what is left stays.
    let _ = f.try_lock();
    f.write_all(bytes)?;
    Ok(f)
}

/// Opens what lies at a path itself, no link to something elsewhere, and waits for nobody.
fn open(path: &Path) -> std::io::Result<File> {
    let mut o = File::options();
    let o = o
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    o.open(path)
}

/// A file's bytes, and the file.
fn read_file(path: &Path) -> Option<(Vec<u8>, File)> {
    let file = open(path).ok()?;
    let m = file.metadata().ok()?;
    if !m.is_file() || m.len() > 2 * MAX_CONTENT {
        return None;
    }
    let mut bytes = Vec::new();
    (&file).take(2 * MAX_CONTENT).read_to_end(&mut bytes).ok()?;
    Some((bytes, file))
}

/// Whether nobody writes this file any more.
fn abandoned(path: &Path) -> bool {
    open(path).is_ok_and(|f| f.try_lock().is_ok())
}

/// The time of last use decides what goes when the store is full.
fn used_now(file: &File) {
    let _ = file.set_modified(std::time::SystemTime::now());
}

/// Whether a store can be written to, in a folder that is made if need be.
pub fn try_writing(dir: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(dir)?;
    let probe = dir.join(format!(".{}.probe", std::process::id()));
    write_locked(&probe, &[0; 4096]).and_then(|_| std::fs::remove_file(&probe))
}

fn entries(dir: &Path) -> impl Iterator<Item = DirEntry> {
    std::fs::read_dir(dir).into_iter().flatten().flatten()
}

/// Removes what killed workers have left half written, and then the files used longest ago until
/// the store is under its limit.
fn trim(dir: &Path, limit: u64) {
    let mut files = Vec::new();
    let mut total = 0;
    let hex = |name: &std::ffi::OsStr, n: usize| {
        name.len() == n && name.as_encoded_bytes().iter().all(u8::is_ascii_hexdigit)
    };
    let named = |p: &Path| {
        p.extension().is_none_or(|e| e == MADE) && p.file_stem().is_some_and(|s| hex(s, 64))
    };
    let half = |p: &Path| {
        let name = p.file_name().unwrap_or_default().as_encoded_bytes();
        name.starts_with(b".") && name.ends_with(b".part")
    };
    // Nothing but what this store wrote is ever removed, whatever folder it was given.
    let of_ours = |f: &DirEntry| hex(&f.file_name(), 2) && f.file_type().is_ok_and(|t| t.is_dir());
    for folder in entries(dir).filter(of_ours) {
        for f in entries(&folder.path()) {
            let path = f.path();
            let Ok(m) = f.metadata() else { continue };
            if !m.is_file() {
                continue;
            }
            if named(&path) {
                total += m.len();
                files.push((m.modified().ok(), m.len(), path));
            } else if half(&path) && !(abandoned(&path) && std::fs::remove_file(&path).is_ok()) {
                total += m.len();
            }
        }
    }
    if total <= limit {
        return;
    }
    files.sort();
    for (_, len, path) in files {
        if total <= limit {
            return;
        }
        if std::fs::remove_file(path).is_ok() {
            total -= len;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    fn folder(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("busbar-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        dir
    }

    #[test]
    fn what_a_killed_worker_left_goes_and_what_one_writes_counts_and_stays() {
        let dir = folder("parts");
        let home = dir.join("ab");
        std::fs::create_dir_all(&home).unwrap();
        let left = home.join(".999999999-0.part");
        std::fs::write(&left, [0; 100]).unwrap();
        let link = home.join(".1-1.part");
        std::os::unix::fs::symlink("/etc/hostname", &link).unwrap();
        let being_written = home.join(".1-0.part");
        let writes = write_locked(&being_written, &[0; 600]).unwrap();
        let whole = |c: char| home.join(c.to_string().repeat(64));
        let start = SystemTime::now();
        for (age, name) in [(2, 'a'), (1, 'b')] {
            std::fs::write(whole(name), [0; 300]).unwrap();
            let f = File::open(whole(name)).unwrap();
            f.set_modified(start - Duration::from_secs(age)).unwrap();
        }
        trim(&dir, 1000);
        assert!(!left.exists());
        assert!(being_written.exists() && link.exists());
        assert!(!whole('a').exists(), "600 and twice 300 are too many");
        assert!(whole('b').exists());
        drop(writes);
        trim(&dir, 1000);
        assert!(!being_written.exists());
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn what_was_made_counts_under_its_own_name_alone() {
        let dir = folder("names");
        let outbox = Outbox::default();
        let store = Content::new(Some(dir.clone()), 1 << 20, outbox);
        let (mine, yours) = ([1; 32], [2; 32]);
        store.keep(&mine, b"my code");
        assert_eq!(store.kept(&mine).as_deref(), Some(&b"my code"[..]));
        let file = |key| store.path(key).unwrap().with_extension(MADE);
        std::fs::create_dir_all(file(&yours).parent().unwrap()).unwrap();
        std::fs::copy(file(&mine), file(&yours)).unwrap();
        assert_eq!(store.kept(&yours), None);
        assert!(!file(&yours).exists(), "it is of no use to anybody");
        std::os::unix::fs::symlink(file(&mine), file(&yours)).unwrap();
        assert_eq!(store.kept(&yours), None, "no link is followed");
        assert!(store.kept(&mine).is_some());
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
