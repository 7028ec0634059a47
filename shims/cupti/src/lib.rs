//! CUPTI's C symbols, by which profilers hear of kernels. What answers is the session of CUDA in
//! the same process: it gives its functions by an export table of our own.
//!
//! `busbar run` preloads this into every program, since programs bring NVIDIA's own library along
//! and name it by a path. So it is small, and does nothing until it is called.
//!
//! NVIDIA's symbols have versions (`cuptiSubscribe@@libcupti.so.13`), and rustc's list of exports
//! can say none. The loader takes a preloaded symbol without a version for one of any version, as
//! it does with those of other allocators. So one file serves programs of CUDA 12 and of 13, and
//! NVIDIA's stays loaded beside it, unused. Its name (SONAME) is not one of NVIDIA's, of which each
//! is one version's: the loader would take it for that library, and say that versions are missing.

#![deny(clippy::print_stdout, clippy::print_stderr, clippy::exit)]
#![allow(non_snake_case, reason = "the names are those of CUPTI")]

mod forwarded;
mod place;
mod refused;
