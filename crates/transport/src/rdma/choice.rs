//! Which port somebody wants, in words.

use std::str::FromStr;

/// Which port to use, and how: `DEVICE[:PORT[:GID]][,NAME=NUMBER...]`. What is not said is chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The device's name, as in `/sys/class/infiniband`.
    pub device: Option<String>,
    /// The number of its port.
    pub port: Option<u8>,
    /// The index of that one's address.
    pub gid: Option<u8>,
    /// `class`: the traffic class, DSCP and ECN.
    pub class: u8,
    /// `level`: the service level.
    pub level: u8,
    /// `mtu`: the largest packet, in bytes.
    pub mtu: Option<u16>,
    /// `timeout`: how long until a packet is sent again, 4.096 us times two to the power of this.
    pub timeout: u8,
    /// `retries`: how often.
    pub retries: u8,
}

impl Default for Choice {
    fn default() -> Self {
        Self {
            device: None,
            port: None,
            gid: None,
            class: 0,
            level: 0,
            mtu: None,
            timeout: 14,
            retries: 7,
        }
    }
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = |what: &str| {
            format!(
                "`{what}` is no part of DEVICE[:PORT[:GID]][,class=,level=,mtu=,timeout=,retries=]"
            )
        };
        let mut choice = Self::default();
        let mut parts = text.split(',').map(str::trim);
        let mut place = parts.next().unwrap_or_default().split(':');
        let number = |part: Option<&str>| part.map(|p| p.parse::<u8>().map_err(|_| bad(p)));
        choice.device = place.next().filter(|d| !d.is_empty()).map(Into::into);
        choice.port = number(place.next()).transpose()?;
        choice.gid = number(place.next()).transpose()?;
        if place.next().is_some() || choice.port == Some(0) {
            return Err(bad(text));
        }
        for part in parts {
            let (name, value) = part.split_once('=').ok_or_else(|| bad(part))?;
            let value: u16 = value.parse().map_err(|_| bad(part))?;
            let least = |most: u16| match value <= most {
                true => Ok(value as u8),
                false => Err(bad(part)),
            };
            match name {
                "class" => choice.class = least(255)?,
                "level" => choice.level = least(15)?,
                "mtu" if size(value).is_some() => choice.mtu = Some(value),
                "timeout" => choice.timeout = least(31)?,
                "retries" => choice.retries = least(7)?,
                _ => return Err(bad(part)),
            }
        }
        Ok(choice)
    }
}

/// The number that verbs have for packets of so many bytes.
pub(super) fn size(bytes: u16) -> Option<u8> {
    [256, 512, 1024, 2048, 4096]
        .iter()
        .position(|b| *b == bytes)
        .map(|i| i as u8 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_says_port_and_way() {
        let c: Choice = "mlx5_0:2:3,class=106,mtu=1024,timeout=18".parse().unwrap();
        assert_eq!(c.device.as_deref(), Some("mlx5_0"));
        assert_eq!(
            (c.port, c.gid, c.class, c.mtu),
            (Some(2), Some(3), 106, Some(1024))
        );
        assert_eq!((c.timeout, c.retries), (18, 7));
        assert_eq!("".parse(), Ok(Choice::default()));
        for bad in [
            "a:0",
            "a:1:2:3",
            "a:b",
            "a,mtu=1000",
            "a,level=16",
            "a,speed=1",
            "a,class",
        ] {
            assert!(bad.parse::<Choice>().is_err(), "{bad}");
        }
    }
}
