//! Entry points that profilers know.

/// An entry point, its number among CUPTI's, and two functions beside it: one makes the call, the
/// other first tells who watches of it and of its arguments, which lie as in C's structure of the
/// function's parameters. A call that nobody watches pays for the question alone: the arguments are
/// where either function takes them from.
macro_rules! watched {
    ($number:literal, $name:ident, $watched:ident, $plain:ident,
     ($($arg:ident: $ty:ty),*) -> $result:ty) => {
        #[doc = concat!("`", stringify!($name), "`.")]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> $result {
            // SAFETY: the arguments are the program's.
            unsafe {
                match $crate::marks::is_on() {
                    true => $watched($($arg),*),
                    false => $plain($($arg),*),
                }
            }
        }

        #[cold]
        unsafe extern "C" fn $watched($($arg: $ty),*) -> $result {
            #[repr(C)]
            struct Told($($ty),*);
            let told = Told($($arg),*);
            // SAFETY: the arguments are the program's.
            let call = || unsafe { $plain($($arg),*) };
            $crate::cuda::engine::activity::watch($number, (&raw const told).cast(), &call)
        }
    };
}

pub(in crate::cuda) use watched;
