//! The driver's functions, called by name.

use libloading::Library;

/// Code for the simulated driver.
pub const IMAGE: &str = "fakedev-module 1\n\
    kernel nop nop\nkernel trap trap\nkernel assert assert u32\nkernel fill fill_u32\n\
    kernel spin spin\nkernel probe probe\nkernel say say\n\
    kernel start start\nkernel change change\nkernel talk talk\nkernel meet meet\n\
    kernel flag flag\nkernel count count\nkernel copy copy\nkernel follow follow\n\
    kernel mark mark\n\
    kernel some fill_u32 ptr u32 u64 bytes:1024\nkernel many fill_u32 ptr u32 u64 bytes:2048\n\
    kernel late fill_u32 ptr u32 u64 bytes:1024\n\0";

/// The driver.
pub struct Api {
    pub library: Library,
}

impl Api {
    /// Loads it.
    pub fn load() -> Self {
        // SAFETY: loading the driver runs its initializers, as in any CUDA program.
        let library = unsafe { Library::new("libcuda.so.1") }.expect("libcuda.so.1 can be loaded");
        Self { library }
    }

    /// Calls a function; those here take whole numbers and pointers only, twelve at most.
    pub fn call(&self, name: &str, args: &[u64]) -> i32 {
        type F =
            unsafe extern "C" fn(u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64) -> i32;
        let mut a = [0u64; 12];
        a[..args.len()].copy_from_slice(args);
        // SAFETY: the driver exports the function, and ignores arguments beyond its own; pointers
        // among them are valid, as each program below sees to.
        unsafe {
            let f = self
                .library
                .get::<F>(name.as_bytes())
                .unwrap_or_else(|e| panic!("{name}: {e}"));
            f(
                a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11],
            )
        }
    }

    /// Calls a function and prints its result.
    pub fn tell(&self, name: &str, args: &[u64]) -> i32 {
        let rc = self.call(name, args);
        println!("{name}: {rc}");
        rc
    }

    /// Ends a stream's capture, and runs what it caught.
    pub fn run_captured(&self, stream: u64) {
        let (mut graph, mut exec) = (0u64, 0u64);
        self.tell("cuStreamEndCapture", &[stream, at(&mut graph)]);
        self.tell("cuGraphInstantiateWithFlags", &[at(&mut exec), graph, 0]);
        self.tell("cuGraphLaunch", &[exec, stream]);
        self.tell("cuStreamSynchronize", &[stream]);
    }

    /// Calls a function that must succeed and gives what it writes through its first argument.
    pub fn made(&self, name: &str, rest: &[u64]) -> u64 {
        let mut out = 0u64;
        let mut args = vec![at(&mut out)];
        args.extend_from_slice(rest);
        assert_eq!(self.call(name, &args), 0, "{name}");
        out
    }

    /// A kernel of the code.
    pub fn kernel(&self, name: &str) -> u64 {
        let module = self.made("cuModuleLoadData", &[IMAGE.as_ptr() as u64]);
        let name = format!("{name}\0");
        self.made("cuModuleGetFunction", &[module, name.as_ptr() as u64])
    }

    /// Launches one thread; the result.
    pub fn launch(&self, f: u64, stream: u64, words: &[u64]) -> i32 {
        let mut list: Vec<*const u64> = words.iter().map(std::ptr::from_ref).collect();
        list.push(std::ptr::null());
        let p = list.as_ptr() as u64;
        self.call("cuLaunchKernel", &[f, 1, 1, 1, 1, 1, 1, 0, stream, p, 0])
    }
}

/// The address of a variable, as an argument.
pub fn at<T>(v: &mut T) -> u64 {
    std::ptr::from_mut(v) as u64
}
