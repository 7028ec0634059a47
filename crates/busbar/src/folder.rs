//! Folders that the server makes for workers that may do less than it.
//!
//! Anyone who can write to a folder can put a link in the place of any name in it. So a path is
//! followed name by name, each in the folder that is open by then, and a link only where root or
//! this process's user alone could have put it. Beyond making the folder and giving it to its user
//! the server does nothing there: workers do the rest, with their own rights.

use std::collections::VecDeque;
use std::ffi::{CString, OsString};
use std::fs::{File, Metadata};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// The most links on a path.
const MOST_LINKS: usize = 40;

/// What tells whether a file has changed: its number, time and length.
pub type Version = (u64, i64, i64, u64);

/// What tells whether the file has changed of which this is known.
pub fn version(m: &Metadata) -> Version {
    (m.ino(), m.mtime(), m.mtime_nsec(), m.len())
}

/// A folder that is open, whatever happens to its name.
pub struct Folder {
    fd: OwnedFd,
    /// Whether nobody but root and this user could have chosen what lies under each name on the way
    /// here.
    certain: bool,
}

fn check(rc: i32) -> io::Result<i32> {
    match rc {
        -1 => Err(io::Error::last_os_error()),
        n => Ok(n),
    }
}

fn c(name: &[u8]) -> io::Result<CString> {
    CString::new(name).map_err(|_| io::ErrorKind::InvalidInput.into())
}

impl Folder {
    /// Opens a folder without following a last link; `None` when it is no folder.
    fn open(at: i32, name: &[u8], certain: bool) -> io::Result<Option<Self>> {
        let flags = libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        // SAFETY: a C string; the descriptor that comes is ours.
        let fd = unsafe {
            let fd = check(libc::openat(at, c(name)?.as_ptr(), flags))?;
            OwnedFd::from_raw_fd(fd)
        };
        let it = Self { fd, certain };
        let is_folder = it.status()?.st_mode & libc::S_IFMT == libc::S_IFDIR;
        Ok(is_folder.then_some(it))
    }

    fn status(&self) -> io::Result<libc::stat> {
        // SAFETY: all zeros is a valid structure of numbers, and it is live.
        unsafe {
            let mut s: libc::stat = std::mem::zeroed();
            check(libc::fstat(self.fd.as_raw_fd(), &raw mut s))?;
            Ok(s)
        }
    }

    /// Whether root and this user alone can put names into it; `sticky`: or take away others'.
    pub fn guarded(&self, sticky: bool) -> io::Result<bool> {
        let s = self.status()?;
        let others = s.st_mode & 0o022 != 0 && !(sticky && s.st_mode & libc::S_ISVTX != 0);
        Ok(is_ours(s.st_uid) && !others)
    }

    /// Opens a folder, and makes what is missing on the way there.
    pub fn make(path: &Path) -> io::Result<Self> {
        Self::make_with(path, 0o755)
    }

    /// Opens a folder for what is nobody else's, and makes what is missing on the way there.
    pub fn private(path: &Path) -> io::Result<Self> {
        let it = Self::make_with(path, 0o700)?;
        match it.certain && it.guarded(false)? {
            true => Ok(it),
            false => Err(io::Error::other(
                "others can write to it, or to a folder on the way there",
            )),
        }
    }

    /// Opens a file in it; no link is followed.
    fn file(&self, name: &str, flags: i32) -> io::Result<File> {
        let flags = flags | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        let at = self.fd.as_raw_fd();
        // SAFETY: a C string and an open folder; the descriptor that comes is ours.
        unsafe {
            let name = c(name.as_bytes())?;
            let fd = check(libc::openat(at, name.as_ptr(), flags, 0o600))?;
            Ok(File::from_raw_fd(fd))
        }
    }

    /// What is in a file of it; `None` when there is none. A file that others can read or change is
    /// an error.
    pub fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let mut file = match self.file(name, libc::O_RDONLY | libc::O_NONBLOCK) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let m = file.metadata()?;
        if !m.is_file() || !is_ours(m.uid()) || m.mode() & 0o077 != 0 {
            let why = format!("{name} is not this user's alone: `chmod 600` it, or remove it");
            return Err(io::Error::other(why));
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    /// What tells whether a file of it has changed.
    pub fn version(&self, name: &str) -> Option<Version> {
        let m = self.file(name, libc::O_PATH).ok()?.metadata().ok()?;
        Some(version(&m))
    }

    /// Writes a file of this user's alone, whole or not at all; where there is one already, `again`
    /// says whether that is replaced. Whether it was written.
    pub fn write(&self, name: &str, bytes: &[u8], again: bool) -> io::Result<bool> {
        let new = format!("{name}.{}.new", std::process::id());
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL;
        let mut file = self.file(&new, flags)?;
        let (at, from, to) = (self.fd.as_raw_fd(), c(new.as_bytes())?, c(name.as_bytes())?);
        let placed = file
            .write_all(bytes)
            .and_then(|()| file.sync_all())
            .and_then(|()| {
                // SAFETY: C strings and an open folder.
                check(unsafe {
                    match again {
                        true => libc::renameat(at, from.as_ptr(), at, to.as_ptr()),
                        false => libc::linkat(at, from.as_ptr(), at, to.as_ptr(), 0),
                    }
                })
            });
        if !again || placed.is_err() {
            // SAFETY: as above.
            unsafe { libc::unlinkat(at, from.as_ptr(), 0) };
        }
        match placed {
            Ok(_) => Ok(true),
            Err(e) if !again && e.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Keeps other processes that ask for the same out until what is returned is dropped.
    pub fn lock(&self) -> io::Result<File> {
        let file = self.file("lock", libc::O_RDWR | libc::O_CREAT)?;
        // SAFETY: a descriptor of ours.
        check(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) })?;
        Ok(file)
    }

    fn make_with(path: &Path, mode: libc::mode_t) -> io::Result<Self> {
        let path = std::path::absolute(path)?;
        let mut names: VecDeque<OsString> = VecDeque::new();
        let split = |p: &Path| -> Vec<OsString> {
            let plain = |c: Component<'_>| match c {
                Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
                c => Some(c.as_os_str().to_os_string()),
            };
            p.components().filter_map(plain).collect()
        };
        let none = || io::Error::from(io::ErrorKind::NotADirectory);
        let root = || Self::open(libc::AT_FDCWD, b"/", true)?.ok_or_else(none);
        names.extend(split(&path));
        let (mut here, mut links): (Self, usize) = (root()?, 0);
        while let Some(name) = names.pop_front() {
            let at = here.fd.as_raw_fd();
            let name = name.as_bytes();
            // SAFETY: a C string and an open folder.
            let made = unsafe { check(libc::mkdirat(at, c(name)?.as_ptr(), mode)) };
            if let Err(e) = made
                && e.kind() != io::ErrorKind::AlreadyExists
                // On a file system that is read only, or where it may not, what is there will do.
                && !exists(at, name)
            {
                return Err(e);
            }
            let certain = here.certain && here.guarded(true)?;
            if let Some(next) = Self::open(at, name, certain)? {
                // In a folder for all, only what is ours stays what it is.
                let certain = certain && (here.guarded(false)? || is_ours(next.status()?.st_uid));
                here = Self { certain, ..next };
                continue;
            }
            links += 1;
            let target = read_link(at, name)?;
            if !(here.certain && here.guarded(false)?) || links > MOST_LINKS {
                return Err(io::Error::other(format!(
                    "{} is a link that others could have made; name the folder itself",
                    String::from_utf8_lossy(name)
                )));
            }
            for n in split(&target).into_iter().rev() {
                names.push_front(n);
            }
            if target.is_absolute() {
                here = root()?;
            }
        }
        Ok(here)
    }
}

