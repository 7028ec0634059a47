//! The generator on a small made-up API: what it writes, and what it refuses.

use std::fs;
use std::path::{Path, PathBuf};

const GOLDEN: [(&str, &str); 7] = [
    ("wire.rs", "crates/wire/src/generated/toy/cups.rs"),
    ("contract.rs", "crates/wire/src/generated/toy/contract.rs"),
    ("effects.rs", "crates/wire/src/generated/toy/effects.rs"),
    ("client.rs", "crates/client/src/toy/generated/cups.rs"),
    ("worker.rs", "crates/worker/src/toy/generated/cups.rs"),
    ("exports.rs", "shims/toy/src/generated/cups.rs"),
    ("coverage.md", "docs/coverage.md"),
];

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// A repository that holds the toy's spec, after `change` of one of its files.
fn toy(file: &str, change: impl Fn(String) -> String) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    fs::copy(
        here().join("../../../rustfmt.toml"),
        root.path().join("rustfmt.toml"),
    )
    .unwrap();
    let spec = root.path().join("spec/toy");
    fs::create_dir_all(spec.join("abi")).unwrap();
    for name in [
        "api.toml",
        "exports.txt",
        "procs.txt",
        "contract.rs",
        "cups.rs",
        "abi/types.rs",
    ] {
        let mut text = fs::read_to_string(here().join("toy").join(name)).unwrap();
        if name == file {
            let changed = change(text.clone());
            assert_ne!(changed, text, "the change changes nothing");
            text = changed;
        }
        fs::write(spec.join(name), text).unwrap();
    }
    root
}

fn unchanged() -> tempfile::TempDir {
    toy("", |t| t)
}

/// What the generator says of the toy with one file changed.
fn refusal(file: &str, from: &str, to: &str) -> String {
    let root = toy(file, |t| t.replace(from, to));
    format!("{:#}", busbar_codegen::run(root.path(), false).unwrap_err())
}

#[test]
fn the_output_is_the_golden_one() {
    let root = unchanged();
    busbar_codegen::run(root.path(), false).unwrap();
    for (golden, path) in GOLDEN {
        let text = fs::read_to_string(root.path().join(path)).unwrap();
        let golden = here().join("golden").join(golden);
        if std::env::var_os("BLESS").is_some() {
            fs::write(&golden, &text).unwrap();
        }
        let wanted = fs::read_to_string(&golden).unwrap();
        assert_eq!(text, wanted, "{path}: BLESS=1 accepts the new text");
    }
}

#[test]
fn check_tells_stale_missing_and_surplus_files() {
    let root = unchanged();
    let missing = format!("{:#}", busbar_codegen::run(root.path(), true).unwrap_err());
    assert!(missing.contains("cups.rs: missing"), "{missing}");
    busbar_codegen::run(root.path(), false).unwrap();
    busbar_codegen::run(root.path(), true).unwrap();

    let wire = root.path().join("crates/wire/src/generated/toy");
    let text = fs::read_to_string(wire.join("cups.rs")).unwrap();
    fs::write(
        wire.join("cups.rs"),
        text.replace("pub cup: u32", "pub cup: u64"),
    )
    .unwrap();
    fs::write(wire.join("spoons.rs"), "").unwrap();
    let stale = format!("{:#}", busbar_codegen::run(root.path(), true).unwrap_err());
    assert!(
        stale.contains("has `pub cup: u64,`, should have `pub cup: u32,`"),
        "{stale}"
    );
    assert!(stale.contains("spoons.rs: no longer generated"), "{stale}");

    busbar_codegen::run(root.path(), false).unwrap();
    assert!(!wire.join("spoons.rs").exists());
    busbar_codegen::run(root.path(), true).unwrap();
}

#[test]
fn an_api_of_messages_alone_needs_no_c_types() {
    let root = tempfile::tempdir().unwrap();
    fs::copy(
        here().join("../../../rustfmt.toml"),
        root.path().join("rustfmt.toml"),
    )
    .unwrap();
    let spec = root.path().join("spec/talk");
    fs::create_dir_all(&spec).unwrap();
    fs::write(
        spec.join("api.toml"),
        "name = \"Talk\"\nworker_state = \"Talk\"\n",
    )
    .unwrap();
    let line = "#[id(1)] #[message] #[waits] fn Ask(what: Str) -> (answer: Bytes);";
    fs::write(spec.join("talk.rs"), line).unwrap();
    busbar_codegen::run(root.path(), false).unwrap();
    let read = |path: &str| fs::read_to_string(root.path().join(path)).unwrap();
    assert!(read("crates/wire/src/generated/talk/talk.rs").contains("pub answer: &'a [u8],"));
    // It has its own ways to fail and to answer: its messages are methods.
    let worker = read("crates/worker/src/talk/generated/mod.rs");
    let ask = "let given = w.ask(read(body)?);\n            w.answer(body, given)";
    assert!(worker.contains(ask), "{worker}");
    assert!(!root.path().join("crates/client").exists());
    assert!(!root.path().join("shims").exists());
}

