//! Putting functions of ours in the place of the C library's, in a process that runs: for those
//! that this library has to come before, and that a program was linked with long ago.
//!
//! Every object that is loaded has the addresses of the functions that it calls in slots, which are
//! changed here. What is loaded later, or asks for a name, finds them in the C library's table of
//! symbols, which is changed as well. Our own slots stay.
//!
//! Where a library was loaded ahead of the C library that has functions of these names itself (a
//! profiler, a sanitizer), programs call those. They get one of ours in front that leads to theirs,
//! and the C library's get another one, which leads to the C library's: whenever a library looks up
//! what comes behind it, nothing leads back to where it came from.

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Comes in the place of the C library's function.
pub const LIBRARY: usize = 0;
/// Comes in the place of another library's that is found before it.
pub const AHEAD: usize = 1;

/// Where the two that come in a function's place lead to.
pub struct Next([AtomicPtr<c_void>; 2]);

impl Next {
    pub const fn new() -> Self {
        Self([const { AtomicPtr::new(null_mut()) }; 2])
    }

    /// The function; null before anything was replaced.
    pub fn of(&self, place: usize) -> *const c_void {
        self.0[place].load(Ordering::Acquire)
    }

    fn set(&self, place: usize, function: *mut c_void) {
        self.0[place].store(function, Ordering::Release);
    }
}

/// A function's name, what comes in the places of the C library's and of one ahead of it, and where
/// these lead to.
#[derive(Clone, Copy)]
pub struct Replacement {
    pub name: &'static CStr,
    pub ours: [*const (); 2],
    pub next: &'static Next,
}

const DYNAMIC_STRINGS: u64 = 5;
const DYNAMIC_SYMBOLS: u64 = 6;
const RELOCATIONS: u64 = 7;
const RELOCATIONS_SIZE: u64 = 8;
const NAME: u64 = 14;
const JUMPS_SIZE: u64 = 2;
const JUMPS: u64 = 23;
/// So many of the relocations come first, and name no symbol.
const RELATIVE_ONES: u64 = 0x6fff_fff9;

const PAGE: u64 = 4096;

/// A loaded object.
struct Object<'a> {
    base: u64,
    headers: &'a [libc::Elf64_Phdr],
    dynamic: HashMap<u64, u64>,
}

