//! JSON Schemas, generated from the types that are printed.

use schemars::{JsonSchema, schema_for};

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
    Ok(serde_json::to_string_pretty(&schema_for!(T))? + "\n")
}

#[cfg(test)]
mod tests {
    /// The contract: a change here is a change for every reader of the JSON.
    #[test]
    fn schemas_are_as_published() {
        insta::assert_snapshot!("report_schema", super::report().expect("serialises"));
        insta::assert_snapshot!("event_schema", super::event().expect("serialises"));
    }
}