#[test]
fn an_api_of_which_nothing_travels_has_no_messages() {
    let root = tempfile::tempdir().unwrap();
    fs::copy(
        here().join("../../../rustfmt.toml"),
        root.path().join("rustfmt.toml"),
    )
    .unwrap();
    let spec = root.path().join("spec/still");
    fs::create_dir_all(spec.join("abi")).unwrap();
    let config = "name = \"Still\"\nfunctions = true\nshim = \"shims/still\"\n[result]\n\
                  type = \"ToyResult\"\ninvalid_value = \"TOY_INVALID\"\n\
                  not_supported = \"TOY_NOT_SUPPORTED\"\nprotocol = \"TOY_UNKNOWN\"\n";
    fs::write(spec.join("api.toml"), config).unwrap();
    fs::copy(here().join("toy/abi/types.rs"), spec.join("abi/types.rs")).unwrap();
    let lines = "#[local] fn stillText(n: ToyResult) -> *const c_char;\n\
                 #[is(count( [1,\n 2], out ))]\n\
                 fn stillCount(which: u32, out: *mut u32) -> ToyResult;\n\
                 #[unsupported(\"it is far\")] fn stillFar(r#type: u32) -> ToyResult;\n";
    fs::write(spec.join("calm.rs"), lines).unwrap();
    busbar_codegen::run(root.path(), false).unwrap();
    let read = |path: &str| fs::read_to_string(root.path().join(path)).unwrap();
    let client = read("crates/client/src/still/generated/calm.rs");
    for line in [
        "fn stillText(n: ToyResult) -> *const c_char {",
        "crate::still::entry::calm::stillText(n)",
        "fn stillCount(_which: u32, out: *mut u32) -> ToyResult {",
        "count([1, 2], out)",
        "fn stillFar(_type: u32) -> ToyResult {",
        "life::unsupported(\"stillFar\", \"it is far\")",
    ] {
        assert!(client.contains(line), "{line}: {client}");
    }
    assert!(!client.contains("wire"));
    let exports = read("shims/still/src/generated/calm.rs");
    assert!(exports.contains("fn stillText(n: ToyResult) -> *const c_char {"));
    assert!(!root.path().join("crates/wire/src/generated/still").exists());
    assert!(!root.path().join("crates/worker").exists());
    let types = root.path().join("crates/abi/src/generated/still");
    assert!(types.join("types.rs").exists() && !types.join("driver").exists());
}

#[test]
fn every_symbol_is_classified() {
    let e = refusal("exports.txt", "toyGone", "toyGone\ntoyNew");
    assert!(e.contains("not classified: toyNew"), "{e}");
    let e = refusal("exports.txt", "toyGone\n", "");
    assert!(e.contains("toyGone is not in the list of exports"), "{e}");
    let e = refusal("procs.txt", "200", "300");
    assert!(
        e.contains("no function is looked up as: toyFill of 300"),
        "{e}"
    );
    let e = refusal("cups.rs", "#[local]", "");
    assert!(
        e.contains("spec/toy/cups.rs:") && e.contains("toyMine: no class"),
        "{e}"
    );
    let e = refusal("cups.rs", "\"nobody has one\"", "\"\"");
    assert!(e.contains("unsupported without a reason"), "{e}");
}

#[test]
fn ids_are_unique_and_in_range() {
    let e = refusal("cups.rs", "0x0102", "0x0101");
    assert!(e.contains("id 0x0101 is taken by toyMake"), "{e}");
    let e = refusal("cups.rs", "0x0102", "0xff01");
    assert!(e.contains("id 0xff01 is reserved"), "{e}");
    let e = refusal("cups.rs", "#[id(0x0102)] ", "");
    assert!(e.contains("it travels and has no id"), "{e}");
    let e = refusal("cups.rs", "#[local]", "#[id(9)] #[local]");
    assert!(e.contains("it has an id and no message"), "{e}");
}

