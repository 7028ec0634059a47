//! The audit: a file with a line for each session, lease and refusal, of which none can be changed,
//! left out or put in another place without that being seen.
//!
//! A line is a hash, a space and JSON. The hash is SHA-256 of the hash before it, as text, and the
//! JSON; the first one follows 64 zeros. So a chain can be checked by any tool. What the chain
//! cannot tell is that lines are missing at its end: for that somebody has to have the last hash.

use crate::folder;
use anyhow::{Context, Result, bail};
use busbar_control::text::to_hex;
use busbar_transport::lock::lock;
use clap::Subcommand;
use ring::digest::{SHA256, digest};
use serde_json::{Map, Value, json};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

/// How long a line may be in the system's memory alone.
const SYNC: Duration = Duration::from_secs(1);
/// The longest line that is read.
const MOST: usize = 64 << 10;
/// How many characters of half a line are kept.
const SHOWN: usize = 1024;

/// Flags of `busbar audit`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  busbar serve --audit /var/lib/busbar/audit        # keep one
  busbar audit verify /var/lib/busbar/audit         # is it whole?")]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Say whether no line was changed, left out or put in another place, or which is the first
    Verify {
        /// The file
        file: PathBuf,
    },
}

/// How a chain ends.
#[derive(Debug, Clone, PartialEq, Eq)]
struct End {
    lines: u64,
    hash: String,
}

impl Default for End {
    fn default() -> Self {
        Self {
            lines: 0,
            hash: "0".repeat(64),
        }
    }
}

impl End {
    /// The hash of a line that is to follow.
    fn hash_of(&self, text: &str) -> String {
        let hash = digest(&SHA256, [&self.hash, text].concat().as_bytes());
        to_hex(hash.as_ref())
    }

    fn follow(&mut self, hash: String) {
        self.hash = hash;
        self.lines += 1;
    }
}

/// What is wrong with a chain.
#[derive(Debug, PartialEq, Eq)]
enum Wrong {
    /// The last line has no end, as after a power loss. The chain before it, the bytes that it has,
    /// and these bytes themselves.
    Half(End, u64, Vec<u8>),
    Broken(String),
}

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Half(end, ..) => write!(
                f,
                "line {}, the last, is not whole, as after a power loss: a server that goes on \
                 with this file mends that, and notes it",
                end.lines + 1
            ),
            Self::Broken(why) => f.write_str(why),
        }
    }
}

impl From<String> for Wrong {
    fn from(why: String) -> Self {
        Self::Broken(why)
    }
}

/// Reads a chain to its end. An error names the first line that is not what it was.
fn verify(mut from: impl BufRead) -> Result<End, Wrong> {
    let mut end = End::default();
    let mut length = 0;
    loop {
        let (mut line, number) = (Vec::new(), end.lines + 1);
        let mut some = io::Read::take(&mut from, MOST as u64);
        let n = some
            .read_until(b'\n', &mut line)
            .map_err(|e| e.to_string())?;
        if n == 0 {
            return Ok(end);
        }
        if n < MOST && !line.ends_with(b"\n") {
            return Err(Wrong::Half(end, length, line));
        }
        length += n as u64;
        let whole = line
            .strip_suffix(b"\n")
            .and_then(|l| std::str::from_utf8(l).ok());
        let Some((hash, text)) = whole.and_then(|l| l.split_once(' ')) else {
            return Err(format!("line {number} is not whole").into());
        };
        if end.hash_of(text) != hash {
            return Err(format!(
                "line {number} is not what was written there, or does not belong there"
            )
            .into());
        }
        end.follow(hash.into());
    }
}

/// An audit's file, locked against other servers.
struct Disk {
    file: File,
    /// Something was written since it was last made sure that the disk has it.
    dirty: AtomicBool,
}

impl Disk {
    /// Has the disk take what was written.
    fn sync(&self) {
        if self.dirty.swap(false, Ordering::AcqRel)
            && let Err(e) = self.file.sync_data()
        {
            let why = e.to_string();
            tracing::error!(why, "the disk does not take the audit");
        }
    }

