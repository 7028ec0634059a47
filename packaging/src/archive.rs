//! Tar archives, whose bytes depend on nothing but what is packed.

use crate::files::{Files, Item, folders};
use anyhow::{Context as _, Result};
use flate2::{Compression, GzBuilder};
use std::io::Write as _;
use tar::{Builder, EntryType, Header};

/// Everything belongs to root.
pub fn tar(files: &Files, time: u32) -> Result<Vec<u8>> {
    let mut all: Vec<(String, Item)> = folders(files)
        .into_iter()
        .map(|f| (f, Item::Folder(0o755)))
        .chain(files.iter().map(|(p, i)| (p.clone(), i.clone())))
        .collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    let mut out = Builder::new(Vec::new());
    for (path, item) in all {
        let mut h = Header::new_gnu();
        h.set_mtime(time.into());
        h.set_uid(0);
        h.set_gid(0);
        h.set_username("root")?;
        h.set_groupname("root")?;
        let failed = || path.clone();
        match item {
            Item::File(mode, bytes) => {
                h.set_entry_type(EntryType::Regular);
                h.set_mode(mode);
                h.set_size(bytes.len() as u64);
                out.append_data(&mut h, &path, &bytes[..])
            }
            Item::Link(to) => {
                h.set_entry_type(EntryType::Symlink);
                h.set_mode(0o777);
                h.set_size(0);
                out.append_link(&mut h, &path, &to)
            }
            Item::Folder(mode) => {
                h.set_entry_type(EntryType::Directory);
                h.set_mode(mode);
                h.set_size(0);
                out.append_data(&mut h, format!("{path}/"), &[][..])
            }
        }
        .with_context(failed)?;
    }
    Ok(out.into_inner()?)
}

/// Compressed; the header names no file, no time and no system.
pub fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut out = GzBuilder::new()
        .mtime(0)
        .operating_system(255)
        .write(Vec::new(), Compression::best());
    out.write_all(bytes)?;
    Ok(out.finish()?)
}
