//! Advice about a listener: no command can give it, for every server has its own file.

use super::intent::Listen;
use crate::report::document::Fix;

pub(super) fn fix(listen: &Listen) -> Fix {
    let Listen { nic, address, port, bound, process } = listen;
    let any = if address.is_ipv6() { "[::]" } else { "0.0.0.0" };
    let own = if address.is_ipv6() { format!("[{address}]:{port}") } else { format!("{address}:{port}") };
    let printable = |text: &str| text.replace(char::is_control, "?");
    let server =
        process.as_deref().map_or_else(|| "the server".to_owned(), |name| format!("'{}'", printable(name)));
    let mut lines = vec!["# Persistent: it is the server's own configuration.".to_owned()];
    if bound.is_empty() {
        lines.push(format!(
            "# Nothing listens on port {port}. Start the server that the load balancer is to probe, or"
        ));
        lines.push(format!(
            "# point the probe at a port that is served; it must listen on {any}:{port} or {own}."
        ));
    } else {
        let bound = bound.iter().map(|place| printable(place)).collect::<Vec<_>>().join(", ");
        lines.push(format!(
            "# {server} is bound to {bound}, which a probe of {address} on {nic} does not reach."
        ));
        lines.push(format!("# Let it listen on {any}:{port}, or on {own} as well, and restart it."));
    }
    lines.push(format!("ss -ltnp 'sport = :{port}'"));
    Fix { family: "listener".to_owned(), persistent: true, text: lines.join("\n") }
}
