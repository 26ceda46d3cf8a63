//! The configuration file: any text gives a configuration or errors that point into it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use probe_user::config;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match config::parse(text) {
        Ok(config) => {
            let _ = config.judging();
        }
        Err(errors) => {
            let lines = text.lines().count().max(1) + 1;
            assert!(errors.places().all(|(line, column)| (1..=lines).contains(&line) && column >= 1));
            let _ = errors.of("fuzz.toml".to_owned()).to_string();
        }
    }
});
