//! Fills.

#[unsupported("takes 32-bit addresses and sizes; superseded")] #[get_proc("cuMemsetD16", 2000)]
fn cuMemsetD16(dstDevice: CUdeviceptr_v1, us: u16, N: u32) -> CUresult;

#[id(0x0b01)] #[queued] #[by_hand(client)] #[get_proc("cuMemsetD16Async", 3020)] #[per_thread("_ptsz")]
fn cuMemsetD16Async(
    dstDevice: CUdeviceptr,
    us: u16,
    N: usize,
    #[handle] hStream: CUstream,
) -> CUresult;

#[is(cuMemsetD16Async(dstDevice, us, N, null))] #[get_proc("cuMemsetD16", 3020)] #[per_thread("_ptds")]
fn cuMemsetD16_v2(dstDevice: CUdeviceptr, us: u16, N: usize) -> CUresult;

#[unsupported("takes 32-bit addresses and sizes; superseded")] #[get_proc("cuMemsetD2D16", 2000)]
fn cuMemsetD2D16(
    dstDevice: CUdeviceptr_v1,
    dstPitch: u32,
    us: u16,
    Width: u32,
    Height: u32,
) -> CUresult;

#[id(0x0b02)] #[queued] #[by_hand(client)] #[get_proc("cuMemsetD2D16Async", 3020)] #[per_thread("_ptsz")]
fn cuMemsetD2D16Async(
    dstDevice: CUdeviceptr,
    dstPitch: usize,
    us: u16,
    Width: usize,
    Height: usize,
    #[handle] hStream: CUstream,
) -> CUresult;

#[is(cuMemsetD2D16Async(dstDevice, dstPitch, us, Width, Height, null))] #[get_proc("cuMemsetD2D16", 3020)] #[per_thread("_ptds")]
fn cuMemsetD2D16_v2(
    dstDevice: CUdeviceptr,
    dstPitch: usize,
    us: u16,
    Width: usize,
    Height: usize,
) -> CUresult;

#[unsupported("takes 32-bit addresses and sizes; superseded")] #[get_proc("cuMemsetD2D32", 2000)]
fn cuMemsetD2D32(
    dstDevice: CUdeviceptr_v1,
    dstPitch: u32,
    ui: u32,
    Width: u32,
    Height: u32,
) -> CUresult;

#[id(0x0b03)] #[queued] #[by_hand(client)] #[get_proc("cuMemsetD2D32Async", 3020)] #[per_thread("_ptsz")]
fn cuMemsetD2D32Async(
    dstDevice: CUdeviceptr,
    dstPitch: usize,
    ui: u32,
    Width: usize,
    Height: usize,
    #[handle] hStream: CUstream,
) -> CUresult;

#[is(cuMemsetD2D32Async(dstDevice, dstPitch, ui, Width, Height, null))] #[get_proc("cuMemsetD2D32", 3020)] #[per_thread("_ptds")]
fn cuMemsetD2D32_v2(
    dstDevice: CUdeviceptr,
    dstPitch: usize,
    ui: u32,
    Width: usize,
    Height: usize,
) -> CUresult;

#[unsupported("takes 32-bit addresses and sizes; superseded")] #[get_proc("cuMemsetD2D8", 2000)]
fn cuMemsetD2D8(
    dstDevice: CUdeviceptr_v1,
    dstPitch: u32,
    uc: u8,
    Width: u32,
    Height: u32,
) -> CUresult;

#[id(0x0b04)] #[queued] #[by_hand(client)] #[get_proc("cuMemsetD2D8Async", 3020)] #[per_thread("_ptsz")]
fn cuMemsetD2D8Async(
    dstDevice: CUdeviceptr,
    dstPitch: usize,
    uc: u8,
    Width: usize,
    Height: usize,
    #[handle] hStream: CUstream,
) -> CUresult;

#[is(cuMemsetD2D8Async(dstDevice, dstPitch, uc, Width, Height, null))] #[get_proc("cuMemsetD2D8", 3020)] #[per_thread("_ptds")]
fn cuMemsetD2D8_v2(
    dstDevice: CUdeviceptr,
    dstPitch: usize,
    uc: u8,
    Width: usize,
    Height: usize,
) -> CUresult;

#[unsupported("takes 32-bit addresses and sizes; superseded")] #[get_proc("cuMemsetD32", 2000)]
fn cuMemsetD32(dstDevice: CUdeviceptr_v1, ui: u32, N: u32) -> CUresult;

#[id(0x0b05)] #[queued] #[by_hand(client)] #[get_proc("cuMemsetD32Async", 3020)] #[per_thread("_ptsz")]
fn cuMemsetD32Async(
    dstDevice: CUdeviceptr,
    ui: u32,
    N: usize,
    #[handle] hStream: CUstream,
) -> CUresult;

#[is(cuMemsetD32Async(dstDevice, ui, N, null))] #[get_proc("cuMemsetD32", 3020)] #[per_thread("_ptds")]
fn cuMemsetD32_v2(dstDevice: CUdeviceptr, ui: u32, N: usize) -> CUresult;

#[unsupported("takes 32-bit addresses and sizes; superseded")] #[get_proc("cuMemsetD8", 2000)]
fn cuMemsetD8(dstDevice: CUdeviceptr_v1, uc: u8, N: u32) -> CUresult;

#[id(0x0b06)] #[queued] #[by_hand(client)] #[get_proc("cuMemsetD8Async", 3020)] #[per_thread("_ptsz")]
fn cuMemsetD8Async(
    dstDevice: CUdeviceptr,
    uc: u8,
    N: usize,
    #[handle] hStream: CUstream,
) -> CUresult;

#[is(cuMemsetD8Async(dstDevice, uc, N, null))] #[get_proc("cuMemsetD8", 3020)] #[per_thread("_ptds")]
fn cuMemsetD8_v2(dstDevice: CUdeviceptr, uc: u8, N: usize) -> CUresult;
