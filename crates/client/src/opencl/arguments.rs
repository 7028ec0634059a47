//! The arguments of C functions, as entry points take them. Generated code makes each of them of
//! what a program gave, and vouches that the program may give it.

use super::state::object::{Body, Object, get};
use super::state::told::Notify;
use super::state::{Result, User};
use busbar_abi::opencl::*;
use std::ffi::{CStr, c_char, c_void};

/// An argument made of one of C's.
pub trait Take<C>: Sized {
    /// Takes it.
    ///
    /// # Safety
    /// The program gave `c`, as the API says that it may.
    unsafe fn take(c: C) -> Result<Self>;
}

/// Takes an argument as what the entry point wants.
///
/// # Safety
/// As [`Take::take`].
#[inline]
pub unsafe fn take<C, T: Take<C>>(c: C) -> Result<T> {
    // SAFETY: passed on to the caller.
    unsafe { T::take(c) }
}

macro_rules! as_they_are {
    ($([$($of:ident)?] $t:ty),* $(,)?) => {$(
        impl$(<$of>)? Take<$t> for $t {
            #[inline]
            unsafe fn take(c: $t) -> Result<Self> {
                Ok(c)
            }
        }
    )*};
}

as_they_are!([] u32, [] i32, [] u64, [] usize, [P] *const P, [P] *mut P);

impl Take<u32> for bool {
    unsafe fn take(c: u32) -> Result<Self> {
        Ok(c != 0)
    }
}

impl<T: Body> Take<Handle> for &Object<T> {
    #[inline]
    unsafe fn take(c: Handle) -> Result<Self> {
        // SAFETY: passed on to the caller.
        unsafe { get(c) }
    }
}

/// An object, or none for null.
impl<T: Body> Take<Handle> for Option<&Object<T>> {
    unsafe fn take(c: Handle) -> Result<Self> {
        // SAFETY: passed on to the caller.
        (!c.is_null()).then(|| unsafe { get(c) }).transpose()
    }
}

impl Take<Handle> for User {
    unsafe fn take(c: Handle) -> Result<Self> {
        Ok(Self(c))
    }
}

/// A text, lossily; none for null.
impl Take<*const c_char> for Option<String> {
    unsafe fn take(c: *const c_char) -> Result<Self> {
        // SAFETY: passed on to the caller: a C string.
        let text = || unsafe { CStr::from_ptr(c) };
        Ok((!c.is_null()).then(|| text().to_string_lossy().into_owned()))
    }
}

/// A structure; none for null.
impl<T: Copy> Take<*const T> for Option<T> {
    unsafe fn take(c: *const T) -> Result<Self> {
        // SAFETY: passed on to the caller.
        Ok((!c.is_null()).then(|| unsafe { c.read_unaligned() }))
    }
}

/// Called with an object that goes, or whose build is over, and the program's own pointer.
pub type OfObject = unsafe extern "C" fn(Handle, *mut c_void);
/// Called with an event and its state.
pub type OfEvent = unsafe extern "C" fn(Handle, i32, *mut c_void);
/// Called with a queue and the pointers to free.
pub type OfPointers = unsafe extern "C" fn(Handle, u32, *mut *mut c_void, *mut c_void);

macro_rules! functions {
    ($($t:ty),*) => {$(
        impl Take<*const c_void> for Option<$t> {
            unsafe fn take(c: *const c_void) -> Result<Self> {
                // SAFETY: passed on to the caller: a function of this type, or null.
                Ok(unsafe { std::mem::transmute::<*const c_void, Self>(c) })
            }
        }
    )*};
}

functions!(Notify, OfObject, OfEvent, OfPointers);

/// A list of handles that a program gives by its length and place.
pub struct Handles<'a> {
    n: usize,
    list: Option<&'a [Handle]>,
}

impl<'a> Handles<'a> {
    /// A list of `n` handles at `at`.
    ///
    /// # Safety
    /// The program gave them.
    #[inline]
    pub unsafe fn new(n: u32, at: *const Handle) -> Self {
        let n = n as usize;
        // SAFETY: passed on to the caller.
        let list = (!at.is_null()).then(|| unsafe { std::slice::from_raw_parts(at, n) });
        Self { n, list }
    }

    /// None at all.
    pub fn none() -> Self {
        Self { n: 0, list: None }
    }

    fn get<T: Body + 'a>(
        list: &'a [Handle],
    ) -> impl ExactSizeIterator<Item = Result<&'a Object<T>>> {
        // SAFETY: `new` was given handles of the program's.
        list.iter().map(|h| unsafe { get(*h) })
    }

    /// Fails where the list is empty.
    pub fn check(&self) -> Result<()> {
        match self.list {
            Some(list) if !list.is_empty() => Ok(()),
            _ => Err(CL_INVALID_VALUE),
        }
    }

    /// The objects of a list that must not be empty.
    pub fn some<T: Body + 'a>(self) -> Result<Vec<&'a Object<T>>> {
        self.check()?;
        Self::get(self.list.unwrap_or_default()).collect()
    }

    /// The objects of a list that may be empty, and is if and only if it has no place; `wrong` if
    /// that does not hold.
    #[inline]
    pub fn any<T: Body + 'a>(
        self,
        wrong: i32,
    ) -> Result<impl ExactSizeIterator<Item = Result<&'a Object<T>>>> {
        match self.list.is_none() == (self.n == 0) {
            true => Ok(Self::get(self.list.unwrap_or_default())),
            false => Err(wrong),
        }
    }
}

