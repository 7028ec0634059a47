//! Shares of a device's time, in thousandths, as people write them.

/// All of a device's time.
pub const WHOLE: u32 = 1000;

/// Reads `0.25` or `25%`.
pub fn parse(text: &str) -> Result<u32, String> {
    let text = text.trim();
    let wrong = || format!("`{text}` is no share of a device's time: say 0.25 or 25%");
    let (number, whole) = match text.strip_suffix('%') {
        Some(number) => (number, 10.0),
        None => (text, 1000.0),
    };
    let plain = |c: char| c.is_ascii_digit() || c == '.';
    if !number.chars().all(plain) {
        return Err(wrong());
    }
    let number: f64 = number.parse().map_err(|_| wrong())?;
    if whole > 10.0 && number > 1.0 {
        return Err(format!(
            "`{text}` is more than all of a device's time: say 0.25 or 25%; memory is -m {text}MiB"
        ));
    }
    of(number * whole / 1000.0).ok_or_else(wrong)
}

/// A part of 1. What is less than a thousandth is left: sixteen sixteenths are to fit.
pub fn of(part: f64) -> Option<u32> {
    let thousandths = (part * f64::from(WHOLE) + 1e-6).floor();
    (1.0..=f64::from(WHOLE))
        .contains(&thousandths)
        .then_some(thousandths as u32)
}

/// For people to read.
pub fn show(share: u32) -> String {
    let text = format!("{}.{:03}", share / WHOLE, share % WHOLE);
    let short = text.trim_end_matches('0').trim_end_matches('.');
    short.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_parts_of_one_or_of_a_hundred() {
        assert_eq!(parse("0.25"), Ok(250));
        assert_eq!(parse(" 25% "), Ok(250));
        assert_eq!(parse("1"), Ok(WHOLE));
        assert_eq!(parse("0.001"), Ok(1));
        for n in 1..=1000 {
            let part = format!("{:.12}", 1.0 / f64::from(n));
            assert!(parse(&part).is_ok_and(|share| share * n <= WHOLE), "{n}");
            assert_eq!(parse(&show(n)), Ok(n));
        }
        for bad in [
            "", "0", "1.5", "-0.5", "0.0001", "a", "%", "101%", "1e-1", "nan",
        ] {
            let said = parse(bad).unwrap_err();
            assert!(said.contains("say 0.25 or 25%"), "{said}");
        }
        assert_eq!(show(250), "0.25");
        assert_eq!((show(1000), show(7)), ("1".into(), "0.007".into()));
    }
}
