//! Memory and semaphores of other APIs.

#[unsupported("memory and semaphores of other APIs cannot leave their machine")]
#[get_proc("cuDestroyExternalMemory", 10000)]
fn cuDestroyExternalMemory(extMem: CUexternalMemory) -> CUresult;

#[unsupported("memory and semaphores of other APIs cannot leave their machine")]
#[get_proc("cuDestroyExternalSemaphore", 10000)]
fn cuDestroyExternalSemaphore(extSem: CUexternalSemaphore) -> CUresult;

#[unsupported("memory and semaphores of other APIs cannot leave their machine")]
#[get_proc("cuExternalMemoryGetMappedBuffer", 10000)]
fn cuExternalMemoryGetMappedBuffer(
    devPtr: *mut CUdeviceptr,
    extMem: CUexternalMemory,
    bufferDesc: *const CUDA_EXTERNAL_MEMORY_BUFFER_DESC,
) -> CUresult;

#[unsupported("memory and semaphores of other APIs cannot leave their machine")]
#[get_proc("cuExternalMemoryGetMappedMipmappedArray", 10000)]
fn cuExternalMemoryGetMappedMipmappedArray(
    mipmap: *mut CUmipmappedArray,
    extMem: CUexternalMemory,
    mipmapDesc: *const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC,
) -> CUresult;

#[unsupported("memory and semaphores of other APIs cannot leave their machine")]
#[get_proc("cuImportExternalMemory", 10000)]
fn cuImportExternalMemory(
    extMem_out: *mut CUexternalMemory,
    memHandleDesc: *const CUDA_EXTERNAL_MEMORY_HANDLE_DESC,
) -> CUresult;

#[unsupported("memory and semaphores of other APIs cannot leave their machine")]
#[get_proc("cuImportExternalSemaphore", 10000)]
fn cuImportExternalSemaphore(
    extSem_out: *mut CUexternalSemaphore,
    semHandleDesc: *const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC,
) -> CUresult;

#[unsupported("memory and semaphores of other APIs cannot leave their machine")]
#[get_proc("cuSignalExternalSemaphoresAsync", 10000)] #[per_thread("_ptsz")]
fn cuSignalExternalSemaphoresAsync(
    extSemArray: *const CUexternalSemaphore,
    paramsArray: *const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS,
    numExtSems: u32,
    stream: CUstream,
) -> CUresult;

#[unsupported("memory and semaphores of other APIs cannot leave their machine")]
#[get_proc("cuWaitExternalSemaphoresAsync", 10000)] #[per_thread("_ptsz")]
fn cuWaitExternalSemaphoresAsync(
    extSemArray: *const CUexternalSemaphore,
    paramsArray: *const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS,
    numExtSems: u32,
    stream: CUstream,
) -> CUresult;
