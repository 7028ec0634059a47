//! Checkpoints of processes that have a session here, this one among them.

#[remark("of a process of the same machine that uses the same server")]
#[custom] #[get_proc("cuCheckpointProcessCheckpoint", 12080)]
fn cuCheckpointProcessCheckpoint(pid: i32, args: *mut CUcheckpointCheckpointArgs) -> CUresult;

#[remark("a thread of Busbar's in that process")]
#[custom] #[get_proc("cuCheckpointProcessGetRestoreThreadId", 12080)]
fn cuCheckpointProcessGetRestoreThreadId(pid: i32, tid: *mut i32) -> CUresult;

#[custom] #[get_proc("cuCheckpointProcessGetState", 12080)]
fn cuCheckpointProcessGetState(pid: i32, state: *mut CUprocessState) -> CUresult;

#[custom] #[get_proc("cuCheckpointProcessLock", 12080)]
fn cuCheckpointProcessLock(pid: i32, args: *mut CUcheckpointLockArgs) -> CUresult;

#[remark("on the devices it came from: with pairs of others it is refused")]
#[custom] #[get_proc("cuCheckpointProcessRestore", 12080)]
fn cuCheckpointProcessRestore(pid: i32, args: *mut CUcheckpointRestoreArgs) -> CUresult;

#[custom] #[get_proc("cuCheckpointProcessUnlock", 12080)]
fn cuCheckpointProcessUnlock(pid: i32, args: *mut CUcheckpointUnlockArgs) -> CUresult;
