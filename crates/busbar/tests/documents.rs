//! What the documents say of the command line, held against the program.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn docs(page: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs")
        .join(page);
    fs::read_to_string(path).unwrap()
}

fn busbar(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_busbar"));
    for name in ["BUSBAR_SERVER", "BUSBAR_TOKEN_FILE"] {
        command.env_remove(name);
    }
    command.args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Words that begin with `--`, as far as they are names.
fn flags<'a>(lines: impl Iterator<Item = &'a str>, before: &str) -> BTreeSet<String> {
    lines
        .filter_map(|l| l.trim().strip_prefix(before))
        .map(|l| l.strip_prefix("-h, ").unwrap_or(l))
        .filter(|l| l.starts_with("--"))
        .map(|l| {
            let end = l.find(|c: char| !(c.is_ascii_lowercase() || c == '-'));
            l[..end.unwrap_or(l.len())].to_string()
        })
        .filter(|f| f != "--help")
        .collect()
}

/// The first block of a page in a language.
fn block(page: &str, language: &str) -> String {
    let start = format!("```{language}\n");
    let begin = page.find(&start).unwrap() + start.len();
    page[begin..begin + page[begin..].find("```").unwrap()].to_string()
}

fn scratch(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("busbar-{name}-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    dir
}

#[test]
fn the_reference_has_the_flags_that_there_are() {
    let page = docs("reference.md");
    let help = text(&busbar(&["--help"]).stdout);
    let list = help
        .split("Commands:")
        .nth(1)
        .unwrap()
        .split("\n\n")
        .next()
        .unwrap();
    let commands: Vec<_> = list
        .lines()
        .filter_map(|l| l.split_whitespace().next())
        .collect();
    assert!(commands.len() > 4, "{help}");
    for command in commands.into_iter().filter(|c| *c != "help") {
        let help = text(&busbar(&[command, "--help"]).stdout);
        let begin = page.find(&format!("\n## busbar {command}\n"));
        let section = &page[begin.unwrap_or_else(|| panic!("no section on {command}")) + 4..];
        let section = section.split("\n## ").next().unwrap();
        assert_eq!(
            flags(section.lines(), "| `"),
            flags(help.lines(), ""),
            "docs/reference.md and busbar {command} --help"
        );
        assert!(
            help.contains("Examples:"),
            "busbar {command} --help has no example"
        );
    }
}

#[test]
fn the_example_of_a_configuration_is_valid() {
    let dir = scratch("config");
    let token = dir.join("token");
    fs::write(&token, "0123456789abcdef\n").unwrap();
    let example = block(&docs("server.md"), "toml");
    let settings = example.replace("/etc/busbar/token", token.to_str().unwrap());
    let file = dir.join("serve.toml");
    fs::write(&file, &settings).unwrap();
    let out = busbar(&["serve", "--check", "--config", file.to_str().unwrap()]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert!(
        text(&out.stdout).contains("0.0.0.0:7400"),
        "{}",
        text(&out.stdout)
    );

    // Every key that the reference promises is one.
    let keys: BTreeSet<_> = example
        .lines()
        .filter_map(|l| l.split(" = ").next())
        .collect();
    assert!(keys.len() > 6);
    fs::write(&file, format!("{settings}listne = 1\n")).unwrap();
    let out = busbar(&["serve", "--check", "--config", file.to_str().unwrap()]);
    let said = text(&out.stderr);
    let line = format!("line {}", settings.lines().count() + 1);
    assert_eq!(out.status.code(), Some(125));
    let wanted = [
        file.to_str().unwrap(),
        &line,
        "there is no key `listne`: choose from `listen`",
    ];
    assert!(wanted.iter().all(|w| said.contains(w)), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn an_address_that_is_none_is_not_taken_for_a_public_one() {
    for listen in ["127.0.0.1:99999", "no such host:7400"] {
        let out = busbar(&["serve", "--check", "--listen", listen]);
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(125), "{listen}");
        assert!(said.contains("is no address to listen on"), "{said}");
    }
    let out = busbar(&["serve", "--check", "--listen", "127.0.0.1"]);
    assert!(text(&out.stdout).contains("127.0.0.1:7400"));
    let open = ["serve", "--check", "--listen", "0.0.0.0:7400"];
    let encrypts = |args: &[&str]| {
        let out = text(&busbar(args).stdout);
        let line = out.lines().find(|l| l.starts_with("tls "));
        line.map(|l| l.ends_with(" true"))
    };
    assert_eq!(encrypts(&open), Some(true));
    assert_eq!(encrypts(&["serve", "--check"]), Some(false));
    assert_eq!(encrypts(&["serve", "--check", "--tls"]), Some(true));
    let out = busbar(&[&open[..], &["--plaintext"]].concat());
    assert!(text(&out.stderr).contains("--token-file"));
    let out = busbar(&["serve", "--check", "--plaintext", "--client-ca", "x"]);
    assert!(text(&out.stderr).contains("is the opposite of"));
}
