//! CUPTI, the library that says what devices did and when: where it is found, and what it is asked.
//!
//! It hands over buffers full of records on threads of its own, by functions that are told of
//! nothing else: so library and records are a process's.

use super::state::activity::{Flushed, LONGEST, MARKS, Record, Store, Taken};
use super::state::activity::{is_kernel, length, link, name_of};
use crate::prelude::*;
use crate::vendor::{here, of_loader, of_python};
use busbar_abi::cupti::*;
use std::alloc::{Layout, alloc, dealloc};
use std::ffi::{CStr, c_char, c_void};
use std::path::PathBuf;

/// The versions whose records are those that programs know, the newest first.
const MAJORS: [u32; 2] = [13, 12];
/// Bytes of a buffer of the library's.
const BUFFER: Layout = match Layout::from_size_align(1 << 20, 8) {
    Ok(layout) => layout,
    Err(_) => panic!("a power of two"),
};
/// What is told at a time, at most.
const ROOM: usize = (512 << 10) - 64;
/// Calls that the worker makes again and again and that have no device do anything, by the driver's
/// numbers: of these no records are made. They ask events, streams and pointers, and change the
/// current context.
const IDLE: [u32; 12] = [16, 118, 119, 120, 125, 303, 310, 323, 324, 499, 541, 629];

/// The library: the functions that are needed, and what has come of it.
pub struct Cupti {
    version: u32,
    path: String,
    store: Mutex<Store>,
    timestamp: unsafe extern "C" fn(*mut u64) -> CUptiResult,
    enable: unsafe extern "C" fn(ActivityKind) -> CUptiResult,
    disable: unsafe extern "C" fn(ActivityKind) -> CUptiResult,
    /// Since CUDA 12.
    enable_call: Option<unsafe extern "C" fn(u32, u8) -> CUptiResult>,
    flush_all: unsafe extern "C" fn(u32) -> CUptiResult,
    next: unsafe extern "C" fn(*mut u8, usize, *mut *mut u8) -> CUptiResult,
    dropped: unsafe extern "C" fn(*mut c_void, u32, *mut usize) -> CUptiResult,
    push: unsafe extern "C" fn(u32, u64) -> CUptiResult,
    pop: unsafe extern "C" fn(u32, *mut u64) -> CUptiResult,
    text_of: Option<unsafe extern "C" fn(CUptiResult, *mut *const c_char) -> CUptiResult>,
}

static LOADED: OnceLock<Result<Cupti, String>> = OnceLock::new();

/// Loads it, once per process.
fn load(path: Option<&str>) -> Result<&'static Cupti, String> {
    let loaded = LOADED.get_or_init(|| open(path));
    loaded.as_ref().map_err(Clone::clone)
}

/// The library, if it is loaded.
fn loaded() -> Option<&'static Cupti> {
    LOADED.get()?.as_ref().ok()
}

fn open(path: Option<&str>) -> Result<Cupti, String> {
    let path = path.ok_or_else(|| lacking("none was found when the server began"))?;
    // SAFETY: loading the library runs its initializers, as in any program that uses it.
    let lib = unsafe { libloading::Library::new(path) }.map_err(lacking)?;
    // It has threads of its own, and functions of ours: it must never be unloaded.
    let lib = std::mem::ManuallyDrop::new(lib);
    /// A function of the library's, with the type of its place.
    fn function<T: Copy>(lib: &libloading::Library, name: &CStr) -> Result<T, String> {
        // SAFETY: the types are those of the library's interface.
        let found = unsafe { lib.get::<T>(name.to_bytes_with_nul()) };
        found.map(|f| *f).map_err(lacking)
    }
    let lib = &*lib;
    let version_of: unsafe extern "C" fn(*mut u32) -> CUptiResult =
        function(lib, c"cuptiGetVersion")?;
    let register: unsafe extern "C" fn(Request, Complete) -> CUptiResult =
        function(lib, c"cuptiActivityRegisterCallbacks")?;
    let mut cupti = Cupti {
        version: 0,
        path: path.into(),
        store: Mutex::default(),
        timestamp: function(lib, c"cuptiGetTimestamp")?,
        enable: function(lib, c"cuptiActivityEnable")?,
        disable: function(lib, c"cuptiActivityDisable")?,
        enable_call: function(lib, c"cuptiActivityEnableDriverApi").ok(),
        flush_all: function(lib, c"cuptiActivityFlushAll")?,
        next: function(lib, c"cuptiActivityGetNextRecord")?,
        dropped: function(lib, c"cuptiActivityGetNumDroppedRecords")?,
        push: function(lib, c"cuptiActivityPushExternalCorrelationId")?,
        pop: function(lib, c"cuptiActivityPopExternalCorrelationId")?,
        text_of: function(lib, c"cuptiGetResultString").ok(),
    };
    // SAFETY: a pointer to a live number.
    let rc = unsafe { version_of(&mut cupti.version) };
    cupti.check(rc)?;
    // SAFETY: functions that live as long as the process. No buffer comes before a kind is enabled.
    cupti.check(unsafe { register(request, complete) })?;
    Ok(cupti)
}

