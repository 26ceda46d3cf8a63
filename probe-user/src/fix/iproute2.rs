//! The fix as `ip` commands: at once, and until the next reboot or network restart.

use std::fmt::Write;

use super::PolicyFix;
use crate::report::document::Fix;

/// Two commands that can be pasted.
pub fn fix(plan: &PolicyFix) -> Fix {
    Fix { family: "iproute2".to_owned(), persistent: false, text: text(plan) }
}

fn text(plan: &PolicyFix) -> String {
    let PolicyFix { nic, from, to, gateway, gateway_assumed, table, priority } = plan;
    let ip = if from.is_ipv4() { "ip" } else { "ip -6" };
    let to = if to.prefix_len() == to.max_prefix_len() { to.addr().to_string() } else { to.to_string() };
    // No rtnetlink name can hold a quote or a space safely, so the shell's word is quoted where it must be.
    let nic = quoted(nic);
    let mut text = "# until the next reboot or network restart\n".to_owned();
    if *gateway_assumed {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "# gateway assumed: the first address of the subnet, as on Azure");
    }
    let _ = writeln!(text, "{ip} route replace {to} via {gateway} dev {nic} table {table}");
    if let Some(priority) = priority {
        let _ = writeln!(text, "{ip} rule add from {from} to {to} lookup {table} priority {priority}");
    }
    text.truncate(text.trim_end().len());
    text
}

/// A device name as a shell word.
fn quoted(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-@:".contains(c);
    if name.chars().all(plain) { name.to_owned() } else { format!("'{}'", name.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> PolicyFix {
        PolicyFix {
            nic: "eth1".to_owned(),
            from: "10.4.3.101".parse().expect("valid"),
            to: crate::source::parse("168.63.129.16").expect("valid"),
            gateway: "10.4.3.1".parse().expect("valid"),
            gateway_assumed: false,
            table: 202,
            priority: Some(100),
        }
    }

    #[test]
    fn the_commands_can_be_pasted() {
        assert_eq!(
            text(&plan()),
            "# until the next reboot or network restart\n\
             ip route replace 168.63.129.16 via 10.4.3.1 dev eth1 table 202\n\
             ip rule add from 10.4.3.101 to 168.63.129.16 lookup 202 priority 100"
        );
    }

    #[test]
    fn a_prefix_stays_a_prefix_and_an_assumption_is_said() {
        let plan = PolicyFix {
            to: crate::source::parse("35.191.0.0/16").expect("valid"),
            gateway_assumed: true,
            priority: None,
            ..plan()
        };
        let text = text(&plan);
        assert!(text.contains("# gateway assumed"), "{text}");
        assert!(text.ends_with("ip route replace 35.191.0.0/16 via 10.4.3.1 dev eth1 table 202"), "{text}");
    }

    #[test]
    fn strange_device_names_are_quoted() {
        assert_eq!(quoted("eth0.100"), "eth0.100");
        assert_eq!(quoted("a b'c"), r"'a b'\''c'");
    }
}