impl Object<'_> {
    /// # Safety
    /// What the loader says of an object that is loaded.
    unsafe fn of(info: &libc::dl_phdr_info) -> Option<Self> {
        // SAFETY: passed on to the caller.
        let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
        let at = headers.iter().find(|h| h.p_type == libc::PT_DYNAMIC)?;
        let mut entry = (info.dlpi_addr + at.p_vaddr) as *const [u64; 2];
        let mut dynamic = HashMap::new();
        // SAFETY: passed on to the caller; the list ends with a zero.
        while let [tag, value] = unsafe { *entry }
            && tag != 0
        {
            dynamic.insert(tag, value);
            // SAFETY: as above.
            entry = unsafe { entry.add(1) };
        }
        let base = info.dlpi_addr;
        Some(Self {
            base,
            headers,
            dynamic,
        })
    }

    /// An address of the dynamic section, which the loader has made one of memory, as a rule.
    fn address(&self, tag: u64) -> Option<u64> {
        let at = *self.dynamic.get(&tag)?;
        Some(if at < self.base { at + self.base } else { at })
    }

    fn size(&self, tag: u64) -> u64 {
        self.dynamic.get(&tag).copied().unwrap_or(0)
    }

    /// # Safety
    /// The object is loaded.
    unsafe fn string(&self, at: u64) -> Option<&CStr> {
        let p = (self.address(DYNAMIC_STRINGS)? + at) as *const c_char;
        // SAFETY: a string of the object's.
        Some(unsafe { CStr::from_ptr(p) })
    }

    fn holds(&self, p: u64) -> bool {
        let loaded = self.headers.iter().filter(|h| h.p_type == libc::PT_LOAD);
        let offset = p.wrapping_sub(self.base);
        loaded
            .into_iter()
            .any(|h| (h.p_vaddr..h.p_vaddr + h.p_memsz).contains(&offset))
    }

    /// What may be done with the page of an address.
    fn rights(&self, p: u64) -> i32 {
        let in_it = |h: &&libc::Elf64_Phdr, kind| {
            h.p_type == kind && (h.p_vaddr..h.p_vaddr + h.p_memsz).contains(&(p - self.base))
        };
        let mut all = self.headers.iter();
        if all.any(|h| in_it(&h, libc::PT_GNU_RELRO)) {
            return libc::PROT_READ;
        }
        let loaded = self.headers.iter().find(|h| in_it(h, libc::PT_LOAD));
        let flags = loaded.map_or(libc::PF_R | libc::PF_W, |h| h.p_flags);
        [
            (libc::PF_R, libc::PROT_READ),
            (libc::PF_W, libc::PROT_WRITE),
            (libc::PF_X, libc::PROT_EXEC),
        ]
        .iter()
        .filter(|(flag, _)| flags & flag != 0)
        .fold(0, |all, (_, right)| all | right)
    }

    /// Changes a word of the object's, which others may be reading.
    ///
    /// # Safety
    /// An aligned word of the object that is loaded.
    unsafe fn set(&self, at: u64, value: u64) {
        let (page, rights) = ((at & !(PAGE - 1)) as *mut c_void, self.rights(at));
        let open = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: passed on to the caller; the page is what it was afterwards.
        unsafe {
            if rights & libc::PROT_WRITE == 0
                && libc::mprotect(page, PAGE as usize, rights | open) != 0
            {
                return;
            }
            std::sync::atomic::AtomicU64::from_ptr(at as *mut u64)
                .store(value, std::sync::atomic::Ordering::Release);
            if rights & libc::PROT_WRITE == 0 {
                libc::mprotect(page, PAGE as usize, rights);
            }
        }
    }

    /// Has everybody who looks for a symbol find its replacement, if there is one; notes what stood
    /// there.
    ///
    /// # Safety
    /// The object is loaded.
    unsafe fn export(
        &self,
        ours: &dyn Fn(&CStr) -> Option<*const ()>,
        found: &mut HashMap<u64, u64>,
    ) {
        const FUNCTION: u8 = 2;
        let tables = (self.address(DYNAMIC_SYMBOLS), self.address(DYNAMIC_STRINGS));
        let (Some(from), Some(to)) = tables else {
            return;
        };
        // The strings are behind the symbols.
        let size = size_of::<libc::Elf64_Sym>() as u64;
        for at in (from..to.saturating_sub(size - 1)).step_by(size as usize) {
            // SAFETY: a symbol of the table.
            let symbol = unsafe { *(at as *const libc::Elf64_Sym) };
            if symbol.st_shndx == 0 || symbol.st_info & 15 != FUNCTION {
                continue;
            }
            // SAFETY: passed on to the caller.
            let name = unsafe { self.string(symbol.st_name.into()) };
            if let Some(ours) = name.and_then(ours) {
                let ours = ours as u64;
                found.insert(self.base.wrapping_add(symbol.st_value), ours);
                let value = std::mem::offset_of!(libc::Elf64_Sym, st_value) as u64;
                // SAFETY: a word of the table.
                unsafe { self.set(at + value, ours.wrapping_sub(self.base)) };
            }
        }
    }

    /// Changes the slots that lead to functions which are replaced.
    ///
    /// # Safety
    /// The object is loaded.
    unsafe fn redirect(&self, found: &HashMap<u64, u64>) {
        const JUMP: u64 = 7;
        const GLOBAL: u64 = 6;
        const WORD: u64 = 1;
        // Nearly all slots lead elsewhere.
        let near = found.keys().min().unwrap_or(&1)..=found.keys().max().unwrap_or(&0);
        let size = size_of::<libc::Elf64_Rela>() as u64;
        let skipped = self.size(RELATIVE_ONES) * size;
        for (tag, bytes, skipped) in [
            (JUMPS, JUMPS_SIZE, 0),
            (RELOCATIONS, RELOCATIONS_SIZE, skipped),
        ] {
            let Some(from) = self.address(tag) else {
                continue;
            };
            for at in (from + skipped..from + self.size(bytes)).step_by(size as usize) {
                // SAFETY: a relocation of the table.
                let r = unsafe { *(at as *const libc::Elf64_Rela) };
                let slot = self.base.wrapping_add(r.r_offset);
                let good = matches!(r.r_info & 0xffff_ffff, JUMP | GLOBAL | WORD);
                if !good || !slot.is_multiple_of(8) || !self.holds(slot) {
                    continue;
                }
                // SAFETY: a slot of the object's, which the loader has filled.
                let leads = unsafe { *(slot as *const u64) };
                // What a library calls of its own it means.
                if near.contains(&&leads)
                    && !self.holds(leads)
                    && let Some(ours) = found.get(&leads)
                {
                    // SAFETY: as above.
                    unsafe { self.set(slot, *ours) };
                }
            }
        }
    }
}

