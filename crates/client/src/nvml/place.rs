//! Places on the PCI bus, as text.

/// Domain, bus and device of `domain:bus:device.function`; domain and function may be missing.
pub fn parse(text: &str) -> Option<[u32; 3]> {
    let (text, function) = text.split_once('.').unwrap_or((text, "0"));
    // A GPU is the first function of its device.
    (u32::from_str_radix(function, 16) == Ok(0)).then_some(())?;
    let parts: Vec<_> = text.split(':').collect();
    let hex = |s: &str| u32::from_str_radix(s, 16).ok();
    match parts[..] {
        [bus, device] => Some([0, hex(bus)?, hex(device)?]),
        [domain, bus, device] => Some([hex(domain)?, hex(bus)?, hex(device)?]),
        _ => None,
    }
}

/// A place as text with the domain's digits.
pub fn format([domain, bus, device]: [u32; 3], digits: usize) -> String {
    format!("{domain:0digits$X}:{bus:02X}:{device:02X}.0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_place() {
        let place = [0, 0x1b, 2];
        for text in [
            "00000000:1B:02.0",
            "0000:1b:02.0",
            "0:1b:2",
            "1b:02.0",
            "1B:02",
        ] {
            assert_eq!(parse(text), Some(place), "{text}");
        }
        assert_eq!(
            parse(&format([0x10000, 0xff, 0x1f], 8)),
            Some([0x10000, 0xff, 0x1f])
        );
        for bad in [
            "",
            "1b",
            "x:y",
            "0:1b:02.1",
            "0:0:1b:02",
            "0:1b:02.",
            "-1:0",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn places_are_written_as_the_api_writes_them() {
        assert_eq!(format([0, 0x1b, 2], 8), "00000000:1B:02.0");
        assert_eq!(format([0, 0x1b, 2], 4), "0000:1B:02.0");
    }
}
