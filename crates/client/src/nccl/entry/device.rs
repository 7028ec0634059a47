//! What the program's own kernels would call: it is refused, and no rank is in a team.

use crate::nccl::life::unsupported;
use busbar_abi::nccl::*;

const WHY: &str = "teams of kernels are not forwarded yet";

fn none(name: &'static str) -> ncclTeam_t {
    unsupported(name, WHY);
    busbar_abi::zeroed()
}

pub unsafe fn ncclTeamWorld(_comm: ncclComm_t) -> ncclTeam_t {
    none("ncclTeamWorld")
}

pub unsafe fn ncclTeamLsa(_comm: ncclComm_t) -> ncclTeam_t {
    none("ncclTeamLsa")
}

pub unsafe fn ncclTeamRail(_comm: ncclComm_t) -> ncclTeam_t {
    none("ncclTeamRail")
}

pub unsafe fn ncclTeamRankToWorld(_comm: ncclComm_t, _team: ncclTeam_t, _rank: i32) -> i32 {
    none("ncclTeamRankToWorld").rank - 1
}

pub unsafe fn ncclTeamRankToLsa(_comm: ncclComm_t, _team: ncclTeam_t, _rank: i32) -> i32 {
    none("ncclTeamRankToLsa").rank - 1
}

pub unsafe fn ncclLLA2ACalcSlots(_max_elts: i32, _max_elt_size: i32) -> i32 {
    none("ncclLLA2ACalcSlots").rank
}

pub unsafe fn ncclTeamCft(_comm: ncclComm_t, _mode: i32) -> ncclTeam_t {
    none("ncclTeamCft")
}

pub unsafe fn ncclTeamCftMultimem(_comm: ncclComm_t) -> ncclTeam_t {
    none("ncclTeamCftMultimem")
}
