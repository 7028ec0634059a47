//! Headers that a program is built with: the client's files, for as long as the build takes.

use super::prelude::*;
use crate::scratch::Scratch;
use busbar_wire::FOLDER;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that the headers of all builds of a session may take at a time.
const MOST: usize = 256 << 20;
/// What a file or a folder takes beside its bytes.
const EACH: usize = 4096;

/// Room for headers, and how much of it is taken.
pub struct Room {
    most: usize,
    taken: AtomicUsize,
}

impl Room {
    /// Room for so many bytes.
    fn of(most: usize) -> Self {
        let taken = AtomicUsize::new(0);
        Self { most, taken }
    }
}

impl Default for Room {
    fn default() -> Self {
        Self::of(MOST)
    }
}

/// A part of it.
struct Taken {
    room: Arc<Room>,
    bytes: usize,
}

impl Taken {
    fn nothing(room: &Arc<Room>) -> Self {
        let (room, bytes) = (room.clone(), 0);
        Self { room, bytes }
    }

    /// Takes what so many bytes at a path need, its folders included.
    fn at(&mut self, path: &str, bytes: usize) -> Result<(), Fail> {
        self.more(bytes + EACH * (1 + path.matches('/').count()))
    }

    /// Takes more, if there is as much.
    fn more(&mut self, bytes: usize) -> Result<(), Fail> {
        let most = self.room.most;
        let fits = |taken: usize| taken.checked_add(bytes).filter(|n| *n <= most);
        let (set, fetch) = (Ordering::AcqRel, Ordering::Relaxed);
        match self.room.taken.fetch_update(set, fetch, fits) {
            Ok(_) => {
                self.bytes += bytes;
                Ok(())
            }
            Err(_) => Err(Fail::Code(CL_OUT_OF_HOST_MEMORY)),
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.room.taken.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

/// Headers of the client's in a folder of this machine, for the length of a build.
pub struct Headers {
    folder: Option<Scratch>,
    /// Given back after the folder is gone.
    taken: Taken,
    /// Whether all of them are there. A build without some of them is not the one that the client's
    /// files name.
    pub whole: bool,
}

/// A path of the client's below a folder of ours, and nowhere else.
fn below(root: &Path, path: &str) -> PathBuf {
    let mut out = PathBuf::new();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(p) => out.push(p),
            Component::ParentDir => {
                out.pop();
            }
            _ => {}
        }
    }
    root.join(out)
}

impl Headers {
    pub fn unpack(files: &[u8], room: &Arc<Room>) -> Result<Self, Fail> {
        let mut taken = Taken::nothing(room);
        if files.is_empty() {
            return Ok(Self {
                folder: None,
                taken,
                whole: true,
            });
        }
        let scratch = Scratch::new().map_err(|_| Fail::Code(CL_OUT_OF_HOST_MEMORY))?;
        let mut r = Reader::new(files);
        let mut whole = true;
        for _ in 0..r.count(1 << 16, 8)? {
            let (path, contents) = (r.str()?, r.bytes()?);
            let to = below(scratch.path(), path);
            taken.at(path, contents.len())?;
            let written = to
                .parent()
                .map_or(Ok(()), std::fs::create_dir_all)
                .and_then(|()| std::fs::write(&to, contents));
            // A header that cannot be stored shows as a missing one in the build's log.
            if written.is_err() {
                whole = false;
                break;
            }
        }
        Ok(Self {
            folder: Some(scratch),
            taken,
            whole,
        })
    }

    /// The options with include folders where the headers are now, and macros that name some.
    pub fn options(&mut self, options: &str) -> Result<String, Fail> {
        let root = self.folder.as_ref().map(|f| f.path().display().to_string());
        let options = options.replace(FOLDER, root.as_deref().unwrap_or_default());
        let mut out = String::new();
        let mut rest = options.as_str();
        while let Some(i) = rest.find("-I\"") {
            out.push_str(&rest[..i]);
            rest = &rest[i + 3..];
            let end = rest.find('"').unwrap_or(rest.len());
            let mut dir = rest[..end].to_string();
            if let Some(root) = &self.folder {
                let here = below(root.path(), &dir);
                self.taken.at(&dir, 0)?;
                let _ = std::fs::create_dir_all(&here);
                dir = here.display().to_string();
            }
            // Some drivers split options at blanks and know no quotes.
            match dir.contains(' ') {
                true => out.push_str(&format!("-I\"{dir}\"")),
                false => out.push_str(&format!("-I{dir}")),
            }
            rest = rest.get(end + 1..).unwrap_or_default();
        }
        out.push_str(rest);
        Ok(out)
    }

    /// A log without the folder that only this machine has.
    pub fn log(&self, log: Vec<u8>) -> Vec<u8> {
        match &self.folder {
            None => log,
            Some(root) => String::from_utf8_lossy(&log)
                .replace(&root.path().display().to_string(), "")
                .into_bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use busbar_wire::codec::Writer;

    /// Files of so many bytes each, as they come from a client.
    fn files(names: &[&str], each: usize) -> Vec<u8> {
        let mut out = Vec::new();
        let mut w = Writer::new(&mut out);
        w.u32(names.len() as u32);
        for name in names {
            w.str(name);
            w.bytes(&vec![b'x'; each]);
        }
        out
    }

    fn good<T>(done: Result<T, Fail>) -> T {
        done.unwrap_or_else(|_| panic!("there is room"))
    }

    fn taken(room: &Arc<Room>) -> usize {
        room.taken.load(Ordering::Acquire)
    }

    #[test]
    fn headers_are_there_for_the_build_and_what_they_took_comes_back() {
        let room = Arc::default();
        let two = files(&["a.h", "deep/b.h"], 100);
        let mut headers = good(Headers::unpack(&two, &room));
        let folder = headers.folder.as_ref().map(|f| f.path().to_path_buf());
        let folder = folder.expect("a folder");
        assert!(headers.whole && folder.join("deep/b.h").exists());
        assert_eq!(taken(&room), 200 + 3 * EACH);
        let options = good(headers.options("-I\"deep\" -DX"));
        assert_eq!(options, format!("-I{} -DX", folder.join("deep").display()));
        let options = good(headers.options(&format!("-DX={FOLDER}/a")));
        assert_eq!(options, format!("-DX={}/a", folder.display()));
        drop(headers);
        assert!(!folder.exists());
        assert_eq!(taken(&room), 0);
    }

    #[test]
    fn no_build_fills_the_disk_and_neither_do_all_together() {
        const SMALL: usize = 64 * EACH;
        let room = Arc::new(Room::of(SMALL));
        let long = files(&["a.h"], SMALL / 2);
        let first = good(Headers::unpack(&long, &room));
        let full = |files: &[u8]| {
            let refused = Headers::unpack(files, &room).err();
            matches!(refused, Some(Fail::Code(CL_OUT_OF_HOST_MEMORY)))
        };
        assert!(full(&long), "another half and what files take is too much");
        // Files without bytes, and folders, take room, too.
        assert!(full(&files(&["x.h"; 64], 0)));
        assert!(full(&files(&[&format!("{}x.h", "d/".repeat(64))], 0)));
        let mut empty = good(Headers::unpack(&files(&["a.h"], 0), &room));
        assert!(
            empty
                .options(&format!("-I\"{}x\"", "d/".repeat(64)))
                .is_err()
        );
        assert!(empty.options(&"-I\"d\" ".repeat(64)).is_err());
        drop(first);
        assert!(Headers::unpack(&long, &room).is_ok(), "it is given back");
    }
}
