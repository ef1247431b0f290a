//! The names of a form's fields, which carry lists and objects.
//!
//! OpenAI's clients write a nested value as one part per leaf: `extra_params[task]`, `input_references[]`,
//! `image_reference[][image_url]`.

use serde_json::{Map, Value};

use super::METADATA;
use crate::error::ApiError;

/// How deep names may nest: no documented field needs more than two levels.
const MAX_DEPTH: usize = 4;
/// How many fields a form may have.
pub(super) const MAX_FIELDS: usize = 1000;

/// Collects the fields of a form.
#[derive(Debug, Default)]
pub(super) struct FormTree {
    tree: Map<String, Value>,
    /// How many parts there were, also those that leave nothing behind.
    parts: usize,
}

impl FormTree {
    /// Adds one field. An empty text is an absent field, unless it is a value of `metadata`; one that repeats becomes a list.
    ///
    /// Errors: `invalid_value` for too many fields, names nested too deep, and one name used in two ways.
    pub(super) fn add(&mut self, name: &str, text: String) -> Result<(), ApiError> {
        self.count(name)?;
        let (root, path) = split(name);
        if text.is_empty() && !is_metadata(root, &path) {
            return Ok(());
        }
        if path.len() > MAX_DEPTH {
            return Err(ApiError::invalid_value(
                root,
                format!("field names must nest at most {MAX_DEPTH} levels deep"),
            ));
        }
        let slot = self.tree.entry(root).or_insert(Value::Null);
        if place(slot, &path, text) {
            Ok(())
        } else {
            Err(ApiError::invalid_value(root, format!("{root} is given both as a value and by its parts")))
        }
    }

    /// Counts one field.
    ///
    /// Errors: `invalid_value` for too many.
    pub(super) fn count(&mut self, name: &str) -> Result<(), ApiError> {
        self.parts += 1;
        if self.parts > MAX_FIELDS {
            return Err(ApiError::invalid_value(root(name), format!("a form must have at most {MAX_FIELDS} fields")));
        }
        Ok(())
    }

    /// Returns all fields.
    pub(super) fn into_tree(self) -> Map<String, Value> {
        self.tree
    }
}

/// Tells whether a name is that of a value of metadata, which may be empty: `metadata[k]`, `extra_params[metadata][k]`.
fn is_metadata(root: &str, path: &[&str]) -> bool {
    match path {
        [key] => root == METADATA && !key.is_empty(),
        [.., object, key] => *object == METADATA && !key.is_empty(),
        [] => false,
    }
}

/// Returns the name without its brackets.
pub(crate) fn root(name: &str) -> &str {
    split(name).0
}

/// Splits `a[b][]` into `a` and `b`, ``; a name whose brackets do not match is taken as it is.
fn split(name: &str) -> (&str, Vec<&str>) {
    let whole = (name, Vec::new());
    let Some(open) = name.find('[').filter(|open| *open > 0) else {
        return whole;
    };
    let (root, mut rest) = name.split_at(open);
    let mut path = Vec::new();
    while !rest.is_empty() {
        let Some((part, after)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) else {
            return whole;
        };
        path.push(part);
        rest = after;
    }
    (root, path)
}

/// Puts a text into the tree; false when the place is taken by another kind of value.
fn place(slot: &mut Value, path: &[&str], text: String) -> bool {
    let Some((part, rest)) = path.split_first() else {
        return place_text(slot, text);
    };
    if part.is_empty() {
        return place_in_list(slot, rest, text);
    }
    if slot.is_null() {
        *slot = Value::Object(Map::new());
    }
    match slot {
        Value::Object(object) => place(object.entry(*part).or_insert(Value::Null), rest, text),
        _ => false,
    }
}

fn place_text(slot: &mut Value, text: String) -> bool {
    match slot {
        Value::Null => *slot = Value::String(text),
        Value::Array(list) => list.push(Value::String(text)),
        Value::Object(_) => return false,
        single => {
            let first = single.take();
            *single = Value::Array(vec![first, Value::String(text)]);
        }
    }
    true
}

