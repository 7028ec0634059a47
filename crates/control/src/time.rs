//! Spans of time, as people write them.

use std::time::Duration;

const UNITS: [(char, u64); 4] = [('s', 1), ('m', 60), ('h', 3600), ('d', 24 * 3600)];
/// A century: what is added to a clock that shows today stays within the clock.
const LONGEST: u64 = 36_525 * 24 * 3600;

/// Reads `90s`, `10m`, `2h` or `7d`.
pub fn parse(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let seconds = || {
        let unit = text.chars().next_back()?;
        let (_, of) = UNITS.iter().find(|(u, _)| *u == unit)?;
        let number = text[..text.len() - unit.len_utf8()].trim_end();
        let plain = number.chars().all(|c| c.is_ascii_digit());
        let number: u64 = number.parse().ok().filter(|_| plain)?;
        number.checked_mul(*of).filter(|n| *n <= LONGEST)
    };
    seconds()
        .map(Duration::from_secs)
        .ok_or_else(|| format!("`{text}` is no time: say 90s, 10m, 2h or 7d"))
}

/// For people to read, and for [`parse`].
pub fn show(time: Duration) -> String {
    let seconds = time.as_secs();
    let whole = |(_, of): &&(char, u64)| seconds > 0 && seconds.is_multiple_of(*of);
    let (unit, of) = UNITS.iter().rev().find(whole).unwrap_or(&UNITS[0]);
    format!("{}{unit}", seconds / of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_number_and_a_unit() {
        for (text, seconds, shown) in [
            ("0s", 0, "0s"),
            ("7s", 7, "7s"),
            ("90s", 90, "90s"),
            ("120s", 120, "2m"),
            (" 1 m ", 60, "1m"),
            ("2h", 7200, "2h"),
            ("48h", 172_800, "2d"),
            ("36525d", LONGEST, "36525d"),
        ] {
            let time = parse(text).unwrap();
            assert_eq!((time.as_secs(), show(time).as_str()), (seconds, shown));
        }
        for bad in [
            "",
            "d",
            "30",
            "-1d",
            "+1d",
            "1.5h",
            "1w",
            "ä",
            "1ä",
            "36526d",
            "99999999999999999999d",
        ] {
            let said = parse(bad).unwrap_err();
            assert_eq!(said, format!("`{bad}` is no time: say 90s, 10m, 2h or 7d"));
        }
    }
}
