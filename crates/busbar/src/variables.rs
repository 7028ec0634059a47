//! Variables of the environment that are Busbar's: one with another name is a mistake, which would
//! otherwise do nothing, and say so to nobody.

/// All that there are; docs/reference.md explains them.
const KNOWN: [&str; 42] = [
    "BUSBAR_CONFIG",
    "BUSBAR_CONNECT_TIMEOUT",
    "BUSBAR_CUT",
    "BUSBAR_DEVICES",
    "BUSBAR_DEVICE_NAMES",
    "BUSBAR_DNS",
    "BUSBAR_FUZZ",
    "BUSBAR_IDLE",
    "BUSBAR_IN_WORKER",
    "BUSBAR_JOB",
    "BUSBAR_LEASE",
    "BUSBAR_LIB_DIR",
    "BUSBAR_LINKS",
    "BUSBAR_LOCAL",
    "BUSBAR_LOG",
    "BUSBAR_MEMORY",
    "BUSBAR_NCCL",
    "BUSBAR_PARTS",
    "BUSBAR_PLAINTEXT",
    "BUSBAR_POINTERS",
    "BUSBAR_POLL",
    "BUSBAR_PRIORITY",
    "BUSBAR_QUEUE",
    "BUSBAR_RANKS",
    "BUSBAR_RDMA",
    "BUSBAR_RDMA_DEVICE",
    "BUSBAR_RDMA_PLAINTEXT",
    "BUSBAR_RESUME_TIMEOUT",
    "BUSBAR_SEED",
    "BUSBAR_SEEDS",
    "BUSBAR_SERVER",
    "BUSBAR_SHARE",
    "BUSBAR_SHM",
    "BUSBAR_SIDE",
    "BUSBAR_SILENCE_TIMEOUT",
    "BUSBAR_STATS",
    "BUSBAR_SUITE_TASK",
    "BUSBAR_TEST_CONFINED",
    "BUSBAR_TEST_RDMA",
    "BUSBAR_TOKEN",
    "BUSBAR_TOKEN_FILE",
    "BUSBAR_TREE",
];

/// How alike two names must be for one to be meant by the other.
const ALIKE: f64 = 0.8;

/// What is said of a name, if it is none of ours but looks so.
fn mistaken(name: &str) -> Option<String> {
    let rest = name.strip_prefix("BUSBAR_")?;
    // Kubernetes gives these to each container, for a service that is called busbar.
    let of_a_service = ["SERVICE_", "PORT"].iter().any(|p| rest.starts_with(p));
    if of_a_service || KNOWN.contains(&name) {
        return None;
    }
    let alike = |known: &&str| strsim::jaro_winkler(&known["BUSBAR_".len()..], rest);
    let best = KNOWN.iter().max_by(|a, b| alike(a).total_cmp(&alike(b)));
    Some(match best.filter(|k| alike(k) >= ALIKE) {
        Some(k) => format!("there is no variable {name}: did you mean {k}?"),
        None => format!("there is no variable {name}: docs/reference.md has those that there are"),
    })
}

/// What is to be said of the environment.
pub fn unknown() -> Vec<String> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let mut said: Vec<_> = names.filter_map(|n| mistaken(&n)).collect();
    said.sort();
    said
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_reference_has_the_variables_that_there_are() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference.md");
        let page = std::fs::read_to_string(page).unwrap();
        let name = |c: char| !(c.is_ascii_uppercase() || c == '_');
        let words = page.split(name).filter(|w| w.starts_with("BUSBAR_"));
        let there: BTreeSet<_> = words.filter(|w| w.len() > "BUSBAR_".len()).collect();
        assert_eq!(there, KNOWN.into_iter().collect());
    }

    #[test]
    fn a_name_that_is_none_is_said_to_be_none() {
        for name in KNOWN {
            assert_eq!(mistaken(name), None);
        }
        let ours = |rest: &str| format!("BUSBAR_{rest}");
        assert_eq!(mistaken("PATH"), None);
        for other in ["SERVICE_HOST", "PORT_7400_TCP"].map(ours) {
            assert_eq!(mistaken(&other), None, "{other}");
        }
        for (wrong, right) in [
            ("TOKENFILE", "TOKEN_FILE"),
            ("SERVERS", "SERVER"),
            ("MEM", "MEMORY"),
            ("SHM_", "SHM"),
        ] {
            let said = mistaken(&ours(wrong)).unwrap();
            let end = format!("did you mean {}?", ours(right));
            assert!(said.ends_with(&end), "{said}");
        }
        let said = mistaken(&ours("XYZZY")).unwrap();
        assert!(said.contains("reference.md"), "{said}");
    }
}
