//! The media that a request names or brings, in every way that clients know.
//!
//! Files come as `input_reference` or `input_references`; URLs as `image_reference`, `video_reference` and `audio_reference`,
//! each an object or a list of them, or as an object in `input_reference`. Only sounds by URL go together with files.

use clapboard_h3::prepare::ReferenceKind;
use serde_json::{Map, Value};
use url::Url;

use super::layers::{Found, Layers};
use super::place::Place;
use super::value;
use crate::body::{FileField, FilePart};
use crate::error::ApiError;
use crate::error_code::ErrorCode;
use crate::fetch::MAX_URL_BYTES;
use crate::media::{DataUrl, MAX_FILES};
use crate::plain_url::is_plain;

/// A medium of a request.
#[derive(Debug)]
pub(crate) struct Reference {
    /// Where it stood.
    pub(crate) place: Place,
    /// Where its bytes are.
    pub(crate) source: Source,
}

/// Where the bytes of a medium are.
#[derive(Debug)]
pub(crate) enum Source {
    /// They came with the form, and tell themselves what they are.
    File(FilePart),
    /// Behind a URL, which should lead to one of this kind.
    Url {
        /// The kind.
        kind: ReferenceKind,
        /// The URL.
        url: Url,
    },
    /// In the URL itself.
    Data {
        /// The kind.
        kind: ReferenceKind,
        /// The URL.
        data: DataUrl,
    },
}

/// A field that takes URLs.
#[derive(Debug)]
pub(super) struct List {
    /// Its name.
    pub(super) name: &'static str,
    /// The keys of its objects, each of which may stand alone there.
    urls: &'static [(&'static str, ReferenceKind)],
}

const IMAGE: (&str, ReferenceKind) = ("image_url", ReferenceKind::Image);
const VIDEO: (&str, ReferenceKind) = ("video_url", ReferenceKind::Video);
const AUDIO: (&str, ReferenceKind) = ("audio_url", ReferenceKind::Audio);

/// The fields that take URLs and nothing else.
pub(super) const LISTS: [List; 3] = [
    List { name: "image_reference", urls: &[IMAGE] },
    List { name: "video_reference", urls: &[VIDEO] },
    List { name: "audio_reference", urls: &[AUDIO] },
];
/// The field that takes files as well.
const INPUT: List = List { name: "input_reference", urls: &[IMAGE, VIDEO] };

/// Takes the references out of the fields and adds those that came as files.
///
/// Errors: `conflicting_references`, `too_many_references`, `invalid_reference_url`, `unsupported_reference`,
/// `unknown_parameter`, `missing_required_parameter`, `invalid_json` and `invalid_value`.
pub(super) fn read(fields: &mut Layers, files: Vec<FilePart>, is_form: bool) -> Result<Vec<Reference>, ApiError> {
    let text = fields.take(FileField::InputReferences.as_str());
    let input = fields.take(INPUT.name).filter(is_something);
    let [images, videos, audios] = LISTS.map(|list| (fields.take(list.name).filter(is_something), list));
    if let Some(Found { path, .. }) = text {
        let message = format!(
            "{path} takes files (curl: -F {path}=@FILE); URLs go into image_reference, video_reference and audio_reference, as JSON objects"
        );
        return Err(ApiError::invalid_value(&path, message));
    }
    let given = [
        files.iter().find(|part| part.field == FileField::InputReferences).map(|part| part.field.as_str()),
        files.iter().find(|part| part.field == FileField::InputReference).map(|part| part.field.as_str()),
        input.as_ref().map(|_| INPUT.name),
        images.0.as_ref().or(videos.0.as_ref()).map(|found| found.path.as_str()),
    ];
    check_conflicts(&given)?;
    let mut references = of_files(files);
    for (found, list) in [(input, INPUT), images, videos, audios] {
        if let Some(found) = found {
            list.read(found, is_form, &mut references)?;
        }
    }
    Ok(references)
}

/// Tells whether a field is more than an empty list.
fn is_something(found: &Found) -> bool {
    found.value.as_array().is_none_or(|values| !values.is_empty())
}