#[test]
fn what_the_grammar_does_not_know_is_refused() {
    let e = refusal("cups.rs", "#[local]", "#[lokal]");
    assert!(e.contains("unknown attribute `lokal`"), "{e}");
    let e = refusal("cups.rs", "#[del]", "#[delete]");
    assert!(e.contains("unknown attribute `delete`"), "{e}");
    let e = refusal("cups.rs", "#[local]", "#[local] #[custom]");
    assert!(e.contains("two classes"), "{e}");
    let e = refusal("cups.rs", "(n - 1)", "(n * 2)");
    assert!(
        e.contains("a count is a number, a parameter, or a parameter minus"),
        "{e}"
    );
    let e = refusal(
        "cups.rs",
        "fn toyMine(n: i32) -> ToyResult;",
        "fn toyMine(n: i32) {}",
    );
    assert!(e.contains("spec/toy/cups.rs:"), "{e}");
    let e = refusal("api.toml", "worker_state", "worker_sate");
    assert!(e.contains("unknown field `worker_sate`"), "{e}");
}

#[test]
fn parameters_travel_only_as_what_they_are() {
    let e = refusal("cups.rs", "#[del] cup", "cup");
    assert!(e.contains("a handle without an attribute"), "{e}");
    let e = refusal(
        "cups.rs",
        "#[in_ref] size: *const ToySize",
        "#[in_ref] size: *const ToyPointing",
    );
    assert!(e.contains("no structure without pointers"), "{e}");
    let e = refusal("cups.rs", "#[out] size: *mut ToySize", "size: *mut ToySize");
    assert!(e.contains("it needs an attribute"), "{e}");
    let e = refusal("cups.rs", "#[out_array(n)]", "#[out_array(cup)]");
    assert!(e.contains("`cup` counts `marks` but is no number"), "{e}");
    let e = refusal("cups.rs", "#[cached]", "#[queued]");
    assert!(e.contains("a queued call brings nothing back"), "{e}");
    let e = refusal("cups.rs", "label: Str", "label: String");
    assert!(e.contains("field `label`: `String` cannot travel"), "{e}");
    let e = refusal(
        "cups.rs",
        "#[local]\nfn toyMine(n: i32)",
        "#[local]\nfn toyMine(#[out] n: i32)",
    );
    assert!(e.contains("is marked, but the call has no message"), "{e}");
}

#[test]
fn a_condition_is_about_numbers_and_constants() {
    let e = refusal("cups.rs", "lid == 0", "spoon == 0");
    assert!(
        e.contains("Shake: when it is queued: `spoon` is neither a number of the call"),
        "{e}"
    );
    let e = refusal("cups.rs", "how, 1", "cup, 1");
    assert!(e.contains("`cup` is neither a number"), "{e}");
    let e = refusal("cups.rs", "lid == 0", "lid == \"open\"");
    assert!(e.contains("a condition cannot hold `\"open\"`"), "{e}");
    let e = refusal("cups.rs", "lid == 0", "lid = = 0");
    assert!(e.contains("spec/toy/cups.rs:"), "{e}");
    let e = refusal("cups.rs", "(lid == 0)", "");
    assert!(e.contains("spec/toy/cups.rs:"), "{e}");
}

#[test]
fn an_alias_gives_its_target_what_that_takes() {
    let e = refusal("cups.rs", "toyOld(cup: ToyCup)", "toyOld(cup: u32)");
    assert!(
        e.contains("its parameters differ from those of `toyBreak`"),
        "{e}"
    );
    let e = refusal("cups.rs", "is(toyBreak)", "is(toyBreak(cup, 0))");
    assert!(e.contains("its parameters differ"), "{e}");
    let e = refusal("cups.rs", "is(toyBreak)", "is(toyGone)");
    assert!(
        e.contains("`toyGone` is itself no function with a body"),
        "{e}"
    );
    let e = refusal("cups.rs", "is(toyBreak)", "is(toyNever)");
    assert!(e.contains("there is no `toyNever`"), "{e}");
    let e = refusal("cups.rs", ", false, per_thread)", ", false)");
    assert!(e.contains("`pour` is not told `per_thread`"), "{e}");
    let e = refusal("cups.rs", "is(toyBreak)", "is(1 + 1)");
    assert!(e.contains("`is` wants a function"), "{e}");
}

