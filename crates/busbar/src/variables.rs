//! Variables of the environment that are Busbar's: one with another name is a mistake, which would
//! otherwise do nothing, and say so to nobody.

use busbar_channel::switches::Switch;
use std::ffi::OsString;

/// All that there are; docs/reference.md explains them.
const KNOWN: [&str; 51] = [
    "BUSBAR_CONFIG",
    "BUSBAR_CONNECT_TIMEOUT",
    "BUSBAR_CUPTI",
    "BUSBAR_CUT",
    "BUSBAR_DEVICES",
    "BUSBAR_DEVICE_NAMES",
    "BUSBAR_DNS",
    "BUSBAR_DRAWN",
    "BUSBAR_FUZZ",
    "BUSBAR_IDLE",
    "BUSBAR_IDLE_TIMEOUT",
    "BUSBAR_IN_WORKER",
    "BUSBAR_JOB",
    "BUSBAR_LEASE",
    "BUSBAR_LIB_DIR",
    "BUSBAR_LINKS",
    "BUSBAR_LOCAL",
    "BUSBAR_LOG",
    "BUSBAR_MEMORY",
    "BUSBAR_MODE",
    "BUSBAR_NCCL",
    "BUSBAR_PARTS",
    "BUSBAR_PLAINTEXT",
    "BUSBAR_POLL",
    "BUSBAR_PRIORITY",
    "BUSBAR_PROGRESS",
    "BUSBAR_QUEUE",
    "BUSBAR_RANKS",
    "BUSBAR_RDMA",
    "BUSBAR_RDMA_DEVICE",
    "BUSBAR_RDMA_PLAINTEXT",
    "BUSBAR_REPEAT",
    "BUSBAR_RESUME_TIMEOUT",
    "BUSBAR_SEED",
    "BUSBAR_SEEDS",
    "BUSBAR_SERVER",
    "BUSBAR_SHARE",
    "BUSBAR_SHM",
    "BUSBAR_SIDE",
    "BUSBAR_SILENCE_TIMEOUT",
    "BUSBAR_SMI",
    "BUSBAR_STALL",
    "BUSBAR_STATS",
    "BUSBAR_SUITE_TASK",
    "BUSBAR_TEST_CONFINED",
    "BUSBAR_TEST_PATIENCE",
    "BUSBAR_TEST_RDMA",
    "BUSBAR_TEST_VERBS",
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
    let switch = Switch::ALL
        .iter()
        .any(|s| s.name().eq_ignore_ascii_case(rest));
    if of_a_service || switch || KNOWN.contains(&name) {
        return None;
    }
    let alike = |known: &&str| strsim::jaro_winkler(&known["BUSBAR_".len()..], rest);
    let best = KNOWN.iter().max_by(|a, b| alike(a).total_cmp(&alike(b)));
    Some(match best.filter(|k| alike(k) >= ALIKE) {
        Some(k) => format!("there is no variable {name}: did you mean {k}?"),
        None => format!("there is no variable {name}: docs/reference.md has those that there are"),
    })
}

/// Those that are numbers of seconds.
const SECONDS: [&str; 5] = [
    "BUSBAR_CONNECT_TIMEOUT",
    "BUSBAR_IDLE_TIMEOUT",
    "BUSBAR_RESUME_TIMEOUT",
    "BUSBAR_SILENCE_TIMEOUT",
    "BUSBAR_STALL",
];

/// Those that are 0 or 1.
const SWITCHES: [&str; 12] = [
    "BUSBAR_CUPTI",
    "BUSBAR_IDLE",
    "BUSBAR_LINKS",
    "BUSBAR_LOCAL",
    "BUSBAR_PLAINTEXT",
    "BUSBAR_POLL",
    "BUSBAR_QUEUE",
    "BUSBAR_RANKS",
    "BUSBAR_REPEAT",
    "BUSBAR_SHM",
    "BUSBAR_SIDE",
    "BUSBAR_STATS",
];

/// What is said of a value that means nothing: the default holds, as if there were none.
fn meaningless(name: &str, value: &str) -> Option<String> {
    let seconds = |text: &str| text.parse().is_ok_and(|s: f64| s >= 0.0);
    let (good, say) = match name {
        n if SECONDS.contains(&n) => (seconds(value), "a number of seconds, such as 10"),
        n if SWITCHES.contains(&n) => (matches!(value, "0" | "1" | "off" | "no"), "0 or 1"),
        _ => return None,
    };
    let set = !value.is_empty() && !good;
    set.then(|| format!("{name}={value} means nothing: say {say}"))
}

/// What is to be said of the environment.
pub fn mistakes() -> Vec<String> {
    let text = |(name, value): (OsString, OsString)| {
        Some((
            name.into_string().ok()?,
            value.to_string_lossy().into_owned(),
        ))
    };
    let all = std::env::vars_os().filter_map(text);
    let wrong = |(name, value): (String, String)| {
        mistaken(&name).or_else(|| meaningless(&name, value.trim()))
    };
    let mut said: Vec<_> = all.filter_map(wrong).collect();
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
    fn a_value_that_means_nothing_is_named() {
        for name in SECONDS.iter().chain(&SWITCHES) {
            assert!(KNOWN.contains(name), "{name}");
            assert_eq!(meaningless(name, ""), None);
            assert_eq!(meaningless(name, "1"), None);
            for bad in ["abc", "-1", "yes please"] {
                assert!(meaningless(name, bad).is_some(), "{name}={bad}");
            }
        }
        assert_eq!(meaningless(SECONDS[0], "0.5"), None);
        let said = meaningless(SWITCHES[0], "x").unwrap();
        assert_eq!(said, format!("{}=x means nothing: say 0 or 1", SWITCHES[0]));
    }

    #[test]
    fn a_name_that_is_none_is_said_to_be_none() {
        for name in KNOWN {
            assert_eq!(mistaken(name), None);
        }
        let ours = |rest: &str| format!("BUSBAR_{rest}");
        for switch in Switch::ALL {
            assert_eq!(mistaken(&ours(&switch.name().to_uppercase())), None);
        }
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