/// Runs `f` on each loaded object.
fn each(f: &mut dyn FnMut(&Object<'_>)) {
    type Each<'a> = &'a mut dyn FnMut(&Object<'_>);
    unsafe extern "C" fn visit(
        info: *mut libc::dl_phdr_info,
        _size: usize,
        f: *mut c_void,
    ) -> libc::c_int {
        // SAFETY: what the loader says, and the function that was given.
        unsafe {
            let f = &mut *f.cast::<Each<'_>>();
            if let Some(object) = Object::of(&*info) {
                f(&object);
            }
        }
        0
    }
    let mut f: Each<'_> = f;
    // SAFETY: a function of this signature, and what it is given.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut f).cast()) };
}

/// The C library; older ones have a second part.
const LIBRARIES: [&CStr; 2] = [c"libc.so.6", c"libpthread.so.0"];

/// Whether it is the C library.
fn is_library(o: &Object<'_>) -> bool {
    // SAFETY: an object that the loader has named.
    let name = o.dynamic.get(&NAME).and_then(|at| unsafe { o.string(*at) });
    name.is_some_and(|n| LIBRARIES.contains(&n))
}

/// The C library's own function of a name, whatever has been loaded ahead of it; null where it has
/// none.
pub fn library_function(name: &CStr) -> *mut c_void {
    let mut found = LIBRARIES.iter().map(|library| {
        // SAFETY: names; nothing is loaded.
        unsafe {
            let library = libc::dlopen(library.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
            match library.is_null() {
                true => null_mut(),
                false => libc::dlsym(library, name.as_ptr()),
            }
        }
    });
    found.find(|f| !f.is_null()).unwrap_or(null_mut())
}

/// Finds the functions that are to be replaced, unless that was done.
fn look_up(all: &[Replacement]) {
    for r in all.iter().filter(|r| r.next.of(LIBRARY).is_null()) {
        let real = library_function(r.name);
        // SAFETY: a name.
        let first = unsafe { libc::dlsym(libc::RTLD_DEFAULT, r.name.as_ptr()) };
        r.next.set(LIBRARY, real);
        let ahead = if first == real { null_mut() } else { first };
        r.next.set(AHEAD, ahead);
    }
}

/// Replaces functions of the C library for everybody but this library.
pub fn replace(all: &[Replacement]) {
    let own = replace as *const () as u64;
    look_up(all);
    let its = |o: &Object<'_>, r: &Replacement, place| {
        let next = r.next.of(place);
        !next.is_null() && (place == LIBRARY || o.holds(next as u64))
    };
    let mut found = HashMap::new();
    let mut main = true;
    each(&mut |o| {
        // The program's own functions of these names may be of its own kind.
        let is_program = std::mem::take(&mut main);
        let place = match is_library(o) {
            true => LIBRARY,
            false if is_program || o.holds(own) => return,
            // Others have a million symbols between them.
            false if !all.iter().any(|r| its(o, r, AHEAD)) => return,
            false => AHEAD,
        };
        let ours = |name: &CStr| {
            let r = all.iter().find(|r| r.name == name)?;
            its(o, r, place).then_some(r.ours[place])
        };
        // SAFETY: an object that the loader has named.
        unsafe { o.export(&ours, &mut found) };
    });
    each(&mut |o| {
        if !is_library(o) && !o.holds(own) {
            // SAFETY: as above.
            unsafe { o.redirect(&found) };
        }
    });
}