/// Refuses references of more than one of these ways.
fn check_conflicts(given: &[Option<&str>]) -> Result<(), ApiError> {
    let mut given = given.iter().flatten();
    let (Some(first), Some(second)) = (given.next(), given.next()) else {
        return Ok(());
    };
    let message = if first == second {
        format!("{first} must be either files or URLs")
    } else {
        format!("{first} cannot be given together with {second}: only audio_reference goes with it")
    };
    Err(ApiError::new(ErrorCode::ConflictingReferences, message).with_param(*second))
}

/// Names the files: the only one by its field alone.
fn of_files(files: Vec<FilePart>) -> Vec<Reference> {
    let is_single = files.len() == 1 && files.iter().all(|part| part.field == FileField::InputReference);
    let named = files.into_iter().enumerate().map(|(index, part)| {
        let place = Place::file(part.field.as_str(), (!is_single).then_some(index));
        Reference { place, source: Source::File(part) }
    });
    named.collect()
}

impl List {
    /// Reads an object or a list of them, each also as JSON in a text.
    fn read(&self, found: Found, is_form: bool, references: &mut Vec<Reference>) -> Result<(), ApiError> {
        let Found { path, value } = found;
        let value = match value {
            Value::String(text) => self.json(&path, &text, is_form)?,
            value => value,
        };
        let Value::Array(values) = value else {
            references.push(self.reference(Place::file(&*path, None), value)?);
            return check_number(references.len(), &path);
        };
        for (index, value) in values.into_iter().enumerate() {
            let value = match value {
                Value::String(text) => self.json(&path, &text, is_form)?,
                value => value,
            };
            references.push(self.reference(Place::file(&*path, Some(index)), value)?);
            check_number(references.len(), &path)?;
        }
        Ok(())
    }

    /// Reads a text, which should hold JSON and is often something else that was meant to be a reference.
    fn json(&self, path: &str, text: &str, is_form: bool) -> Result<Value, ApiError> {
        value::json(path, text).map_err(|refused| match refused.code {
            ErrorCode::InvalidJson if is_form => ApiError { message: self.meant(path, &refused.message), ..refused },
            ErrorCode::InvalidJson => ApiError { message: self.object_rule(path), ..refused },
            _ => refused,
        })
    }

    /// Says what a form takes in place of a text that is no JSON.
    fn meant(&self, path: &str, refusal: &str) -> String {
        let objects = self.objects();
        match path == INPUT.name {
            true => format!("{refusal}: it takes a file (curl: -F {path}=@FILE), or a URL as {objects}"),
            false => {
                format!("{refusal}: it takes a URL as {objects}; files go into input_reference or input_references")
            }
        }
    }

    /// Shows the objects that the field takes.
    fn objects(&self) -> String {
        let objects: Vec<String> = self.urls.iter().map(|(key, _)| format!("{{\"{key}\": URL}}")).collect();
        objects.join(" or ")
    }

    fn object_rule(&self, name: &str) -> String {
        format!("{name} must be an object {} or a list of them", self.objects())
    }

    /// Reads one object.
    fn reference(&self, place: Place, value: Value) -> Result<Reference, ApiError> {
        let Value::Object(mut object) = value else {
            return Err(ApiError::invalid_value(place.list(), self.object_rule(place.list())));
        };
        if object.contains_key("file_id") {
            let message = format!("{place}.file_id is not supported: there are no uploaded files to name here");
            return Err(ApiError::new(ErrorCode::UnsupportedReference, message).with_param(format!("{place}.file_id")));
        }
        let mut urls = self.urls.iter().filter_map(|(key, kind)| object.remove(*key).map(|url| (*key, *kind, url)));
        let found = (urls.next(), urls.next());
        let (key, kind, url) = match found {
            (Some(found), None) => found,
            (Some((first, ..)), Some((second, ..))) => {
                let message = format!("{place} must have either {first} or {second}");
                return Err(ApiError::new(ErrorCode::ConflictingReferences, message).with_param(place.to_string()));
            }
            (None, _) => return Err(self.without_url(&place, &object)),
        };
        if let Some(other) = object.keys().next() {
            return Err(unknown(&place, other));
        }
        let place = place.with_key(key);
        let source = source(kind, url).map_err(|rule| place.invalid_url(&rule))?;
        Ok(Reference { place, source })
    }

