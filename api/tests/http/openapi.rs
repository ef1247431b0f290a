//! The OpenAPI document.

use std::sync::LazyLock;

use axum::http::{Method, StatusCode};
use insta::assert_json_snapshot;
use serde_json::Value;

use crate::app::TestApp;

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| serde_json::to_value(clapboard_api::document()).unwrap());

/// Tells whether the document knows that a request is answered with a status; none for a route or method that it leaves out.
pub(crate) fn documents(method: &Method, path: &str, status: StatusCode) -> Option<bool> {
    if matches!(status, StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED) {
        return None;
    }
    let fits = |route: &&String| {
        let mut parts = route.split('/').zip(path.split('/'));
        route.split('/').count() == path.split('/').count()
            && parts.all(|(part, given)| part == given || (part.starts_with('{') && !given.is_empty()))
    };
    let routes = DOCUMENT["paths"].as_object().unwrap();
    // A route that is written out wins over one with an id.
    let route = routes.keys().filter(fits).min_by_key(|route| route.matches('{').count());
    let operation = routes[route?].get(method.as_str().to_ascii_lowercase())?;
    Some(operation["responses"].as_object().unwrap().contains_key(status.as_str()))
}

#[tokio::test]
async fn the_document_is_what_was_reviewed() {
    let app = TestApp::start().await;
    let document = app.get("/openapi.json").await.good();
    assert_eq!(document, serde_json::to_value(clapboard_api::document()).unwrap());
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    assert_json_snapshot!("openapi", document);
}

#[tokio::test]
async fn every_answer_is_documented_with_its_request_id_and_every_guarded_route_with_its_gate() {
    let document = serde_json::to_value(clapboard_api::document()).unwrap();
    let mut names = std::collections::HashSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap().iter().filter(|(_, about)| about["responses"].is_object())
        {
            let responses = operation["responses"].as_object().unwrap();
            let all = responses.values().all(|response| response["headers"]["x-request-id"].is_object());
            assert!(all, "{method} {path}");
            for status in ["401", "403"] {
                assert_eq!(responses.contains_key(status), path.starts_with("/v1/"), "{method} {path} {status}");
            }
            // Whoever looks for a key may find the job store away.
            assert!(responses.contains_key("503") || path == "/health", "{method} {path}");
            let reads_fields = operation["requestBody"].is_object();
            for status in ["400", "408", "413", "415", "429"] {
                assert!(responses.contains_key(status) || !reads_fields, "{method} {path} {status}");
            }
            if reads_fields {
                let types: Vec<&String> = operation["requestBody"]["content"].as_object().unwrap().keys().collect();
                assert_eq!(types.len(), 3, "{method} {path} reads {types:?}");
                let ignored = &responses["200"]["headers"]["x-ignored-fields"];
                assert!(ignored.is_object(), "{method} {path} tells of ignored fields");
            }
            for (status, response) in responses {
                let is_counted = ["/v1/videos", "/v1/videos/sync", "/v1/videos/{id}/remix"].contains(&path.as_str());
                let is_told = is_counted && method == "post" && !["401", "403"].contains(&status.as_str());
                let told = response["headers"]["x-ratelimit-limit-requests"].is_object();
                assert_eq!(told, is_told, "{method} {path} {status}");
            }
            assert!(responses.contains_key("500"), "{method} {path}");
            assert!(names.insert(operation["operationId"].as_str().unwrap()), "{method} {path} has another's name");
        }
    }
}

#[test]
fn pages_name_what_they_list() {
    let schemas = DOCUMENT["components"]["schemas"].as_object().unwrap();
    let pages: Vec<(&str, &Value)> =
        schemas.iter().filter_map(|(name, page)| Some((name.strip_prefix("Page_")?, page))).collect();
    assert_eq!(pages.len(), 3);
    for (listed, page) in pages {
        assert_eq!(page["properties"]["data"]["items"]["$ref"], format!("#/components/schemas/{listed}"));
        assert!(schemas.contains_key(listed), "{listed}");
    }
}