/// Whether it is root's or this process's user's.
pub fn is_ours(uid: u32) -> bool {
    // SAFETY: no preconditions.
    uid == 0 || uid == unsafe { libc::geteuid() }
}

fn exists(at: i32, name: &[u8]) -> bool {
    let Ok(name) = c(name) else { return false };
    // SAFETY: a C string, an open folder, and a live structure of numbers.
    unsafe {
        let mut s: libc::stat = std::mem::zeroed();
        libc::fstatat(at, name.as_ptr(), &raw mut s, libc::AT_SYMLINK_NOFOLLOW) == 0
    }
}

fn read_link(at: i32, name: &[u8]) -> io::Result<PathBuf> {
    let mut buf = vec![0u8; libc::PATH_MAX as usize];
    // SAFETY: a C string, an open folder, and a buffer of the length given.
    let n = unsafe {
        let place = buf.as_mut_ptr().cast();
        libc::readlinkat(at, c(name)?.as_ptr(), place, buf.len())
    };
    // What is no link is a file.
    let n = usize::try_from(n).map_err(|_| io::Error::from(io::ErrorKind::NotADirectory))?;
    buf.truncate(n);
    Ok(PathBuf::from(OsString::from_vec(buf)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    }

    #[test]
    fn links_count_only_where_others_cannot_make_them() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        fs::create_dir(at("real")).unwrap();
        symlink("real", at("link")).unwrap();
        symlink(at("real"), at("absolute")).unwrap();
        Folder::make(&at("link/new/deep")).unwrap();
        Folder::make(&at("absolute/more")).unwrap();
        assert!(at("real/new/deep").is_dir() && at("real/more").is_dir());
        mode(home.path(), 0o777);
        for name in ["link", "link/other", "absolute/other"] {
            let e = Folder::make(&at(name)).err().expect("a link of others");
            assert!(e.to_string().contains("is a link"), "{e}");
        }
        assert!(!at("real/other").exists());
        assert!(Folder::make(&at("real")).is_ok());
        fs::write(at("file"), "x").unwrap();
        assert!(Folder::make(&at("file/in")).is_err());
        mode(home.path(), 0o700);
        symlink("round", at("round")).unwrap();
        assert!(Folder::make(&at("round")).is_err());
    }

    #[test]
    fn what_is_private_is_read_and_written_nowhere_else() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        let f = Folder::private(&at("new/state")).unwrap();
        assert_eq!(fs::metadata(at("new/state")).unwrap().mode() & 0o777, 0o700);
        assert_eq!((f.read("key").unwrap(), f.version("key")), (None, None));
        assert!(f.write("key", b"one", false).unwrap());
        assert!(!f.write("key", b"two", false).unwrap(), "it stays");
        let old = f.version("key");
        assert_eq!(f.read("key").unwrap().unwrap(), b"one");
        assert!(f.write("key", b"three", true).unwrap());
        assert_eq!(f.read("key").unwrap().unwrap(), b"three");
        assert_ne!(f.version("key"), old);
        assert_eq!(
            fs::metadata(at("new/state/key")).unwrap().mode() & 0o777,
            0o600
        );
        assert_eq!(
            fs::read_dir(at("new/state")).unwrap().count(),
            1,
            "nothing is left"
        );
        mode(&at("new/state/key"), 0o640);
        assert!(f.read("key").unwrap_err().to_string().contains("chmod 600"));
        symlink("key", at("new/state/link")).unwrap();
        assert!(f.read("link").is_err());
        mode(&at("new"), 0o777);
        assert!(Folder::private(&at("new/state")).is_err() || !at("new/state").exists());
        mode(&at("new"), 0o700);
        mode(&at("new/state"), 0o770);
        assert!(Folder::private(&at("new/state")).is_err());
    }
}
