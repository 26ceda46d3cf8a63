//! From TOML to a [`Config`], every problem of a file at once.
//!
//! Walks the parsed document by hand: a derived `Deserialize` stops at the first error.

use std::ops::Range;

use toml::{
    Spanned,
    de::{DeArray, DeTable, DeValue},
};

use super::{
    Config, Expect,
    problem::Problem,
    value::{Value, nearest},
};

/// The document a configuration was read from.
pub(super) type Document<'a> = Spanned<DeTable<'a>>;

/// Reads all that can be read. The configuration is complete when there are no problems.
pub(super) fn read(text: &str) -> (Config, Document<'_>, Vec<Problem>) {
    let (document, errors) = DeTable::parse_recoverable(text);
    let mut problems: Vec<Problem> = errors.iter().map(syntax).collect();
    if !problems.is_empty() {
        return (Config::default(), document, problems);
    }
    let mut table = Table::new(document.get_ref(), document.span(), "");
    let config = Config {
        profile: table.value("profile"),
        sources: table.list("sources"),
        no_default_sources: table.value("no_default_sources"),
        service_tags: table.value("service_tags"),
        service_tag: table.value("service_tag"),
        nics: table.list("nics"),
        ingress: table.value("ingress"),
        tc: table.value("tc"),
        ring: table.value("ring"),
        kernel_log: table.value("kernel_log"),
        drop_reasons: table.value("drop_reasons"),
        imds: table.value("imds"),
        flows: table.value("flows"),
        heal: table.value("heal"),
        interval: table.value("interval"),
        timeout: table.value("timeout"),
        threshold: table.value("threshold"),
        rise: table.value("rise"),
        status: table.full_list("status"),
        pool: table.value("pool"),
        expect: table.tables("expect", expect),
    };
    problems.extend(table.finish());
    (config, document, problems)
}

fn expect(table: &mut Table<'_, '_>) -> Option<Expect> {
    let (nic, port) = (table.required("nic"), table.required("port"));
    let protocol = table.value("protocol");
    let role = table.value("role");
    let interval = table.value("interval");
    let timeout = table.value("timeout");
    let threshold = table.value("threshold");
    let rise = table.value("rise");
    let status = table.full_list("status");
    Some(Expect { nic: nic?, port: port?, protocol, role, interval, timeout, threshold, rise, status })
}

fn syntax(error: &toml::de::Error) -> Problem {
    let hint = match error.message() {
        twice if twice.contains("duplicate key") => "keep one of the two",
        _ => "a line of TOML is `key = value`; text and durations stand in double quotes",
    };
    Problem::new(error.span().unwrap_or(0..0), error.message(), hint)
}

/// A table, the keys that were asked for, and what is wrong with it.
struct Table<'a, 'i> {
    entries: &'a DeTable<'i>,
    span: Range<usize>,
    /// What its keys belong to, for messages.
    of: &'static str,
    asked: Vec<&'static str>,
    problems: Vec<Problem>,
}

impl<'a, 'i> Table<'a, 'i> {
    fn new(table: &'a DeTable<'i>, span: Range<usize>, of: &'static str) -> Self {
        Self { entries: table, span, of, asked: Vec::new(), problems: Vec::new() }
    }

    fn get(&mut self, key: &'static str) -> Option<&'a Spanned<DeValue<'i>>> {
        self.asked.push(key);
        self.entries.get(key)
    }

    fn value<T: Value>(&mut self, key: &'static str) -> Option<T> {
        let value = self.get(key)?;
        one(key, value).map_err(|problem| self.problems.push(problem)).ok()
    }

    fn required<T: Value>(&mut self, key: &'static str) -> Option<T> {
        if !self.entries.contains_key(key) {
            self.problems.push(Problem::new(
                self.span.clone(),
                &format!("`{key}` is missing"),
                &format!("add {key} = {}", T::EXAMPLE),
            ));
        }
        self.value(key)
    }

    fn array(&mut self, key: &'static str, example: &str) -> Option<&'a DeArray<'i>> {
        let value = self.get(key)?;
        let array = value.get_ref().as_array();
        if array.is_none() {
            self.problems.push(Problem::new(
                value.span(),
                &format!("`{key}` must be a list, not {}", kind(value.get_ref())),
                &format!("write {example}"),
            ));
        }
        array
    }

    fn list<T: Value>(&mut self, key: &'static str) -> Vec<T> {
        let Some(array) = self.array(key, &format!("{key} = [{}]", T::EXAMPLE)) else { return Vec::new() };
        array
            .iter()
            .filter_map(|value| one(key, value).map_err(|problem| self.problems.push(problem)).ok())
            .collect()
    }

    /// A list in which something must be: nothing at all would be healthy.
    fn full_list<T: Value>(&mut self, key: &'static str) -> Vec<T> {
        if let Some(value) = self.entries.get(key)
            && value.get_ref().as_array().is_some_and(|array| array.is_empty())
        {
            self.problems.push(Problem::new(
                value.span(),
                &format!("`{key}` is empty"),
                &format!("leave it out for the default, or write {key} = [{}]", T::EXAMPLE),
            ));
        }
        self.list(key)
    }

    fn tables<T>(&mut self, key: &'static str, read: impl Fn(&mut Table<'_, '_>) -> Option<T>) -> Vec<T> {
        let Some(array) = self.array(key, &format!("[[{key}]] above its keys")) else { return Vec::new() };
        let mut all = Vec::new();
        for value in array {
            let Some(table) = value.get_ref().as_table() else {
                self.problems.push(Problem::new(
                    value.span(),
                    &format!("an entry of `{key}` must be a table, not {}", kind(value.get_ref())),
                    &format!("write [[{key}]] above its keys"),
                ));
                continue;
            };
            let mut inner = Table::new(table, value.span(), key);
            all.extend(read(&mut inner));
            self.problems.extend(inner.finish());
        }
        all
    }

    /// Every problem, with the keys that nobody asked for.
    fn finish(mut self) -> Vec<Problem> {
        for key in self.entries.keys().filter(|key| !self.asked.contains(&key.get_ref().as_ref())) {
            let name = key.get_ref();
            let of = if self.of.is_empty() { String::new() } else { format!(" in [[{}]]", self.of) };
            let hint = match nearest(name, self.asked.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known keys: {}", self.asked.join(", ")),
            };
            self.problems.push(Problem::new(key.span(), &format!("unknown key `{name}`{of}"), &hint));
        }
        self.problems
    }
}

/// One value, or what is wrong with it.
fn one<T: Value>(key: &str, value: &Spanned<DeValue<'_>>) -> Result<T, Problem> {
    let read = match value.get_ref() {
        DeValue::String(text) => T::from_text(text),
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => T::from_number(number),
            Err(_) => Some(Err(format!("{number} is out of range; {}", T::hint()))),
        },
        DeValue::Boolean(flag) => T::from_flag(*flag).map(Ok),
        _ => None,
    };
    match read {
        Some(Ok(value)) => Ok(value),
        Some(Err(reason)) => Err(Problem::said(value.span(), &format!("`{key}`: {reason}"))),
        None => Err(Problem::new(
            value.span(),
            &format!("`{key}` must be {}, not {}", T::WHAT, kind(value.get_ref())),
            &T::hint(),
        )),
    }
}

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
