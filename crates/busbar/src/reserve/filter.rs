//! `--filter`: which devices will do. The language is CEL, with two things that it lacks: amounts
//! of memory with their unit, and `~` for "matches".

use busbar_control::status::Listed;
use busbar_control::{share, size};
use cel::{Context, ExecutionError, Program, Value};

/// The longest filter, in bytes, and the most brackets inside each other: what reads it recurses.
const LONGEST: usize = 1000;
const DEEPEST: usize = 32;

/// What a filter can ask of a device.
const NAMES: [&str; 15] = [
    "api",
    "compute",
    "cuda",
    "driver",
    "driver_version",
    "free",
    "free_share",
    "idle",
    "kind",
    "memory",
    "name",
    "ordinal",
    "processors",
    "server",
    "sessions",
];

/// A filter.
#[derive(Debug)]
pub struct Filter {
    text: String,
    program: Program,
}

/// A filter as CEL has it, and where in the text each of its bytes comes from.
struct Translated {
    cel: String,
    from: Vec<usize>,
    /// Names, and where they begin.
    names: Vec<(String, usize)>,
}

impl Translated {
    fn push(&mut self, text: &str, from: usize) {
        self.cel.push_str(text);
        self.from.extend(std::iter::repeat_n(from, text.len()));
    }
}

/// A sentence about a place in a filter; columns are counted from 1, in characters.
fn wrong(text: &str, at: usize, what: &str) -> String {
    let column = text[..text.floor_char_boundary(at)].chars().count() + 1;
    format!("the filter is not good at column {column}: {what}")
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// How long the text in quotes is that something begins with; 0 if it begins with none.
fn quoted(rest: &str) -> Option<usize> {
    let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''));
    let Some(quote) = quote else {
        return Some(0);
    };
    let mut escaped = false;
    for (i, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return Some(i + 1),
            _ => {}
        }
    }
    None
}

/// Writes amounts as bytes, and `~` as a call of `matches`.
fn translate(text: &str) -> Result<Translated, String> {
    let mut out = Translated {
        cel: String::new(),
        from: Vec::new(),
        names: Vec::new(),
    };
    let mut depth = 0usize;
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        let Some(n) = quoted(rest) else {
            return Err(wrong(text, at, "this text has no closing quote"));
        };
        if n > 0 {
            out.push(&rest[..n], at);
            at += n;
        } else if c.is_ascii_digit() {
            let n = rest
                .find(|c: char| !(is_name(c) || c == '.'))
                .unwrap_or(rest.len());
            let word = &rest[..n];
            match word.ends_with('B') {
                false => out.push(word, at),
                true => {
                    let bytes = size::parse(word).map_err(|e| wrong(text, at, &e))?;
                    out.push(&bytes.to_string(), at);
                }
            }
            at += n;
        } else if is_name(c) {
            let n = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
            let member = out.cel.trim_end().ends_with('.');
            let call = rest[n..].trim_start().starts_with('(');
            if !member && !call {
                out.names.push((rest[..n].into(), at));
            }
            out.push(&rest[..n], at);
            at += n;
        } else if c == '~' {
            let after = rest[1..].trim_start();
            let begin = at + rest.len() - after.len();
            match quoted(after) {
                Some(n) if n > 0 => {
                    out.push(".matches(", at);
                    out.push(&after[..n], begin);
                    out.push(")", begin + n - 1);
                    at = begin + n;
                }
                _ => return Err(wrong(text, begin, "behind ~ comes a text in quotes")),
            }
        } else {
            depth = match c {
                '(' | '[' | '{' => depth + 1,
                ')' | ']' | '}' => depth.saturating_sub(1),
                _ => depth,
            };
            if depth > DEEPEST {
                return Err(wrong(
                    text,
                    at,
                    "there are too many brackets inside each other",
                ));
            }
            out.push(&rest[..c.len_utf8()], at);
            at += c.len_utf8();
        }
    }
    Ok(out)
}

