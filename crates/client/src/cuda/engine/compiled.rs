//! What compilers inside the program made, kept between programs.
//!
//! NVRTC (12.9 and later) asks the driver for what it compiled before, through a table of functions
//! that is not documented, and skips its optimizer and assembler when there is an answer. cuDNN
//! compiles a kernel for each new shape in that way: without an answer a language model's first
//! tokens take ten times as long. The compiler runs in the program, so its results are kept where
//! the program runs, in files.
//!
//! As with the driver's own cache, `CUDA_CACHE_DISABLE=1` switches this off, `CUDA_CACHE_PATH` says
//! which folder to use, and `CUDA_CACHE_MAXSIZE` how many bytes to keep. The program loads what it
//! finds here as code, so the folder must be the user's own, and closed to all others' writing.

use crate::config::var;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Bytes kept, unless the environment says otherwise; the driver's own figures.
const USUAL: u64 = 1 << 30;
const MOST: u64 = 4 << 30;

/// Of so many results that are kept, one makes the folder be looked through.
const LOOKS: u8 = 16;

/// What a result is of: everything that a compiler says went into it, in a hash.
#[derive(Clone, Copy)]
pub struct Origin([u8; 32]);

impl Origin {
    /// The origin with these parts.
    pub fn of(parts: &[&[u8]]) -> Self {
        let mut hasher = blake3::Hasher::new();
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Self(*hasher.finalize().as_bytes())
    }

    /// One of several results with the same origin.
    pub fn part(&self, number: u32) -> Self {
        Self::of(&[&self.0, &number.to_le_bytes()])
    }
}

/// A folder of results.
pub struct Folder {
    path: PathBuf,
    /// The most bytes that its files take.
    most: u64,
}

impl Folder {
    /// The folder that the environment asks for; none when it asks for none, or when others could
    /// write there.
    pub fn from_env() -> Option<Self> {
        if var("CUDA_CACHE_DISABLE").is_some_and(|v| v.trim() == "1") {
            return None;
        }
        let own = |base: String| Path::new(&base).join("busbar/compiled");
        let path = var("CUDA_CACHE_PATH")
            .map(own)
            .or_else(|| var("XDG_CACHE_HOME").map(own))
            .or_else(|| var("HOME").map(|home| own(format!("{home}/.cache"))))
            .filter(|path| path.is_absolute())?;
        let most = var("CUDA_CACHE_MAXSIZE").and_then(|v| v.trim().parse().ok());
        Self::open(path, most.unwrap_or(USUAL).min(MOST))
            .inspect_err(|e| crate::log!(Debug, "results of compilers are not kept: {e}"))
            .ok()
    }