/// A place for one value, or null.
pub struct Slot<T>(*mut T);

impl<T> Take<*mut T> for Slot<T> {
    #[inline]
    unsafe fn take(c: *mut T) -> Result<Self> {
        Ok(Self(c))
    }
}

impl<T> Slot<T> {
    /// Whether there is no place.
    #[inline]
    pub fn is_none(&self) -> bool {
        self.0.is_null()
    }

    /// Puts a value there, if there is a place.
    #[inline]
    pub fn put(&self, value: T) {
        if !self.is_none() {
            // SAFETY: `take` was given a place of the program's.
            unsafe { self.0.write_unaligned(value) };
        }
    }
}

/// The events of a command: those that it waits for, and the place for its own.
pub struct Events<'a> {
    /// The wait list.
    pub waits: Handles<'a>,
    /// The place for its own event.
    pub place: Slot<Handle>,
}

impl<'a> Events<'a> {
    /// `n` events at `at` to wait for, and the place of its own.
    ///
    /// # Safety
    /// The program gave them; the place may be null.
    #[inline]
    pub unsafe fn new(n: u32, at: *const Handle, place: *mut Handle) -> Self {
        Self {
            // SAFETY: passed on to the caller.
            waits: unsafe { Handles::new(n, at) },
            place: Slot(place),
        }
    }

    /// Those to wait for, and no place.
    pub fn after(waits: Handles<'a>) -> Self {
        let place = Slot(std::ptr::null_mut());
        Self { waits, place }
    }
}

/// Where the answer to a query goes.
pub struct Answer {
    /// Bytes that there is room for.
    pub size: usize,
    /// The room, or null.
    pub value: Handle,
    ret: Slot<usize>,
}

impl Answer {
    /// Room for `size` bytes at `value`, and for their number at `ret`.
    ///
    /// # Safety
    /// The program gave them; each pointer may be null.
    pub unsafe fn new(size: usize, value: Handle, ret: *mut usize) -> Self {
        let ret = Slot(ret);
        Self { size, value, ret }
    }

    /// Answers with bytes.
    pub fn give(&self, bytes: &[u8]) -> Result<()> {
        if !self.value.is_null() {
            refuse_if(self.size < bytes.len(), CL_INVALID_VALUE)?;
            // SAFETY: `new` was given room for `size` bytes.
            unsafe {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.value.cast(), bytes.len());
            }
        }
        self.ret.put(bytes.len());
        Ok(())
    }

    /// Says how long the answer is, which went elsewhere.
    pub fn length(&self, n: usize) {
        self.ret.put(n);
    }
}

/// Room for a list and for its full length.
pub struct Room<T> {
    n: usize,
    at: *mut T,
    count: Slot<u32>,
}

impl<T> Room<T> {
    /// Room for `n` items at `at`, and for the length at `count`.
    ///
    /// # Safety
    /// The program gave them; each pointer may be null.
    pub unsafe fn new(n: u32, at: *mut T, count: *mut u32) -> Self {
        let (n, count) = (n as usize, Slot(count));
        Self { n, at, count }
    }

    /// Fails where nothing at all is asked for.
    pub fn check(&self) -> Result<()> {
        refuse_if(self.at.is_null() && self.count.is_none(), CL_INVALID_VALUE)
    }

    /// As [`Room::check`]; also fails where a list of no items is asked for.
    pub fn check_list(&self) -> Result<()> {
        refuse_if(self.n == 0 && !self.at.is_null(), CL_INVALID_VALUE)?;
        self.check()
    }

    /// How many items there is room for; none when there is no place for them.
    pub fn wanted(&self) -> Option<usize> {
        (!self.at.is_null()).then_some(self.n)
    }

    /// Says how long the list is, and gives as much of it as there is room for.
    pub fn give(&self, len: usize, items: impl IntoIterator<Item = T>) {
        for (i, item) in items
            .into_iter()
            .take(self.wanted().unwrap_or(0))
            .enumerate()
        {
            // SAFETY: `new` was given room for `n` items.
            unsafe { self.at.add(i).write_unaligned(item) };
        }
        self.count.put(len as u32);
    }
}

/// Three sizes behind a pointer.
#[derive(Clone, Copy)]
pub struct Three(Option<[u64; 3]>);

impl Take<*const usize> for Three {
    unsafe fn take(c: *const usize) -> Result<Self> {
        // SAFETY: passed on to the caller: three sizes, or null.
        let sizes = (!c.is_null()).then(|| unsafe { c.cast::<[usize; 3]>().read_unaligned() });
        Ok(Self(sizes.map(|v| v.map(|x| x as u64))))
    }
}