    fn without_url(&self, place: &Place, object: &Map<String, Value>) -> ApiError {
        if let Some(other) = object.keys().next() {
            return unknown(place, other);
        }
        let key = self.urls[0].0;
        let message = format!("{place}.{key} is required");
        ApiError::new(ErrorCode::MissingRequiredParameter, message).with_param(format!("{place}.{key}"))
    }
}

fn unknown(place: &Place, key: &str) -> ApiError {
    let key: String = key.chars().take(64).collect();
    let path = format!("{place}.{}", key.escape_default());
    ApiError::new(ErrorCode::UnknownParameter, format!("{path} is not a parameter")).with_param(path)
}

fn check_number(references: usize, path: &str) -> Result<(), ApiError> {
    if references <= MAX_FILES {
        return Ok(());
    }
    let message = format!("a request takes at most {MAX_FILES} references, got more than that");
    Err(ApiError::new(ErrorCode::TooManyReferences, message).with_param(path))
}

/// Returns how the content types of a kind begin.
fn main_type(kind: ReferenceKind) -> &'static str {
    match kind {
        ReferenceKind::Image => "image",
        ReferenceKind::Video => "video",
        ReferenceKind::Audio => "audio",
    }
}

/// Cuts what a client wrote, so that it can stand in a sentence.
fn shortened(text: &str) -> String {
    text.chars().take(64).collect()
}

