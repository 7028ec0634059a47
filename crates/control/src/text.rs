//! Texts that came from somebody else, made fit to be shown.

/// As one line of a log: control characters are written out, and what is longer than `most` bytes
/// is cut.
pub fn one_line(text: &str, most: usize) -> String {
    let mut out = String::new();
    for c in text.chars() {
        let plain = !c.is_control();
        let n = if plain { c.len_utf8() } else { 6 };
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

/// Shortens a text to `most` bytes, and leaves nothing in it that a terminal would obey.
pub fn tidy(text: &mut String, most: usize) {
    text.truncate(text.floor_char_boundary(most));
    *text = text.replace(char::is_control, "?");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_line_whatever_it_says() {
        assert_eq!(one_line("x\n2026\u{1b}[2J", 80), "x\\n2026\\u{1b}[2J");
        assert_eq!(one_line(&"ä".repeat(9), 8), "ääää…");
        assert_eq!(one_line(&"\n".repeat(9), 8), "\\n\\n…");
        let mut text = "äö\u{1b}".repeat(5);
        tidy(&mut text, 8);
        assert_eq!(text, "äö?ä");
    }
}
