//! What is compiled is kept as NVIDIA's driver keeps it: in the folder that `CUDA_CACHE_PATH` says.

use super::image::{c_bytes, is_ptx};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;

const INFO_LOG: i32 = 3;
const INFO_LOG_SIZE: i32 = 4;

/// Compiles PTX, if it is not there yet; whether it was. Without a folder nothing is ever there.
fn compile(text: &[u8]) -> bool {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    let name = format!("{:016x}", hasher.finish());
    let Some(folder) = std::env::var_os("CUDA_CACHE_PATH").map(PathBuf::from) else {
        return false;
    };
    let (folder, file) = (folder.join(&name[..1]), &name[1..]);
    let there = std::fs::read(folder.join(file)).is_ok_and(|kept| kept == text);
    if !there {
        // What cannot be kept is compiled again.
        let _ = std::fs::create_dir_all(&folder);
        let _ = std::fs::write(folder.join(file), text);
    }
    there
}

/// Compiles PTX and says in the program's log whether it was there; other images need nothing.
///
/// # Safety
/// `image` is an image that has been read; `keys` and `values` point at `n` options each.
pub unsafe fn load(image: *const u8, n: u32, keys: *const i32, values: *const usize) {
    // SAFETY: text ends in NUL; of another image it takes what is before one.
    let text = unsafe { c_bytes(image) };
    if !std::str::from_utf8(text).is_ok_and(is_ptx) {
        return;
    }
    let said = match compile(text) {
        true => "found",
        false => "compiled",
    };
    let value = |key| {
        // SAFETY: by this function's contract.
        let mut all =
            (0..n as usize).map(|i| unsafe { (keys.add(i).read(), values.add(i).read()) });
        all.find(|(k, _)| *k == key).map(|(_, v)| v)
    };
    if let (Some(log), Some(room)) = (value(INFO_LOG), value(INFO_LOG_SIZE))
        && log != 0
        && room > said.len()
    {
        // SAFETY: the program says that there is as much room.
        unsafe {
            std::ptr::copy_nonoverlapping(said.as_ptr(), log as *mut u8, said.len());
            (log as *mut u8).add(said.len()).write(0);
        }
    }
}
