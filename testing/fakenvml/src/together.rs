//! What all processes have of a device that share their devices' memory: those whose
//! `FAKEDEV_TOGETHER` names the same folder, where each says what it has.

use super::state::Device;
use std::fs::{self, DirEntry, File};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// What a process that is alive has of a device: one that has ended has its file locked no more.
fn has(file: &DirEntry, d: Device) -> Option<u64> {
    let lives = File::open(file.path()).ok()?.try_lock_shared().is_err();
    let text = fs::read_to_string(file.path()).ok().filter(|_| lives)?;
    text.split_whitespace().nth(d - 1)?.parse().ok()
}

/// How many bytes of a device nobody has, if processes share it.
pub fn free(d: Device) -> Option<u64> {
    let folder = std::env::var_os("FAKEDEV_TOGETHER")?;
    let all = number("FAKEDEV_MEMORY_MIB").unwrap_or(4096) << 20;
    let files = fs::read_dir(folder).ok()?.flatten();
    let used: u64 = files.filter_map(|f| has(&f, d)).sum();
    Some(all.saturating_sub(used))
}
