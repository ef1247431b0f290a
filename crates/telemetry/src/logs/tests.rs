use std::env;
use std::error::Error as _;
use std::fs::{self, File};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use tracing::Subscriber;

use super::*;

fn subscriber<W>(filter: &str, format: LogFormat, colour: bool, writer: W) -> impl Subscriber + Send + Sync
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    Registry::default().with(vec![lines(filter, format, colour, writer).unwrap()])
}

#[test]
fn a_bad_directive_is_named() {
    let error = init("info,clapboard_engine=loud", LogFormat::Text, None).unwrap_err();
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
    let subscriber = subscriber("warn,loud=debug", LogFormat::Json, false, writer);
    tracing::subscriber::with_default(subscriber, || {
        tracing::info!("not shown");
        tracing::debug!(target: "loud", attempt = 2, "shown");
    });
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.contains(r#""attempt":2"#) && !text.contains(r#""fields""#), "{text}");
}

#[test]
fn a_json_line_holds_the_fields_of_the_spans_around_it_and_of_what_is_traced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let text = |text: &str| text.to_owned();
    let endpoint = text("http://127.0.0.1:9");
    let traces = Traces { endpoint, service: text("s"), instance: text("i"), version: text("v") };
    let exporting = Exporting::start(&traces).unwrap();
    let lines = lines("info", LogFormat::Json, false, Mutex::new(File::create(&path).unwrap())).unwrap();
    let client = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
    tracing::subscriber::with_default(Registry::default().with(vec![lines, exporting.layer()]), || {
        let outer = tracing::info_span!("attempt", job.id = "j", attempt = 1, partition = "fl2va").entered();
        let traced = traces::request("POST", "/", Some(client)).entered();
        tracing::info!(attempt = 2, "said");
        drop((traced, outer));
        tracing::info!("alone");
    });
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [said, alone] = &lines[..] else { panic!("{text}") };
    assert_eq!((&said["job_id"], &said["attempt"], &said["partition"]), (&"j".into(), &2.into(), &"fl2va".into()));
    assert_eq!(said["trace_id"], "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_ne!(said["span_id"], "00f067aa0ba902b7");
    assert_eq!((said["message"].as_str(), said["level"].as_str()), (Some("said"), Some("INFO")));
    assert!(said.get("http_route").is_none(), "what is traced is in a line: {text}");
    assert!(alone.get("trace_id").is_none() && alone.get("job_id").is_none(), "{text}");
}

#[test]
fn text_lines_are_coloured_for_terminals_alone() {
    let folder = tempfile::tempdir().unwrap();
    for colour in [false, true] {
        let path = folder.path().join("log");
        let writer = Mutex::new(File::create(&path).unwrap());
        let subscriber = subscriber("info", LogFormat::Text, colour, writer);
        tracing::subscriber::with_default(subscriber, || tracing::warn!(attempt = 2, "shown"));
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("shown"), "{text}");
        assert_eq!(text.contains('\u{1b}'), colour, "{text}");
    }
}

/// What the test after this one starts as a process of its own: it logs more than a pipe and the queue before it hold.
#[test]
#[ignore = "it is the process of another test"]
fn a_process_that_logs_a_lot() {
    let _last_lines = init("info", LogFormat::Text, None).unwrap();
    for line in 0..50_000 {
        tracing::info!(line, "said to nobody");
    }
}

#[test]
fn a_process_whose_log_nobody_reads_goes_on_to_its_end() {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "logs::tests::a_process_that_logs_a_lot", "--ignored", "--nocapture"]);
    let mut process = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let ended = loop {
        match process.try_wait().unwrap() {
            None if Instant::now() < deadline => thread::sleep(Duration::from_millis(5)),
            ended => break ended,
        }
    };
    process.kill().unwrap();
    assert!(ended.expect("it waits for somebody to read its log").success());
}
