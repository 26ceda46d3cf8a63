//! Standard output: a reader that has gone away ends the program quietly.

use std::io::{self, IsTerminal, Write};

/// Prints and flushes.
pub(super) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            Err(io::Error::new(io::ErrorKind::BrokenPipe, "standard output was closed by its reader"))
        }
        other => other,
    }
}

/// Prints one line.
pub(super) fn line(text: &str) -> io::Result<()> {
    print(&format!("{text}\n"))
}

/// Colour only on a terminal, and not when `NO_COLOR` is set and not empty (<https://no-color.org>).
pub(super) fn colour() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Columns of the terminal; 80 elsewhere.
pub(super) fn width() -> u16 {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: TIOCGWINSZ writes one winsize to the pointer, which is valid for the call.
    let result = unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &raw mut size) };
    if result == 0 && size.ws_col > 0 { size.ws_col } else { 80 }
}