/// Reads a URL that should lead to a medium of a kind, or returns the rule that it breaks.
fn source(kind: ReferenceKind, url: Value) -> Result<Source, String> {
    let class = main_type(kind);
    let rule = || format!("it must be an http or https URL, or a data URL of {class}");
    let Value::String(text) = url else {
        return Err(rule());
    };
    if text.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:")) {
        let Some(data) = DataUrl::parse(text) else {
            return Err(format!("{}, got a data URL without a comma before its data", rule()));
        };
        if data.media_type.split('/').next() != Some(class) {
            return Err(format!("{}, got one of {:?}", rule(), shortened(&data.media_type)));
        }
        return Ok(Source::Data { kind, data });
    }
    if text.len() > MAX_URL_BYTES {
        let is_web = ["http:", "https:"].iter().any(|scheme| {
            text.trim_start().get(..scheme.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(scheme))
        });
        // Else it is such as the base64 of a file without the head of a data URL.
        return Err(match is_web {
            true => format!("it must have at most {MAX_URL_BYTES} bytes"),
            false => format!("{}, and it begins with neither", rule()),
        });
    }
    let url = Url::parse(&text).ok().filter(|url| matches!(url.scheme(), "http" | "https")).ok_or_else(rule)?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("it must not hold a user name or password".to_owned());
    }
    if !is_plain(text.trim(), &url) {
        return Err(format!("it must begin with {}:// and its host, and with nothing else", url.scheme()));
    }
    Ok(Source::Url { kind, url })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(tree: Value) -> Result<Vec<Reference>, ApiError> {
        let Value::Object(tree) = tree else { panic!("a request is an object") };
        super::read(&mut Layers::of(tree)?, Vec::new(), true)
    }

    fn refusal(tree: Value) -> (ErrorCode, String, String) {
        let refused = read(tree).unwrap_err();
        (refused.code, refused.param.unwrap_or_default(), refused.message)
    }

    fn shown(references: &[Reference]) -> Vec<String> {
        let source = |source: &Source| match source {
            Source::Url { kind, url } => format!("{kind:?} {url}"),
            Source::Data { kind, data } => format!("{kind:?} data of {}", data.media_type),
            Source::File(_) => "a file".to_owned(),
        };
        references.iter().map(|reference| format!("{}: {}", reference.place, source(&reference.source))).collect()
    }

    #[test]
    fn urls_are_read_from_objects_lists_and_texts() {
        let (a, b) = ("https://a.example/1.png", "http://b.example/2.png?x=1");
        let one = ["image_reference.image_url: Image https://a.example/1.png".to_owned()];
        for tree in [
            json!({"image_reference": {"image_url": a}}),
            json!({"image_reference": format!("{{\"image_url\": \"{a}\"}}")}),
        ] {
            assert_eq!(shown(&read(tree).unwrap()), one);
        }
        let two = [
            "image_reference[0].image_url: Image https://a.example/1.png",
            "image_reference[1].image_url: Image http://b.example/2.png?x=1",
        ];
        for tree in [
            json!({"image_reference": [{"image_url": a}, {"image_url": b}]}),
            json!({"image_reference": format!("[{{\"image_url\": \"{a}\"}}, {{\"image_url\": \"{b}\"}}]")}),
            json!({"image_reference": [format!("{{\"image_url\": \"{a}\"}}"), {"image_url": b}]}),
        ] {
            assert_eq!(shown(&read(tree).unwrap()), two);
        }
        let all = read(json!({
            "audio_reference": {"audio_url": "DATA:audio/wav;base64,AAAA"},
            "video_reference": [{"video_url": "https://a.example/1.mp4"}],
            "extra_params": {"image_reference": {"image_url": "HTTPS://A.example"}},
        }));
        let expected = [
            "extra_params.image_reference.image_url: Image https://a.example/",
            "video_reference[0].video_url: Video https://a.example/1.mp4",
            "audio_reference.audio_url: Audio data of audio/wav",
        ];
        assert_eq!(shown(&all.unwrap()), expected);
        let single = read(json!({"input_reference": {"video_url": "https://a.example/1.mp4"}})).unwrap();
        assert_eq!(shown(&single), ["input_reference.video_url: Video https://a.example/1.mp4"]);
        assert_eq!(
            read(json!({"image_reference": null, "audio_reference": "", "input_reference": []})).unwrap().len(),
            0
        );
    }

    #[test]
    fn what_is_no_url_of_the_kind_is_told_in_the_words_that_clients_know() {
        for (field, key, wrong) in [
            ("image_reference", "image_url", json!("/a.png")),
            ("image_reference", "image_url", json!("file:///a.png")),
            ("image_reference", "image_url", json!("data:video/mp4;base64,AAAA")),
            ("image_reference", "image_url", json!("data:imagery/x,")),
            ("image_reference", "image_url", json!("http://")),
            ("image_reference", "image_url", json!("https://me:pw@a.example/")),
            ("image_reference", "image_url", json!("https://me@a.example/")),
            ("image_reference", "image_url", json!("https://@a.example/")),
            ("image_reference", "image_url", json!("https:///a.example/1.png")),
            ("image_reference", "image_url", json!("https:a.example/1.png")),
            ("image_reference", "image_url", json!("https://a.example\\@8.8.8.8/1.png")),
            ("image_reference", "image_url", json!(format!("https://a.example/{}", "x".repeat(MAX_URL_BYTES)))),
            ("image_reference", "image_url", json!({"url": "https://a.example"})),
            ("image_reference", "image_url", json!(null)),
            ("video_reference", "video_url", json!("ftp://a.example/a.mp4")),
            ("audio_reference", "audio_url", json!("a.wav")),
            ("input_reference", "image_url", json!("a.png")),
        ] {
            let (code, param, message) = refusal(json!({field: {key: wrong}}));
            assert_eq!((code, param), (ErrorCode::InvalidReferenceUrl, format!("{field}.{key}")), "{message}");
            assert!(message.starts_with(&format!("Invalid {field}.{key}: ")), "{message}");
        }
        let good = json!({"audio_url": "https://a.example"});
        let (_, param, message) = refusal(json!({"audio_reference": [good, {"audio_url": "x"}]}));
        assert_eq!(param, "audio_reference[1].audio_url");
        assert!(message.starts_with("Invalid audio_reference.audio_url at index 1: "), "{message}");
    }

    #[test]
    fn what_is_no_object_with_a_url_is_told() {
        use ErrorCode::{InvalidJson, InvalidValue, MissingRequiredParameter, UnknownParameter, UnsupportedReference};
        for (tree, code, param) in [
            (json!({"audio_reference": "/a.wav"}), InvalidJson, "audio_reference"),
            (json!({"image_reference": ["{"]}), InvalidJson, "image_reference"),
            (json!({"image_reference": 7}), InvalidValue, "image_reference"),
            (json!({"image_reference": [[]]}), InvalidValue, "image_reference"),
            (json!({"image_reference": [null]}), InvalidValue, "image_reference"),
            (json!({"input_references": "x"}), InvalidValue, "input_references"),
            (json!({"input_references": [{"image_url": "x"}]}), InvalidValue, "input_references"),
            (json!({"image_reference": {}}), MissingRequiredParameter, "image_reference.image_url"),
            (json!({"image_reference": [{}]}), MissingRequiredParameter, "image_reference[0].image_url"),
            (json!({"image_reference": {"video_url": "x"}}), UnknownParameter, "image_reference.video_url"),
            (
                json!({"image_reference": {"image_url": "https://a.example", "detail": 1}}),
                UnknownParameter,
                "image_reference.detail",
            ),
            (json!({"image_reference": {"file_id": "x"}}), UnsupportedReference, "image_reference.file_id"),
            (json!({"input_reference": {"file_id": "x"}}), UnsupportedReference, "input_reference.file_id"),
        ] {
            let (found, found_param, message) = refusal(tree.clone());
            assert_eq!((found, found_param.as_str()), (code, param), "{tree}: {message}");
        }
        let (_, _, message) = refusal(json!({"audio_reference": "/a.wav"}));
        let files = "files go into input_reference or input_references";
        let rule = format!("it takes a URL as {{\"audio_url\": URL}}; {files}");
        assert_eq!(message, format!("Invalid JSON in form field audio_reference: {rule}"));
        // A forgotten @, or a bare URL.
        for text in ["fox.png", "https://a.example/fox.png"] {
            let tree = json!({"input_reference": text});
            let objects = r#"{"image_url": URL} or {"video_url": URL}"#;
            let rule = format!("it takes a file (curl: -F input_reference=@FILE), or a URL as {objects}");
            let (code, _, message) = refusal(tree.clone());
            assert_eq!((code, message), (InvalidJson, format!("Invalid JSON in form field input_reference: {rule}")));
            let Value::Object(tree) = tree else { panic!("a request is an object") };
            let refused = super::read(&mut Layers::of(tree).unwrap(), Vec::new(), false).unwrap_err();
            let rule = format!("input_reference must be an object {objects} or a list of them");
            assert_eq!((refused.code, refused.message), (InvalidJson, rule));
        }
    }

    #[test]
    fn a_url_that_is_none_of_its_kind_says_what_it_is() {
        let rule = "Invalid image_reference.image_url: it must be an http or https URL, or a data URL of image";
        let told = |url: &str| refusal(json!({"image_reference": {"image_url": url}})).2;
        assert_eq!(told("data:video/mp4;base64,AAAA"), format!("{rule}, got one of \"video/mp4\""));
        assert_eq!(told("data:;base64,AAAA"), format!("{rule}, got one of \"\""));
        assert_eq!(told("data:image/png;base64"), format!("{rule}, got a data URL without a comma before its data"));
        let long = "A".repeat(MAX_URL_BYTES + 1);
        assert_eq!(told(&long), format!("{rule}, and it begins with neither"));
        let web = format!("HTTPS://a.example/{long}");
        assert_eq!(told(&web), "Invalid image_reference.image_url: it must have at most 8192 bytes");
    }

    #[test]
    fn ways_that_exclude_each_other_are_told() {
        let image = json!({"image_url": "https://a.example"});
        let both = json!({"image_url": "https://a.example", "video_url": "https://a.example"});
        for (tree, param) in [
            (json!({"input_reference": image, "image_reference": image}), "image_reference"),
            (
                json!({"input_reference": image, "video_reference": {"video_url": "https://a.example"}}),
                "video_reference",
            ),
            (json!({"input_reference": both}), "input_reference"),
        ] {
            let (code, found, message) = refusal(tree);
            assert_eq!((code, found.as_str()), (ErrorCode::ConflictingReferences, param), "{message}");
        }
        let audio = json!({"audio_url": "https://a.example"});
        assert_eq!(read(json!({"input_reference": image, "audio_reference": audio})).unwrap().len(), 2);
    }

    #[test]
    fn there_are_twelve_at_most() {
        let images = |count| vec![json!({"image_url": "https://a.example"}); count];
        assert_eq!(read(json!({"image_reference": images(12)})).unwrap().len(), 12);
        assert_eq!(refusal(json!({"image_reference": images(13)})).0, ErrorCode::TooManyReferences);
        let (code, param, _) =
            refusal(json!({"image_reference": images(12), "audio_reference": {"audio_url": "https://a.example"}}));
        assert_eq!((code, param.as_str()), (ErrorCode::TooManyReferences, "audio_reference"));
    }
}
