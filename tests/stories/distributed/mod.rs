//! Stories of the distributed service: many processes over a real PostgreSQL, Redis and S3 server, all of which may fail.

mod chaos;
mod cluster;
mod events;
mod objects;
mod operators;
mod partitions;
mod postgres;
mod process;
mod redis;
mod rng;
mod telemetry;
mod truth;
mod webhooks;
mod workers;
