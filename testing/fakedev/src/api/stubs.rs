//! The exported names that are not simulated: each answers that it is not supported.

use crate::ffi::NOT_SUPPORTED;

macro_rules! stub {
    ($name:ident) => {
        #[unsafe(no_mangle)]
        extern "C" fn $name() -> crate::ffi::CUresult {
            static SITE: crate::entry::Site = crate::entry::Site::new(stringify!($name));
            crate::entry::call(&SITE, || Err(NOT_SUPPORTED))
        }
    };
}

include!(concat!(env!("OUT_DIR"), "/stubs.rs"));