fn lacking(why: impl std::fmt::Display) -> String {
    format!(
        "{} has no CUPTI ({why}), so profilers see no device's work: install it there (`pip \
         install nvidia-cuda-cupti`), or say where it is with `busbar serve --cupti-library PATH`",
        here()
    )
}

/// The library wants a place for records.
extern "C" fn request(buffer: *mut *mut u8, size: *mut usize, most: *mut usize) {
    // SAFETY: the library's own places; a layout that is not empty.
    unsafe {
        let room = alloc(BUFFER);
        *buffer = room;
        *size = if room.is_null() { 0 } else { BUFFER.size() };
        // As many records as fit.
        *most = 0;
    }
}

/// The library gives one back, with records.
extern "C" fn complete(of: *mut c_void, stream: u32, buffer: *mut u8, _size: usize, valid: usize) {
    if buffer.is_null() {
        return;
    }
    if let Some(cupti) = loaded() {
        cupti.walk(buffer, valid.min(BUFFER.size()));
        let mut n = 0;
        // SAFETY: a pointer to a live number; the rest is the library's own.
        let rc = unsafe { (cupti.dropped)(of, stream, &mut n) };
        if rc == CUPTI_SUCCESS && n > 0 {
            lock(&cupti.store).lose(n as u64);
        }
    }
    // SAFETY: what `request` gave, of that layout, which the library has done with.
    unsafe { dealloc(buffer, BUFFER) };
}

impl Cupti {
    fn check(&self, rc: CUptiResult) -> Result<(), String> {
        if rc == CUPTI_SUCCESS {
            return Ok(());
        }
        let mut text = std::ptr::null();
        if let Some(text_of) = self.text_of {
            // SAFETY: a pointer to a live pointer.
            unsafe { text_of(rc, &mut text) };
        }
        let said = match text.is_null() {
            true => "no text".into(),
            // SAFETY: the library's own text, which stays.
            false => unsafe { CStr::from_ptr(text) }.to_string_lossy(),
        };
        Err(format!(
            "the CUPTI of {} ({}) says {said} ({rc}), so profilers see no device's work: it has \
             to fit the driver there, and no other profiler may be at work; `busbar serve \
             --cupti-library PATH` names another",
            here(),
            self.path
        ))
    }

    /// Takes the records of a buffer.
    fn walk(&self, buffer: *mut u8, valid: usize) {
        let mut store = lock(&self.store);
        let end = buffer as usize + valid;
        let mut at = std::ptr::null_mut::<u8>();
        // SAFETY: a buffer of the library's, and the record before, which it gave.
        while unsafe { (self.next)(buffer, valid, &mut at) } == CUPTI_SUCCESS {
            let left = end.saturating_sub(at as usize);
            if at.is_null() || left < size_of::<ActivityKind>() {
                return;
            }
            // SAFETY: inside the buffer, which nobody writes any more.
            let bytes = unsafe { std::slice::from_raw_parts(at, left) };
            let Some(kind) = bytes.first_chunk().map(|b| ActivityKind::from_ne_bytes(*b)) else {
                return;
            };
            if let Some(link) = link(bytes) {
                store.link(link);
            } else if length(kind).is_some() {
                let name = match is_kernel(kind) {
                    // SAFETY: the library's own name, which stays as long as the buffer at least.
                    true => unsafe { text(name_of(bytes).unwrap_or(0)) },
                    false => &[],
                };
                let number = store.name(name);
                if let Some(record) = Record::of(kind, bytes, number) {
                    store.put(record);
                }
            }
        }
    }
}

