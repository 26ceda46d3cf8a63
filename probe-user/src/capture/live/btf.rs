//! The running kernel's own types (BTF): where a struct keeps a member, what a tracepoint hands out, what an enum's
//! numbers are called.

use std::{
    fs::{self, File},
    io::Write as _,
    os::fd::AsRawFd as _,
    path::Path,
};

use btf_rs::{Backend, Btf, BtfType, Member, Type};
use nix::sys::memfd::{MFdFlags, memfd_create};
use thiserror::Error;

/// Anonymous structs within each other that are looked into, and typedefs or qualifiers in a row that are followed.
/// Real kernels have three of each; damaged types may have a circle.
const DEPTH: usize = 16;

#[derive(Debug, Error)]
pub enum BtfError {
    #[error("{path}: {error}")]
    Read { path: String, error: std::io::Error },
    #[error("its type information is damaged: {0}")]
    Damaged(#[from] btf_rs::Error),
    #[error("it has no {0}")]
    Missing(String),
    #[error("its {name} is not what is expected: {found}")]
    Unexpected { name: String, found: String },
}

/// What an argument of a tracepoint is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Argument {
    /// An enum, by name.
    Enum(String),
    /// A pointer, by the name of the struct it points to; empty for another kind.
    Pointer(String),
    Other,
}

/// A kernel's types.
pub struct KernelTypes {
    btf: Btf,
}

impl KernelTypes {
    pub fn read(path: &Path) -> Result<Self, BtfError> {
        let failed = |error| BtfError::Read { path: path.display().to_string(), error };
        let bytes = fs::read(path).map_err(failed)?;
        Self::from_bytes(&bytes)
    }

    /// Through a file in memory that the library maps: parsed into a table of its own it takes 40 MiB and a fifth of a
    /// second, and sysfs lets its files be mapped from Linux 6.16 on only (kernel/bpf/sysfs_btf.c).
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, BtfError> {
        let failed = |error: std::io::Error| BtfError::Read { path: "a file in memory".to_owned(), error };
        let file = memfd_create(c"btf", MFdFlags::MFD_CLOEXEC).map_err(|errno| failed(errno.into()))?;
        let mut file = File::from(file);
        file.write_all(bytes).map_err(failed)?;
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        Ok(Self { btf: Btf::from_file_with_backend(path, Backend::Mmap)? })
    }

    /// Where a member is, in bytes: `struct.member.member`, whatever anonymous structs and unions lie between. The member
    /// must be `size` bytes long.
    pub fn offset(&self, path: &str, size: usize) -> Result<u32, BtfError> {
        let missing = || BtfError::Missing(path.to_owned());
        let unexpected = |found: String| BtfError::Unexpected { name: path.to_owned(), found };
        let mut parts = path.split('.');
        let name = parts.next().ok_or_else(missing)?;
        let structs = self.btf.resolve_types_by_name(name)?.into_iter();
        // A name may be a typedef's, too, or a forward declaration's.
        let mut current = structs
            .into_iter()
            .find(|found| matches!(found, Type::Struct(_)))
            .ok_or_else(|| BtfError::Missing(format!("struct {name}")))?;
        let mut bits = 0u32;
        for part in parts {
            let (Type::Struct(within) | Type::Union(within)) = &current else { return Err(missing()) };
            let (at, member) = self.member(&within.members, part, DEPTH)?.ok_or_else(missing)?;
            if member.bitfield_size().is_some_and(|size| size != 0) {
                return Err(unexpected("a bit-field".to_owned()));
            }
            bits = bits.checked_add(at).ok_or_else(|| unexpected("offset too large".to_owned()))?;
            current = self.bare(member.get_type_id())?;
        }
        match size_of(&current) {
            found if found != Some(size) => Err(unexpected(format!("{found:?} bytes"))),
            _ if !bits.is_multiple_of(8) => Err(unexpected(format!("it starts at bit {bits}"))),
            _ => Ok(bits / 8),
        }
    }

    /// A member by name, with its offset in bits; looks into anonymous members.
    fn member(
        &self,
        members: &[Member],
        name: &str,
        depth: usize,
    ) -> Result<Option<(u32, Member)>, BtfError> {
        for member in members {
            let found = self.btf.resolve_name(member)?;
            if found == name {
                return Ok(Some((member.bit_offset(), member.clone())));
            }
            if !found.is_empty() || depth == 0 {
                continue;
            }
            if let Type::Struct(inner) | Type::Union(inner) = self.bare(member.get_type_id())?
                && let Some((at, inner)) = self.member(&inner.members, name, depth - 1)?
                && let Some(bits) = member.bit_offset().checked_add(at)
            {
                return Ok(Some((bits, inner)));
            }
        }
        Ok(None)
    }

    /// The type behind typedefs and qualifiers.
    fn bare(&self, id: Option<u32>) -> Result<Type, BtfError> {
        let mut id = id;
        for _ in 0..DEPTH {
            let Some(this) = id else { break };
            let found = self.btf.resolve_type_by_id(this)?;
            id = match &found {
                Type::Typedef(alias) => alias.get_type_id(),
                Type::Const(inner) | Type::Volatile(inner) | Type::Restrict(inner) => inner.get_type_id(),
                Type::TypeTag(tag) => tag.get_type_id(),
                _ => return Ok(found),
            };
        }
        Err(BtfError::Missing("type behind a typedef".to_owned()))
    }

    /// What a tracepoint hands out, in order.
    pub fn tracepoint(&self, name: &str) -> Result<Vec<Argument>, BtfError> {
        let missing = || BtfError::Missing(format!("tracepoint {name}"));
        let named = self.btf.resolve_types_by_name(&format!("btf_trace_{name}"))?;
        let alias = named.iter().find_map(|found| match found {
            Type::Typedef(alias) => Some(alias),
            _ => None,
        });
        let Type::Ptr(pointer) = self.bare(alias.ok_or_else(missing)?.get_type_id())? else {
            return Err(missing());
        };
        let Type::FuncProto(prototype) = self.bare(pointer.get_type_id())? else { return Err(missing()) };
        // The first one is the tracepoint's own.
        prototype.parameters.iter().skip(1).map(|one| self.argument(one.get_type_id())).collect()
    }

    fn argument(&self, id: Option<u32>) -> Result<Argument, BtfError> {
        Ok(match self.bare(id)? {
            Type::Enum(this) => Argument::Enum(self.btf.resolve_name(&this)?),
            Type::Ptr(pointer) => Argument::Pointer(match pointer.get_type_id() {
                // void
                None | Some(0) => String::new(),
                Some(id) => match self.bare(Some(id))? {
                    Type::Struct(this) => self.btf.resolve_name(&this)?,
                    _ => String::new(),
                },
            }),
            _ => Argument::Other,
        })
    }

    /// The numbers and names of an enum; none when the kernel does not know it.
    pub fn constants(&self, name: &str) -> Result<Vec<(u32, String)>, BtfError> {
        let mut constants = Vec::new();
        for found in self.btf.resolve_types_by_name(name)? {
            if let Type::Enum(this) = found {
                for member in &this.members {
                    constants.push((member.val(), self.btf.resolve_name(member)?));
                }
            }
        }
        Ok(constants)
    }
}

/// Bytes of a type that a member here may have.
fn size_of(found: &Type) -> Option<usize> {
    match found {
        Type::Int(int) => Some(int.size()),
        // The programs run on 64-bit kernels.
        Type::Ptr(_) => Some(8),
        Type::Enum(this) => Some(this.size()),
        _ => None,
    }
}

#[cfg(test)]
#[path = "btf_tests.rs"]
mod tests;
