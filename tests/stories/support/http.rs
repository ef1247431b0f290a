//! Requests by curl, as the README sends them.

use std::process::Command;

use serde_json::Value;

/// A request's body.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Body<'a> {
    /// None at all.
    Nothing,
    /// A JSON document.
    Json(&'a Value),
    /// This text, or the file that it names after an `@`, under this content type.
    Raw(&'a str, &'a str),
    /// `multipart/form-data` text parts.
    Multipart(&'a [(&'a str, &'a str)]),
    /// `multipart/form-data` parts as curl's `-F` takes them: `@file` sends a file, `<file` its content as a text.
    Form(&'a [(&'a str, &'a str)]),
    /// `application/x-www-form-urlencoded`.
    Urlencoded(&'a [(&'a str, &'a str)]),
}

/// A reply: its status, its headers with lower-case names, its body.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("no JSON ({error}): {}", String::from_utf8_lossy(&self.body)))
    }

    /// The header of this lower-case name.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// Status, error code and param of an error reply.
    pub(crate) fn error(&self) -> (u16, String, Option<String>) {
        let json = self.json();
        let text = |key: &str| json["error"][key].as_str().map(str::to_owned);
        assert!(
            json["error"]["message"].is_string() && json["error"]["type"].is_string(),
            "not the error shape: {json}"
        );
        (self.status, text("code").unwrap(), text("param"))
    }
}

/// Sends one request; none when the service does not answer.
pub(crate) fn send(method: &str, url: &str, headers: &[&str], body: Body<'_>) -> Option<Reply> {
    let folder = tempfile::tempdir().unwrap();
    let (head, content) = (folder.path().join("head"), folder.path().join("content"));
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--max-time", "300", "--request", method]);
    if method == "HEAD" {
        curl.arg("--head");
    }
    curl.arg("--dump-header").arg(&head).arg("--output").arg(&content);
    for header in headers {
        curl.args(["--header", header]);
    }
    match body {
        Body::Nothing => {}
        Body::Json(json) => {
            curl.args(["--header", "content-type: application/json", "--data-raw", &json.to_string()]);
        }
        Body::Raw(content_type, text) => {
            curl.args(["--header", &format!("content-type: {content_type}"), "--data-binary", text]);
        }
        Body::Multipart(parts) => {
            for (name, value) in parts {
                curl.args(["--form-string", &format!("{name}={value}")]);
            }
        }
        Body::Form(parts) => {
            for (name, value) in parts {
                curl.args(["--form", &format!("{name}={value}")]);
            }
        }
        Body::Urlencoded(fields) => {
            for (name, value) in fields {
                curl.args(["--data-urlencode", &format!("{name}={value}")]);
            }
        }
    }
    let status = curl.arg(url).status().expect("curl is installed: scripts/test sees to it");
    let head = std::fs::read_to_string(&head).unwrap_or_default();
    if !status.success() {
        return None;
    }
    // After `100 Continue` comes the head of the real reply.
    let head = head.trim_end().rsplit("\r\n\r\n").next().unwrap_or_default();
    let mut lines = head.lines();
    let code = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|code| code.parse().ok());
    let headers = lines.filter_map(|line| line.split_once(": "));
    Some(Reply {
        status: code.expect("a reply has a status"),
        headers: headers.map(|(name, value)| (name.to_lowercase(), value.trim().to_owned())).collect(),
        body: std::fs::read(&content).unwrap_or_default(),
    })
}
