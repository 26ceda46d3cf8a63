//! Whether an instance stands alone.

/// How many members the instance's backend pool has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pool {
    /// Not said.
    #[default]
    Unknown,
    /// This instance only.
    Single,
    /// Others too.
    Shared,
}

impl clap::ValueEnum for Pool {
    /// Not saying is no choice.
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Single, Self::Shared]
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        let (name, help) = match self {
            Self::Unknown => return None,
            Self::Single => ("single", "This instance is the only member"),
            Self::Shared => ("shared", "The pool has other members too"),
        };
        Some(clap::builder::PossibleValue::new(name).help(help))
    }
}
