//! Keys, connection identifiers and HMACs (RFC 9897 sections 3.2.2 to 3.2.6).