    fn open(path: PathBuf, most: u64) -> io::Result<Self> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&path)?;
        let status = fs::symlink_metadata(&path)?;
        // SAFETY: has no preconditions.
        let user = unsafe { libc::geteuid() };
        if !status.is_dir() || status.uid() != user || status.mode() & 0o022 != 0 {
            let why = format!("{} is open to other users", path.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        Ok(Self { path, most })
    }

    fn file(&self, origin: &Origin) -> PathBuf {
        self.path
            .join(blake3::Hash::from(origin.0).to_hex().as_str())
    }

    /// What was kept under `origin`, if it is there and whole.
    pub fn find(&self, origin: &Origin) -> Option<Vec<u8>> {
        let file = File::open(self.file(origin)).ok()?;
        if file.metadata().ok()?.len() > self.most {
            return None;
        }
        let mut bytes = Vec::new();
        (&file).read_to_end(&mut bytes).ok()?;
        let (sum, result) = bytes.split_first_chunk::<32>()?;
        if *sum != self.sum(origin, result) {
            return None;
        }
        // What is used stays longest.
        let _ = file.set_modified(SystemTime::now());
        bytes.drain(..32);
        Some(bytes)
    }

    /// Keeps `result` under `origin`.
    pub fn keep(&self, origin: &Origin, result: &[u8]) -> io::Result<()> {
        if result.len() as u64 > self.most / 4 {
            return Ok(());
        }
        let made = self
            .file(origin)
            .with_extension(std::process::id().to_string());
        let written = File::create_new(&made).and_then(|mut file| {
            file.write_all(&self.sum(origin, result))?;
            file.write_all(result)?;
            fs::rename(&made, self.file(origin))
        });
        if written.is_err() {
            let _ = fs::remove_file(&made);
        }
        if origin.0[0].is_multiple_of(LOOKS) {
            self.make_room()?;
        }
        written
    }

    /// What stands before a result, by which it is known to be whole and in its place.
    fn sum(&self, origin: &Origin, result: &[u8]) -> [u8; 32] {
        *blake3::keyed_hash(&origin.0, result).as_bytes()
    }

    /// Removes what was not used for longest, until a quarter of the room is free, when there is
    /// too much.
    fn make_room(&self) -> io::Result<()> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            // Another program may have removed the file meanwhile.
            if let Ok(status) = entry.metadata() {
                let taken = status.blocks() * 512;
                files.push((status.modified()?, taken, entry.path()));
            }
        }
        let mut taken: u64 = files.iter().map(|(_, taken, _)| taken).sum();
        if taken <= self.most {
            return Ok(());
        }
        files.sort_unstable();
        for (_, size, path) in files {
            if taken <= self.most / 4 * 3 {
                break;
            }
            let _ = fs::remove_file(path);
            taken -= size;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Folder, Origin};
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn folder(most: u64) -> (tempfile::TempDir, Folder) {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = Folder::open(dir.path().join("a/b"), most).expect("it opens");
        (dir, folder)
    }

    #[test]
    fn a_result_is_found_under_its_origin_alone() {
        let (_dir, folder) = folder(1 << 20);
        let origin = Origin::of(&[b"source", b"options"]);
        assert!(folder.find(&origin).is_none());
        folder.keep(&origin, b"code").expect("it is kept");
        assert_eq!(folder.find(&origin).as_deref(), Some(&b"code"[..]));
        folder.keep(&origin, b"other").expect("again");
        assert_eq!(folder.find(&origin).as_deref(), Some(&b"other"[..]));
        for other in [
            Origin::of(&[b"sourceo", b"ptions"]),
            Origin::of(&[b"source", b"options", b""]),
            origin.part(0),
        ] {
            assert!(folder.find(&other).is_none());
        }
    }

    #[test]
    fn a_result_that_was_changed_or_moved_is_not_used() {
        let (_dir, folder) = folder(1 << 20);
        let (a, b) = (Origin::of(&[b"a"]), Origin::of(&[b"b"]));
        folder.keep(&a, b"code of a").expect("it is kept");
        fs::copy(folder.file(&a), folder.file(&b)).expect("a copy");
        assert!(folder.find(&b).is_none());
        let mut bytes = fs::read(folder.file(&a)).expect("the file");
        *bytes.last_mut().expect("a byte") ^= 1;
        fs::write(folder.file(&a), &bytes).expect("it is written");
        assert!(folder.find(&a).is_none());
        fs::write(folder.file(&a), b"short").expect("it is written");
        assert!(folder.find(&a).is_none());
    }

    #[test]
    fn there_is_never_much_more_than_allowed_and_what_was_used_stays() {
        let most = 1 << 20;
        let (_dir, folder) = folder(most);
        let used = Origin::of(&[b"used"]);
        folder.keep(&used, &[1; 64 << 10]).expect("it is kept");
        for i in 0_u32..400 {
            let origin = Origin::of(&[&i.to_le_bytes()]);
            folder.keep(&origin, &[2; 16 << 10]).expect("it is kept");
            assert!(folder.find(&used).is_some(), "after {i}");
        }
        folder.make_room().expect("it looks");
        let files = fs::read_dir(&folder.path).expect("the folder");
        let sizes = files.map(|f| f.expect("a file").metadata().expect("its size").len());
        assert!(sizes.sum::<u64>() <= most);
    }

    #[test]
    fn a_folder_that_others_can_write_is_not_used() {
        let dir = tempfile::tempdir().expect("a folder");
        let open = fs::Permissions::from_mode(0o777);
        fs::set_permissions(dir.path(), open).expect("it is opened");
        assert!(Folder::open(dir.path().to_path_buf(), 1 << 20).is_err());
    }
}
