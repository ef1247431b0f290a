//! JSON whose objects have each key once.
//!
//! RFC 8259 leaves open what a key means that stands twice, and readers differ; a request must not mean one thing to
//! whatever checked it before and another here.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Why a text is no such JSON.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The key at this path stands twice.
    Twice(String),
    /// It has more values than any request needs.
    TooMany,
    /// It is no JSON.
    Syntax(serde_json::Error),
}

/// The most values that a text may have: one of three bytes takes hundreds in memory.
pub(crate) const MAX_VALUES: usize = 10_000;

/// Reads a whole text; `root` is how its paths begin, or empty.
pub(crate) fn parse(text: &[u8], root: &str) -> Result<Value, Fault> {
    let (twice, left) = (Cell::new(None), Cell::new(MAX_VALUES));
    let place = Place { name: root, above: None, twice: &twice, left: &left };
    let mut json = serde_json::Deserializer::from_slice(text);
    let parsed = place.deserialize(&mut json).and_then(|value| json.end().map(|()| value));
    parsed.map_err(|error| match twice.take() {
        Some(path) => Fault::Twice(path),
        None if left.get() == 0 => Fault::TooMany,
        None => Fault::Syntax(error),
    })
}

/// A place in the text: it knows those around it, since only a fault needs the whole path.
#[derive(Clone, Copy)]
struct Place<'a> {
    name: &'a str,
    above: Option<&'a Place<'a>>,
    /// Where the path of a key goes that stands twice.
    twice: &'a Cell<Option<String>>,
    /// How many values may still come.
    left: &'a Cell<usize>,
}

impl Place<'_> {
    fn path(&self) -> String {
        match self.above.map(Self::path).filter(|above| !above.is_empty()) {
            Some(above) => format!("{above}.{}", self.name),
            None => self.name.to_owned(),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Place<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        let left = self.left.get().checked_sub(1).ok_or_else(|| D::Error::custom("there are too many values"))?;
        self.left.set(left);
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Place<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, yes: bool) -> Result<Value, E> {
        Ok(Value::Bool(yes))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Value, E> {
        Ok(Value::from(number))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Value, E> {
        Ok(Value::from(number))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
        Number::from_f64(number).map(Value::Number).ok_or_else(|| E::custom("a number is not finite"))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        Ok(Value::from(text))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Value, E> {
        Ok(Value::String(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = entries.next_key::<String>()? {
            let place = Place { name: &name, above: Some(&self), twice: self.twice, left: self.left };
            if object.contains_key(&name) {
                self.twice.set(Some(place.path()));
                return Err(A::Error::custom("a key stands twice"));
            }
            let value = entries.next_value_seed(place)?;
            object.insert(name, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn twice(text: &str, root: &str) -> String {
        match parse(text.as_bytes(), root) {
            Err(Fault::Twice(path)) => path,
            other => panic!("{text} came to {other:?}"),
        }
    }

    #[test]
    fn a_key_that_stands_twice_is_named_by_its_path() {
        for (text, root, path) in [
            (r#"{"a": 1, "a": 1}"#, "", "a"),
            (r#"{"a": 1, "\u0061": 2}"#, "", "a"),
            (r#"{"a": {"b": 1, "c": {}, "b": 2}}"#, "", "a.b"),
            (r#"{"a": [{"b": 1}, {"b": 1, "b": 2}]}"#, "", "a.b"),
            (r#"{"target": {"x": 1, "x": 2}}"#, "extra_params", "extra_params.target.x"),
        ] {
            assert_eq!(twice(text, root), path, "{text}");
        }
    }

    #[test]
    fn the_same_key_may_stand_in_several_objects() {
        let text = br#"{"a": {"a": 1}, "b": [{"a": 2}, {"a": null}]}"#;
        assert_eq!(parse(text, "").unwrap(), json!({"a": {"a": 1}, "b": [{"a": 2}, {"a": null}]}));
    }

    #[test]
    fn a_text_of_too_many_values_is_not_kept() {
        let list = |values: usize| format!("[{}]", vec!["{}"; values].join(","));
        assert_eq!(parse(list(MAX_VALUES - 2).as_bytes(), "").unwrap().as_array().unwrap().len(), MAX_VALUES - 2);
        assert!(matches!(parse(list(MAX_VALUES).as_bytes(), ""), Err(Fault::TooMany)));
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f32>().prop_map(|number| Value::from(f64::from(number))),
            ".{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(".{0,4}", inner, 0..4)
                    .prop_map(|object| Value::Object(object.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_value_is_read_as_serde_json_reads_it(value in value()) {
            let text = value.to_string();
            prop_assert_eq!(parse(text.as_bytes(), "").unwrap(), serde_json::from_str::<Value>(&text).unwrap());
        }
    }
}