impl Filter {
    /// Reads a filter, or says what is wrong with it and where.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > LONGEST {
            return Err(format!("the filter is longer than {LONGEST} bytes"));
        }
        if text.trim().is_empty() {
            return Err("the filter is empty: say, for example, memory >= 40GiB".into());
        }
        let translated = translate(text)?;
        let words = ["true", "false", "null", "in"];
        let known = |name: &str| NAMES.contains(&name) || words.contains(&name);
        if let Some((name, at)) = translated.names.iter().find(|(n, _)| !known(n)) {
            let what = format!("there is no `{name}`: choose from {}", NAMES.join(", "));
            return Err(wrong(text, *at, &what));
        }
        let program = Program::compile(&translated.cel).map_err(|e| {
            let first = e.errors.first();
            let column = first.map_or(1, |e| e.pos.1.max(1)) as usize;
            // A column counts characters; the text has few that are longer than a byte.
            let byte = translated.cel.char_indices().nth(column - 1);
            let at = byte.and_then(|(b, _)| translated.from.get(b));
            let what = first.map_or("it makes no sense", |e| e.msg.as_str());
            let what = what.trim_start_matches("Syntax error: ");
            let what = match what.split(" expecting ").next().unwrap_or(what) {
                what if what.contains("<EOF>") => "it ends where something is missing",
                what => what,
            };
            wrong(text, at.copied().unwrap_or(text.len()), what)
        })?;
        let filter = Self {
            text: text.into(),
            program,
        };
        // What can be seen to be wrong without a device is said before any server is asked.
        filter.holds("server", "", &Listed::default())?;
        Ok(filter)
    }

    /// Whether a device of a server will do, whose NVML says that this is the GPUs' driver.
    pub fn holds(&self, server: &str, driver: &str, d: &Listed) -> Result<bool, String> {
        let device = &d.device;
        // CUDA itself knows no more than the version of its API.
        let driver = match device.api.as_str() {
            "cuda" => driver,
            _ => &device.driver,
        };
        let int = |n: u64| Value::Int(i64::try_from(n).unwrap_or(i64::MAX));
        let text = |s: &str| Value::from(s);
        let version = driver.split(|c: char| !c.is_ascii_digit());
        let major = version
            .filter(|n| !n.is_empty())
            .find_map(|n| n.parse().ok());
        let [high, low] = device.compute.unwrap_or_default();
        let default = format!(":{}", busbar_control::hello::DEFAULT_PORT);
        let idle = d.lease.is_none() && (d.used_by, d.promised, d.promised_share) == (0, 0, 0);
        let mut c = Context::default();
        let values = [
            ("api", text(&device.api)),
            (
                "compute",
                Value::Float(f64::from(high) + f64::from(low) / 10.0),
            ),
            (
                "cuda",
                Value::Float(f64::from(device.cuda / 1000) + f64::from(device.cuda % 1000) / 100.0),
            ),
            ("driver", int(major.unwrap_or(0))),
            ("driver_version", text(driver)),
            ("free", int(device.memory.saturating_sub(d.promised))),
            (
                "free_share",
                Value::Float(
                    f64::from(share::WHOLE.saturating_sub(d.promised_share))
                        / f64::from(share::WHOLE),
                ),
            ),
            ("idle", Value::Bool(idle)),
            ("kind", text(&device.kind)),
            ("memory", int(device.memory)),
            ("name", text(&device.name)),
            ("ordinal", int(u64::from(device.ordinal))),
            ("processors", int(u64::from(device.processors.unwrap_or(0)))),
            (
                "server",
                text(server.strip_suffix(&default).unwrap_or(server)),
            ),
            ("sessions", int(d.used_by as u64)),
        ];
        debug_assert!(values.iter().map(|(name, _)| *name).eq(NAMES));
        for (name, value) in values {
            c.add_variable_from_value(name, value);
        }
        match self.program.execute(&c) {
            Ok(Value::Bool(yes)) => Ok(yes),
            Ok(other) => Err(format!(
                "the filter `{}` gives no yes or no, but {other:?}",
                self.text
            )),
            Err(e) => Err(format!("the filter `{}` {}", self.text, failed(&e))),
        }
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }
}

