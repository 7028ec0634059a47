//! The store: pieces of content by their hash, and what was made of them by the hash of all that it
//! was made from, kept on disk for later sessions.
//!
//! One process keeps it, and workers ask that one: they are given files to read, and hand over what
//! is to be kept. So nothing that runs in a worker can change what is there, and one index in
//! memory says what there is, how much of the disk it takes, and what was used last.
//!
//! The name of a file is the BLAKE3 hash of its bytes, checked on the way in and, by the worker, on
//! the way out: nobody can put anything under another's hash, and a damaged file is only a miss. A
//! file of what was made begins with a sum of its bytes that only its own name gives: under another
//! name it is a miss, too. What was made is taken from a worker only until it begins to run code of
//! its client's ([`Ask::Distrust`]). No link is followed, and nothing but what the store itself
//! wrote is ever removed.

mod index;
mod link;

pub use link::Link;

use busbar_control::store::{Answer, Ask, Comes, Name};
use busbar_control::text::to_hex;
use busbar_transport::handover;
use busbar_transport::lock::lock;
use index::Index;
use std::ffi::OsStr;
use std::fs::{DirEntry, File, Metadata};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

/// The longest piece that is kept.
pub const LONGEST: u64 = 1 << 30;
/// How the files end that are named by how their content was made.
const MADE: &str = "made";
/// The bytes of the sum that such a file begins with.
const SUM: usize = 32;
/// What a file takes of the disk beside its blocks: its name, and what the file system knows of it.
const ENTRY: u64 = 1024;

/// A piece of a tenant's. What was made of something has no proof in its name, so it lies where its
/// own tenant finds it, and nobody else.
#[derive(Debug, Clone, Copy)]
struct Piece {
    name: Name,
    place: Name,
}

impl Piece {
    fn of(tenant: &str, name: Name) -> Self {
        let mut place = name;
        if name.made {
            let mut h = blake3::Hasher::new_keyed(&name.hash);
            place.hash = *h.update(tenant.as_bytes()).finalize().as_bytes();
        }
        Self { name, place }
    }
}

/// The store in a folder. Only one process at a time keeps a folder's.
pub struct Store {
    dir: PathBuf,
    index: Mutex<Index>,
    /// Held by whoever writes: one at a time.
    writes: Mutex<u64>,
}

impl Store {
    /// Opens the store in `dir`, which is to take at most `limit` bytes of the disk.
    pub fn open(dir: &Path, limit: u64) -> io::Result<Self> {
        std::fs::create_dir_all(dir)?;
        let mut index = Index::new(limit);
        let mut found = Vec::new();
        // Nothing but what this store wrote is looked at, whatever folder it was given.
        let of_ours =
            |f: &DirEntry| hex(&f.file_name(), 2) && f.file_type().is_ok_and(|t| t.is_dir());
        for folder in entries(dir).filter(of_ours) {
            for f in entries(&folder.path()) {
                let path = f.path();
                let Some(m) = f.metadata().ok().filter(Metadata::is_file) else {
                    continue;
                };
                if let Some(name) = name_of(&path) {
                    let used = m.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                    found.push((used, name, on_disk(&m)));
                } else if is_half(&path) && is_abandoned(&path) {
                    let _ = std::fs::remove_file(&path);
                }
            }
        }
        found.sort();
        let mut store = Self {
            dir: dir.into(),
            index: Mutex::new(Index::new(limit)),
            writes: Mutex::default(),
        };
        for (_, name, size) in found {
            index.add(name, size);
        }
        store.remove(index.make_room(0));
        store.index = Mutex::new(index);
        Ok(store)
    }

    /// Serves whoever has the other end of what comes over `control`, until that is closed.
    pub fn serve(self: &Arc<Self>, control: &OwnedFd) {
        while let Ok(Some((said, worker))) = handover::recv(control) {
            let said = busbar_control::read::<Comes>("the server", &said);
            let (Ok(Comes { tenant }), Some(worker)) = (said, worker) else {
                continue;
            };
            let me = self.clone();
            // Without a thread there is no store for that worker, which does without.
            let _ = std::thread::Builder::new()
                .name("store".into())
                .stack_size(256 << 10)
                .spawn(move || me.attend(&worker, &tenant));
        }
    }

