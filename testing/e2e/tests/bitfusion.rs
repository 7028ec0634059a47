//! Commands that Bitfusion's documents have, word for word but for the program's name and the
//! addresses: each works, or says in one sentence what to write instead. docs/book/bitfusion.md has
//! the same rows.

use busbar_e2e::program::{clear, finished, printed};
use busbar_e2e::server::{Options, Server};
use busbar_e2e::tree::tree;
use std::fs;
use std::process::Command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_driver_program");
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/book/bitfusion.md");

/// What comes of a command.
enum Comes {
    /// It works, and prints this.
    Prints(&'static str),
    /// It fails with a sentence that has these words.
    Says(&'static [&'static str]),
}

use Comes::{Prints, Says};

/// `APP` stands for a program, `A` and `B` for servers.
const ROWS: &[(&str, Comes)] = &[
    ("run -n 1 -- APP", Prints("devices 1")),
    ("run -n 1 APP", Prints("devices 1")),
    ("run -n 2 -- APP", Prints("devices 2")),
    ("run --num_gpus 2 -- APP", Prints("devices 2")),
    ("run -n 1 -p 1 -- APP", Prints("devices 1")),
    ("run -n 1 -p 0.5 -- APP", Prints("devices 1")),
    ("run -n 2 -p 0.25 -- APP", Prints("devices 2")),
    ("run -n 1 --partial 0.37 -- APP", Prints("devices 1")),
    ("run -n 1 -m 1024MiB -- APP", Prints("devices 1")),
    (
        "run -n 1 -m 1024 -- APP",
        Says(&["`1024` of what", "1024MiB"]),
    ),
    ("run -n 1 -p 1024 -- APP", Says(&["-m 1024MiB"])),
    ("run -n 2 -m 1024MiB -- APP", Prints("devices 2")),
    ("run -n 1 \"APP\"", Says(&["without quotes"])),
    ("run -l \"A;B\" -n 4 -- APP", Prints("devices 4")),
    ("run --server_list \"A\" -n 2 -- APP", Prints("devices 2")),
    ("run -n 1 -s servers.conf -- APP", Says(&["--server A,B"])),
    ("run -n 1 --timeout 300 -- APP", Says(&["--wait TIME"])),
    (
        "run -n 1 --filter \"device.index=1\" -- APP",
        Says(&["ordinal == "]),
    ),
    (
        "run -n 1 --filter \"device.mem>16000\" -- APP",
        Says(&["memory >= "]),
    ),
    (
        "run -n 1 --filter \"device.name=H200\" -- APP",
        Says(&["name ~ "]),
    ),
    (
        "run -n 1 --filter \"server.addr=10.0.0.1\" -- APP",
        Says(&["server == "]),
    ),
    (
        "run -n 1 --filter \"server.has-rdma=true\" -- APP",
        Says(&["--rdma on"]),
    ),
    ("list_gpus", Prints("fakedev")),
    ("smi", Prints("GPU-Util")),
    ("health", Prints(" up ")),
    ("localhealth", Prints("")),
    ("local-health", Prints("")),
    ("stats", Prints("SESSION")),
    ("request_gpus -n 1", Prints("")),
    ("client -- APP", Says(&["busbar run --lease ID"])),
    ("release_gpus", Says(&["busbar release ID"])),
    ("dealloc", Says(&["busbar release ID"])),
    ("init", Says(&["busbar login"])),
    ("license", Says(&["no license"])),
    ("user", Says(&["busbar token"])),
    ("version", Says(&["--version"])),
    ("help", Prints("Usage")),
    ("net_perf", Says(&["busbar doctor"])),
    ("resource_scheduler -n 2", Says(&["busbar serve"])),
];

/// The words of a command, as a shell has them.
fn words(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    for (i, part) in text.split('"').enumerate() {
        match i % 2 {
            0 => all.extend(part.split_whitespace().map(String::from)),
            _ => all.push(part.into()),
        }
    }
    all
}

#[test]
fn what_bitfusion_has_works_or_says_what_to_write_instead() {
    let start = || Options::default().env("FAKEDEV_DEVICES", "2").start();
    let servers: [Server; 2] = [start(), start()];
    let [a, b] = servers.each_ref().map(|s| s.address.as_str());
    let app = ["random-devices", "1", "10", "4096"].join(" ");
    let app = format!("{PROGRAM} {app}");
    for (row, comes) in ROWS {
        let mut args = Vec::new();
        for word in words(row) {
            match word.as_str() {
                "APP" if row.contains("\"APP\"") => args.push(app.clone()),
                "APP" => args.extend(app.split(' ').map(String::from)),
                "A" => args.push(a.into()),
                "A;B" => args.push(format!("{a};{b}")),
                _ => args.push(word),
            }
        }
        let mut c = Command::new(&tree().busbar);
        clear(&mut c);
        // One of a list is meant where the command names none.
        c.args(&args).env("BUSBAR_SERVER", a);
        match comes {
            Prints(text) => {
                let out = printed(&mut c);
                assert!(out.contains(text), "{row}: {out}");
            }
            Says(words) => {
                let out = finished(&mut c);
                let said = String::from_utf8_lossy(&out.stderr).into_owned();
                assert!(!out.status.success(), "{row}");
                assert!(words.iter().all(|w| said.contains(w)), "{row}: {said}");
                let sentences = said.lines().filter(|l| !l.trim().is_empty());
                let usage = said.contains("For more information");
                assert!(sentences.count() == 1 || usage, "{row}: {said}");
            }
        }
        if row.starts_with("request") {
            let mut c = Command::new(&tree().busbar);
            clear(&mut c);
            printed(c.args(["release", "--all", "--server", a]));
        }
    }
}

#[test]
fn the_page_has_all_of_them() {
    let page = fs::read_to_string(PAGE).expect("docs/book/bitfusion.md");
    for (row, _) in ROWS {
        let shown = format!("`bitfusion {}`", row.replace("APP", "CMD"));
        assert!(
            page.contains(&shown),
            "docs/book/bitfusion.md lacks {shown}"
        );
    }
}
