//! The words of one iptables rule, as iptables-save prints them: plain matches, then `-m` modules, then the target.

use std::net::IpAddr;

use super::{
    Action, Statement,
    elements::{Column, Element, Field, Match, number},
    nft_sets::{ct_state, protocol, tcp_flag},
};

/// Words, where quotes hold some together and a backslash takes the next letter as it is.
pub(super) fn split(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let (mut quoted, mut letters) = (false, line.chars());
    while let Some(letter) = letters.next() {
        match letter {
            '"' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            '\\' => word.get_or_insert_default().extend(letters.next()),
            letter if letter.is_whitespace() && !quoted => words.extend(word.take()),
            letter => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

/// What the words mean, for rules of IPv4 or of IPv6. `chains` are those of the table.
pub(super) fn statements(words: &[&str], v4: bool, chains: &[String]) -> Vec<Statement> {
    let mut statements = Vec::new();
    let mut rest = words;
    let mut protocol_number = None;
    while let [first, tail @ ..] = rest {
        let (negated, first, tail) = match (*first, tail) {
            ("!", [option, tail @ ..]) => (true, *option, tail),
            (option, tail) => (false, option, tail),
        };
        match (first, tail) {
            ("-j" | "-g", [target, arguments @ ..]) => {
                statements.push(self::target(first == "-g", target, arguments, chains));
                return statements;
            }
            ("-m", [module, tail @ ..]) => {
                let end = tail.iter().position(|word| matches!(*word, "-m" | "-j" | "-g"));
                let (options, next) = tail.split_at(end.unwrap_or(tail.len()));
                statements.extend(modules(module, options, v4, protocol_number));
                rest = next;
            }
            // Probes come whole.
            ("-f", tail) => {
                let none = Match { columns: Vec::new(), rows: Vec::new(), negated, text: "-f".to_owned() };
                statements.push(Statement::Match(none));
                rest = tail;
            }
            (option, [value, tail @ ..]) => {
                if option == "-p" {
                    protocol_number = protocol(value).filter(|_| !negated);
                }
                statements.push(plain(option, value, negated, v4));
                rest = tail;
            }
            (option, []) => {
                statements.push(Statement::Uncertain(option.to_owned()));
                return statements;
            }
        }
    }
    statements
}

/// A match that needs no module.
fn plain(option: &str, value: &str, negated: bool, v4: bool) -> Statement {
    let words = format!("{}{option} {value}", if negated { "! " } else { "" });
    let (field, element) = match option {
        "-s" => (if v4 { Field::FromV4 } else { Field::FromV6 }, net(value)),
        "-d" => (if v4 { Field::ToV4 } else { Field::ToV6 }, net(value)),
        "-i" => (Field::IifName, Some(Element::device(value, '+'))),
        "-o" => (Field::OifName, Some(Element::device(value, '+'))),
        "-p" if value == "all" => (Field::Protocol, Some(Element::Range(0, 255))),
        "-p" => (Field::Protocol, protocol(value).map(|number| Element::number(number.into()))),
        _ => return Statement::Uncertain(words),
    };
    match element {
        Some(element) => condition(Column::whole(field), vec![element], negated, words),
        None => Statement::Uncertain(words),
    }
}

fn condition(column: Column, elements: Vec<Element>, negated: bool, text: String) -> Statement {
    let rows = elements.into_iter().map(|element| vec![element]).collect();
    Statement::Match(Match { columns: vec![column], rows, negated, text })
}

/// An address, with a prefix length or a mask.
fn net(text: &str) -> Option<Element> {
    let (address, length) =
        text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
    let address: IpAddr = address.parse().ok()?;
    let whole = if address.is_ipv4() { 32 } else { 128 };
    let length = match length {
        None => whole,
        Some(length) => match (length.parse::<u8>(), length.parse::<IpAddr>()) {
            (Ok(length), _) => length,
            // A mask with holes is printed as a mask.
            (_, Ok(IpAddr::V4(mask))) if u32::from(mask).leading_ones() == u32::from(mask).count_ones() => {
                u32::from(mask).leading_ones() as u8
            }
            _ => return None,
        },
    };
    (length <= whole).then(|| Element::net(address, length))
}

/// The options of one module; one that is not understood makes the whole module uncertain.
fn modules(module: &str, options: &[&str], v4: bool, protocol: Option<u8>) -> Vec<Statement> {
    let words = || format!("-m {module} {}", options.join(" "));
    let mut statements = Vec::new();
    let mut rest = options;
    while let [first, tail @ ..] = rest {
        let (negated, option, tail) = match (*first, tail) {
            ("!", [option, tail @ ..]) => (true, *option, tail),
            (option, tail) => (false, option, tail),
        };
        if (module, option) == ("comment", "--comment") {
            rest = tail.get(1..).unwrap_or_default();
            continue;
        }
        let Some((column, elements, used)) = module_option(module, option, tail, v4, protocol) else {
            return vec![Statement::Uncertain(words())];
        };
        statements.push(condition(column, elements, negated, words()));
        rest = tail.get(used..).unwrap_or_default();
    }
    if statements.is_empty() && !matches!(module, "tcp" | "udp" | "comment") {
        statements.push(Statement::Uncertain(words()));
    }
    statements
}

/// Column, values, and how many words the option takes.
fn module_option(
    module: &str,
    option: &str,
    arguments: &[&str],
    v4: bool,
    protocol: Option<u8>,
) -> Option<(Column, Vec<Element>, usize)> {
    let value = *arguments.first()?;
    let ports = |of: fn(Vec<u8>) -> Field| Column::whole(of(protocol.into_iter().collect()));
    let one = |column, element| Some((column, vec![element], 1));
    match (module, option) {
        ("tcp" | "udp" | "sctp" | "dccp", "--sport") => one(ports(Field::FromPort), range(value, ':')?),
        ("tcp" | "udp" | "sctp" | "dccp", "--dport") => one(ports(Field::ToPort), range(value, ':')?),
        ("tcp", "--tcp-flags") => {
            let mask = Some(flags(value)?.into());
            let wanted = Element::number(flags(arguments.get(1)?)?.into());
            Some((Column { field: Field::TcpFlags, mask }, vec![wanted], 2))
        }
        ("multiport", "--sports" | "--dports") => {
            let column = ports(if option == "--sports" { Field::FromPort } else { Field::ToPort });
            let elements: Option<Vec<_>> = value.split(',').map(|port| range(port, ':')).collect();
            Some((column, elements?, 1))
        }
        ("conntrack", "--ctstate") | ("state", "--state") => {
            let bits = value.split(',').try_fold(0, |bits, state| Some(bits | ct_state(state)?))?;
            one(Column::whole(Field::CtState), Element::Bits(bits))
        }
        ("mark" | "connmark", "--mark") => {
            let (mark, mask) = value.split_once('/').unwrap_or((value, "0xffffffff"));
            let field = if module == "mark" { Field::Mark } else { Field::CtMark };
            let column = Column { field, mask: Some(hexadecimal(mask)?) };
            one(column, Element::number(hexadecimal(mark)?))
        }
        ("owner", "--uid-owner") => one(Column::whole(Field::XtUser), range(value, '-')?),
        ("iprange", "--src-range" | "--dst-range") => {
            let (first, last) = value.split_once('-')?;
            let range = Element::Range(number(first.parse().ok()?), number(last.parse().ok()?));
            let field = match (option == "--src-range", v4) {
                (true, true) => Field::FromV4,
                (true, false) => Field::FromV6,
                (false, true) => Field::ToV4,
                (false, false) => Field::ToV6,
            };
            one(Column::whole(field), range)
        }
        ("addrtype", "--dst-type") if value == "LOCAL" => {
            one(Column::whole(Field::ToType), Element::number(super::matching::RTN_LOCAL))
        }
        ("pkttype", "--pkt-type") => {
            let kind = match value {
                "unicast" => 0,
                "broadcast" => 1,
                "multicast" => 2,
                _ => return None,
            };
            one(Column::whole(Field::PacketType), Element::number(kind))
        }
        ("icmp", "--icmp-type") => {
            one(Column::whole(Field::Of(1, value.to_owned())), Element::Unknown(value.to_owned()))
        }
        ("icmp6", "--icmpv6-type") => {
            one(Column::whole(Field::Of(58, value.to_owned())), Element::Unknown(value.to_owned()))
        }
        _ => None,
    }
}

/// `22`, `80:90`; an open end is 0 or 65535.
fn range(text: &str, by: char) -> Option<Element> {
    let end = |text: &str, open: u128| if text.is_empty() { Some(open) } else { text.parse().ok() };
    Some(match text.split_once(by) {
        Some((first, last)) => Element::Range(end(first, 0)?, end(last, u16::MAX.into())?),
        None => Element::number(text.parse().ok()?),
    })
}

/// `SYN,RST,ACK`, `ALL`, `NONE`.
fn flags(text: &str) -> Option<u8> {
    match text {
        "ALL" => Some(0x3f),
        "NONE" => Some(0),
        _ => text.split(',').try_fold(0, |bits, flag| Some(bits | tcp_flag(flag)?)),
    }
}

fn hexadecimal(text: &str) -> Option<u128> {
    match text.strip_prefix("0x") {
        Some(digits) => u128::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn target(goto: bool, name: &str, arguments: &[&str], chains: &[String]) -> Statement {
    let words = || [&[name], arguments].concat().join(" ");
    let after = |option: &str| {
        let at = arguments.iter().position(|word| *word == option)?;
        arguments.get(at + 1).copied()
    };
    if chains.iter().any(|chain| chain == name) {
        let name = name.to_owned();
        return Statement::Act(if goto { Action::Goto(name) } else { Action::Jump(name) });
    }
    match name {
        "ACCEPT" => Statement::Act(Action::Accept),
        "DROP" => Statement::Act(Action::Drop),
        "RETURN" => Statement::Act(Action::Return),
        "REJECT" => {
            let with = after("--reject-with").unwrap_or("icmp-port-unreachable");
            Statement::Act(Action::Reject(with.to_owned()))
        }
        "DNAT" | "SNAT" | "MASQUERADE" | "REDIRECT" | "NETMAP" => Statement::Act(Action::Translate(words())),
        "NOTRACK" => Statement::Notrack,
        "CT" if arguments.contains(&"--notrack") => Statement::Notrack,
        "MARK" => Statement::SetMark(after("--set-xmark").and_then(|value| {
            // Bits outside of the mask stay as they are.
            let (mark, mask) = value.split_once('/').unwrap_or((value, "0xffffffff"));
            (hexadecimal(mask)? == 0xffff_ffff).then_some(())?;
            u32::try_from(hexadecimal(mark)?).ok()
        })),
        "CONNMARK" if arguments.contains(&"--restore-mark") => Statement::SetMark(None),
        _ => plain_target(name).unwrap_or_else(|| Statement::Act(Action::Other(words()))),
    }
}

/// A target that changes nothing about where a packet goes; `None` for one that may, or is not known.
pub(super) fn plain_target(name: &str) -> Option<Statement> {
    Some(match name {
        "MARK" => Statement::SetMark(None),
        "CONNMARK" => Statement::SetCtMark,
        "AUDIT" | "CHECKSUM" | "CLASSIFY" | "CONNSECMARK" | "CT" | "DSCP" | "ECN" | "HL" | "HMARK"
        | "IDLETIMER" | "LED" | "LOG" | "NFLOG" | "RATEEST" | "SECMARK" | "SET" | "TCPMSS"
        | "TCPOPTSTRIP" | "TEE" | "TOS" | "TRACE" | "TTL" | "ULOG" => Statement::Neutral,
        _ => return None,
    })
}