    /// Serves one worker of a tenant's until it is gone, or says what makes no sense.
    pub fn attend(&self, worker: &OwnedFd, tenant: &str) {
        let of = |name| Piece::of(tenant, name);
        let mut trusted = true;
        while let Ok(Some((said, bytes))) = handover::recv(worker) {
            let Ok(ask) = busbar_control::read::<Ask>("a worker", &said) else {
                return;
            };
            let done = match ask {
                Ask::Get(name) => Ok(self.get(of(name))),
                Ask::Damaged(name) => self.check(of(name)).map(|()| None),
                Ask::Put(name) if name.made && !trusted => Ok(None),
                Ask::Put(name) => self.put(of(name), bytes).map(|()| None),
                Ask::Distrust => {
                    trusted = false;
                    Ok(None)
                }
            };
            let failed = |e: &io::Error| format!("{}: {e}", self.dir.display());
            let error = done.as_ref().err().map(failed);
            let file = done.ok().flatten();
            if handover::send(worker, &Answer { error }.to_json(), file.as_ref()).is_err() {
                return;
            }
        }
    }

    fn path(&self, place: Name) -> PathBuf {
        let hex = to_hex(&place.hash);
        let path = self.dir.join(&hex[..2]).join(hex);
        if place.made {
            path.with_extension(MADE)
        } else {
            path
        }
    }

    fn get(&self, p: Piece) -> Option<OwnedFd> {
        let file = open(&self.path(p.place)).ok()?;
        let m = file.metadata().ok().filter(Metadata::is_file)?;
        // Whoever keeps the folder after us goes by it.
        let _ = file.set_modified(SystemTime::now());
        let goes = lock(&self.index).used(p.place, on_disk(&m));
        self.remove(goes);
        Some(file.into())
    }

    /// Removes a file whose content is not what its name says.
    fn check(&self, Piece { name, place }: Piece) -> io::Result<()> {
        let path = self.path(place);
        let mut file = open(&path)?;
        let mut sum = [0; SUM];
        if name.made {
            file.read_exact(&mut sum)?;
        }
        let mut sums = sums(name);
        io::copy(&mut file.take(LONGEST), &mut sums)?;
        let good = match name.made {
            true => *sums.finalize().as_bytes() == sum,
            false => *sums.finalize().as_bytes() == name.hash,
        };
        if !good {
            std::fs::remove_file(&path)?;
            lock(&self.index).forget(place);
        }
        Ok(())
    }

