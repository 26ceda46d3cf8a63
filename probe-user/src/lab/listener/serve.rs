//! What a service does with its clients.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use super::{
    answer::{Answer, Response},
    request::Form,
};
use crate::lab::tls;

/// What a service does with a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Serve {
    /// Accept and hold until the client closes.
    Hold,
    /// Answer each request with this status, after a delay.
    Http { status: u16, delay: Duration },
    /// Read the request and never answer.
    Silence,
    /// Read the request and close.
    Close,
    /// Read the request and reset.
    Reset,
    /// Send a FIN before anything is asked, and go on reading.
    CloseFirst,
    /// Say this before anything is asked, as SSH does, and hold.
    Greet(Vec<u8>),
    /// Answer each HTTP request; what is no HTTP request gets a 400.
    Answer(Answer),
    /// Answer each ClientHello.
    Tls(Answer),
    /// Expect a PROXY header at the beginning of a connection.
    Proxied(Box<Self>),
    /// Clients from these addresses are served otherwise.
    ByAddress { these: Vec<IpAddr>, serve: Box<Self>, others: Box<Self> },
    /// Clients with even and with odd ports are served differently.
    ByParity { even: Box<Self>, odd: Box<Self> },
    /// One after the other, from the front again at the end. Each connection and each further request is a turn.
    Turns(Vec<Self>),
}

impl Serve {
    /// 200 at once.
    pub const OK: Self = Self::Http { status: 200, delay: Duration::ZERO };

    /// This status at once.
    pub fn status(status: u16) -> Self {
        Self::Http { status, delay: Duration::ZERO }
    }

    /// OpenSSH's banner.
    pub fn ssh() -> Self {
        Self::Greet(b"SSH-2.0-OpenSSH_9.6\r\n".to_vec())
    }

    /// A ServerHello for each ClientHello; the rest of the handshake never comes.
    pub fn tls() -> Self {
        Self::Tls(Answer::of(tls::server_hello()))
    }

    /// A fatal alert for each ClientHello, and the end.
    pub fn tls_alert(description: u8) -> Self {
        Self::Tls(Answer::of(tls::alert(description)).close())
    }

    /// Clients from these addresses are served otherwise.
    pub fn by_address(these: impl IntoIterator<Item = IpAddr>, serve: Self, others: Self) -> Self {
        let these = these.into_iter().collect();
        Self::ByAddress { these, serve: Box::new(serve), others: Box::new(others) }
    }

    /// Clients with even and with odd ports are served differently.
    pub fn by_parity(even: Self, odd: Self) -> Self {
        Self::ByParity { even: Box::new(even), odd: Box::new(odd) }
    }

    /// Expect a PROXY header at the beginning of a connection.
    pub fn proxied(serve: Self) -> Self {
        Self::Proxied(Box::new(serve))
    }

    /// What this client gets at this turn.
    pub(super) fn of(&self, client: SocketAddr, turn: usize) -> &Self {
        match self {
            Self::ByAddress { these, serve, others } => {
                let serve = if these.contains(&client.ip().to_canonical()) { serve } else { others };
                serve.of(client, turn)
            }
            Self::ByParity { even, odd } => {
                let serve = if client.port().is_multiple_of(2) { even } else { odd };
                serve.of(client, turn)
            }
            Self::Turns(turns) => match turns.get(turn.checked_rem(turns.len()).unwrap_or(0)) {
                Some(serve) => serve.of(client, turn),
                None => &Self::Hold,
            },
            plain => plain,
        }
    }

    /// The answer to a request; `None` for what is never answered. Servers that speak HTTP say 400 to whatever else
    /// comes.
    pub(super) fn answer(&self, form: Form) -> Option<Answer> {
        let answer = match self {
            Self::Http { status, delay } => Response::status(*status).delay(*delay).answer(),
            Self::Answer(answer) => answer.clone(),
            Self::Proxied(serve) => return serve.answer(form),
            Self::Tls(answer) => return Some(answer.clone()),
            Self::Close => return Some(Answer::default().close()),
            Self::Reset => return Some(Answer::default().reset()),
            _ => return None,
        };
        Some(if form == Form::Http { answer } else { Response::status(400).close().answer() })
    }
}

impl From<Response> for Serve {
    fn from(response: Response) -> Self {
        Self::Answer(response.answer())
    }
}
