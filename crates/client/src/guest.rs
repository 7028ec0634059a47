//! How another of Busbar's libraries in a process makes calls in the session of the CUDA library.
//! Each library has its own copy of this crate, so that the two meet at a table of C functions,
//! which `cuGetExportTable` hands out for a UUID of our own.

use busbar_abi::cuda::{CUdeviceptr, CUresult, CUstream};
use std::ffi::c_void;

/// What the table is asked for by.
pub const UUID: [u8; 16] = *b"busbar:guest:v01";

/// The number of the guest's API in the records of the session.
pub const API: u32 = 1;

/// What is told of an answer: what it was told to tell that to, the status, and the reply's bytes.
pub type Then = unsafe extern "C" fn(*mut c_void, i32, *const u8, usize);

/// What hears the word of a server's worker: its bytes, or null when the session is over. It must
/// not block.
pub type Listener = unsafe extern "C" fn(server: u32, *const u8, usize);

/// A place of calls: a context, and the server that has it, by its number among those of the
/// process.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Place {
    /// The server.
    pub server: u32,
    /// The id of the context there.
    pub scope: u32,
}

/// The functions; each may fail with CUDA's own codes.
#[repr(C)]
pub struct Table {
    /// Opens the sessions if need be, and says which context and device are current to the thread:
    /// as of a thread that has chosen none, the first device's.
    pub enter: unsafe extern "C" fn(at: *mut Place, device: *mut i32) -> CUresult,
    /// The primary context of a device, which stays for the process's life.
    pub home: unsafe extern "C" fn(device: i32, at: *mut Place) -> CUresult,
    /// The id of a stream of a server's.
    pub stream: unsafe extern "C" fn(at: Place, raw: CUstream, id: *mut u32) -> CUresult,
    /// Queues a record, behind all that this thread has queued there.
    pub queue: unsafe extern "C" fn(Place, op: u16, fields: *const u8, len: usize) -> CUresult,
    /// Makes a call and waits for the answer.
    pub call: unsafe extern "C" fn(
        at: Place,
        op: u16,
        fields: *const u8,
        len: usize,
        then: Then,
        to: *mut c_void,
    ) -> CUresult,
    /// Says who is to hear the word of a server's worker.
    pub listen: unsafe extern "C" fn(server: u32, Listener) -> CUresult,
    /// Device memory.
    pub allocate: unsafe extern "C" fn(at: *mut CUdeviceptr, size: usize) -> CUresult,
    /// Gives that back.
    pub free: unsafe extern "C" fn(at: CUdeviceptr) -> CUresult,
}
