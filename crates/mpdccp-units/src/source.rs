use core::net::{IpAddr, Ipv6Addr};

/// Returns the source under which limits count an address: an IPv4 address, or the first 64 bits of an IPv6
/// address, which are the smallest block that one host owns.
pub fn source(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64).into(),
        ip => ip,
    }
}

/// Returns the site of an address: an IPv4 address, or the first 48 bits of an IPv6 address, which are the
/// largest block that one customer usually gets (RFC 6177). A site has up to 65,536 [sources](source), so
/// where sources compete for places, their sites must compete, too.
pub fn site(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() >> 80 << 80).into(),
        ip => ip,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_an_ipv4_address_or_an_ipv6_prefix() {
        let of = |text: &str| source(text.parse().unwrap());
        assert_eq!(of("fd00::1:2:3:4"), of("fd00::"));
        assert_ne!(of("fd00:0:0:1::"), of("fd00::"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert_ne!(of("192.0.2.2"), of("192.0.2.1"));
    }

    #[test]
    fn a_site_is_an_ipv4_address_or_a_longer_ipv6_prefix() {
        let of = |text: &str| site(text.parse().unwrap());
        assert_eq!(of("2001:db8:1:ffff::1"), of("2001:db8:1::"));
        assert_ne!(of("2001:db8:2::"), of("2001:db8:1::"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert_ne!(of("192.0.2.2"), of("192.0.2.1"));
    }
}
