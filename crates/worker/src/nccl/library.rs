//! The library: where it is found, and with which variables it starts.

use crate::vendor::{here, of_loader, of_python};
use busbar_abi::nccl::*;
use std::ffi::{CStr, c_char, c_void};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The name by which programs ask for it.
const NAME: &str = "libnccl.so.2";

/// The oldest version whose configurations and functions are those of today's programs.
const OLDEST: i32 = 21800;

/// The job's variables that count here; what concerns the network between servers is the server's
/// own to say.
const OF_THE_JOB: [&str; 38] = [
    "NCCL_ALGO",
    "NCCL_ALLOC_P2P_NET_LL_BUFFERS",
    "NCCL_BUFFSIZE",
    "NCCL_CGA_CLUSTER_SIZE",
    "NCCL_CHECKS_DISABLE",
    "NCCL_CHECK_POINTERS",
    "NCCL_COLLNET_ENABLE",
    "NCCL_COMM_BLOCKING",
    "NCCL_COMM_SPLIT_SHARE_RESOURCES",
    "NCCL_CTA_POLICY",
    "NCCL_CUMEM_ENABLE",
    "NCCL_CUMEM_HOST_ENABLE",
    "NCCL_DEBUG",
    "NCCL_DEBUG_SUBSYS",
    "NCCL_DEBUG_TIMESTAMP_FORMAT",
    "NCCL_DMABUF_ENABLE",
    "NCCL_GRAPH_MIXING_SUPPORT",
    "NCCL_GRAPH_REGISTER",
    "NCCL_HOSTID",
    "NCCL_IB_DISABLE",
    "NCCL_LAUNCH_MODE",
    "NCCL_LAUNCH_ORDER_IMPLICIT",
    "NCCL_LL128_BUFFSIZE",
    "NCCL_LL_BUFFSIZE",
    "NCCL_LOCAL_REGISTER",
    "NCCL_MAX_CTAS",
    "NCCL_MAX_NCHANNELS",
    "NCCL_MIN_CTAS",
    "NCCL_MIN_NCHANNELS",
    "NCCL_NTHREADS",
    "NCCL_NVLS_ENABLE",
    "NCCL_P2P_DISABLE",
    "NCCL_P2P_LEVEL",
    "NCCL_PROTO",
    "NCCL_PXN_DISABLE",
    "NCCL_RUNTIME_CONNECT",
    "NCCL_SHM_DISABLE",
    "NCCL_WIN_STRIDE",
];

/// The library's functions.
pub struct Library {
    driver: Driver,
    last_error: Option<unsafe extern "C" fn(ncclComm_t) -> *const c_char>,
    /// Its version.
    pub version: i32,
}

impl std::ops::Deref for Library {
    type Target = Driver;
    fn deref(&self) -> &Driver {
        &self.driver
    }
}

impl Library {
    /// What the library says of a result.
    pub fn said(&self, rc: ncclResult_t) -> String {
        if rc == ncclSuccess || rc == ncclInProgress {
            return String::new();
        }
        let sockets = rc != ncclSystemError || TcpListener::bind("127.0.0.1:0").is_ok();
        if !sockets {
            return "the server's isolation leaves its workers no sockets, and NCCL takes some: \
                    its log says what the machine lacks for a network of their own"
                .into();
        }
        let code = error_description(rc).map_or("unknown result".into(), CStr::to_string_lossy);
        // SAFETY: the library's own text of what went wrong last in this process.
        let last = self.last_error.map(|f| unsafe { f(std::ptr::null_mut()) });
        // SAFETY: a C string, which is the library's as long as that is loaded.
        let last = last
            .filter(|p| !p.is_null())
            .map(|p| unsafe { CStr::from_ptr(p) });
        match last.map(CStr::to_string_lossy) {
            Some(last) if !last.is_empty() => format!("{code}: {last}"),
            _ => code.into_owned(),
        }
    }
}

/// Sets the job's variables, and loads the library, once per process.
pub fn load(path: Option<&str>, variables: &[u8]) -> Result<&'static Library, String> {
    static LOADED: OnceLock<Result<Library, String>> = OnceLock::new();
    let loaded = LOADED.get_or_init(|| {
        set(variables);
        open(path)
    });
    loaded.as_ref().map_err(Clone::clone)
}

fn set(variables: &[u8]) {
    // The first collective would connect the ranks, and wait for them where all of a program's
    // calls are executed.
    let connect = match std::env::var_os("NCCL_RUNTIME_CONNECT") {
        None => Some("NCCL_RUNTIME_CONNECT=0"),
        Some(_) => None,
    };
    // Of interfaces there is one in a cell, and where others reach a socket, the server says.
    let interface = crate::sockets::are_lent().then_some("NCCL_SOCKET_IFNAME=lo");
    let said = variables.split(|b| *b == 0);
    let said = said.filter_map(|v| std::str::from_utf8(v).ok());
    let of_the_job = |v: &&str| {
        let name = v.split_once('=').map(|(name, _)| name);
        name.is_some_and(|name| OF_THE_JOB.contains(&name))
    };
    let ours = connect.into_iter().chain(interface);
    add_to_environment(ours.chain(said.filter(of_the_job)));
}