impl Three {
    /// The sizes; an error for null.
    pub fn get(self) -> Result<[u64; 3]> {
        self.0.ok_or(CL_INVALID_VALUE)
    }

    /// The sizes, none of which may be zero.
    pub fn region(self) -> Result<[u64; 3]> {
        match self.get()? {
            r if r.contains(&0) => Err(CL_INVALID_VALUE),
            r => Ok(r),
        }
    }
}

/// A list of properties that ends in zero, with the zero; empty for null.
pub struct Properties(pub Vec<u64>);

impl Take<*const u64> for Properties {
    unsafe fn take(c: *const u64) -> Result<Self> {
        let mut v = Vec::new();
        if c.is_null() {
            return Ok(Self(v));
        }
        for i in 0..=64 {
            // SAFETY: passed on to the caller: pairs, until a key is zero.
            unsafe {
                let key = c.add(2 * i).read_unaligned();
                v.push(key);
                if key == 0 {
                    return Ok(Self(v));
                }
                v.push(c.add(2 * i + 1).read_unaligned());
            }
        }
        Err(CL_INVALID_PROPERTY)
    }
}

impl Take<*const isize> for Properties {
    unsafe fn take(c: *const isize) -> Result<Self> {
        // SAFETY: passed on to the caller.
        unsafe { take(c.cast::<u64>()) }
    }
}

impl Properties {
    /// Its pairs, whose keys differ; `twice` where they do not.
    pub fn pairs(&self, twice: i32) -> Result<Vec<(u32, u64)>> {
        let mut pairs: Vec<(u32, u64)> = Vec::new();
        for p in self.0.chunks_exact(2) {
            let key = u32::try_from(p[0]).unwrap_or(u32::MAX);
            if pairs.iter().any(|q| q.0 == key) {
                return Err(twice);
            }
            pairs.push((key, p[1]));
        }
        Ok(pairs)
    }
}

/// A function of the program for an object that goes, with its pointer.
pub fn farewell(f: Option<OfObject>, user: User) -> Result<Box<dyn FnOnce(User) + Send>> {
    let f = f.ok_or(CL_INVALID_VALUE)?;
    // SAFETY: the program's function with what it asked for.
    Ok(Box::new(move |object: User| unsafe {
        f(object.get(), user.get());
    }))
}

/// The code and the handle that an entry point comes to. One of them can be an error with a handle.
pub trait Made {
    /// The handle and the code.
    fn made(self) -> (Handle, i32);
}

impl Made for Handle {
    fn made(self) -> (Handle, i32) {
        (self, CL_SUCCESS)
    }
}

impl Made for (Handle, i32) {
    fn made(self) -> (Handle, i32) {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_properties_ends_with_its_zero_or_not_at_all() {
        // SAFETY: lists that end in zeros, or are longer than what is read.
        let read = |list: &[u64]| unsafe { <Properties as Take<*const u64>>::take(list.as_ptr()) };
        let some = read(&[7, 1, 8, 2, 0]).unwrap();
        assert_eq!(some.0, [7, 1, 8, 2, 0]);
        assert_eq!(some.pairs(-1), Ok(vec![(7, 1), (8, 2)]));
        assert_eq!(read(&[7, 1, 7, 2, 0]).unwrap().pairs(-9), Err(-9));
        assert_eq!(read(&[1; 200]).err(), Some(CL_INVALID_PROPERTY));
    }

    #[test]
    fn an_answer_has_room_or_says_how_much_it_needs() {
        let (mut room, mut n) = ([0u8; 4], 0usize);
        // SAFETY: room of the sizes given.
        let (asked, short, fits) = unsafe {
            let null = std::ptr::null_mut();
            (
                Answer::new(0, null, &raw mut n),
                Answer::new(2, room.as_mut_ptr().cast(), null.cast()),
                Answer::new(4, room.as_mut_ptr().cast(), null.cast()),
            )
        };
        assert_eq!(asked.give(&[1, 2, 3]), Ok(()));
        assert_eq!(short.give(&[1, 2, 3]), Err(CL_INVALID_VALUE));
        assert_eq!(fits.give(&[1, 2, 3]), Ok(()));
        assert_eq!((n, room), (3, [1, 2, 3, 0]));
    }

    #[test]
    fn a_list_is_given_as_far_as_there_is_room() {
        let (mut room, mut n) = ([0u16; 3], 0u32);
        // SAFETY: room for two items and a number.
        let two = unsafe { Room::new(2, room.as_mut_ptr(), &raw mut n) };
        two.give(3, [7, 8, 9]);
        assert_eq!((room, n), ([7, 8, 0], 3));
        let null = std::ptr::null_mut();
        // SAFETY: nothing is there to write to.
        let (odd, nothing) = unsafe {
            (
                Room::new(0, room.as_mut_ptr(), null),
                Room::<u16>::new(0, null.cast(), null),
            )
        };
        assert!(odd.check_list().is_err() && odd.check().is_ok());
        assert!(nothing.check().is_err());
    }
}
