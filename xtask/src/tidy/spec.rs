//! Lines of the spec that nothing uses. The generator refuses what is missing; this finds what is
//! too much.

use super::repo::Repo;

pub fn check(repo: &Repo) -> Vec<String> {
    let mut found = Vec::new();
    for side in ["crates/client/src/", "crates/worker/src/"] {
        let code: Vec<_> = repo.code().filter(|f| f.path.starts_with(side)).collect();
        for f in repo.files.iter().filter(|f| is_messages(&f.path)) {
            // What the worker generates of a message is used by itself.
            let mut generated = false;
            for (n, line) in f.lines() {
                generated |= line.starts_with("#[calls(") && side.contains("worker");
                let Some(name) = line.strip_prefix("fn ").and_then(|l| l.split('(').next()) else {
                    continue;
                };
                let (snake, camel) = (snake(name), name);
                if !std::mem::take(&mut generated)
                    && !code
                        .iter()
                        .any(|c| uses(&c.text, camel) || uses(&c.text, &snake))
                {
                    found.push(format!("{}:{n}: nothing in {side} uses {name}", f.path));
                }
            }
        }
    }
    found
}

fn is_messages(path: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or_default();
    path.starts_with("spec/") && file.starts_with("messages") && file.ends_with(".rs")
}

/// Whether `name` stands in `text` as a word.
fn uses(text: &str, name: &str) -> bool {
    let word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    text.match_indices(name).any(|(i, _)| {
        !word(text[..i].chars().next_back()) && !word(text[i + name.len()..].chars().next())
    })
}

fn snake(camel: &str) -> String {
    let mut out = String::new();
    for (i, c) in camel.chars().enumerate() {
        if c.is_uppercase() && i > 0 {
            out.push('_');
        }
        out.extend(c.to_lowercase());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_as_a_word_only() {
        assert_eq!(snake("OpenCuda"), "open_cuda");
        assert!(uses("msg::OpenCuda {", "OpenCuda"));
        assert!(!uses("OpenCudaReply", "OpenCuda"));
    }
}
