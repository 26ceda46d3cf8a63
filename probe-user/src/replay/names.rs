//! What the NICs of captures are called, and whether a file tells which one a packet used.

use std::collections::{BTreeMap, HashMap};

use crate::capture::file::{Interface, LinkType, Packet};

/// NICs that are kept apart. A host has fewer; a damaged file may name any number.
const MOST: usize = 1024;

/// The device of a capture of all devices.
const ANY: &str = "any";

/// A NIC that packets were captured on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturedNic {
    pub name: String,
    /// What stands for the ifindex, from 1.
    pub id: u32,
    /// False where the file does not tell which NIC its packets used: this one stands for several.
    pub known: bool,
    /// Where the name comes from.
    pub note: String,
}

/// All NICs so far. Equal names are one NIC, whichever file they come from.
#[derive(Clone, Debug, Default)]
pub(super) struct Nics {
    seen: Vec<CapturedNic>,
    by_name: HashMap<String, u32>,
    /// Names given to the ifindexes of cooked captures.
    by_index: BTreeMap<u32, String>,
}

impl Nics {
    pub(super) fn new(by_index: BTreeMap<u32, String>) -> Self {
        Self { by_index, ..Self::default() }
    }

    pub(super) fn seen(&self) -> &[CapturedNic] {
        &self.seen
    }

    fn id(&mut self, named: Named) -> Result<u32, NameError> {
        if let Some(id) = self.by_name.get(&named.name) {
            return Ok(*id);
        }
        if self.seen.len() >= MOST {
            return Err(NameError::TooMany(MOST));
        }
        let id = self.seen.len() as u32 + 1;
        self.by_name.insert(named.name.clone(), id);
        self.seen.push(CapturedNic { name: named.name, id, known: named.known, note: named.note });
        Ok(id)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error(
        "--nic {given}={file}: the file holds packets of more than one NIC ({first} and {second}); {hint}"
    )]
    Several { given: String, file: String, first: String, second: String, hint: &'static str },
    #[error("more than {0} NICs are named")]
    TooMany(usize),
}

struct Named {
    name: String,
    known: bool,
    note: String,
}

/// What tells NICs of one file apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    section: u32,
    number: u32,
    ifindex: Option<u32>,
}

/// The names of one file's packets.
#[derive(Debug)]
pub(super) struct Namer {
    file: String,
    /// The name that the user gave to the file.
    given: Option<String>,
    /// What the file's own name says.
    stem: String,
    last: Option<(Key, u32)>,
    known: HashMap<Key, u32>,
    /// What the file itself calls its first NIC.
    first: Option<String>,
}

impl Namer {
    pub(super) fn new(file: &str, given: Option<String>) -> Self {
        let stem = stem(file).to_owned();
        Self { file: file.to_owned(), given, stem, last: None, known: HashMap::new(), first: None }
    }

    /// The NIC of a packet.
    #[inline]
    pub(super) fn nic(
        &mut self,
        packet: &Packet<'_>,
        ifindex: Option<u32>,
        nics: &mut Nics,
    ) -> Result<u32, NameError> {
        let key = Key { section: packet.section, number: packet.number, ifindex };
        match self.last {
            Some((last, nic)) if last == key => Ok(nic),
            _ => self.look_up(key, packet, nics),
        }
    }

    #[cold]
    fn look_up(&mut self, key: Key, packet: &Packet<'_>, nics: &mut Nics) -> Result<u32, NameError> {
        if self.last.is_some_and(|(last, _)| last.section != key.section) {
            self.known.clear();
        }
        let nic = if let Some(nic) = self.known.get(&key) {
            *nic
        } else {
            let nic = self.named(key, packet.interface, nics)?;
            self.known.insert(key, nic);
            nic
        };
        self.last = Some((key, nic));
        Ok(nic)
    }

    /// At the end of the file: NICs of it that no packet was captured on. That they were looked at is worth knowing.
    pub(super) fn idle(&mut self, interfaces: &[Interface], nics: &mut Nics) -> Result<(), NameError> {
        if self.given.is_some() && (self.first.is_some() || interfaces.len() > 1) {
            return Ok(());
        }
        for (number, interface) in (0..).zip(interfaces) {
            // A capture of all devices says nothing about any of them without a packet.
            if matches!(interface.link, Some(LinkType::Ethernet | LinkType::Raw | LinkType::Loopback)) {
                self.named(Key { section: 0, number, ifindex: None }, interface, nics)?;
            }
        }
        Ok(())
    }

    fn named(&mut self, key: Key, interface: &Interface, nics: &mut Nics) -> Result<u32, NameError> {
        let name = interface.name.as_deref();
        let cooked = interface.link == Some(LinkType::Cooked);
        let own = match (key.ifindex, name) {
            (Some(index), _) => format!("ifindex {index}"),
            (None, Some(name)) => format!("interface {name}"),
            (None, None) => format!("interface number {}", key.number),
        };
        if let Some(given) = &self.given {
            let first = self.first.get_or_insert_with(|| own.clone());
            if *first != own {
                return Err(NameError::Several {
                    given: given.clone(),
                    file: self.file.clone(),
                    first: first.clone(),
                    second: own,
                    hint: if key.ifindex.is_some() {
                        "name them by number: --nic eth0=2"
                    } else {
                        "leave --nic out: the file names them itself"
                    },
                });
            }
            let note = if key.ifindex.is_some() || name.is_some() {
                format!("named by --nic; {own} of {}", self.file)
            } else {
                format!("named by --nic; {}", self.file)
            };
            return nics.id(Named { name: given.clone(), known: true, note });
        }
        if let Some(index) = key.ifindex {
            let given = nics.by_index.get(&index).cloned();
            let note = match given {
                Some(_) => format!("named by --nic; ifindex {index} of {}", self.file),
                None => format!("ifindex {index} of {}, which does not name it", self.file),
            };
            return nics.id(Named { name: given.unwrap_or_else(|| format!("if{index}")), known: true, note });
        }
        match name {
            // A cooked capture of one device (PPP) has that device's name.
            Some(name) if !cooked || name != ANY => {
                nics.id(Named { name: name.to_owned(), known: true, note: format!("named in {}", self.file) })
            }
            _ if cooked => nics.id(Named {
                name: ANY.to_owned(),
                known: false,
                note: format!("every device: {} does not tell which", self.file),
            }),
            _ => {
                let name =
                    if key.number == 0 { self.stem.clone() } else { format!("{}.{}", self.stem, key.number) };
                nics.id(Named { name, known: true, note: format!("named after the file {}", self.file) })
            }
        }
    }
}

/// The last dot part of a file's stem: `eth1` of `captures/host.eth1.pcap.gz`.
fn stem(file: &str) -> &str {
    if file == "-" {
        return "stdin";
    }
    let name = file.rsplit('/').next().unwrap_or(file);
    let name = name.strip_suffix(".gz").unwrap_or(name);
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let part = stem.rsplit('.').next().unwrap_or(stem);
    if part.is_empty() { name } else { part }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_called_by_the_last_part_of_its_stem() {
        for (file, name) in [
            ("host.eth1.pcap", "eth1"),
            ("/var/tmp/a.b/host.eth1.pcapng.gz", "eth1"),
            ("eth0.pcap", "eth0"),
            ("eth0", "eth0"),
            ("-", "stdin"),
            (".pcap", ".pcap"),
            ("", ""),
        ] {
            assert_eq!(stem(file), name, "{file}");
        }
    }
}
