//! The OpenAPI document.

use insta::assert_json_snapshot;
use serde_json::Value;

use crate::app::TestApp;

#[tokio::test]
async fn the_document_is_what_was_reviewed() {
    let app = TestApp::start().await;
    let document = app.get("/openapi.json").await.good();
    assert_eq!(document, serde_json::to_value(clapboard_api::document()).unwrap());
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    assert_json_snapshot!("openapi", document);
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
