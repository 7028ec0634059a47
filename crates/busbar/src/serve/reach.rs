//! Which addresses a server dials because somebody else says so.

use std::net::{IpAddr, Ipv6Addr};

/// Whether a client may have a server dial an address. None that is nobody's or everybody's, and
/// none of the network's own services, as those that give a cloud's machines their rights
/// (169.254.169.254). This very machine only for a client `here`, which can dial it itself.
pub(super) fn may_be_dialled(a: IpAddr, here: bool) -> bool {
    const ULA_SERVICES: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);
    match a.to_canonical() {
        a if a.is_loopback() => here,
        a if a.is_unspecified() || a.is_multicast() => false,
        IpAddr::V4(a) => !a.is_link_local() && !a.is_broadcast() && a.octets()[0] != 0,
        IpAddr::V6(a) => !a.is_unicast_link_local() && a != ULA_SERVICES,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_has_a_server_dial_other_machines_and_nothing_else() {
        let may = |a: &str, here| may_be_dialled(a.parse().expect("an address"), here);
        for good in [
            "10.0.0.7",
            "192.168.1.1",
            "8.8.8.8",
            "2001:db8::1",
            "fd12::1",
        ] {
            assert!(may(good, false) && may(good, true), "{good}");
        }
        for own in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            assert!(!may(own, false) && may(own, true), "{own}");
        }
        for bad in [
            "169.254.169.254",
            "::ffff:169.254.169.254",
            "fd00:ec2::254",
            "fe80::1",
            "0.0.0.0",
            "0.1.2.3",
            "::",
            "255.255.255.255",
            "224.0.0.1",
            "ff02::1",
        ] {
            assert!(!may(bad, false) && !may(bad, true), "{bad}");
        }
    }
}
