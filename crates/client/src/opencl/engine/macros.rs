//! Macros, as far as `#include` needs them: a name that is put together by some, as in
//! `#include STRING(FOLDER/types.h)`, is expanded as a preprocessor does.
//!
//! Conditions are not looked at. Of a macro that is defined in several ways, each is tried.

use std::collections::BTreeMap;

/// Most definitions of a name that are tried, and most results.
const MOST: usize = 8;
/// Macros that are put in place of their names for one text.
const USES: usize = 1000;
/// A longer text is no file's name.
const LONGEST: usize = 1 << 14;

/// What stands for a name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Macro {
    /// The names of its parameters, of one that is written with brackets.
    parameters: Option<Vec<String>>,
    body: String,
}

/// Where an expansion is.
struct Within {
    /// The macros whose bodies it is in: they do not stand for themselves.
    names: Vec<String>,
    /// How many uses are left.
    uses: usize,
}

/// The macros that are defined so far.
#[derive(Default)]
pub struct Macros(BTreeMap<String, Vec<Macro>>);

fn starts_name(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

fn in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The name that a text begins with, and the rest.
fn name(text: &str) -> Option<(&str, &str)> {
    text.starts_with(starts_name).then(|| {
        let end = text.find(|c| !in_name(c)).unwrap_or(text.len());
        text.split_at(end)
    })
}

/// What a text's first bracket holds, split at the commas that are in no other; and the rest.
fn arguments(text: &str) -> Option<(Vec<&str>, &str)> {
    let mut rest = text.trim_start().strip_prefix('(')?;
    let (mut all, mut depth, mut from, mut quoted) = (Vec::new(), 0, 0, false);
    for (i, c) in rest.char_indices() {
        match c {
            '"' => quoted = !quoted,
            _ if quoted => {}
            '(' => depth += 1,
            ')' if depth > 0 => depth -= 1,
            ')' => {
                all.push(rest[from..i].trim());
                rest = &rest[i + 1..];
                return Some((all, rest));
            }
            ',' if depth == 0 => {
                all.push(rest[from..i].trim());
                from = i + 1;
            }
            _ => {}
        }
    }
    None
}

impl Macros {
    /// Notes what follows `#define`.
    pub fn define(&mut self, text: &str) {
        let Some((name, rest)) = name(text.trim()) else {
            return;
        };
        // A bracket that belongs to the macro stands right behind its name.
        let (parameters, body) = match rest.starts_with('(').then(|| arguments(rest)) {
            None => (None, rest),
            Some(None) => return,
            Some(Some((list, body))) => {
                let list = list.into_iter().filter(|p| !p.is_empty());
                (Some(list.map(String::from).collect()), body)
            }
        };
        let body = body.trim().to_string();
        let one = Macro { parameters, body };
        let all = self.0.entry(name.to_string()).or_default();
        if !all.contains(&one) && all.len() < MOST {
            all.push(one);
        }
    }

    /// Notes what an option `-D` says: `NAME=BODY`, or a name that stands for 1.
    pub fn option(&mut self, text: &str) {
        match text.split_once('=') {
            Some((name, body)) => self.define(&format!("{name} {body}")),
            None => self.define(&format!("{text} 1")),
        }
    }

    /// What a text may become.
    pub fn expand(&self, text: &str) -> Vec<String> {
        let (names, uses) = (Vec::new(), USES);
        self.expanded(text, &mut Within { names, uses })
    }

    fn expanded(&self, text: &str, within: &mut Within) -> Vec<String> {
        let mut all = vec![String::new()];
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            let known = name(rest).map(|(name, after)| {
                let hidden = within.names.iter().any(|w| w == name);
                let found = self.0.get(name).filter(|_| !hidden);
                (name, after, found.map_or(&[][..], Vec::as_slice))
            });
            let (mut next, mut after) = (Vec::new(), rest);
            match known {
                Some((name, behind, list)) => {
                    after = behind;
                    for one in list {
                        let Some(left) = within.uses.checked_sub(1) else {
                            continue;
                        };
                        within.uses = left;
                        let Some((body, behind)) = self.body(one, behind, within) else {
                            continue;
                        };
                        after = behind;
                        within.names.push(name.to_string());
                        next.extend(self.expanded(&body, within));
                        within.names.pop();
                    }
                    if next.is_empty() {
                        next.push(name.to_string());
                    }
                }
                None if c == '"' => {
                    let end = rest[1..].find('"').map_or(rest.len(), |i| i + 2);
                    next.push(rest[..end].to_string());
                    after = &rest[end..];
                }
                // A number may hold letters.
                None if c.is_ascii_digit() => {
                    let end = rest.find(|c| c != '.' && !in_name(c));
                    let end = end.unwrap_or(rest.len());
                    next.push(rest[..end].to_string());
                    after = &rest[end..];
                }
                None => {
                    next.push(c.to_string());
                    after = &after[c.len_utf8()..];
                }
            }
            let join = |a: &String| next.iter().map(|n| format!("{a}{n}")).collect::<Vec<_>>();
            let mut joined: Vec<_> = all.iter().flat_map(join).collect();
            joined.truncate(MOST);
            joined.retain(|text| text.len() <= LONGEST);
            all = joined;
            rest = after;
        }
        all
    }

    /// What a macro's use becomes before it is looked at again; and what stands behind the use.
    fn body<'a>(
        &self,
        one: &Macro,
        behind: &'a str,
        within: &mut Within,
    ) -> Option<(String, &'a str)> {
        let Some(parameters) = &one.parameters else {
            return Some((one.body.clone(), behind));
        };
        let (given, behind) = arguments(behind)?;
        let argument = |name: &str| {
            let place = parameters.iter().position(|p| p == name)?;
            given.get(place).copied()
        };
        let (mut out, mut rest) = (String::new(), one.body.as_str());
        while let Some(c) = rest.chars().next() {
            let text = rest.strip_prefix('#').map(str::trim_start);
            if let Some((raw, after)) = text.and_then(|t| {
                let (name, after) = name(t)?;
                Some((argument(name)?, after))
            }) {
                out.push_str(&format!("\"{raw}\""));
                rest = after;
            } else if let Some(after) = rest.strip_prefix("##") {
                out.truncate(out.trim_end().len());
                rest = after.trim_start();
            } else if let Some((name, after)) = name(rest) {
                match argument(name) {
                    // Any of what it may become: bodies that are tried in several ways are rare.
                    Some(raw) => out.extend(self.expanded(raw, within).into_iter().next_back()),
                    None => out.push_str(name),
                }
                rest = after;
            } else {
                out.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
        Some((out, behind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(definitions: &[&str], text: &str) -> Vec<String> {
        let mut macros = Macros::default();
        definitions.iter().for_each(|d| macros.option(d));
        macros.expand(text)
    }

    #[test]
    fn names_are_put_together_as_hashcat_does() {
        let options = ["XM2S(x)=#x", "M2S(x)=XM2S(x)", "INCLUDE_PATH=/a/b-c/2.x"];
        let found = expanded(&options, "M2S(INCLUDE_PATH/inc_vendor.h)");
        assert_eq!(found, ["\"/a/b-c/2.x/inc_vendor.h\""]);
        // Without the second step the name stays what it is.
        let found = expanded(&options, "XM2S(INCLUDE_PATH/x.h)");
        assert_eq!(found, ["\"INCLUDE_PATH/x.h\""]);
    }

    #[test]
    fn macros_expand_as_they_are_written() {
        for (definitions, text, wanted) in [
            (&["A=\"a.h\""][..], "A", "\"a.h\""),
            (&["A=B", "B=A"], "A", "A"),
            (&["A"], "A", "1"),
            (&["F(x,y)=<x##_##y.h>"], "F(a, b)", "<a_b.h>"),
            (&["F(x)=<x>"], "F (g(1, 2))", "<g(1, 2)>"),
            (&["F(x)=<x>"], "F", "F"),
            (&["F(x)=<x>"], "F(", "F("),
            (&["F()=y"], "F()", "y"),
            (&["a=z"], "\"a\" 1a a", "\"a\" 1a z"),
            (&["E(x)=x x", "A=E(A)E(A)"], "A", "A AA A"),
        ] {
            assert_eq!(expanded(definitions, text), [wanted], "{definitions:?}");
        }
    }

    #[test]
    fn each_definition_is_tried_and_nothing_grows_without_end() {
        assert_eq!(expanded(&["A=x", "A=y"], "<A>"), ["<x>", "<y>"]);
        let twice: Vec<_> = (0..40)
            .map(|i| format!("A{i}=A{} A{}", i + 1, i + 1))
            .collect();
        let twice: Vec<_> = twice.iter().map(String::as_str).collect();
        let all = expanded(&twice, "A0");
        assert!(
            all.iter().all(|text| text.len() <= LONGEST),
            "{}",
            all.len()
        );
    }
}
