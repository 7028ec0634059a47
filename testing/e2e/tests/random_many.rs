//! Very many random programs: each gives natively and through a server the same, in a session of
//! its own, and leaves nothing at the worker when it has ended all that it made.
//!
//! `./test random` runs a hundred thousand.

use busbar_e2e::program::{Running, native, remote_directly};
use busbar_e2e::random::MOST_BYTES;
use busbar_e2e::server::{Options, Server};
use busbar_e2e::{proc, until};
use busbar_harness::rng::effort;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_driver_program");

/// What a worker keeps for its session's sake, whatever the program did: at most so many of these
/// kinds, and nothing of any other.
const KEPT: [(&str, u64); 7] = [
    ("contexts", 1),
    ("streams", 1),
    // One for each word that was under way at once.
    ("events", 16),
    ("host_ranges", 12),
    // Addresses and memory that the next allocation gets.
    ("reserved", 8),
    ("created", 8),
    ("device_ranges", 8),
];

/// What a worker's own inventory has at a session's end, at most: the context that the program
/// retains, and bytes of memory that the next allocation gets, or that became empty with the last
/// answer: the next call that frees gives those back. What a stream gave back last, a pool keeps
/// until somebody waits.
const LEFT: [(&str, u64); 6] = [
    ("kept", 256),
    ("Context", 1),
    ("context", 512 << 20),
    ("linear", 4 << 20),
    ("managed", 2 << 20),
    ("shared", 64 << 20),
];

/// How long all programs of a lane may take.
const LONG: Duration = Duration::from_secs(4 * 3600);

type Counts = BTreeMap<String, u64>;

/// Runs programs one after another, natively or through a server.
struct Runner {
    running: Running,
    /// Where the processes that have the driver say what is live.
    live: PathBuf,
    /// What the server logs, from behind the last session that ended.
    log: Option<BufReader<File>>,
}

impl Runner {
    fn native(live: PathBuf) -> Self {
        let mut c = native(Path::new(PROGRAM));
        c.env("FAKEDEV_LIVE", &live).arg("random-many");
        let running = Running::start_for(&mut c, LONG);
        Self {
            running,
            live,
            log: None,
        }
    }

    fn remote(server: &Server, live: PathBuf) -> Self {
        let mut c = remote_directly(server, Path::new(PROGRAM));
        let running = Running::start_for(c.arg("random-many"), LONG);
        let log = File::open(server.path("log")).expect("a log");
        Self {
            running,
            live,
            log: Some(BufReader::new(log)),
        }
    }

    /// Runs a program: the end of its trace, what was live of each kind when its process, or the
    /// worker's, had ended, and what the worker's inventory had then.
    fn run(&mut self, seed: u64) -> (String, Counts, Counts) {
        let most = if seed.is_multiple_of(16) {
            MOST_BYTES
        } else {
            1 << 16
        };
        self.running.say(&format!("{seed} 60 {most}"));
        let mut said = String::new();
        loop {
            let line = self.running.line();
            assert!(
                !line.is_empty(),
                "the programs have ended at seed {seed}: {said}"
            );
            said += &line;
            if line.starts_with("seed ") {
                break;
            }
        }
        (said, self.left(), self.inventory())
    }

    /// What the worker of the session that ended last says that it has still: objects by kind, and
    /// bytes of memory by kind.
    fn inventory(&mut self) -> Counts {
        let Some(log) = &mut self.log else {
            return Counts::new();
        };
        let mut line = String::new();
        let said = until("a session that has ended", || {
            // A line may be half written.
            while log.read_line(&mut line).expect("the log") > 0 && line.ends_with('\n') {
                let line = std::mem::take(&mut line);
                if line.contains("left at the end") {
                    return Some(line);
                }
            }
            None
        });
        let list = |name: &str| {
            let at = said.find(&format!(" {name}=\"")).expect("a list") + name.len() + 3;
            let text = said[at..].split('"').next().expect("its end");
            let each = text.split(", ").filter(|one| *one != "none");
            let pairs = each.map(|one| one.split_once(' ').expect("a number and a kind"));
            pairs
                .map(|(n, kind)| (kind.to_string(), n.parse().expect("a number")))
                .collect::<Counts>()
        };
        let mut all = list("objects");
        all.extend(list("memory"));
        all
    }

    /// What a process that has ended left; its file is gone then.
    fn left(&self) -> Counts {
        until("a process that has ended", || {
            let files = fs::read_dir(&self.live).into_iter().flatten().flatten();
            let pid = |f: &fs::DirEntry| f.file_name().to_string_lossy().parse().ok();
            let file = files
                .into_iter()
                .find(|f| pid(f).is_some_and(|p| !proc::alive(p)))?;
            let text = fs::read_to_string(file.path()).expect("a file of counts");
            fs::remove_file(file.path()).expect("it can be removed");
            Some(serde_json::from_str(&text).expect("counts"))
        })
    }
}

#[test]
fn many_programs_are_equal_and_leave_nothing() {
    let count = effort(40);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (next, failures) = (AtomicU64::new(0), AtomicU64::new(0));
    let most = Mutex::new(Counts::new());
    let start = Instant::now();
    let lane = || {
        let folder = tempfile::tempdir().expect("a folder");
        let live = |name: &str| {
            let path = folder.path().join(name);
            fs::create_dir(&path).expect("a folder");
            path
        };
        let there = live("worker");
        let server = Options::default()
            // The simulated driver writes outside of what is a session's.
            .arg("--isolation", "off")
            .env("FAKEDEV_LIVE", &there.display().to_string())
            .env("BUSBAR_LOG", "debug")
            .start();
        let mut runners = [
            Runner::native(live("native")),
            Runner::remote(&server, there),
        ];
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= count {
                break;
            }
            let [(wanted, alone, _), (got, left, known)] = runners.each_mut().map(|r| r.run(seed));
            let mut why = Vec::new();
            if wanted != got {
                why.push(format!("natively {wanted:?}, remotely {got:?}"));
            }
            // The program itself ends all that it makes, but for the context that it retains.
            if alone
                .iter()
                .any(|(kind, n)| *n > u64::from(kind == "contexts"))
            {
                why.push(format!("natively it leaves {alone:?}"));
            }
            let kept = |kind: &str| KEPT.iter().find(|k| k.0 == kind).map_or(0, |k| k.1);
            if left.iter().any(|(kind, n)| *n > kept(kind)) {
                why.push(format!("the worker is left with {left:?}"));
            }
            let may = |kind: &str| LEFT.iter().find(|l| l.0 == kind).map_or(0, |l| l.1);
            if known.iter().any(|(kind, n)| *n > may(kind)) {
                why.push(format!("the worker's inventory still has {known:?}"));
            }
            let mut most = most.lock().unwrap();
            for (kind, n) in left.into_iter().chain(known) {
                let most = most.entry(kind).or_insert(0);
                *most = n.max(*most);
            }
            if !why.is_empty() {
                println!("seed {seed}: {}", why.join("; "));
                failures.fetch_add(1, Ordering::Relaxed);
            }
            if seed % 1000 == 999 {
                println!(
                    "{} programs, {:.1} a second",
                    seed + 1,
                    seed as f64 / start.elapsed().as_secs_f64()
                );
            }
        }
    };
    std::thread::scope(|s| (0..2 * cores).for_each(|_| drop(s.spawn(lane))));
    let rate = count as f64 / start.elapsed().as_secs_f64();
    let failed = failures.into_inner();
    println!("{count} programs, {rate:.1} a second, {failed} failed");
    println!("left at most: {:?}", most.into_inner().unwrap());
    assert_eq!(failed, 0);
}
