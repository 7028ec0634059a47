//! Files that are to be packed: by path, in order.

use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;

/// One of them.
#[derive(Debug, Clone)]
pub enum Item {
    /// A file: its mode, and what is in it.
    File(u32, Vec<u8>),
    /// A symbolic link, and where it leads.
    Link(String),
    /// A folder that nothing may lie in, and its mode. Those in which files lie are there anyhow.
    Folder(u32),
}

/// What is packed, by its path from the root of the package: no slash at the beginning.
pub type Files = BTreeMap<String, Item>;

/// A file that is not run.
pub fn plain(bytes: impl Into<Vec<u8>>) -> Item {
    Item::File(0o644, bytes.into())
}

/// The folders above each path, without the root itself.
pub fn folders(files: &Files) -> Vec<String> {
    let mut all: Vec<_> = files
        .keys()
        .flat_map(|p| p.match_indices('/').map(|(at, _)| p[..at].to_string()))
        .filter(|p| !files.contains_key(p))
        .collect();
    all.sort();
    all.dedup();
    all
}

/// The same files in a folder.
pub fn below(folder: &str, files: Files) -> Files {
    let deeper = |(path, item)| (format!("{folder}/{path}"), item);
    files.into_iter().map(deeper).collect()
}

/// The SHA-256 of bytes, in hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}