#[test]
fn a_call_begins_for_what_is_hand_written() {
    let e = refusal("cups.rs", "#[cx(local)]", "#[cx(here)]");
    assert!(e.contains("no call begins `here`"), "{e}");
    let e = refusal("cups.rs", "#[cx(local)] ", "");
    assert!(
        e.contains("parameter `cup` is marked, but the call has no message"),
        "{e}"
    );
    let e = refusal("cups.rs", "#[is(toyBreak)]", "#[cx] #[is(toyBreak)]");
    assert!(
        e.contains("`cx` is for what is hand-written on the client"),
        "{e}"
    );
    let e = refusal("cups.rs", "#[new] copy", "#[out] copy");
    assert!(e.contains("brings a Cup back"), "{e}");
}

#[test]
fn a_line_says_what_becomes_of_objects() {
    let e = refusal("cups.rs", "#[gives] ", "");
    assert!(
        e.contains("toyFavourite: parameter `cup` brings a Cup back"),
        "{e}"
    );
    let e = refusal("cups.rs", "#[changes(Cup, \"colour\")]", "#[changes(Cup)]");
    assert!(e.contains("`changes` wants to know what changes"), "{e}");
    let e = refusal(
        "cups.rs",
        "#[creates(Handle)] #[changes(Cup, \"colour\")]",
        "",
    );
    assert!(e.contains("does not say what it changes"), "{e}");
    let e = refusal("cups.rs", "#[creates(Handle)]", "#[creates(Handle, lid)]");
    assert!(
        e.contains("nothing is called `lid`, which names a Handle"),
        "{e}"
    );
    let e = refusal("cups.rs", "#[creates(Handle)]", "#[creates(Spoon)]");
    assert!(e.contains("`Spoon` is not a kind of object"), "{e}");
    let e = refusal("cups.rs", "handle: u32", "grip: u32");
    assert!(e.contains("nothing names a Handle"), "{e}");
    let e = refusal(
        "cups.rs",
        "#[creates(Handle)]",
        "#[creates(Handle)] #[child_of(Table, cup)]",
    );
    assert!(e.contains("no new object dies with such a parent"), "{e}");
    let e = refusal(
        "cups.rs",
        "#[local]\nfn toyMine",
        "#[local] #[destroys(Cup)]\nfn toyMine",
    );
    assert!(
        e.contains("effects are stated of what has a message"),
        "{e}"
    );
}

#[test]
fn what_is_created_comes_to_an_end() {
    let e = refusal(
        "api.toml",
        "Handle = { dies_with = [\"Cup\"],",
        "Handle = {",
    );
    assert!(
        e.contains("nothing destroys a Handle: `stays` says why"),
        "{e}"
    );
    let e = refusal("api.toml", "Cup = {", "Cup = { stays = \"so\",");
    assert!(e.contains("a Cup is said to stay, but it does not"), "{e}");
    let e = refusal(
        "api.toml",
        "Table = { given = \"it stands there\" }",
        "Table = {}",
    );
    assert!(
        e.contains("no line creates a Table: `given` says why"),
        "{e}"
    );
    let e = refusal("api.toml", "Cup = {", "Cup = { given = \"so\",");
    assert!(
        e.contains("a line creates a Cup, which is said to be given"),
        "{e}"
    );
    let e = refusal(
        "api.toml",
        "Stream = { given = \"the house has them\" }\n",
        "",
    );
    assert!(
        e.contains("`Stream` is not among the kinds of objects"),
        "{e}"
    );
}

#[test]
fn ranges_of_addresses_are_disjoint_and_whole() {
    let e = refusal("contract.rs", "0x30_0000", "0x20_0000");
    assert!(e.contains("two ranges begin at 0x200000"), "{e}");
    let e = refusal("contract.rs", "0x30_0000", "0x38_0000");
    assert!(e.contains("1 ranges cannot begin at 0x380000"), "{e}");
    let e = refusal("contract.rs", "[0x30_0000; 1]", "[0x8000_0000_0000; 1]");
    assert!(e.contains("1 ranges cannot begin at 0x800000000000"), "{e}");
    let e = refusal("contract.rs", "[0x30_0000; 1]", "0x30_0000");
    assert!(e.contains("is not a first address and a count"), "{e}");
    let e = refusal("contract.rs", "Coffee = 3", "Coffee");
    assert!(e.contains("`Coffee` wants a value and no fields"), "{e}");
    let e = refusal("contract.rs", "const MOST: u64 = 1 << 8;", "fn most() {}");
    assert!(e.contains("a contract cannot hold"), "{e}");
}
