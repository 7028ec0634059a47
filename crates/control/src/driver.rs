//! Variables of NVIDIA's driver that a session's worker has as the program has them. The driver
//! reads them when it starts, which it does in the worker.

/// Those that change how it does what it is asked, and nothing else: neither where it writes, nor
/// what it does to others. Those that say what a program sees are the client's own business.
pub const VARIABLES: [&str; 8] = [
    "CUDA_DEVICE_DEFAULT_PERSISTING_L2_CACHE_PERCENTAGE_LIMIT",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_DEVICE_MAX_COPY_CONNECTIONS",
    "CUDA_GRAPHS_USE_NODE_PRIORITY",
    "CUDA_MANAGED_FORCE_DEVICE_ALLOC",
    "CUDA_MODULE_DATA_LOADING",
    "CUDA_MODULE_LOADING",
    "CUDA_SCALE_LAUNCH_QUEUES",
];

/// The longest value that counts; each is a small number or fraction.
const LONGEST: usize = 16;

/// Whether a worker may have this variable with this value.
pub fn is_known((name, value): &(String, String)) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'.';
    VARIABLES.contains(&name.as_str())
        && (1..=LONGEST).contains(&value.len())
        && value.bytes().all(plain)
}

/// What of an environment a client tells of. To load code when it is first used is what a driver
/// does by itself, so that need not be said: a session that says nothing finds a spare worker.
pub fn of_environment(var: impl Fn(&str) -> Option<String>) -> Vec<(String, String)> {
    let all = VARIABLES.iter();
    let all = all.filter_map(|name| Some((name.to_string(), var(name)?)));
    let needless = |value: &str| value.eq_ignore_ascii_case("lazy");
    all.filter(|v| is_known(v) && !needless(&v.1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_has_small_numbers_under_known_names_and_nothing_else() {
        let told = |name: &str, value: &str| is_known(&(name.into(), value.into()));
        assert!(told("CUDA_DEVICE_MAX_CONNECTIONS", "1"));
        assert!(told("CUDA_SCALE_LAUNCH_QUEUES", "0.25x"));
        assert!(told("CUDA_MODULE_LOADING", "EAGER"));
        for value in ["", "1 ", "a/b", "1\0", "12345678901234567"] {
            assert!(!told("CUDA_DEVICE_MAX_CONNECTIONS", value), "{value:?}");
        }
        for name in ["LD_PRELOAD", "CUDA_CACHE_PATH", "CUDA_MPS_PIPE_DIRECTORY"] {
            assert!(!told(name, "1"), "{name}");
        }
        let one = |name: &str| (name == VARIABLES[1]).then(|| "8".to_string());
        let found = of_environment(one);
        assert_eq!(found, [(VARIABLES[1].to_string(), "8".to_string())]);
        let loading = |value: &str| {
            of_environment(|name| (name == "CUDA_MODULE_LOADING").then(|| value.to_string())).len()
        };
        assert_eq!((loading("EAGER"), loading("lazy")), (1, 0));
    }
}