    /// Has the disk take what is written, from time to time, for as long as somebody writes.
    fn start_clerk(self: &Arc<Self>) -> io::Result<()> {
        let disk = Arc::downgrade(self);
        let run = move || {
            loop {
                std::thread::sleep(SYNC);
                let Some(disk) = disk.upgrade() else { return };
                disk.sync();
            }
        };
        let clerk = std::thread::Builder::new().name("audit".into());
        clerk.stack_size(256 << 10).spawn(run).map(drop)
    }
}

struct Chain {
    disk: Arc<Disk>,
    end: End,
    /// Bytes of whole lines.
    length: u64,
}

impl Drop for Chain {
    /// Another server may write the file from now on, even while the clerk, or a process that is
    /// about to run a program, still has it open: a lock lasts as long as the last such descriptor.
    fn drop(&mut self) {
        // SAFETY: a descriptor of ours.
        unsafe { libc::flock(self.disk.file.as_raw_fd(), libc::LOCK_UN) };
    }
}

impl Chain {
    /// Goes on with a file, or begins one. One that is not whole is an error.
    fn open(path: &Path) -> Result<Self> {
        let of = || format!("the audit {}", path.display());
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(path)
            .with_context(of)?;
        let m = file.metadata().with_context(of)?;
        if !m.is_file() || !folder::is_ours(m.uid()) || m.mode() & 0o077 != 0 {
            bail!(
                "{} is not this user's alone: `chmod 600` it, or name another",
                of()
            );
        }
        // SAFETY: a descriptor of ours.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
            bail!("another server writes {}", of());
        }
        let (end, half) = match verify(BufReader::new(&file)) {
            Ok(end) => (end, None),
            Err(Wrong::Half(end, at, bytes)) => (end, Some((at, bytes))),
            Err(why) => bail!("{} is broken: {why}; move it away to begin another", of()),
        };
        let mut chain = Self {
            length: file.metadata().with_context(of)?.len(),
            disk: Arc::new(Disk {
                file,
                dirty: AtomicBool::new(false),
            }),
            end,
        };
        if let Some((at, bytes)) = half {
            chain.mend(at, &bytes).with_context(of)?;
        }
        chain.disk.start_clerk().context("cannot start a thread")?;
        Ok(chain)
    }

    /// Goes on behind a last line that has no end. If that is all it lacks, it gets one. Otherwise
    /// it is taken away, and the next line says so, with what there was of it: whoever took away
    /// more than a power loss did would have to have written that line.
    fn mend(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let line = self.end.lines + 1;
        let text = String::from_utf8_lossy(bytes);
        if let Some((hash, json)) = text.split_once(' ')
            && self.end.hash_of(json) == hash
        {
            (&self.disk.file).write_all(b"\n")?;
            self.length = at + bytes.len() as u64 + 1;
            self.end.follow(hash.into());
            tracing::warn!(
                line,
                "the last line of the audit had no end, and has one now"
            );
        } else {
            self.disk.file.set_len(at)?;
            self.length = at;
            tracing::warn!(
                line,
                bytes = bytes.len(),
                "half of the last line of the audit is taken away: what it told of is lost"
            );
            // A line has an end itself.
            let text: String = text.chars().take(SHOWN).collect();
            let fields = json!({ "bytes": bytes.len(), "text": text });
            self.add("half a line taken away", fields)?;
        }
        self.disk.file.sync_all()
    }

    fn add(&mut self, event: &str, fields: Value) -> io::Result<()> {
        let mut all = Map::new();
        all.insert("line".into(), json!(self.end.lines + 1));
        all.insert("at".into(), json!(now()));
        all.insert("event".into(), json!(event));
        if let Value::Object(fields) = fields {
            all.extend(fields);
        }
        let text = Value::Object(all).to_string();
        let hash = self.end.hash_of(&text);
        let line = format!("{hash} {text}\n");
        if let Err(e) = (&self.disk.file).write_all(line.as_bytes()) {
            // Half a line would break the chain.
            self.disk.file.set_len(self.length)?;
            return Err(e);
        }
        self.length += line.len() as u64;
        self.end.follow(hash);
        self.disk.dirty.store(true, Ordering::Release);
        Ok(())
    }
}