    fn put(&self, p: Piece, bytes: Option<OwnedFd>) -> io::Result<()> {
        let mut bytes = File::from(bytes.ok_or(io::ErrorKind::InvalidInput)?);
        // What is no file in memory could keep its reader waiting.
        let m = bytes.metadata()?;
        if !m.is_file() || m.len() > LONGEST {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut count = lock(&self.writes);
        // As it will be, with its last block whole.
        let size = m.len().next_multiple_of(4096) + SUM as u64 + ENTRY;
        let mut index = lock(&self.index);
        if !index.has_place_for(size) {
            return Ok(());
        }
        let goes = index.make_room(size);
        drop(index);
        self.remove(goes);
        *count += 1;
        let path = self.path(p.place);
        let folder = path.parent().unwrap_or(&self.dir);
        // Written aside and renamed, so that nobody ever reads half a file.
        let aside = folder.join(format!(".{}-{count}.part", std::process::id()));
        let written = std::fs::create_dir_all(folder)
            .and_then(|()| write(&aside, p.name, &mut bytes, m.len()))
            .and_then(|file| std::fs::rename(&aside, &path).and_then(|()| file.metadata()));
        let m = written.inspect_err(|_| drop(std::fs::remove_file(&aside)))?;
        let goes = lock(&self.index).used(p.place, on_disk(&m));
        self.remove(goes);
        Ok(())
    }

    fn remove(&self, goes: Vec<Name>) {
        for name in goes {
            let _ = std::fs::remove_file(self.path(name));
        }
    }
}

/// Writes a file, and holds a lock on it for as long as the result lives: by that it can be told
/// from what a process left that was killed while it wrote.
fn write(path: &Path, name: Name, from: &mut File, len: u64) -> io::Result<File> {
    let mut file = File::create_new(path)?;
    // Where files cannot be locked, what is left stays.
    let _ = file.try_lock();
    if name.made {
        file.write_all(&[0; SUM])?;
    }
    let mut sums = sums(name);
    from.seek(SeekFrom::Start(0))?;
    let mut from = from.take(len);
    let mut some = vec![0; 256 << 10];
    let mut copied = 0;
    // They may be changed meanwhile: what is summed is what is written.
    loop {
        let n = from.read(&mut some)?;
        if n == 0 {
            break;
        }
        sums.update(&some[..n]);
        file.write_all(&some[..n])?;
        copied += n as u64;
    }
    let sum = sums.finalize();
    if copied != len || !name.made && *sum.as_bytes() != name.hash {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "a worker gave other bytes than it said",
        ));
    }
    if name.made {
        file.seek(SeekFrom::Start(0))?;
        file.write_all(sum.as_bytes())?;
    }
    Ok(file)
}

fn sums(name: Name) -> blake3::Hasher {
    match name.made {
        true => blake3::Hasher::new_keyed(&name.hash),
        false => blake3::Hasher::new(),
    }
}

/// Whether the bytes of a file are what its name says; if so, those that count.
fn content(name: Name, mut bytes: Vec<u8>) -> Option<Vec<u8>> {
    if !name.made {
        return (*blake3::hash(&bytes).as_bytes() == name.hash).then_some(bytes);
    }
    let (sum, made) = bytes.split_first_chunk::<SUM>()?;
    let good = blake3::keyed_hash(&name.hash, made) == *sum;
    good.then(|| bytes.split_off(SUM))
}

/// What a file takes of the disk.
fn on_disk(m: &Metadata) -> u64 {
    m.len().max(m.blocks() * 512) + ENTRY
}

fn hex(name: &OsStr, n: usize) -> bool {
    name.len() == n && name.as_encoded_bytes().iter().all(u8::is_ascii_hexdigit)
}

/// The piece that a file of this name holds, if it is one of ours.
fn name_of(path: &Path) -> Option<Name> {
    let made = match path.extension() {
        None => false,
        Some(e) if e == MADE => true,
        Some(_) => return None,
    };
    let stem = path.file_stem().filter(|s| hex(s, 64))?.to_str()?;
    let mut hash = [0; 32];
    for (i, b) in hash.iter_mut().enumerate() {
        *b = u8::from_str_radix(&stem[2 * i..2 * i + 2], 16).ok()?;
    }
    Some(Name { hash, made })
}

fn is_half(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    name.starts_with(b".") && name.ends_with(b".part")
}

/// Opens what lies at a path itself, no link to something elsewhere, and waits for nobody.
fn open(path: &Path) -> io::Result<File> {
    let mut o = File::options();
    let o = o
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    o.open(path)
}

/// Whether nobody writes this file any more.
fn is_abandoned(path: &Path) -> bool {
    open(path).is_ok_and(|f| f.try_lock().is_ok())
}

fn entries(dir: &Path) -> impl Iterator<Item = DirEntry> + use<> {
    std::fs::read_dir(dir).into_iter().flatten().flatten()
}

/// Whether a store can be written to, in a folder that is made if need be.
pub fn try_writing(dir: &Path) -> io::Result<()> {
    std::fs::create_dir_all(dir)?;
    let probe = dir.join(format!(".{}.probe", std::process::id()));
    let mut file = File::create_new(&probe)?;
    let written = file.write_all(&[0; 4096]);
    written.and_then(|()| std::fs::remove_file(&probe))
}

#[cfg(test)]
mod tests;
