//! The clients that people have, against the real binary: each suite is a program of its own that `scripts/client-tests` runs.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test"))]

#[path = "../stories/distributed/cluster.rs"]
#[expect(dead_code, reason = "the distributed stories need more of it")]
mod cluster;
mod openapi;
#[path = "../stories/distributed/process.rs"]
#[expect(dead_code, reason = "the distributed stories need more of it")]
mod process;
mod round_robin;
mod suites;
#[path = "../stories/support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "the stories need more of it")]
mod support;
#[path = "../stories/distributed/truth.rs"]
#[expect(dead_code, reason = "the distributed stories need more of it")]
mod truth;
