//! A test that runs itself once more as a program of a server, and the NVML that it loads.

use crate::common::{Server, built};
use libloading::Library;
use std::ffi::{CStr, c_char};
use std::process::Command;

/// Set where a test is the program: the server's process.
pub const CHILD: &str = "NVML_TEST_SERVER_PID";

pub type Handle = usize;

/// Runs the test `name` of this program as a program of the server.
pub fn program(name: &str, server: &Server) {
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env("BUSBAR_SERVER", &server.address)
        .env("FAKEDEV_DEVICES", "2")
        .env(CHILD, server.child.id().to_string())
        .status()
        .unwrap();
    assert!(status.success(), "{name} as a program: {status}");
}

pub fn is_program() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// An NVML, of the server's or the client's.
pub struct Nvml(pub Library);

impl Nvml {
    pub fn load(name: &str) -> Self {
        // SAFETY: a library of ours.
        Self(unsafe { Library::new(built(name)) }.unwrap())
    }

    /// Calls a function with up to four words as arguments, which is how C passes them here.
    pub fn call(&self, name: &str, args: [usize; 4]) -> u32 {
        type F = unsafe extern "C" fn(usize, usize, usize, usize) -> u32;
        // SAFETY: integers and pointers alone, which go in registers, wanted or not.
        unsafe { self.0.get::<F>(name.as_bytes()).unwrap()(args[0], args[1], args[2], args[3]) }
    }

    pub fn text(&self, name: &str, d: Option<Handle>) -> Result<String, u32> {
        let mut buf = [0 as c_char; 96];
        let (p, n) = (buf.as_mut_ptr() as usize, buf.len());
        let args = d.map_or([p, n, 0, 0], |d| [d, p, n, 0]);
        match self.call(name, args) {
            // SAFETY: the library wrote a text.
            0 => Ok(unsafe { CStr::from_ptr(buf.as_ptr()) }
                .to_str()
                .unwrap()
                .into()),
            rc => Err(rc),
        }
    }

    /// Numbers that a function stores: behind its last argument, or its last two.
    pub fn numbers(&self, name: &str, first: &[usize]) -> Result<[u32; 2], u32> {
        let (mut a, mut b) = ([0u32; 2], 0u32);
        let mut args = [0; 4];
        args[..first.len()].copy_from_slice(first);
        args[first.len()] = a.as_mut_ptr() as usize;
        if first.len() < 3 {
            args[first.len() + 1] = (&raw mut b) as usize;
        }
        match self.call(name, args) {
            0 => Ok([a[0], a[1].max(b)]),
            rc => Err(rc),
        }
    }

    /// The devices by UUID.
    pub fn devices(&self) -> Vec<(String, Handle)> {
        let n = self.numbers("nvmlDeviceGetCount_v2", &[]).unwrap()[0];
        let device = |i| {
            let mut h: Handle = 0;
            let args = [i as usize, (&raw mut h) as usize, 0, 0];
            assert_eq!(self.call("nvmlDeviceGetHandleByIndex_v2", args), 0);
            (self.text("nvmlDeviceGetUUID", Some(h)).unwrap(), h)
        };
        let mut list: Vec<_> = (0..n).map(device).collect();
        list.sort();
        list
    }
}
