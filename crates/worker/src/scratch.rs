//! Folders that a worker needs for a moment. One that ends in the midst of it leaves its folder
//! behind; the server, which sees it end, knows the folder by the process in its name.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A new folder that is this process's alone, removed when this is dropped.
pub struct Scratch(PathBuf);

fn prefix(process: u32) -> String {
    format!("busbar-{process}-")
}

impl Scratch {
    /// Makes one.
    pub fn new() -> io::Result<Self> {
        let name = format!("{}XXXXXX\0", prefix(std::process::id()));
        let name = std::env::temp_dir().join(name);
        let mut name = name.into_os_string().into_encoded_bytes();
        // SAFETY: a C string that ends in six X, to be written to. What lies there already, a link
        // of somebody else's, say, is not taken.
        if unsafe { libc::mkdtemp(name.as_mut_ptr().cast()) }.is_null() {
            return Err(io::Error::last_os_error());
        }
        name.pop();
        Ok(Self(PathBuf::from(OsString::from_vec(name))))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Removes what a process of this user that has ended left behind. What others have put there under
/// such a name is theirs.
pub fn sweep(process: u32, user: u32) {
    let prefix = prefix(process);
    let all = std::fs::read_dir(std::env::temp_dir());
    for f in all.into_iter().flatten().flatten() {
        let name = f.file_name();
        let named = name.as_encoded_bytes().starts_with(prefix.as_bytes());
        if named && f.metadata().is_ok_and(|m| m.is_dir() && m.uid() == user) {
            // Follows no link: no more than what is in the folder goes.
            let _ = std::fs::remove_dir_all(f.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_go_with_their_owner_or_with_its_process() {
        let dropped = Scratch::new().expect("a folder");
        let path = dropped.path().to_path_buf();
        std::fs::write(path.join("file"), "text").expect("a file");
        drop(dropped);
        assert!(!path.exists());
        let left = std::mem::ManuallyDrop::new(Scratch::new().expect("a folder"));
        std::fs::create_dir(left.path().join("folder")).expect("a folder");
        let us = std::fs::metadata(left.path()).expect("it is there").uid();
        sweep(u32::MAX, us);
        sweep(std::process::id(), us + 1);
        assert!(left.path().exists());
        sweep(std::process::id(), us);
        assert!(!left.path().exists());
    }
}
