//! Ranks of a job: which of its devices a process has, by what its launcher says.
//!
//! `busbar run` says which devices a program has, of which servers, in the order of the job's
//! ranks. A launcher (`torchrun`, `mpirun`, ...) then starts a process for each of them, and says
//! which one it is. Such a process needs one server: with a session at each of many it would cost
//! a worker there that does nothing.

/// A device of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    /// Its server, by its place among those that the program is given.
    pub server: usize,
    /// Its place among the devices that a session has there.
    pub position: u32,
}

/// The variables of launchers: the rank among those of this machine, and how many those are; the
/// rank among all, and how many these are.
const LAUNCHERS: [[&str; 4]; 8] = [
    ["LOCAL_RANK", "LOCAL_WORLD_SIZE", "RANK", "WORLD_SIZE"],
    [
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
    ],
    ["MPI_LOCALRANKID", "MPI_LOCALNRANKS", "PMI_RANK", "PMI_SIZE"],
    [
        "HOROVOD_LOCAL_RANK",
        "HOROVOD_LOCAL_SIZE",
        "HOROVOD_RANK",
        "HOROVOD_SIZE",
    ],
    // DeepSpeed's, which says the others as torchrun does.
    ["LOCAL_RANK", "LOCAL_SIZE", "RANK", "WORLD_SIZE"],
    // Scripts that start their ranks themselves, all on one machine.
    ["LOCAL_RANK", "WORLD_SIZE", "RANK", "WORLD_SIZE"],
    [
        "MV2_COMM_WORLD_LOCAL_RANK",
        "MV2_COMM_WORLD_LOCAL_SIZE",
        "MV2_COMM_WORLD_RANK",
        "MV2_COMM_WORLD_SIZE",
    ],
    // Slurm's `srun`. The last: other launchers run inside of what it starts.
    [
        "SLURM_LOCALID",
        "SLURM_STEP_TASKS_PER_NODE",
        "SLURM_PROCID",
        "SLURM_STEP_NUM_TASKS",
    ],
];

/// Which rank a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rank {
    /// Among those of its machine.
    pub local: usize,
    /// How many those are.
    pub locals: usize,
    /// Among all.
    pub rank: usize,
    /// How many these are.
    pub ranks: usize,
}

/// Which rank the environment says this process is, if it says so.
pub fn rank(var: impl Fn(&str) -> Option<String>) -> Option<Rank> {
    // Slurm's `4(x2)` is four on each of two machines; `4,3` differs, and says nothing of this one.
    let number = |name: &str| {
        let text = var(name)?;
        let text = text.trim();
        let each = match text.split_once("(x") {
            Some((n, rest)) if !rest.contains(',') => n,
            _ => text,
        };
        each.parse::<usize>().ok()
    };
    LAUNCHERS.iter().find_map(|[local, locals, rank, ranks]| {
        let (local, locals) = (number(local)?, number(locals)?);
        let (rank, ranks) = (
            number(rank).unwrap_or(local),
            number(ranks).unwrap_or(locals),
        );
        let found = Rank {
            local,
            locals,
            rank,
            ranks,
        };
        (local < locals && rank < ranks).then_some(found)
    })
}

/// Reads the devices of a program: `0:0,0:1,1:0`, each the number of a server and a place there.
pub fn parse(text: &str) -> Result<Vec<Spot>, String> {
    let one = |word: &str| {
        let (server, position) = word.trim().split_once(':')?;
        let (server, position) = (server.parse().ok()?, position.parse().ok()?);
        Some(Spot { server, position })
    };
    let words = text.split(',').filter(|w| !w.trim().is_empty());
    let all: Option<Vec<_>> = words.map(one).collect();
    all.ok_or_else(|| format!("BUSBAR_DEVICES: `{text}` are no devices"))
}

/// As [`parse`] reads them.
pub fn show(spots: &[Spot]) -> String {
    let one = |s: &Spot| format!("{}:{}", s.server, s.position);
    spots.iter().map(one).collect::<Vec<_>>().join(",")
}

/// The devices that a process uses of those that its program has: those that
/// `CUDA_VISIBLE_DEVICES` names, and of these its rank's, where each has a rank of its own. `None`
/// where that is not known: they are named by something else than their numbers.
pub fn used(spots: &[Spot], var: impl Fn(&str) -> Option<String>) -> Option<Vec<Spot>> {
    let order = var("CUDA_DEVICE_ORDER").filter(|o| !o.is_empty() && o != "FASTEST_FIRST");
    if order.is_some() {
        return None;
    }
    let visible = match var("CUDA_VISIBLE_DEVICES") {
        None => spots.to_vec(),
        Some(list) => {
            let mut visible = Vec::new();
            for word in list.split(',').map(str::trim) {
                match word.parse::<i64>() {
                    Ok(n) => match usize::try_from(n).ok().and_then(|n| spots.get(n)) {
                        Some(spot) => visible.push(*spot),
                        None => break,
                    },
                    Err(_) => return None,
                }
            }
            visible
        }
    };
    let rank = rank(&var).filter(|r| r.locals == visible.len());
    Some(match rank {
        Some(r) => vec![visible[r.local]],
        None => visible,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An environment of these variables.
    pub(crate) fn says<'a>(all: &'a [(&str, &str)]) -> impl Fn(&str) -> Option<String> + 'a {
        move |name| {
            let mut all = all.iter();
            all.find(|(n, _)| *n == name).map(|(_, v)| v.to_string())
        }
    }

    #[test]
    fn each_launcher_says_which_rank_it_is() {
        for [local, locals, rank_, ranks] in LAUNCHERS {
            let all = [(local, "1"), (rank_, "5"), (ranks, "6"), (locals, "2")];
            let one = locals == ranks;
            let found = rank(says(&all[..4 - usize::from(one)])).expect(local);
            assert_eq!(
                (found.local, found.locals, found.rank, found.ranks),
                (1, if one { 6 } else { 2 }, 5, 6),
                "{local}"
            );
        }
        let slurm = |each| {
            let all = [("SLURM_LOCALID", "1"), ("SLURM_STEP_TASKS_PER_NODE", each)];
            rank(says(&all)).map(|r| r.locals)
        };
        assert_eq!(
            [slurm("4(x2)"), slurm("4,3"), slurm("4(x2),3")],
            [Some(4), None, None]
        );
        // What is started by another launcher inside of a step of Slurm's is that one's rank.
        let inside = [
            ("SLURM_LOCALID", "0"),
            ("SLURM_STEP_TASKS_PER_NODE", "1"),
            ("LOCAL_RANK", "3"),
            ("LOCAL_WORLD_SIZE", "4"),
        ];
        assert_eq!(rank(says(&inside)).map(|r| r.local), Some(3));
        assert_eq!(rank(says(&[("LOCAL_RANK", "1")])), None);
        assert_eq!(
            rank(says(&[("LOCAL_RANK", "2"), ("LOCAL_SIZE", "2")])),
            None
        );
    }
}