/// The time of day, in UTC.
fn now() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let since = since.unwrap_or_default();
    let mut at: libc::tm = libc::tm {
        tm_sec: 0,
        tm_min: 0,
        tm_hour: 0,
        tm_mday: 0,
        tm_mon: 0,
        tm_year: 0,
        tm_wday: 0,
        tm_yday: 0,
        tm_isdst: 0,
        tm_gmtoff: 0,
        tm_zone: std::ptr::null(),
    };
    let seconds = since.as_secs() as libc::time_t;
    // SAFETY: pointers to a live number and a live structure.
    unsafe { libc::gmtime_r(&raw const seconds, &raw mut at) };
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
        at.tm_year + 1900,
        at.tm_mon + 1,
        at.tm_mday,
        at.tm_hour,
        at.tm_min,
        at.tm_sec,
        since.subsec_millis()
    )
}

/// Another process that writes the audit.
type Writer = Box<dyn Fn(&str, Value) -> io::Result<()> + Send>;

/// Where lines go.
enum Book {
    Here(Chain),
    Elsewhere(Writer),
}

/// Where a server notes what it does, if anywhere. Cheap to clone.
#[derive(Clone, Default)]
pub struct Audit(Option<Arc<Mutex<Book>>>);

impl Audit {
    /// Goes on with a file, or begins one. One that is not whole is an error.
    pub fn open(path: &Path) -> Result<Self> {
        let book = Book::Here(Chain::open(path)?);
        Ok(Self(Some(Arc::new(Mutex::new(book)))))
    }

    /// From now on another process writes the file: what there is to note is told to it.
    pub fn hand_on(&self, to: impl Fn(&str, Value) -> io::Result<()> + Send + 'static) {
        self.sync();
        if let Some(book) = &self.0 {
            *lock(book) = Book::Elsewhere(Box::new(to));
        }
    }

    /// Goes on with the file: the other process has gone.
    pub fn take_back(&self, path: &Path) -> Result<()> {
        if let Some(book) = &self.0 {
            let mut book = lock(book);
            if matches!(*book, Book::Elsewhere(_)) {
                *book = Book::Here(Chain::open(path)?);
            }
        }
        Ok(())
    }

    /// Notes something. An error is for those who must not go on without.
    pub fn note(&self, event: &str, fields: Value) -> Result<(), String> {
        let Some(book) = &self.0 else { return Ok(()) };
        let noted = match &mut *lock(book) {
            Book::Here(chain) => chain.add(event, fields),
            Book::Elsewhere(tell) => tell(event, fields),
        };
        noted.map_err(|e| {
            let why = e.to_string();
            tracing::error!(event, why, "the audit cannot be written");
            format!("the server cannot write its audit: {why}")
        })
    }

    /// Has the disk take what was written.
    pub fn sync(&self) {
        let Some(book) = &self.0 else { return };
        let disk = match &*lock(book) {
            Book::Here(chain) => chain.disk.clone(),
            Book::Elsewhere(_) => return,
        };
        // Others write meanwhile.
        disk.sync();
    }
}

