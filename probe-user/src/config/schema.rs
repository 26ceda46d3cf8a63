//! The JSON Schema of the configuration file.

use schemars::generate::SchemaSettings;

use super::Config;

/// For editors that complete and check TOML.
pub fn text() -> serde_json::Result<String> {
    let schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<Config>();
    Ok(serde_json::to_string_pretty(&schema)? + "\n")
}
