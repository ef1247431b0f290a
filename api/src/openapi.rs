//! The OpenAPI document of what is built, made from the handlers themselves.

use std::sync::Arc;

use axum::http::{HeaderName, header};
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::schema::Type;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    Array, Components, ComponentsBuilder, ContentBuilder, Info, Object, OpenApi, OpenApiBuilder, Ref, RefOr, Required,
    Response, ResponseBuilder, Schema,
};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::Shared;
use crate::{health, models, videos, webhooks};

/// The name of the key's scheme in the document.
const API_KEY: &str = "api_key";

/// Returns the routes that the document describes.
pub(crate) fn routes() -> OpenApiRouter<Shared> {
    let info = Info::new("Clapboard", env!("CARGO_PKG_VERSION"));
    let key = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("Needed under /v1 where the service asks for keys; elsewhere not looked at."))
        .build();
    let components = ComponentsBuilder::new().security_scheme(API_KEY, SecurityScheme::Http(key)).build();
    // A requirement of nothing beside the key: whether it is needed is the service's setting.
    let security = [SecurityRequirement::default(), SecurityRequirement::new(API_KEY, [""; 0])];
    let document = OpenApiBuilder::new().info(info).components(Some(components)).security(Some(security)).build();
    OpenApiRouter::with_openapi(document)
        .routes(routes!(videos::create::create, videos::list::list))
        .routes(routes!(videos::sync::create_sync))
        .routes(routes!(videos::retrieve::retrieve, videos::delete::delete))
        .routes(routes!(videos::content::content, videos::content::content_head))
        .routes(routes!(videos::cancel::cancel))
        .routes(routes!(videos::remix::remix))
        .routes(routes!(videos::events::events))
        .merge(webhooks::routes())
        .routes(routes!(models::list))
        .routes(routes!(models::retrieve))
        .routes(routes!(health::health))
        .routes(routes!(health::ready))
}

/// Returns the document that `/openapi.json` serves.
pub fn document() -> OpenApi {
    completed(routes().into_openapi())
}

/// Adds to a document what holds for many routes alike: the answers that do not come from a handler, and the headers of
/// errors.
pub(crate) fn completed(mut document: OpenApi) -> OpenApi {
    if let Some(components) = &mut document.components {
        name_the_listed(components);
    }
    for (path, item) in &mut document.paths.paths {
        let makes_video = MAKE_VIDEOS.contains(&path.as_str());
        let methods =
            [("get", &mut item.get), ("post", &mut item.post), ("delete", &mut item.delete), ("head", &mut item.head)];
        for (method, operation) in methods {
            let Some(operation) = operation else {
                continue;
            };
            operation.operation_id = Some(operation_id(method, path));
            if let Some(RefOr::T(body)) = &mut operation.request_body
                && OPTIONAL_BODIES.contains(&path.as_str())
            {
                body.required = Some(Required::False);
            }
            let has_fields = operation.request_body.is_some();
            let responses = &mut operation.responses.responses;
            // HEAD has no body to say it in.
            let has_body = method != "head";
            if path.starts_with("/v1/") {
                for (status, text) in OF_GATE {
                    responses.entry(status.to_owned()).or_insert_with(|| refusal(text, has_body));
                }
            }
            for (status, text) in OF_BODY.into_iter().filter(|_| has_fields) {
                responses.entry(status.to_owned()).or_insert_with(|| refusal(text, has_body));
            }
            for (status, text) in OF_ANY {
                responses.entry(status.to_owned()).or_insert_with(|| refusal(text, has_body));
            }
            for (status, response) in responses {
                if let RefOr::T(response) = response {
                    add_headers(status, response, makes_video && method == "post");
                }
            }
        }
    }
    document
}

/// Lets the schemas of pages name what they list, which they would write out.
fn name_the_listed(components: &mut Components) {
    for (name, schema) in &mut components.schemas {
        if let (Some(listed), RefOr::T(Schema::Object(page))) = (name.strip_prefix(PAGE), schema) {
            let items = RefOr::T(Schema::Array(Array::new(Ref::from_schema_name(listed))));
            page.properties.insert("data".to_owned(), items);
        }
    }
}

/// What the names of pages' schemas begin with, before that of what is listed.
const PAGE: &str = "Page_";
/// The routes whose requests are counted.
const MAKE_VIDEOS: [&str; 3] = ["/v1/videos", "/v1/videos/sync", "/v1/videos/{id}/remix"];
/// The routes that take a body and need none.
const OPTIONAL_BODIES: [&str; 2] = ["/v1/webhook_endpoints/{id}", "/v1/webhook_endpoints/{id}/rotate_secret"];
/// What the gate answers.
const OF_GATE: [(&str, &str); 3] = [
    ("401", "The API key is missing or not known."),
    ("403", "The API key is not good for this."),
    ("503", "The job store cannot be reached now."),
];
/// What is answered to a body that cannot be read.
const OF_BODY: [(&str, &str); 5] = [
    ("400", "A field breaks a rule, which the error names."),
    ("408", "The body did not come in time, or stood still."),
    ("413", "The texts of the body are too large."),
    ("415", "The body is of another type."),
    ("429", "There is no room for so long a body: as many videos are waiting as may."),
];
/// What any route may answer.
const OF_ANY: [(&str, &str); 1] = [("500", "A fault of the service itself; its log says more.")];
/// What a counted request is told.
const OF_RATE: [(&str, &str); 3] = [
    ("x-ratelimit-limit-requests", "How many videos may be asked for at once, where that is limited."),
    ("x-ratelimit-remaining-requests", "How many more may be now."),
    ("x-ratelimit-reset-requests", "How long until there may be as many at once again, such as `20ms` or `6m0s`."),
];

/// Names an operation by its method and path, since handlers of different rooms have one name: `get_videos_id_content`.
fn operation_id(method: &str, path: &str) -> String {
    let words =
        path.trim_start_matches("/v1").split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    std::iter::once(method).chain(words).collect::<Vec<_>>().join("_")
}

fn refusal(text: &str, has_body: bool) -> RefOr<Response> {
    let response = ResponseBuilder::new().description(text);
    let body = || ContentBuilder::new().schema(Some(Ref::from_schema_name("ErrorBody"))).build();
    let response = if has_body { response.content("application/json", body()) } else { response };
    RefOr::T(response.build())
}

/// Adds the headers that answers of a status have, whatever the route.
fn add_headers(status: &str, response: &mut Response, is_counted: bool) {
    let mut add = |name: &str, text: &str| {
        let header = HeaderBuilder::new().schema(Some(Object::with_type(Type::String))).description(Some(text)).build();
        response.headers.entry(name.to_owned()).or_insert(RefOr::T(header));
    };
    add("x-request-id", "The request's own id, if it is 1 to 128 of `a-z A-Z 0-9 - _ . :`, or a new one.");
    match status {
        "401" => add("WWW-Authenticate", "`Bearer`."),
        "429" | "503" => add("Retry-After", "After how many seconds to try again."),
        "408" | "409" | "500" | "504" => {
            add("x-should-retry", "`false` where another try would be in vain or do harm.")
        }
        _ => {}
    }
    // Who is not let in is not counted.
    if is_counted && !matches!(status, "401" | "403") {
        OF_RATE.iter().for_each(|(name, text)| add(name, text));
    }
    if is_counted && status == "429" {
        add("retry-after-ms", "After how many milliseconds to try again.");
    }
}

/// Answers with the document.
pub(crate) async fn serve(json: Arc<str>) -> ([(HeaderName, &'static str); 1], String) {
    ([(header::CONTENT_TYPE, "application/json")], json.to_string())
}