fn place_in_list(slot: &mut Value, rest: &[&str], text: String) -> bool {
    match slot {
        Value::Null => *slot = Value::Array(Vec::new()),
        Value::String(_) => *slot = Value::Array(vec![slot.take()]),
        _ => {}
    }
    let Value::Array(list) = slot else {
        return false;
    };
    // `k[][a]`, `k[][b]`, `k[][a]` are two objects: a key that repeats begins the next.
    if let (Some(key), Some(Value::Object(last))) = (rest.first(), list.last_mut())
        && !key.is_empty()
        && !last.contains_key(*key)
    {
        return place(last.entry(*key).or_insert(Value::Null), &rest[1..], text);
    }
    let mut next = Value::Null;
    let placed = place(&mut next, rest, text);
    list.push(next);
    placed
}

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_map, btree_set, vec};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn tree(fields: &[(&str, &str)]) -> Result<Value, ApiError> {
        let mut form = FormTree::default();
        for (name, text) in fields {
            form.add(name, (*text).to_owned())?;
        }
        Ok(Value::Object(form.into_tree()))
    }

    #[test]
    fn brackets_nest_as_the_clients_mean_them() {
        let fields = [
            ("prompt", "a cat"),
            ("extra_params[task]", "t2va"),
            ("extra_params[target][aspect_ratio]", "16:9"),
            ("input_references[]", "a"),
            ("input_references[]", "b"),
            ("image_reference[][image_url]", "https://a"),
            ("image_reference[][image_url]", "https://b"),
            ("video_reference[video_url]", "https://c"),
        ];
        let expected = json!({
            "prompt": "a cat",
            "extra_params": {"task": "t2va", "target": {"aspect_ratio": "16:9"}},
            "input_references": ["a", "b"],
            "image_reference": [{"image_url": "https://a"}, {"image_url": "https://b"}],
            "video_reference": {"video_url": "https://c"},
        });
        assert_eq!(tree(&fields).unwrap(), expected);
    }

    #[test]
    fn objects_of_several_keys_in_a_list_are_told_apart_by_the_key_that_repeats() {
        let fields = [("k[][a]", "1"), ("k[][b]", "2"), ("k[][a]", "3")];
        assert_eq!(tree(&fields).unwrap(), json!({"k": [{"a": "1", "b": "2"}, {"a": "3"}]}));
    }

    #[test]
    fn a_repeated_name_is_a_list_and_an_empty_text_is_absent() {
        assert_eq!(tree(&[("a", "1"), ("a", "2"), ("a", ""), ("b", "")]).unwrap(), json!({"a": ["1", "2"]}));
        assert_eq!(tree(&[("a", "1"), ("a[]", "2")]).unwrap(), json!({"a": ["1", "2"]}));
    }

    #[test]
    fn names_with_odd_brackets_are_just_names() {
        for name in ["a[", "a]", "a[b", "a[b]c", "[a]", "[]", "", "a[b][", "ä[ü"] {
            assert_eq!(tree(&[(name, "1")]).unwrap(), json!({name: "1"}), "{name}");
        }
    }

    #[test]
    fn one_name_cannot_be_a_value_and_an_object() {
        for fields in [
            [("a", "1"), ("a[b]", "2")],
            [("a[b]", "1"), ("a", "2")],
            [("a[b]", "1"), ("a[]", "2")],
            [("a[]", "1"), ("a[b]", "2")],
        ] {
            let refused = tree(&fields).unwrap_err();
            assert_eq!(refused.message, "a is given both as a value and by its parts");
            assert_eq!(refused.param.as_deref(), Some("a"));
        }
    }

    /// Returns how deep a value nests, and how many bytes its texts have together.
    fn measured(value: &Value) -> (usize, usize) {
        let of_all = |values: &mut dyn Iterator<Item = (usize, usize)>| {
            values.fold((1, 0), |(depth, bytes), (inner, more)| (depth.max(inner + 1), bytes + more))
        };
        match value {
            Value::Array(values) => of_all(&mut values.iter().map(measured)),
            Value::Object(object) => of_all(&mut object.iter().map(|(key, value)| {
                let (depth, bytes) = measured(value);
                (depth, bytes + key.len())
            })),
            other => (0, other.as_str().map_or(0, str::len)),
        }
    }

    /// A value that a client can write in brackets: texts, lists of texts, and objects of these within each other; or a list of
    /// objects with the same keys.
    fn writable() -> impl Strategy<Value = Value> {
        let text = || "[^\\x00]{1,8}".prop_map(Value::String);
        let list = || vec(text(), 1..4).prop_map(Value::Array);
        let object = |inner: BoxedStrategy<Value>| btree_map("[a-z \u{e4}]{1,3}", inner, 1..4);
        let rows = (btree_set("[a-z]{1,3}", 1..4), 1usize..4).prop_flat_map(move |(keys, rows)| {
            vec(vec("[^\\x00]{1,8}", keys.len()), rows).prop_map(move |rows| {
                let row = |texts: Vec<String>| keys.iter().cloned().zip(texts.into_iter().map(Value::String)).collect();
                rows.into_iter().map(|texts| Value::Object(row(texts))).collect()
            })
        });
        let leaf = prop_oneof![text(), list()].boxed();
        // One level is left for the list.
        let nested = leaf.prop_recursive(MAX_DEPTH as u32 - 1, 12, 3, move |inner| {
            object(inner.boxed()).prop_map(|object| Value::Object(object.into_iter().collect()))
        });
        prop_oneof![3 => nested, 1 => rows]
    }

    /// Writes a value as OpenAI's clients do.
    fn written(name: &str, value: &Value, fields: &mut Vec<(String, String)>) {
        match value {
            Value::Array(values) => values.iter().for_each(|value| written(&format!("{name}[]"), value, fields)),
            Value::Object(object) => {
                object.iter().for_each(|(key, value)| written(&format!("{name}[{key}]"), value, fields));
            }
            other => fields.push((name.to_owned(), other.as_str().unwrap().to_owned())),
        }
    }

    proptest! {
        #[test]
        fn what_a_client_writes_in_brackets_is_read_back(
            values in btree_map("[a-z_]{1,6}", writable(), 1..5)
        ) {
            let mut form = FormTree::default();
            let mut fields = Vec::new();
            values.iter().for_each(|(name, value)| written(name, value, &mut fields));
            for (name, text) in fields {
                prop_assert!(form.add(&name, text).is_ok(), "{name}");
            }
            prop_assert_eq!(form.into_tree(), values.into_iter().collect::<Map<String, Value>>());
        }

        #[test]
        fn whatever_the_names_are_the_tree_is_no_deeper_and_no_larger_than_they_allow(
            fields in vec(("[ab\\[\\]]{0,24}|\\PC{0,8}|(a(\\[b?\\]){0,9})", "\\PC{0,4}"), 0..60)
        ) {
            let mut form = FormTree::default();
            let mut bytes = 0;
            for (name, text) in fields {
                bytes += name.len() + text.len();
                if let Err(refused) = form.add(&name, text) {
                    prop_assert_eq!(refused.code, crate::error_code::ErrorCode::InvalidValue);
                    prop_assert_eq!(refused.param.as_deref(), Some(root(&name)));
                }
            }
            let (depth, found) = measured(&Value::Object(form.into_tree()));
            // The tree itself, each level of a name, and a list of what repeats there.
            prop_assert!(depth <= 2 + MAX_DEPTH, "{depth}");
            prop_assert!(found <= bytes, "{found} of {bytes}");
        }
    }

    #[test]
    fn a_name_of_a_mebibyte_of_brackets_is_refused() {
        let name = format!("a{}", "[]".repeat(512 << 10));
        let refused = tree(&[(&name, "1")]).unwrap_err();
        assert_eq!(refused.message, "field names must nest at most 4 levels deep");
        assert!(tree(&[(&"[".repeat(1 << 20), "1")]).is_ok(), "it is just a name");
    }

    #[test]
    fn depth_and_number_are_bounded() {
        assert!(tree(&[("a[b][c][d][e]", "1")]).is_ok());
        assert!(tree(&[("a[b][c][d][e][f]", "1")]).is_err());
        let mut form = FormTree::default();
        (0..MAX_FIELDS).for_each(|i| form.add(&format!("k{i}"), "1".to_owned()).unwrap());
        assert!(form.add("one_more", "1".to_owned()).is_err());
        let mut form = FormTree::default();
        (0..MAX_FIELDS).for_each(|_| form.add("empty", String::new()).unwrap());
        assert!(form.add("empty", String::new()).is_err());
    }

    #[test]
    fn an_empty_text_is_no_field_but_a_value_of_metadata() {
        let found = tree(&[("a", ""), ("b[c]", ""), ("metadata[]", ""), ("metadata", "")]).unwrap();
        assert_eq!(found, json!({}));
        let found = tree(&[("metadata[a]", ""), ("extra_params[metadata][b]", ""), ("extra_params[c]", "")]).unwrap();
        assert_eq!(found, json!({"metadata": {"a": ""}, "extra_params": {"metadata": {"b": ""}}}));
    }
}
