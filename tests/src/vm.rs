//! What a VM asks of the platform at 168.63.129.16 (FACTS 4.2).

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket},
    time::Duration,
};

use probe_user::lab::{netns::Namespace, wire::PROBE_V4};

const PATIENCE: Duration = Duration::from_secs(5);
const QUERY: &[u8] = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x04test\x00\x00\x01\x00\x01";

fn platform(port: u16) -> SocketAddr {
    SocketAddr::new(PROBE_V4.into(), port)
}

/// An HTTP request to the wire server (80), the host plug-in (32526) or whatever else listens there.
pub fn get(nva: &Namespace, port: u16, patience: Duration) -> io::Result<String> {
    let ask = || {
        let mut stream = TcpStream::connect_timeout(&platform(port), patience)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(b"GET /?comp=versions HTTP/1.1\r\nHost: 168.63.129.16\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    nva.run(ask).expect("the namespace can be entered")
}

/// A DNS query by UDP and one by TCP; the answers.
pub fn resolve(nva: &Namespace) -> io::Result<[Vec<u8>; 2]> {
    let ask = || {
        let udp = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        udp.set_read_timeout(Some(PATIENCE))?;
        udp.send_to(QUERY, platform(53))?;
        let mut buffer = [0; 512];
        let length = udp.recv(&mut buffer)?;
        let mut tcp = TcpStream::connect_timeout(&platform(53), PATIENCE)?;
        tcp.set_read_timeout(Some(PATIENCE))?;
        tcp.write_all(&[&(QUERY.len() as u16).to_be_bytes(), QUERY].concat())?;
        let mut answer = Vec::new();
        tcp.read_to_end(&mut answer)?;
        Ok([buffer[..length].to_vec(), answer])
    };
    nva.run(ask).expect("the namespace can be entered")
}

/// Renews a DHCP lease, from port 68; the reply.
pub fn renew(nva: &Namespace) -> io::Result<Vec<u8>> {
    let ask = || {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 68))?;
        socket.set_read_timeout(Some(PATIENCE))?;
        // BOOTREQUEST, Ethernet, six bytes of address; the rest does not matter here.
        let mut request = vec![0; 300];
        request[..3].copy_from_slice(&[1, 1, 6]);
        socket.send_to(&request, platform(67))?;
        let mut buffer = [0; 512];
        let length = socket.recv(&mut buffer)?;
        Ok(buffer[..length].to_vec())
    };
    nva.run(ask).expect("the namespace can be entered")
}
