//! A large capture: mostly other people's traffic, with probes in between.

use std::io::{self, Write};

use probe_user::capture::file::{Order, write::PcapWriter};

use crate::packets::{ACK, FIN, PROBE_OPTIONS, PROBER4, PSH, SYN, Tcp, ip4};

/// LINUX_SLL2.
const COOKED2: u32 = 276;
/// 2025-12-01, 03:04:05 UTC.
const START_NS: u64 = 1_764_558_245_000_000_000;
/// Between two packets of others: some 2000 a second.
const PACE_NS: u64 = 500_000;
const PROBED: [u16; 5] = [443, 3128, 8008, 8080, 9443];
const EVERY_NS: u64 = 5_000_000_000;
/// Addresses of eth0 and eth1, whose interface numbers are 2 and 3.
const NICS: [[u8; 4]; 2] = [[10, 4, 2, 101], [10, 4, 3, 101]];

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    pub bytes: u64,
    pub packets: u64,
    /// Probes, each a SYN.
    pub probes: u64,
}

/// Numbers that are the same every time (xorshift64*, Vigna 2016).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 16) % end
    }
}

struct Writer<W> {
    out: PcapWriter<W>,
    written: Written,
    frame: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// A packet of a device, as the kernel hands it to a capture of all of them.
    fn packet(&mut self, time_ns: u64, ifindex: u32, outgoing: bool, ip: &[u8]) -> io::Result<()> {
        self.frame.clear();
        self.frame.extend([8, 0, 0, 0]);
        self.frame.extend(ifindex.to_be_bytes());
        self.frame.extend([0, 1, if outgoing { 4 } else { 0 }, 6, 0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0, 0]);
        self.frame.extend(ip);
        self.written.bytes += self.frame.len() as u64 + 16;
        self.written.packets += 1;
        self.out.packet(time_ns, &self.frame, self.frame.len())
    }

    /// One probe of a NIC, from the handshake to its end. eth1's replies leave by eth0.
    fn probe(&mut self, time_ns: u64, nic: usize, port: u16, number: u64) -> io::Result<()> {
        let (local, ifindex) = (NICS[nic], nic as u32 + 2);
        let peer_port = 50_000 + (number % 10_000) as u16;
        let sequence = (number as u32).wrapping_mul(0x9e37_79b9);
        let from = |flags| Tcp {
            sequence: sequence.wrapping_add(1),
            acknowledgement: 78,
            ..Tcp::new(peer_port, port, flags)
        };
        let syn = Tcp { sequence, options: PROBE_OPTIONS.to_vec(), ..Tcp::new(peer_port, port, SYN) };
        let syn_ack = Tcp {
            sequence: 77,
            acknowledgement: sequence.wrapping_add(1),
            ..Tcp::new(port, peer_port, SYN | ACK)
        };
        self.written.probes += 1;
        self.packet(time_ns, ifindex, false, &ip4(PROBER4, local, 6, &syn.bytes()))?;
        self.packet(time_ns + 60_000, 2, true, &ip4(local, PROBER4, 6, &syn_ack.bytes()))?;
        if nic == 0 {
            self.packet(time_ns + 200_000, ifindex, false, &ip4(PROBER4, local, 6, &from(ACK).bytes()))?;
            self.packet(
                time_ns + 300_000,
                ifindex,
                false,
                &ip4(PROBER4, local, 6, &from(FIN | ACK).bytes()),
            )?;
        }
        Ok(())
    }
}

/// Writes at least `least` bytes.
pub fn write(out: impl Write, least: u64) -> io::Result<Written> {
    let out = PcapWriter::new(out, Order::Little, false, COOKED2)?;
    let mut writer = Writer { out, written: Written::default(), frame: Vec::with_capacity(2048) };
    let mut numbers = Numbers(0x5eed);
    let noise: Vec<u8> = (0..4096).map(|_| numbers.next() as u8).collect();
    let mut time_ns = START_NS;
    let mut next_probe_ns = START_NS;
    let mut number = 0;
    while writer.written.bytes < least {
        if time_ns >= next_probe_ns {
            for (nic, port) in (0..NICS.len()).flat_map(|nic| PROBED.map(|port| (nic, port))) {
                writer.probe(time_ns + number % 10 * 1_000, nic, port, number)?;
                number += 1;
            }
            next_probe_ns += EVERY_NS;
        }
        // Sizes of a router's traffic: half is acknowledgements, a third full segments.
        let payload = match numbers.below(100) {
            0..50 => numbers.below(40),
            50..67 => 40 + numbers.below(600),
            _ => 1440,
        };
        let start = numbers.below(2048) as usize;
        let payload = noise.iter().skip(start).take(payload as usize).copied().collect();
        let client = [10, 20, numbers.below(4) as u8, numbers.below(250) as u8];
        let server = [203, 0, 113, numbers.below(20) as u8];
        let inward = numbers.below(2) == 0;
        let (from, to) = if inward { (client, server) } else { (server, client) };
        let port = 1024 + u16::from(client[3]) * 8;
        let ports = if inward { (port, 443) } else { (443, port) };
        let packet = if numbers.below(100) < 80 {
            let sequence = numbers.next() as u32;
            ip4(from, to, 6, &Tcp { sequence, payload, ..Tcp::new(ports.0, ports.1, PSH | ACK) }.bytes())
        } else {
            let mut udp = [
                ports.0.to_be_bytes(),
                ports.1.to_be_bytes(),
                (payload.len() as u16 + 8).to_be_bytes(),
                [0; 2],
            ]
            .concat();
            udp.extend::<Vec<u8>>(payload);
            ip4(from, to, 17, &udp)
        };
        writer.packet(time_ns, 2 + numbers.below(2) as u32, !inward, &packet)?;
        time_ns += PACE_NS;
    }
    writer.out.into_inner().flush()?;
    Ok(writer.written)
}
