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