/// Adds variables, each `NAME=VALUE`, to the environment; of two with one name the last one counts.
///
/// Threads of the driver may be reading the environment at this moment, without any lock. So it is
/// not changed: another list takes its place, and the old one, with all that is in it, stays for
/// those who still read it.
fn add_to_environment<'a>(variables: impl Iterator<Item = &'a str>) {
    unsafe extern "C" {
        static mut environ: *const *const c_char;
    }
    let mut list: Vec<*const c_char> = Vec::new();
    // SAFETY: the C library's own variable, which points to a list of C strings that ends with a
    // null; of this process only the thread that executes records changes the environment.
    unsafe {
        let mut at = environ;
        while !at.is_null() && !(*at).is_null() {
            list.push(*at);
            at = at.add(1);
        }
    }
    for v in variables {
        let Ok(text) = std::ffi::CString::new(v) else {
            continue;
        };
        let name = v.find('=').map_or(v.len(), |n| n + 1);
        // SAFETY: C strings, as above.
        let text_of = |p: *const c_char| unsafe { CStr::from_ptr(p) }.to_bytes();
        list.retain(|p| !text_of(*p).starts_with(&v.as_bytes()[..name]));
        list.push(text.into_raw());
    }
    list.push(std::ptr::null());
    // SAFETY: a list as the C library has it, which lives for ever; the word is stored as a whole.
    unsafe {
        let place = AtomicPtr::from_ptr((&raw mut environ).cast::<*mut *const c_char>());
        place.store(list.leak().as_mut_ptr(), Ordering::Release);
    }
}

fn open(path: Option<&str>) -> Result<Library, String> {
    let path = path.ok_or_else(|| lacking("none was found when the server began"))?;
    // SAFETY: loading the library runs its initializers, as in any program that uses it.
    let lib = unsafe { libloading::Library::new(path) }.map_err(lacking)?;
    let lib = std::mem::ManuallyDrop::new(lib);
    let find = |symbol: &CStr| {
        // SAFETY: the symbol's type is the table's business, taken from the API.
        unsafe { lib.get::<*mut c_void>(symbol.to_bytes_with_nul()) }
            .map_or(std::ptr::null_mut(), |s| *s)
    };
    let last_error = find(c"ncclGetLastError");
    // SAFETY: the names are the library's own, with the signatures of its API.
    let mut library = unsafe {
        Library {
            driver: Driver::load(find),
            last_error: std::mem::transmute::<
                *mut c_void,
                Option<unsafe extern "C" fn(ncclComm_t) -> *const c_char>,
            >(last_error),
            version: 0,
        }
    };
    // SAFETY: a pointer to a live number.
    let rc = unsafe { library.driver.ncclGetVersion(&mut library.version) };
    if rc != ncclSuccess || library.version < OLDEST {
        return Err(format!(
            "NCCL of {} ({path}) is of version {}, and programs need {OLDEST} or newer: \
             `busbar serve --nccl-library PATH` names another",
            here(),
            library.version
        ));
    }
    Ok(library)
}

fn lacking(why: impl std::fmt::Display) -> String {
    format!(
        "{} has no NCCL ({why}): install it there (`pip install nvidia-nccl-cu13`), or say where \
         it is with `busbar serve --nccl-library PATH`",
        here()
    )
}

/// The library of this machine: a Python installation's, or else the one that the loader knows. A
/// server looks before it closes its workers off: those with collectives get sockets there.
pub fn installed() -> Option<PathBuf> {
    of_python(&format!("nvidia/nccl/lib/{NAME}")).or_else(|| of_loader(NAME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_the_servers_to_say_a_job_does_not() {
        for name in [
            "NCCL_SOCKET_IFNAME",
            "NCCL_IB_HCA",
            "NCCL_DEBUG_FILE",
            "NCCL_NET_PLUGIN",
        ] {
            assert!(!OF_THE_JOB.contains(&name), "{name}");
        }
        assert!(OF_THE_JOB.is_sorted());
    }

    #[test]
    fn variables_of_a_job_are_set_beside_those_who_read() {
        let said = b"NCCL_ALGO=Ring\0NCCL_NET_PLUGIN=x\0NCCL_PROTO=LL\0NCCL_ALGO=Tree\0rubbish";
        let path = std::env::var_os("PATH");
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|s| {
            s.spawn(|| {
                // As a C library's threads read it, without a lock.
                while !stop.load(Ordering::Acquire) {
                    // SAFETY: C strings; what is found stays.
                    unsafe {
                        let found = libc::getenv(c"NCCL_PROTO".as_ptr());
                        assert!(found.is_null() || *found == b'L' as c_char);
                    }
                }
            });
            for _ in 0..100 {
                set(said);
            }
            stop.store(true, Ordering::Release);
        });
        let of = |name: &str| std::env::var(name).ok();
        assert_eq!(of("NCCL_ALGO").as_deref(), Some("Tree"));
        assert_eq!(of("NCCL_PROTO").as_deref(), Some("LL"));
        assert_eq!(of("NCCL_RUNTIME_CONNECT").as_deref(), Some("0"));
        assert_eq!(of("NCCL_NET_PLUGIN"), None);
        assert_eq!(std::env::var_os("PATH"), path, "others stay");
    }
}