#[tokio::test]
async fn a_request_needs_a_body_only_where_the_document_says_so() {
    let app = TestApp::start().await;
    let hook = serde_json::json!({"name": "x", "url": "https://a.example/", "event_types": ["video.failed"]});
    let endpoint = app.post_with("/v1/webhook_endpoints", hook, &[]).await.good();
    let video = app.create_any().await;
    let paths = DOCUMENT["paths"].as_object().unwrap();
    for (path, item) in paths.iter().filter(|(_, item)| item["post"]["requestBody"].is_object()) {
        let id = if path.starts_with("/v1/videos") { &video } else { endpoint["id"].as_str().unwrap() };
        let reply = app.call(Method::POST, &path.replace("{id}", id)).await;
        let needs = item["post"]["requestBody"]["required"] == Value::Bool(true);
        assert_eq!(reply.status.is_client_error(), needs, "{path} answered {}", reply.status);
    }
}

#[tokio::test]
async fn the_page_for_people_needs_nothing_from_elsewhere() {
    let app = TestApp::start().await;
    let page = app.get("/docs").await;
    assert_eq!((page.status.as_u16(), page.header("content-type")), (200, "text/html; charset=utf-8"));
    let policy = page.header("content-security-policy");
    assert!(policy.starts_with("default-src 'none';") && policy.contains("connect-src 'self'"), "{policy}");
    let text = String::from_utf8(page.body.clone()).unwrap();
    assert!(text.contains("fetch(\"/openapi.json\")") && !text.contains("http://") && !text.contains("https://"));
}

#[test]
fn the_docs_name_every_route_field_and_key() {
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let read = |name: &str| std::fs::read_to_string(docs.join(name)).unwrap();
    let (api, webhooks) = (read("api.md"), read("webhooks.md"));
    let document = serde_json::to_value(clapboard_api::document()).unwrap();
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    for path in keys(&document["paths"]).iter().filter(|path| !path.starts_with("/v1/webhook")) {
        assert!(api.contains(&format!("`{path}`")), "{path} is not in api.md");
    }
    for schema in ["CreateVideo", "RemixVideo", "Video"] {
        for key in keys(&document["components"]["schemas"][schema]["properties"]) {
            assert!(api.contains(&format!("`{key}`")), "{key} of {schema} is not in api.md");
        }
    }
    assert!(webhooks.contains("webhook_url") && webhooks.contains("/v1/webhook_endpoints"));
}

#[tokio::test]
async fn every_documented_field_of_a_remix_is_read() {
    let app = TestApp::start().await;
    let id = app.create_any().await;
    let document = app.get("/openapi.json").await.good();
    let fields = document["components"]["schemas"]["RemixVideo"]["properties"].as_object().unwrap();
    for field in fields.keys() {
        let mut body = serde_json::json!({"prompt": "a dog"});
        body[field] = serde_json::json!([[]]);
        let (status, code, param, _) = app.post_with(&format!("/v1/videos/{id}/remix"), body, &[]).await.error();
        assert_eq!((status, code.as_str(), param.as_deref()), (400, "invalid_value", Some(field.as_str())));
    }
}

#[tokio::test]
async fn the_documented_keys_are_those_that_are_sent() {
    let app = TestApp::start().await;
    let id = app.create_any().await;
    let sent = app.get(&format!("/v1/videos/{id}")).await.good();
    let document = app.get("/openapi.json").await.good();
    let schema = &document["components"]["schemas"]["Video"];
    let keys = |value: &Value| {
        let mut keys: Vec<String> = value.as_object().unwrap().keys().cloned().collect();
        keys.sort_unstable();
        keys
    };
    assert_eq!(keys(&schema["properties"]), keys(&sent));
    let mut required: Vec<String> = serde_json::from_value(schema["required"].clone()).unwrap();
    required.sort_unstable();
    assert_eq!(required, keys(&sent));
}

#[tokio::test]
async fn every_documented_field_is_read() {
    let app = TestApp::start().await;
    let document = app.get("/openapi.json").await.good();
    let fields = document["components"]["schemas"]["CreateVideo"]["properties"].as_object().unwrap();
    for field in fields.keys() {
        // A value that no field takes: one that is read says so, one that is not would be ignored.
        let mut body = serde_json::json!({"prompt": "a cat", "size": "512x288"});
        body[field] = serde_json::json!([[]]);
        let (status, code, param, _) = app.create(body).await.error();
        assert_eq!((status, code.as_str(), param.as_deref()), (400, "invalid_value", Some(field.as_str())));
    }
}
