//! Which platforms there are: those of the system's loader, and those of drivers that nothing tells
//! the loader of.
//!
//! A container with a GPU often has the vendor's driver, put there by the container's runtime, but
//! neither a loader nor the file that would name the driver to one. A driver alone will do: its
//! platform begins with a pointer to its functions, as every object does.

use super::cl::text;
use super::describe;
use super::prelude::*;
use std::ffi::CString;

/// The system's loader.
const LOADER: &str = "libOpenCL.so.1";
/// Drivers that their vendors put where the dynamic linker finds them.
const DRIVERS: [&CStr; 2] = [c"libnvidia-opencl.so.1", c"libamdocl64.so"];
/// Variables that say which drivers there are.
const CHOSEN: [&str; 3] = ["OCL_ICD_VENDORS", "OCL_ICD_FILENAMES", "OPENCL_VENDOR_PATH"];

type Lookup = unsafe extern "C" fn(*const c_char) -> *const c_void;
type Platforms = unsafe extern "C" fn(u32, *mut Handle, *mut u32) -> i32;

/// Loads the library at `path`, a loader or a driver, or what there is. Once and for good.
pub fn load(path: Option<&str>) -> Result<Cl, String> {
    let name = CString::new(path.unwrap_or(LOADER)).map_err(|_| "the name holds a zero")?;
    match open(&name, 0) {
        Ok(lib) if !symbol(lib, c"clGetPlatformIDs").is_null() => {
            let mut cl = Cl::new(|name| symbol(lib, name), Vec::new());
            let known = describe::ask_loader(&cl);
            let chosen = CHOSEN.iter().any(|v| std::env::var_os(v).is_some());
            if path.is_none() && !chosen {
                // First: it is a GPU's, and programs take the first platform.
                cl.platforms = DRIVERS.iter().flat_map(|d| unknown(d)).collect();
            }
            cl.platforms.extend(known);
            Ok(cl)
        }
        Ok(lib) => of_driver(platforms(lib)).ok_or_else(|| {
            let name = name.to_string_lossy();
            format!("{name} is neither a loader of OpenCL's nor a driver with a platform")
        }),
        Err(why) if path.is_some() => Err(why),
        Err(why) => DRIVERS
            .iter()
            .find_map(|d| of_driver(unknown(d)))
            .ok_or(why),
    }
}

fn open(name: &CStr, flags: i32) -> Result<*mut c_void, String> {
    // SAFETY: loading a library runs its initializers; that is what it is for.
    let lib = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | flags) };
    if lib.is_null() {
        // SAFETY: dlerror gives a C string or null after a failure.
        let why = unsafe { text(libc::dlerror()) };
        return Err(format!("cannot load {}: {why}", name.to_string_lossy()));
    }
    Ok(lib)
}

fn symbol(lib: *mut c_void, name: &CStr) -> *const c_void {
    // SAFETY: a library that was loaded for good.
    unsafe { libc::dlsym(lib, name.as_ptr()) }
}

/// The platforms of a driver that is there and that the loader has not loaded.
fn unknown(driver: &CStr) -> Vec<Handle> {
    if open(driver, libc::RTLD_NOLOAD).is_ok() {
        return Vec::new();
    }
    open(driver, 0).map(platforms).unwrap_or_default()
}

/// The platforms of a driver, asked as a loader does.
fn platforms(driver: *mut c_void) -> Vec<Handle> {
    let lookup = symbol(driver, c"clGetExtensionFunctionAddress");
    if lookup.is_null() {
        return Vec::new();
    }
    // SAFETY: the standard gives both functions these types; the list has room for as many as said.
    unsafe {
        let lookup = std::mem::transmute::<*const c_void, Lookup>(lookup);
        let list = lookup(c"clIcdGetPlatformIDsKHR".as_ptr());
        if list.is_null() {
            return Vec::new();
        }
        let list = std::mem::transmute::<*const c_void, Platforms>(list);
        describe::list(16, |room, out, count| list(room, out, count))
    }
}

/// Functions of a driver, without a loader: from the table that its objects begin with.
fn of_driver(platforms: Vec<Handle>) -> Option<Cl> {
    let first = *platforms.first()?;
    // SAFETY: objects begin with a pointer to their driver's functions, in the standard's order.
    let table = unsafe { *first.cast::<*const *const c_void>() };
    // SAFETY: all versions have the first functions.
    let oldest = Cl::new(|name| unsafe { entry(table, name, (1, 0)) }, Vec::new());
    let version = describe::platform_info(&oldest, first, CL_PLATFORM_VERSION).ok()?;
    let version = version_in(&String::from_utf8_lossy(&version));
    // SAFETY: the table is as long as the platform's version says.
    let find = |name: &CStr| unsafe { entry(table, name, version) };
    Some(Cl::new(find, platforms))
}

/// The function of that name; null when tables of that version do not reach so far.
///
/// # Safety
/// The table is that of a platform of that version.
unsafe fn entry(table: *const *const c_void, name: &CStr, version: (u32, u32)) -> *const c_void {
    const ENDS: [((u32, u32), &str); 5] = [
        ((1, 1), "clSetEventCallback"),
        ((1, 2), "clCreateSubDevices"),
        ((2, 0), "clCreateCommandQueueWithProperties"),
        ((2, 1), "clCloneKernel"),
        ((3, 0), "clSetProgramReleaseCallback"),
    ];
    let at = |name: &str| DISPATCH.iter().position(|n| *n == name);
    let newer = ENDS.iter().find(|(v, _)| version < *v);
    let end = newer.and_then(|(_, first)| at(first));
    // The last one is newer than 3.0.
    let end = end.unwrap_or(DISPATCH.len() - 1);
    match name.to_str().ok().and_then(at) {
        // SAFETY: inside the table, as the caller says.
        Some(i) if i < end => unsafe { *table.add(i) },
        _ => std::ptr::null(),
    }
}

/// Major and minor of `OpenCL MAJOR.MINOR ...`; the oldest when it says something else.
fn version_in(text: &str) -> (u32, u32) {
    let number = text
        .split_whitespace()
        .nth(1)
        .and_then(|n| n.split_once('.'));
    number
        .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)))
        .unwrap_or((1, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_newer_versions_are_not_looked_for_in_older_tables() {
        let table: Vec<_> = (1..=DISPATCH.len()).map(|i| i as *const c_void).collect();
        // SAFETY: a whole table.
        let at = |name: &CStr, v| unsafe { entry(table.as_ptr(), name, v) as usize };
        assert_eq!(at(c"clGetPlatformIDs", (1, 0)), 1);
        assert_eq!(at(c"clGetPlatformInfo", (3, 0)), 2);
        for (name, first) in [
            (c"clCreateSubBuffer", (1, 1)),
            (c"clLinkProgram", (1, 2)),
            (c"clSVMAlloc", (2, 0)),
            (c"clGetHostTimer", (2, 1)),
            (c"clCreateBufferWithProperties", (3, 0)),
        ] {
            let has = |v| at(name, v) != 0;
            for v in [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (3, 0)] {
                assert_eq!(has(v), v >= first, "{name:?} in {v:?}");
            }
        }
        assert_eq!(at(c"clNoSuchThing", (3, 0)), 0);
    }

    #[test]
    fn versions_are_read() {
        assert_eq!(version_in("OpenCL 3.0 CUDA 13.0.84\0"), (3, 0));
        assert_eq!(version_in("OpenCL 1.2"), (1, 2));
        assert_eq!(version_in("something"), (1, 0));
    }
}
