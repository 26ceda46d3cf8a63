//! The one packet parser.
