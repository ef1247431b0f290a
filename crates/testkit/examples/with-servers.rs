//! Runs a command beside fresh servers: `with-servers COMMAND [ARGUMENT...]`.
//!
//! PostgreSQL, Redis and an S3 server are started on free ports and named in the command's environment as `clapboard`
//! reads it. They end with the command, and nothing of them is left.

use std::process::{Command, ExitCode};

use clapboard_testkit::{Postgres, Redis, S3};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let Some(program) = arguments.next() else {
        return ExitCode::from(2);
    };
    let (postgres, redis, s3) = (Postgres::start(), Redis::start(), S3::start());
    let status = Command::new(program)
        .args(arguments)
        .env("DATABASE_URL", postgres.url())
        .env("REDIS_URL", redis.url())
        .env("AWS_ACCESS_KEY_ID", s3.access_key())
        .env("AWS_SECRET_ACCESS_KEY", s3.secret_key())
        .env("CLAPBOARD_S3_BUCKET", s3.bucket())
        .env("CLAPBOARD_S3_ENDPOINT", s3.endpoint())
        .env("AWS_REGION", "us-east-1")
        .env("CLAPBOARD_S3_PATH_STYLE", "true")
        .status();
    match status {
        Ok(status) => ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)),
        Err(_) => ExitCode::from(127),
    }
}