/// Runs the command.
pub fn run(a: &Args) -> Result<()> {
    let What::Verify { file } = &a.what;
    let of = || format!("the audit {}", file.display());
    let opened = File::open(file).with_context(of)?;
    match verify(BufReader::new(opened)) {
        Ok(end) => println!("{} lines, whole; the last hash is {}", end.lines, end.hash),
        Err(why) => bail!("{} is broken: {why}", of()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn written(path: &Path) {
        let audit = Audit::open(path).unwrap();
        for n in 0..5 {
            let long = "x".repeat(n);
            audit.note("test", json!({ "n": n, "text": long })).unwrap();
        }
        audit.sync();
    }

    fn checked(text: &str) -> Result<u64, String> {
        verify(text.as_bytes())
            .map(|e| e.lines)
            .map_err(|e| e.to_string())
    }

    #[test]
    fn the_first_line_that_is_not_what_it_was_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit");
        written(&path);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(checked(&text), Ok(5));
        let lines: Vec<_> = text.split_inclusive('\n').collect();
        let without = |i: usize| [&lines[..i], &lines[i + 1..]].concat().concat();
        for i in 0..4 {
            let changed = text.replacen(&format!("\"n\":{i}"), "\"n\":9", 1);
            let said = checked(&changed).unwrap_err();
            assert!(said.starts_with(&format!("line {} ", i + 1)), "{said}");
            let said = checked(&without(i)).unwrap_err();
            assert!(said.starts_with(&format!("line {} ", i + 1)), "{said}");
        }
        let swapped = [lines[0], lines[2], lines[1], lines[3], lines[4]].concat();
        assert!(checked(&swapped).unwrap_err().starts_with("line 2 "));
        let twice = [lines[0], lines[0]].concat();
        assert!(checked(&twice).unwrap_err().starts_with("line 2 "));
        assert!(
            checked(text.trim_end())
                .unwrap_err()
                .starts_with("line 5, the last, is not whole")
        );
        // Any single byte.
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            assert!(verify(&*bytes).is_err(), "byte {at}");
        }
    }

    #[test]
    fn a_file_is_free_once_nobody_notes_in_it_whoever_has_it_open() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit");
        let first = Chain::open(&path).unwrap();
        assert!(Chain::open(&path).is_err());
        // As the clerk has it, and a process between its beginning and the program it runs.
        let open = (first.disk.clone(), first.disk.file.try_clone().unwrap());
        drop(first);
        let next = Chain::open(&path).unwrap();
        // Nor do the old ones free it from others.
        drop(open);
        assert!(Chain::open(&path).is_err());
        drop(next);
    }

    #[test]
    fn half_a_last_line_is_taken_away_and_that_is_noted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit");
        written(&path);
        let whole = fs::read(&path).unwrap();
        let last = whole[..whole.len() - 1]
            .iter()
            .rposition(|b| *b == b'\n')
            .unwrap()
            + 1;
        // Cut anywhere in its last line; and as file systems leave a block that was not written.
        let mut cuts: Vec<_> = (last + 1..whole.len())
            .map(|at| whole[..at].to_vec())
            .collect();
        cuts.push([&whole[..last], &[0; 50_000]].concat());
        for cut in cuts {
            fs::write(&path, &cut).unwrap();
            let only_its_end = cut.len() == whole.len() - 1;
            drop(Audit::open(&path).unwrap());
            let text = fs::read_to_string(&path).unwrap();
            assert!(text.as_bytes().starts_with(&whole[..last]));
            assert_eq!(checked(&text), Ok(5), "{text}");
            if only_its_end {
                assert_eq!(text.as_bytes(), whole);
            } else {
                let (_, json) = text.lines().last().unwrap().split_once(' ').unwrap();
                let said: Value = serde_json::from_str(json).unwrap();
                assert_eq!(said["event"], "half a line taken away");
                assert_eq!(said["bytes"], cut.len() - last);
                let shown = cut.len().min(last + SHOWN);
                let half = String::from_utf8_lossy(&cut[last..shown]);
                assert_eq!(said["text"], *half);
            }
            // And on it goes.
            let audit = Audit::open(&path).unwrap();
            audit.note("more", Value::Null).unwrap();
            assert_eq!(checked(&fs::read_to_string(&path).unwrap()), Ok(6));
        }
    }

    #[test]
    fn a_server_goes_on_with_what_is_whole_and_with_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit");
        written(&path);
        {
            let audit = Audit::open(&path).unwrap();
            let again = Audit::open(&path).err().unwrap().to_string();
            assert!(again.contains("another server writes"), "{again}");
            audit.note("more", Value::Null).unwrap();
        }
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(checked(&text), Ok(6));
        let other = dir.path().join("other");
        fs::write(&other, text.replace("more", "less")).unwrap();
        fs::set_permissions(&other, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let said = Audit::open(&other).err().unwrap().to_string();
        assert!(said.contains("broken: line 6 "), "{said}");
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o640)).unwrap();
        let said = Audit::open(&path).err().unwrap().to_string();
        assert!(said.contains("alone"), "{said}");
        std::os::unix::fs::symlink(&other, dir.path().join("link")).unwrap();
        assert!(Audit::open(&dir.path().join("link")).is_err());
    }
}
