//! One connection of a service.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant},
};

use nix::sys::socket::{setsockopt, sockopt::Linger};

use super::{
    PATIENCE, Shared,
    answer::{After, Answer},
    request::request,
    serve::Serve,
};

/// Serves until the client closes, an error, or the end.
pub(super) fn serve(mut stream: TcpStream, client: SocketAddr, shared: &Shared) {
    // Whatever fails here is an end of the connection, which the client sees.
    let _ = attend(&mut stream, client, shared);
}

fn attend(stream: &mut TcpStream, client: SocketAddr, shared: &Shared) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(Duration::from_millis(u64::from(PATIENCE))))?;
    // Pieces are segments: none waits for the acknowledgement of the one before.
    stream.set_nodelay(true)?;
    let mut turn = shared.turn();
    match shared.serve(client, turn) {
        Serve::CloseFirst => stream.shutdown(Shutdown::Write)?,
        Serve::Greet(banner) => stream.write_all(&banner)?,
        _ => {}
    }
    let mut received = Vec::new();
    let mut first = true;
    while read(stream, &mut received, shared)? {
        loop {
            let proxied = first && matches!(shared.serve(client, turn), Serve::Proxied(_));
            let Some((length, form)) = request(&received, proxied) else { break };
            received.drain(..length);
            shared.requests.fetch_add(1, Ordering::Relaxed);
            if !first {
                turn = shared.turn();
            }
            first = false;
            let serve = shared.serve(client, turn);
            if let Some(answer) = serve.answer(form)
                && !send(stream, &answer, shared)?
            {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Waits for more; false when the client has closed or the service ends.
fn read(stream: &mut TcpStream, received: &mut Vec<u8>, shared: &Shared) -> io::Result<bool> {
    let mut buffer = [0; 4096];
    while !shared.stopped() {
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(false),
            Ok(count) => {
                received.extend_from_slice(&buffer[..count]);
                return Ok(true);
            }
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
                ) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

/// Whether the connection goes on.
fn send(stream: &mut TcpStream, answer: &Answer, shared: &Shared) -> io::Result<bool> {
    for piece in &answer.pieces {
        if !pause(piece.pause, shared) {
            return Ok(false);
        }
        stream.write_all(&piece.bytes)?;
    }
    match answer.after {
        After::Keep => Ok(true),
        After::Close => Ok(false),
        After::Reset => {
            // Closing with this set sends a RST (net/ipv4/tcp.c, tcp_close).
            setsockopt(&*stream, Linger, &libc::linger { l_onoff: 1, l_linger: 0 })?;
            Ok(false)
        }
    }
}

/// False when the service ends meanwhile.
fn pause(length: Duration, shared: &Shared) -> bool {
    let until = Instant::now() + length;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || shared.stopped() {
            return !shared.stopped();
        }
        thread::sleep(left.min(Duration::from_millis(u64::from(PATIENCE))));
    }
}