/// The bytes of a C string, or none.
///
/// # Safety
/// There is one at that address, unless it is 0, and it stays for as long as its bytes are used.
unsafe fn text<'a>(at: u64) -> &'a [u8] {
    if at == 0 {
        return &[];
    }
    let start = at as *const c_char;
    // SAFETY: by this function's contract; no further than its end is looked at.
    unsafe { std::slice::from_raw_parts(start.cast(), libc::strnlen(start, LONGEST)) }
}

/// What a session keeps of what its devices do.
pub struct Activity {
    path: Option<String>,
    /// The library, while something is kept.
    on: Option<&'static Cupti>,
    /// The kinds that are, as bits.
    kinds: u64,
    /// Whom the record that is being executed was told to.
    told: Option<&'static Cupti>,
}

impl Activity {
    /// Nothing is kept yet. The library is at `path`, if there is one.
    pub fn new(path: Option<String>) -> Self {
        Self {
            path,
            on: None,
            kinds: 0,
            told: None,
        }
    }

    /// Whether anything is kept.
    #[inline]
    pub fn keeps(&self) -> bool {
        self.on.is_some()
    }

    /// Keeps records of these kinds, and of no others; gives the library's version, or 0 if it was
    /// never needed. What goes wrong is for the client's log.
    pub fn keep(&mut self, asked: u64) -> Result<u32, String> {
        let wanted = kinds(asked);
        if wanted == 0 {
            self.close();
            return Ok(loaded().map_or(0, |c| c.version));
        }
        let cupti = load(self.path.as_deref())?;
        let all = (0..u64::BITS).filter(|kind| wanted >> kind & 1 != 0);
        let fresh = all.filter(|kind| self.kinds >> kind & 1 == 0);
        for kind in fresh.collect::<Vec<_>>() {
            // SAFETY: any number may be asked for.
            if let Err(why) = cupti.check(unsafe { (cupti.enable)(kind) }) {
                self.drop_kinds(cupti, 0);
                self.on = None;
                return Err(why);
            }
            self.kinds |= 1 << kind;
            if let (CUPTI_ACTIVITY_KIND_DRIVER, Some(enable_call)) = (kind, cupti.enable_call) {
                for call in IDLE {
                    // SAFETY: any number may be asked for; without this there is more to look at.
                    unsafe { enable_call(call, 0) };
                }
            }
        }
        self.drop_kinds(cupti, wanted);
        self.on = Some(cupti);
        Ok(cupti.version)
    }

    /// Disables all kinds but these.
    fn drop_kinds(&mut self, cupti: &Cupti, but: u64) {
        for kind in (0..u64::BITS).filter(|kind| (self.kinds & !but) >> kind & 1 != 0) {
            // SAFETY: a kind that was enabled.
            unsafe { (cupti.disable)(kind) };
        }
        self.kinds &= but;
    }

    /// Keeps nothing any more.
    pub fn close(&mut self) {
        if let Some(cupti) = self.on.take() {
            self.drop_kinds(cupti, 0);
        }
    }

    /// What this thread has the driver do from now on is for the sake of a mark, or, with `None`,
    /// no longer.
    pub fn mark(&mut self, mark: Option<u64>) {
        // The record itself may have begun the keeping, or ended it.
        if let Some(cupti) = self.told.take() {
            let mut last = 0;
            // SAFETY: a pointer to a live number.
            unsafe { (cupti.pop)(MARKS, &mut last) };
        }
        if let (Some(mark), Some(cupti)) = (mark, self.on) {
            // SAFETY: a kind of number that is ours to use.
            unsafe { (cupti.push)(MARKS, mark) };
            self.told = Some(cupti);
        }
    }

