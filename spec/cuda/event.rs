//! Events.

#[id(0x0d01)] #[queued] #[by_hand(client)] #[cx] #[get_proc("cuEventCreate", 2000)]
fn cuEventCreate(#[new] phEvent: *mut CUevent, Flags: u32) -> CUresult;

#[is(cuEventDestroy_v2)] #[get_proc("cuEventDestroy", 2000)]
fn cuEventDestroy(hEvent: CUevent) -> CUresult;

#[id(0x0d02)] #[queued] #[by_hand(worker)] #[cx(in_functions)] #[get_proc("cuEventDestroy", 4000)]
fn cuEventDestroy_v2(#[del] hEvent: CUevent) -> CUresult;

#[id(0x0d03)] #[waits] #[by_hand(client)] #[cx(in_functions)] #[get_proc("cuEventElapsedTime", 2000)]
fn cuEventElapsedTime(
    #[out] pMilliseconds: *mut f32,
    #[handle] hStart: CUevent,
    #[handle] hEnd: CUevent,
) -> CUresult;

#[is(cuEventElapsedTime)] #[get_proc("cuEventElapsedTime", 12080)]
fn cuEventElapsedTime_v2(pMilliseconds: *mut f32, hStart: CUevent, hEnd: CUevent) -> CUresult;

#[id(0x0d04)] #[waits] #[by_hand(client, worker)] #[cx(in_functions)] #[get_proc("cuEventQuery", 2000)]
fn cuEventQuery(#[handle] hEvent: CUevent) -> CUresult;

#[id(0x0d05)] #[queued] #[by_hand(client)] #[cx(in_functions)] #[get_proc("cuEventRecord", 2000)] #[per_thread("_ptsz")]
#[changes(Event, "what it stands for")]
fn cuEventRecord(#[handle] hEvent: CUevent, #[handle] hStream: CUstream) -> CUresult;

// Some flags are for captures only.
#[id(0x0d06)] #[queued_if(flags == 0)] #[by_hand(client)] #[cx(in_functions)]
#[get_proc("cuEventRecordWithFlags", 11010)] #[per_thread("_ptsz")]
#[changes(Event, "what it stands for")]
fn cuEventRecordWithFlags(
    #[handle] hEvent: CUevent,
    #[handle] hStream: CUstream,
    flags: u32,
) -> CUresult;

#[id(0x0d07)] #[waits] #[by_hand(client, worker)] #[cx(in_functions)] #[get_proc("cuEventSynchronize", 2000)]
fn cuEventSynchronize(#[handle] hEvent: CUevent) -> CUresult;
