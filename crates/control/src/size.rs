//! Amounts of memory, as people write them.

const UNITS: [(&str, u32); 4] = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40)];

/// Units that are meant by what people write instead.
fn meant(unit: &str) -> Option<&'static str> {
    let first = unit.chars().next()?.to_ascii_uppercase();
    let known = UNITS.iter().map(|(u, _)| *u);
    let mut begins = known.filter(|u| u.starts_with(first));
    let rest = unit.get(1..)?.to_ascii_lowercase();
    begins
        .next()
        .filter(|_| ["", "b", "i", "ib"].contains(&&*rest))
}

/// Reads `16GiB`, `1.5GiB` or `512MiB`.
pub fn parse(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let number = |c: char| c.is_ascii_digit() || c == '.';
    let end = text.find(|c| !number(c)).unwrap_or(text.len());
    let (number, unit) = (&text[..end], text[end..].trim());
    let amount: Option<f64> = number.parse().ok();
    let Some(amount) = amount else {
        return Err(format!(
            "`{text}` is no amount of memory: say 16GiB, 1.5GiB or 512MiB"
        ));
    };
    let known = UNITS.iter().find(|(u, _)| *u == unit);
    let Some((_, shift)) = known else {
        return Err(match (unit, meant(unit)) {
            ("", _) => format!("`{text}` of what? say {text}GiB or {text}MiB"),
            (_, Some(meant)) => format!("`{text}` has no unit of memory: say {number}{meant}"),
            _ => format!(
                "`{unit}` is no unit of memory: there are KiB, MiB, GiB and TiB; say {number}GiB"
            ),
        });
    };
    let bytes = amount * (1u64 << shift) as f64;
    match bytes >= 1.0 && bytes < (1u64 << 60) as f64 {
        true => Ok(bytes as u64),
        false => Err(format!(
            "`{text}` is more than there is anywhere, or nothing: say 16GiB"
        )),
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
        for (bad, right) in [
            ("", "say 16GiB"),
            ("16", "say 16GiB or 16MiB"),
            ("GiB", "say 16GiB"),
            ("-1GiB", "say 16GiB"),
            ("1e3GiB", "`e3GiB` is no unit"),
            ("0KiB", "say 16GiB"),
            ("16GB", "say 16GiB"),
            ("16g", "say 16GiB"),
            ("1.5mb", "say 1.5MiB"),
            ("16GG", "`GG` is no unit of memory"),
            ("16 Ö", "`Ö` is no unit of memory"),
            ("9999999TiB", "more than there is"),
            ("1.2.3GiB", "say 16GiB"),
        ] {
            let said = parse(bad).unwrap_err();
            assert!(said.contains(right), "{said}");
        }
        assert_eq!(show(16 << 30), "16.0 GiB");
        assert_eq!(
            (show(3 << 19), show(7)),
            ("1.5 MiB".into(), "7 bytes".into())
        );
    }
}
