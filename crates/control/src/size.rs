//! Amounts of memory, as people write them.

const UNITS: [(&str, u32); 4] = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40)];

/// Reads `16GiB`, `1.5GiB` or `512MiB`.
pub fn parse(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is no amount of memory: say 16GiB, 1.5GiB or 512MiB");
    let found = UNITS.iter().find_map(|(unit, shift)| {
        let number = text.trim().strip_suffix(unit)?.trim_end();
        Some((number, *shift))
    });
    let (number, shift) = found.ok_or_else(wrong)?;
    let plain = |c: char| c.is_ascii_digit() || c == '.';
    if !number.chars().all(plain) {
        return Err(wrong());
    }
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let bytes = number * (1u64 << shift) as f64;
    match bytes >= 1.0 && bytes < (1u64 << 60) as f64 {
        true => Ok(bytes as u64),
        false => Err(wrong()),
    }
}

/// For people to read.
pub fn show(bytes: u64) -> String {
    let of = |(unit, shift): &(&str, u32)| {
        let n = bytes as f64 / (1u64 << shift) as f64;
        (n >= 1.0).then(|| format!("{n:.1} {unit}"))
    };
    let shown = UNITS.iter().rev().find_map(of);
    shown.unwrap_or_else(|| format!("{bytes} bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_numbers_with_a_unit() {
        assert_eq!(parse("16GiB"), Ok(16 << 30));
        assert_eq!(parse(" 1.5 MiB"), Ok(3 << 19));
        assert_eq!(parse("2TiB"), Ok(2 << 40));
        for bad in [
            "",
            "16",
            "GiB",
            "-1GiB",
            "1e3GiB",
            "0KiB",
            "16GB",
            "9999999TiB",
            "1.2.3GiB",
        ] {
            let said = parse(bad).unwrap_err();
            assert!(said.contains("say 16GiB"), "{said}");
        }
        assert_eq!(show(16 << 30), "16.0 GiB");
        assert_eq!(
            (show(3 << 19), show(7)),
            ("1.5 MiB".into(), "7 bytes".into())
        );
    }
}
