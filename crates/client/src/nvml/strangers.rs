//! NCCL that is not Busbar's: a program that has it linked in asks NVML what devices can do, and
//! then waits for memory of theirs that is elsewhere.

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

/// The program asks what one device can do with itself, as NCCL does of all pairs, and hardly
/// anybody else. Where Busbar's NCCL was to be used, that is told, once.
pub fn suspect(told: &AtomicBool) {
    let ours = crate::config::var("BUSBAR_NCCL").is_some_and(|v| v == "1");
    if !ours || told.swap(true, Ordering::Relaxed) {
        return;
    }
    let own = holder(&loaded());
    crate::log!(
        Lost,
        "{own} has an NCCL of its own, which cannot work with GPUs that are elsewhere: build it \
         with NCCL as a shared library (Horovod: HOROVOD_NCCL_LINK=SHARED), which Busbar stands in \
         for"
    );
}

/// The files that the program has loaded.
fn loaded() -> Vec<String> {
    unsafe extern "C" fn note(info: *mut libc::dl_phdr_info, _: usize, all: *mut c_void) -> c_int {
        // SAFETY: the loader's structure, whose name is a C string, and the list below.
        unsafe {
            let name = CStr::from_ptr((*info).dlpi_name);
            let all = &mut *all.cast::<Vec<String>>();
            all.push(name.to_string_lossy().into_owned());
        }
        0
    }
    let mut all: Vec<String> = Vec::new();
    // SAFETY: the function above, and a list that outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut all).cast()) };
    all
}

/// Which of them has it, as far as a name tells.
fn holder(files: &[String]) -> String {
    let found = files.iter().find(|f| f.contains("/horovod/"));
    found.cloned().unwrap_or_else(|| "this program".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_of_horovods_is_named() {
        let files = |all: &[&str]| all.iter().map(|f| f.to_string()).collect::<Vec<_>>();
        let lib = "/site/horovod/torch/mpi_lib_v2.cpython-312-x86_64-linux-gnu.so";
        assert_eq!(holder(&files(&["", "/lib/libc.so.6", lib])), lib);
        assert_eq!(holder(&files(&["", "/lib/libc.so.6"])), "this program");
        assert!(loaded().iter().any(|f| f.contains("libc.so")));
    }
}