fn failed(e: &ExecutionError) -> String {
    match e {
        ExecutionError::NoSuchOverload(_) => {
            format!("compares or joins what does not go together: {e}")
        }
        ExecutionError::UndeclaredReference(name) => format!("calls `{name}`, which there is not"),
        other => {
            let said = other.to_string();
            let said: Vec<_> = said.split_whitespace().collect();
            format!("cannot be worked out: {}", said.join(" "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use busbar_control::device::Device;

    fn h200() -> Listed {
        let device = Device {
            api: "cuda".into(),
            ordinal: 1,
            kind: "gpu".into(),
            name: "NVIDIA H200".into(),
            memory: 141 << 30,
            driver: "CUDA 13.0".into(),
            cuda: 13010,
            compute: Some([9, 0]),
            ..Device::default()
        };
        Listed {
            device,
            promised: 100 << 30,
            promised_share: 250,
            used_by: 2,
            ..Listed::default()
        }
    }

    fn holds(text: &str) -> bool {
        let f = Filter::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        f.holds("a:7400", "580.65.06", &h200()).unwrap()
    }

    #[test]
    fn devices_are_told_apart_by_what_is_known_of_them() {
        for yes in [
            r#"memory>=80GiB && name~"H200" && driver>=580 && server!="b""#,
            r#"server == "a" && ordinal == 1 && api == 'cuda' && kind == "gpu""#,
            r#"name.startsWith("NVIDIA") && name ~ '^NVIDIA H[12]00$'"#,
            "memory == 141GiB && memory > 1.5GiB && free == 41GiB && free_share == 0.75",
            "compute >= 9 && compute < 9.5 && cuda >= 13.1 && !idle && sessions == 2",
            r#"driver_version == "580.65.06" && server in ["a", "c"] && processors == 0"#,
            r#"(idle ? false : true) || name == "a ~ \"80GiB\" (""#,
        ] {
            assert!(holds(yes), "{yes}");
        }
        for no in [
            "memory < 80GiB",
            r#"name ~ "A100""#,
            "idle",
            r#"server == "b""#,
        ] {
            assert!(!holds(no), "{no}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (text, words) in [
            (
                "memroy > 1",
                &["column 1: there is no `memroy`", "api, compute", "memory"][..],
            ),
            (
                "memory > 1 && nmae ~ \"x\"",
                &["column 15: there is no `nmae`"],
            ),
            ("memory >= 80GB", &["column 11", "say 80GiB"]),
            (
                "name ~ H200",
                &["column 8: behind ~ comes a text in quotes"],
            ),
            (
                "name == \"H200",
                &["column 9: this text has no closing quote"],
            ),
            (
                "memory >",
                &["column 9", "it ends where something is missing"],
            ),
            ("memory >= 80GiB &&& idle", &["column 19"]),
            ("memory ~ \"x\" >", &["column 15"]),
            ("\u{e4} > 1", &["column 1"]),
            ("memory >= \"80\"", &["does not go together"]),
            ("memory", &["gives no yes or no"]),
            ("foo(name)", &["calls `foo`"]),
            ("name ~ \"[\"", &["cannot be worked out", "unclosed"]),
            (" ", &["is empty"]),
        ] {
            let said = Filter::parse(text).unwrap_err();
            assert!(words.iter().all(|w| said.contains(w)), "{text}: {said}");
            assert_eq!(said.lines().count(), 1, "{said}");
        }
    }

    #[test]
    fn no_text_does_more_than_fail() {
        let deep = [("(", ")"), ("[", "]"), ("!", ""), ("-", ""), ("{1:", "}")];
        let mut texts: Vec<_> = deep
            .iter()
            .map(|(open, close)| {
                let n = LONGEST / (open.len() + close.len()) - 1;
                format!("{}1{}", open.repeat(n), close.repeat(n))
            })
            .collect();
        texts.extend([
            "idle?idle:".repeat(99) + "idle",
            "idle||".repeat(160) + "idle",
        ]);
        texts.push("x".repeat(LONGEST + 1));
        let words = [
            "memory", ">=", "80GiB", "~", "\"H\"", "(", ")", "&&", "!", "?", ":", ".", "\\",
        ];
        let mut seed = 1u64;
        for _ in 0..300 {
            let mut text = String::new();
            for _ in 0..8 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                text += words[(seed >> 33) as usize % words.len()];
            }
            texts.push(text);
        }
        for text in texts {
            if let Ok(f) = Filter::parse(&text) {
                let _ = f.holds("a", "", &h200());
            }
        }
    }
}
