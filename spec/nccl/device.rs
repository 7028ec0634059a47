//! Windows, and what kernels of the program's call.

#[unsupported("windows and communicators of kernels are not forwarded yet")]
fn ncclCommWindowRegister(comm: ncclComm_t, buff: *mut c_void, size: usize, win: *mut ncclWindow_t, winFlags: i32) -> ncclResult_t;

#[unsupported("windows and communicators of kernels are not forwarded yet")]
fn ncclCommWindowDeregister(comm: ncclComm_t, win: ncclWindow_t) -> ncclResult_t;

#[unsupported("windows and communicators of kernels are not forwarded yet")]
fn ncclDevCommCreate(comm: ncclComm_t, reqs: *const ncclDevCommRequirements_t, outDevComm: *mut ncclDevComm_t) -> ncclResult_t;

#[unsupported("windows and communicators of kernels are not forwarded yet")]
fn ncclDevCommDestroy(comm: ncclComm_t, devComm: *const ncclDevComm_t) -> ncclResult_t;

#[unsupported("windows and communicators of kernels are not forwarded yet")]
fn ncclGinBarrierCreateRequirement(comm: ncclComm_t, team: ncclTeam_t, nBarriers: i32, outHandle: *mut ncclGinBarrierHandle_t, outReq: *mut ncclDevResourceRequirements_t) -> ncclResult_t;

#[unsupported("windows and communicators of kernels are not forwarded yet")]
fn ncclLsaBarrierCreateRequirement(team: ncclTeam_t, nBarriers: i32, outHandle: *mut ncclLsaBarrierHandle_t, outReq: *mut ncclDevResourceRequirements_t) -> ncclResult_t;

#[unsupported("windows and communicators of kernels are not forwarded yet")]
fn ncclLLA2ACreateRequirement(nBlocks: i32, nSlots: i32, outHandle: *mut ncclLLA2AHandle_t, outReq: *mut ncclDevResourceRequirements_t) -> ncclResult_t;

#[local]
fn ncclLLA2ACalcSlots(maxElts: i32, maxEltSize: i32) -> i32;

#[local]
fn ncclTeamWorld(comm: ncclComm_t) -> ncclTeam_t;

#[local]
fn ncclTeamLsa(comm: ncclComm_t) -> ncclTeam_t;

#[local]
fn ncclTeamRail(comm: ncclComm_t) -> ncclTeam_t;

#[local]
fn ncclTeamRankToWorld(comm: ncclComm_t, team: ncclTeam_t, rank: i32) -> i32;

#[local]
fn ncclTeamRankToLsa(comm: ncclComm_t, team: ncclTeam_t, rank: i32) -> i32;


#[unsupported("windows and communicators of kernels are not forwarded yet")]
fn ncclWinGetUserPtr(comm: ncclComm_t, win: ncclWindow_t, outUserPtr: *mut *mut c_void) -> ncclResult_t;

#[unsupported("windows and communicators of kernels are not forwarded yet")]
fn ncclPutSignal(localbuff: *const c_void, count: usize, datatype: ncclDataType_t, peer: i32, peerWin: ncclWindow_t, peerWinOffset: usize, sigIdx: i32, ctx: i32, flags: u32, comm: ncclComm_t, stream: cudaStream_t) -> ncclResult_t;

#[unsupported("windows and communicators of kernels are not forwarded yet")]
fn ncclSignal(peer: i32, sigIdx: i32, ctx: i32, flags: u32, comm: ncclComm_t, stream: cudaStream_t) -> ncclResult_t;

#[unsupported("windows and communicators of kernels are not forwarded yet")]
fn ncclWaitSignal(nDesc: i32, signalDescs: *mut ncclWaitSignalDesc_t, comm: ncclComm_t, stream: cudaStream_t) -> ncclResult_t;

#[unsupported("windows and communicators of kernels are not forwarded yet")]
fn ncclGetLsaDevicePointer(window: ncclWindow_t, offset: usize, lsaRank: i32, outPtr: *mut *mut c_void) -> ncclResult_t;

#[unsupported("windows and communicators of kernels are not forwarded yet")]
fn ncclGetLsaMultimemDevicePointer(window: ncclWindow_t, offset: usize, outPtr: *mut *mut c_void) -> ncclResult_t;

#[unsupported("windows and communicators of kernels are not forwarded yet")]
fn ncclGetMultimemDevicePointer(window: ncclWindow_t, offset: usize, multimem: u64, outPtr: *mut *mut c_void) -> ncclResult_t;

#[unsupported("windows and communicators of kernels are not forwarded yet")]
fn ncclGetPeerDevicePointer(window: ncclWindow_t, offset: usize, peer: i32, outPtr: *mut *mut c_void) -> ncclResult_t;

#[unsupported("windows and communicators of kernels are not forwarded yet")]
fn ncclGetMultimemDeviceLeInfo(window: ncclWindow_t, offset: usize, leId: *mut ncclCftLeId, leOffset: *mut usize) -> ncclResult_t;

#[unsupported("windows and communicators of kernels are not forwarded yet")]
fn ncclGetPeerDeviceLeInfo(window: ncclWindow_t, offset: usize, peerWorld: i32, leId: *mut ncclCftLeId, leOffset: *mut usize) -> ncclResult_t;

#[unsupported("windows and communicators of kernels are not forwarded yet")]
fn ncclGetCftDeviceLeInfo(window: ncclWindow_t, offset: usize, peerCft: i32, cftTeam: ncclTeam_t, leId: *mut ncclCftLeId, leOffset: *mut usize) -> ncclResult_t;

#[unsupported("windows and communicators of kernels are not forwarded yet")]
fn ncclGinInboxA2ACreateRequirement(peers: ncclTeam_t, nBlocks: i32, sizeLog2: i32, outHandle: *mut ncclGinInboxA2AHandle, outReq: *mut ncclDevResourceRequirements_t) -> ncclResult_t;

#[unsupported("windows and communicators of kernels are not forwarded yet")]
fn ncclGinOutboxCreateRequirement(nBlocks: i32, sizeLog2: i32, outHandle: *mut ncclGinOutboxHandle, outReq: *mut ncclDevResourceRequirements_t) -> ncclResult_t;

#[local]
fn ncclTeamCft(comm: ncclComm_t, mode: i32) -> ncclTeam_t;

#[local]
fn ncclTeamCftMultimem(comm: ncclComm_t) -> ncclTeam_t;