    /// Takes some of what is kept.
    pub fn take(&self, flush: bool, forced: bool, devices: &[i32]) -> Taken {
        let Some(cupti) = loaded() else {
            return Taken::default();
        };
        let flushed = match (flush, forced) {
            (false, _) => Flushed::Nothing,
            (true, false) => Flushed::Complete,
            (true, true) => Flushed::All,
        };
        if flush {
            // Without the lock: what is flushed comes on this thread, too.
            // SAFETY: any flag may be said.
            unsafe { (cupti.flush_all)(forced.into()) };
        }
        lock(&cupti.store).take(flushed, ROOM, devices)
    }
}

/// The kinds that are enabled where these are asked for: what the client takes, and what it takes
/// to know whose they are, the calls and their marks.
fn kinds(asked: u64) -> u64 {
    let mut all = OF_CUDA_12
        .iter()
        .fold(0, |all, (kind, _)| all | (asked & 1 << kind));
    if all & 1 << CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL != 0 {
        // The other kind has kernels run one after another.
        all &= !(1 << CUPTI_ACTIVITY_KIND_KERNEL);
    }
    match all {
        0 => 0,
        _ => {
            let (calls, marks) = (
                CUPTI_ACTIVITY_KIND_DRIVER,
                CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
            );
            all | 1 << calls | 1 << marks
        }
    }
}

/// What the clock says by which devices' times are told.
pub fn now() -> u64 {
    if let Some(cupti) = loaded() {
        let mut now = 0;
        // SAFETY: a pointer to a live number.
        if unsafe { (cupti.timestamp)(&mut now) } == CUPTI_SUCCESS {
            return now;
        }
    }
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

/// The library of this machine, the newest one: a Python installation's, the toolkit's, or the one
/// that the loader knows. A server looks before it closes its workers off.
pub fn installed() -> Option<PathBuf> {
    MAJORS.into_iter().find_map(|major| {
        let name = format!("libcupti.so.{major}");
        let of_package = match major {
            12 => format!("nvidia/cuda_cupti/lib/{name}"),
            _ => format!("nvidia/cu{major}/lib/{name}"),
        };
        of_python(&of_package)
            .or_else(|| of_toolkit(&name))
            .or_else(|| of_loader(&name))
    })
}

/// A toolkit's, where those are.
fn of_toolkit(name: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir("/usr/local").ok()?.flatten();
    let mut all: Vec<_> = entries
        .filter(|e| e.file_name().to_string_lossy().starts_with("cuda"))
        .map(|e| e.path())
        .collect();
    all.sort();
    let folders = ["extras/CUPTI/lib64", "lib64"];
    let mut places = all.iter().flat_map(|p| folders.map(|f| p.join(f)));
    places.find_map(|p| Some(p.join(name)).filter(|l| l.exists()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_takes_calls_and_marks_and_kernels_stay_abreast() {
        let bits = |all: &[ActivityKind]| all.iter().fold(0u64, |bits, kind| bits | 1 << kind);
        assert_eq!(kinds(0), 0);
        assert_eq!(kinds(bits(&[4, 5, 39])), 0);
        assert_eq!(kinds(bits(&[1, 5])), bits(&[1, 4, 39]));
        assert_eq!(kinds(bits(&[2, 3, 10])), bits(&[2, 4, 10, 39]));
        assert_eq!(kinds(bits(&[3, 22])), bits(&[3, 4, 22, 39]));
        assert_eq!(kinds(u64::MAX), bits(&[1, 2, 4, 10, 22, 39]));
    }

    #[test]
    fn without_the_library_it_says_what_to_do() {
        let mut activity = Activity::new(None);
        assert_eq!(activity.keep(0), Ok(0));
        let why = activity.keep(1 << 1).expect_err("there is none");
        assert!(why.contains("--cupti-library"), "{why}");
        assert!(!activity.keeps() && now() > 1 << 60);
        activity.mark(Some(1));
        activity.mark(None);
        assert_eq!(activity.take(true, true, &[]), Taken::default());
    }
}
