//! The page on the wire format, held against the code.

use busbar_wire::hello::{Hello, Refusal, Welcome};
use serde_json::Value;

/// Every key of a document, those of the documents inside it too.
fn keys(v: &Value, into: &mut Vec<String>) {
    for (key, value) in v.as_object().into_iter().flatten() {
        into.push(key.clone());
        keys(value, into);
    }
}

#[test]
fn the_page_names_every_field_of_hello_and_welcome() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/wire-format.md");
    let page = std::fs::read_to_string(path).unwrap();
    let refusal = Refusal {
        code: "token".into(),
        message: String::new(),
    };
    let welcome = Welcome {
        refusal: Some(refusal),
        ..Welcome::default()
    };
    let mut names = Vec::new();
    keys(&serde_json::to_value(Hello::default()).unwrap(), &mut names);
    keys(&serde_json::to_value(welcome).unwrap(), &mut names);
    assert!(names.len() > 20);
    for name in names {
        assert!(
            page.contains(&format!("`{name}`")),
            "docs/wire-format.md lacks `{name}`"
        );
    }
}
