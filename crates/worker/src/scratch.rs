//! Folders that a worker needs for a moment. One that ends in the midst of it leaves its folder
//! behind; the server, which sees it end, knows the folder by the process in its name and removes
//! it.

use busbar_control::attach::scratch_prefix;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// A new folder that is this process's alone, removed when this is dropped.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes one.
    pub fn new() -> io::Result<Self> {
        let name = format!("{}XXXXXX\0", scratch_prefix(std::process::id()));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_go_with_their_owner() {
        let scratch = Scratch::new().expect("a folder");
        let path = scratch.path().to_path_buf();
        std::fs::write(path.join("file"), "text").expect("a file");
        drop(scratch);
        assert!(!path.exists());
    }
}
