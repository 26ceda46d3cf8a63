//! JSON Schemas, generated from the types that are printed.

use schemars::{JsonSchema, generate::SchemaSettings};

use super::{document::Report, event::Event};

/// The schema of the report document.
pub fn report() -> serde_json::Result<String> {
    text::<Report>()
}

/// The schema of one line of `run --json`.
pub fn event() -> serde_json::Result<String> {
    text::<Event>()
}

fn text<T: JsonSchema>() -> serde_json::Result<String> {
    // For a reader: fields that may be null are always there.
    let schema = SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>();
    Ok(serde_json::to_string_pretty(&schema)? + "\n")
}

#[cfg(test)]
mod tests {
    /// The contract: a change here is a change for every reader of the JSON.
    #[test]
    fn schemas_are_as_published() {
        insta::assert_snapshot!("report_schema", super::report().expect("serialises"));
        insta::assert_snapshot!("event_schema", super::event().expect("serialises"));
    }

    #[test]
    fn every_field_of_the_document_is_promised() {
        let schema: serde_json::Value =
            serde_json::from_str(&super::report().expect("serialises")).expect("JSON");
        for object in schema["$defs"].as_object().expect("definitions").values().chain([&schema]) {
            let Some(properties) = object["properties"].as_object() else { continue };
            let required = object["required"].as_array().expect("required");
            assert!(
                properties.keys().all(|name| required.iter().any(|promised| promised == name)),
                "{object}"
            );
        }
    }
}
