use std::error::Error as _;
use std::fs::{self, File};
use std::sync::Mutex;

use super::*;

#[test]
fn a_bad_directive_is_named() {
    let error = init("info,clapboard_engine=loud", LogFormat::Text).unwrap_err();
    assert_eq!(error.to_string(), r#"log filter directive "clapboard_engine=loud" is not valid"#);
    assert!(error.source().is_some());
}

#[test]
fn formats_parse_by_name_and_others_list_the_choices() {
    assert_eq!("json".parse::<LogFormat>().unwrap(), LogFormat::Json);
    assert_eq!("text".parse::<LogFormat>().unwrap(), LogFormat::Text);
    let message = "xml".parse::<LogFormat>().unwrap_err().to_string();
    assert_eq!(message, r#"log format must be text or json, not "xml""#);
}

#[test]
fn json_lines_hold_the_fields_at_the_top_and_the_filter_holds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let writer = Mutex::new(File::create(&path).unwrap());
    let subscriber = subscriber("warn,loud=debug", LogFormat::Json, false, writer).unwrap();
    tracing::subscriber::with_default(subscriber, || {
        tracing::info!("not shown");
        tracing::debug!(target: "loud", attempt = 2, "shown");
    });
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.contains(r#""attempt":2"#) && !text.contains(r#""fields""#), "{text}");
}

#[test]
fn text_lines_are_coloured_for_terminals_alone() {
    let folder = tempfile::tempdir().unwrap();
    for colour in [false, true] {
        let path = folder.path().join("log");
        let writer = Mutex::new(File::create(&path).unwrap());
        let subscriber = subscriber("info", LogFormat::Text, colour, writer).unwrap();
        tracing::subscriber::with_default(subscriber, || tracing::warn!(attempt = 2, "shown"));
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("shown"), "{text}");
        assert_eq!(text.contains('\u{1b}'), colour, "{text}");
    }
}
