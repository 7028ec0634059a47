//! What both ends agree on beside messages: `crates/wire/src/generated/<api>/contract.rs`.

use crate::contract::{Map, Numbers};
use crate::file::{Files, put, rust};
use crate::model::{Api, snake};
use std::fmt::Write as _;

/// The contract of an API that has one.
pub fn emit(api: &Api, files: &mut Files) {
    let Some(contract) = &api.contract else {
        return;
    };
    let mut s = String::new();
    for (docs, text) in &contract.constants {
        document(docs, &mut s);
        let _ = writeln!(s, "pub {text}\n");
    }
    for n in &contract.numbers {
        numbers(n, &mut s);
    }
    if let Some(map) = &contract.map {
        ranges(map, &mut s);
    }
    put(
        files,
        format!("crates/wire/src/generated/{}/contract.rs", api.name),
        rust(
            &format!("What both ends agree on: {}.", api.config.name),
            &s,
        ),
    );
}

fn document(docs: &[String], s: &mut String) {
    for line in docs {
        let _ = writeln!(s, "/// {line}");
    }
}

fn numbers(n: &Numbers, s: &mut String) {
    let name = &n.name;
    document(&n.docs, s);
    let _ = writeln!(
        s,
        "#[derive(Debug, Clone, Copy, PartialEq, Eq)]\n#[repr(u32)]\npub enum {name} {{"
    );
    for (docs, variant, number) in &n.variants {
        document(docs, s);
        let _ = writeln!(s, "{variant} = {number},");
    }
    let _ = writeln!(
        s,
        "}}\n\nimpl {name} {{\n/// The one of that number.\n\
         pub const fn of(number: u32) -> Option<Self> {{\nSome(match number {{"
    );
    for (_, variant, number) in &n.variants {
        let _ = writeln!(s, "{number} => Self::{variant},");
    }
    s.push_str("_ => return None,\n})\n}\n}\n\n");
}

fn ranges(map: &Map, s: &mut String) {
    let bytes = map.bytes;
    let _ = writeln!(
        s,
        "/// Bytes of a range of addresses.\npub const RANGE: u64 = {bytes:#x};\n"
    );
    let mut starts = Vec::new();
    for (docs, name, list) in &map.kinds {
        let (first, name) = (starts.len(), snake(name).to_uppercase());
        starts.extend(list);
        document(docs, s);
        let _ = if list.len() == 1 {
            writeln!(s, "pub const {name}: u32 = {first};\n")
        } else {
            let end = starts.len();
            writeln!(
                s,
                "pub const {name}: std::ops::Range<u32> = {first}..{end};\n"
            )
        };
    }
    document(&map.docs, s);
    let _ = writeln!(s, "pub const STARTS: [u64; {}] = [", starts.len());
    for start in &starts {
        let _ = writeln!(s, "{start:#x},");
    }
    let end = starts.iter().max().map_or(0, |s| s / bytes + 1) as usize;
    let mut numbers = vec![u8::MAX; end];
    for (n, start) in starts.iter().enumerate() {
        numbers[(start / bytes) as usize] = n as u8;
    }
    let list: Vec<_> = numbers.iter().map(ToString::to_string).collect();
    let _ = write!(
        s,
        "];\n\n/// The number of the range that begins at a multiple of [`RANGE`].\n\
         static NUMBERS: [u8; {end}] = [{}];\n\n\
         /// The addresses of a range.\n#[inline]\n\
         pub const fn span(number: u32) -> std::ops::Range<u64> {{\n\
         let start = STARTS[number as usize];\nstart..start + RANGE\n}}\n\n\
         /// The number of the range that an address lies in.\n#[inline]\n\
         pub fn number(address: u64) -> Option<u32> {{\n\
         let number = *NUMBERS.get((address / RANGE) as usize)?;\n\
         (number != u8::MAX).then_some(number as u32)\n}}\n",
        list.join(", ")
    );
}
