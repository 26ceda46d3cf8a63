//! Packets, byte by byte: independent of the parser that they test.

/// TCP flags.
pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const PSH: u8 = 8;
pub const ACK: u8 = 16;
pub const ECE: u8 = 64;
pub const CWR: u8 = 128;

pub const PROBER4: [u8; 4] = [168, 63, 129, 16];
pub const LOCAL4: [u8; 4] = [10, 4, 2, 101];
pub const PROBER6: [u8; 16] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc];
pub const LOCAL6: [u8; 16] = [0xfd, 0, 0, 4, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1];
/// MSS 1440, NOP, WS 8, NOP, NOP, SACK permitted: the probe's signature.
pub const PROBE_OPTIONS: [u8; 12] = [2, 4, 5, 0xa0, 1, 3, 3, 8, 1, 1, 4, 2];

/// A TCP segment to be built.
#[derive(Clone, Debug)]
pub struct Tcp {
    pub source_port: u16,
    pub destination_port: u16,
    pub sequence: u32,
    pub acknowledgement: u32,
    pub flags: u8,
    pub options: Vec<u8>,
    pub payload: Vec<u8>,
}

impl Tcp {
    pub fn new(source_port: u16, destination_port: u16, flags: u8) -> Self {
        Self {
            source_port,
            destination_port,
            sequence: 1000,
            acknowledgement: 0,
            flags,
            options: Vec::new(),
            payload: Vec::new(),
        }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(self.source_port.to_be_bytes());
        bytes.extend(self.destination_port.to_be_bytes());
        bytes.extend(self.sequence.to_be_bytes());
        bytes.extend(self.acknowledgement.to_be_bytes());
        bytes.push((((20 + self.options.len()) / 4) << 4) as u8);
        bytes.push(self.flags);
        bytes.extend(8192u16.to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend(&self.options);
        bytes.extend(&self.payload);
        bytes
    }
}

/// The probe's SYN from port 50000 to 8008.
pub fn syn() -> Tcp {
    Tcp { options: PROBE_OPTIONS.to_vec(), ..Tcp::new(50000, 8008, SYN | ECE | CWR) }
}

/// The host's answer to it, with any flags.
pub fn reply(flags: u8) -> Tcp {
    Tcp { sequence: 77, acknowledgement: 1001, ..Tcp::new(8008, 50000, flags) }
}

/// A further packet of the prober.
pub fn more(flags: u8) -> Tcp {
    Tcp { sequence: 1001, acknowledgement: 78, ..Tcp::new(50000, 8008, flags) }
}

/// UDP with eight bytes of payload.
pub fn udp(source_port: u16, destination_port: u16) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(source_port.to_be_bytes());
    bytes.extend(destination_port.to_be_bytes());
    bytes.extend(16u16.to_be_bytes());
    bytes.extend([0; 10]);
    bytes
}

/// An IPv4 packet with options and fragment field.
pub fn ip4_full(
    source: [u8; 4],
    destination: [u8; 4],
    protocol: u8,
    options: &[u8],
    fragment: u16,
    payload: &[u8],
) -> Vec<u8> {
    let header = 20 + options.len();
    let mut bytes = vec![0x40 | (header / 4) as u8, 0];
    bytes.extend(((header + payload.len()) as u16).to_be_bytes());
    bytes.extend([0, 1]);
    bytes.extend(fragment.to_be_bytes());
    bytes.extend([64, protocol, 0, 0]);
    bytes.extend(source);
    bytes.extend(destination);
    bytes.extend(options);
    bytes.extend(payload);
    bytes
}

pub fn ip4(source: [u8; 4], destination: [u8; 4], protocol: u8, payload: &[u8]) -> Vec<u8> {
    ip4_full(source, destination, protocol, &[], 0, payload)
}

/// From the prober to us.
pub fn in4(tcp: &Tcp) -> Vec<u8> {
    ip4(PROBER4, LOCAL4, 6, &tcp.bytes())
}

/// From us to the prober.
pub fn out4(tcp: &Tcp) -> Vec<u8> {
    ip4(LOCAL4, PROBER4, 6, &tcp.bytes())
}

/// An IPv6 packet with extension headers, each a type and its bytes without the next-header field.
pub fn ip6(
    source: [u8; 16],
    destination: [u8; 16],
    protocol: u8,
    extensions: &[(u8, Vec<u8>)],
    payload: &[u8],
) -> Vec<u8> {
    let chain: Vec<u8> = extensions.iter().map(|(kind, _)| *kind).chain([protocol]).collect();
    let mut body = Vec::new();
    for (index, (_, bytes)) in extensions.iter().enumerate() {
        body.push(chain[index + 1]);
        body.extend(bytes);
    }
    body.extend(payload);
    let mut bytes = vec![0x60, 0, 0, 0];
    bytes.extend((body.len() as u16).to_be_bytes());
    bytes.extend([chain[0], 255]);
    bytes.extend(source);
    bytes.extend(destination);
    bytes.extend(body);
    bytes
}

/// An Ethernet frame with VLAN tags, each a TPID and a TCI.
pub fn ethernet(tags: &[(u16, u16)], ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, 1, 0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc];
    for (tpid, tci) in tags {
        bytes.extend(tpid.to_be_bytes());
        bytes.extend(tci.to_be_bytes());
    }
    bytes.extend(ethertype.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// An Ethernet frame around an IP packet of either version.
pub fn frame(ip: &[u8]) -> Vec<u8> {
    ethernet(&[], if ip[0] >> 4 == 6 { 0x86dd } else { 0x0800 }, ip)
}

/// An ICMP error of `kind` and `code` that quotes `packet`.
pub fn icmp_error(kind: u8, code: u8, packet: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind, code, 0, 0, 0, 0, 0, 0];
    bytes.extend(packet);
    bytes
}
