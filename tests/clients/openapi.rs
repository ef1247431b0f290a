//! Requests made up from the service's own description of itself.

use crate::suites::{KNOWN_BY_KEYS, key, keys_of, run};
use crate::support::{Service, clapboard};

#[test]
fn no_request_that_the_description_allows_or_forbids_breaks_a_reply() {
    let service = Service::start_with(KNOWN_BY_KEYS);
    // What happens to be a whole request makes a job; those that wait cost nothing.
    let mut bound = clapboard();
    bound.args(["tenants", "set", "openapi", "--max-queued", "20", "--max-running", "0"]);
    assert!(bound.env("CLAPBOARD_DATA", service.data()).status().unwrap().success());
    let key = key(keys_of(&service), &["--tenant", "openapi"]);
    run("openapi", service.url(), &[("KEY", key)], || service.log());
}
