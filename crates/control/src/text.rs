//! Texts that came from somebody else, made fit to be shown; bytes as digits; what this machine is
//! called.

/// Whether a character is shown as itself, where it stands: not one that a terminal obeys, that
/// nobody sees, that ends a line, or that turns the direction of what is around it.
pub fn is_plain(c: char) -> bool {
    match c.is_ascii() {
        true => !c.is_control(),
        // Behind a letter: a mark that belongs to one is shown there.
        false => {
            let text = ["a", c.encode_utf8(&mut [0; 4])].concat();
            text.escape_debug().nth(1) == Some(c)
        }
    }
}

/// As one line of a log: what is not plain is written out, and what is longer than `most` bytes
/// is cut.
pub fn one_line(text: &str, most: usize) -> String {
    let mut out = String::new();
    for c in text.chars() {
        let plain = is_plain(c);
        let n = if plain {
            c.len_utf8()
        } else {
            c.escape_default().len()
        };
        if out.len() + n > most {
            out.push('…');
            break;
        }
        match plain {
            true => out.push(c),
            false => out.extend(c.escape_default()),
        }
    }
    out
}

/// Shortens a text to `most` bytes, and leaves only what is plain in it.
pub fn tidy(text: &mut String, most: usize) {
    text.truncate(text.floor_char_boundary(most));
    *text = text.replace(|c| !is_plain(c), "?");
}

/// Bytes as hexadecimal digits.
pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Bytes of hexadecimal digits.
pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |b: u8| char::from(b).to_digit(16);
    let byte = |p: &[u8]| Some((digit(p[0])? << 4 | digit(*p.get(1)?)?) as u8);
    text.as_bytes().chunks(2).map(byte).collect()
}

/// What this machine is called; nothing where nobody says.
pub fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_line_whatever_it_says() {
        assert_eq!(one_line("x\n2026\u{1b}[2J", 80), "x\\n2026\\u{1b}[2J");
        assert_eq!(one_line(&"ä".repeat(9), 8), "ääää…");
        assert_eq!(one_line(&"\n".repeat(9), 8), "\\n\\n\\n\\n…");
        let mut text = "äö\u{1b}".repeat(5);
        tidy(&mut text, 8);
        assert_eq!(text, "äö?ä");
    }

    #[test]
    fn a_character_is_plain_that_shows_itself_and_nothing_else() {
        for plain in ["a \"'\\~", "äß", "日本", "שלום", "e\u{301}", "🦀"] {
            assert!(plain.chars().all(is_plain), "{plain}");
        }
        for (what, other) in [
            ("ends of lines", "\n\r\u{85}\u{2028}\u{2029}"),
            ("what a terminal obeys", "\0\u{1b}\u{7f}\u{9b}"),
            (
                "directions",
                "\u{202a}\u{202e}\u{2066}\u{2069}\u{200e}\u{200f}\u{61c}",
            ),
            (
                "what nobody sees",
                "\u{200b}\u{2060}\u{feff}\u{ad}\u{e0041}\u{e000}",
            ),
        ] {
            assert!(!other.chars().any(is_plain), "{what}");
        }
        assert_eq!(one_line("a\u{202e}b", 80), "a\\u{202e}b");
        let mut text = "a\u{202e}b".into();
        tidy(&mut text, 80);
        assert_eq!(text, "a?b");
    }
}
