//! A client that sends one request after another over one connection, as SDKs do.

use std::io;

use anyhow::{Context, bail, ensure};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// One kept connection.
pub(super) struct Client {
    stream: BufReader<TcpStream>,
    host: String,
}

impl Client {
    /// Connects to `host`, an address and a port.
    pub(super) async fn connect(host: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(host).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::new(stream), host: host.to_owned() })
    }

    /// Asks for a video and returns its id.
    ///
    /// Errors: a request that was not accepted, with the API's answer.
    pub(super) async fn create(&mut self, request: &Value) -> anyhow::Result<String> {
        let body = request.to_string();
        let head = format!(
            "POST /v1/videos HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            self.host,
            body.len()
        );
        self.stream.write_all(format!("{head}{body}").as_bytes()).await?;
        let (status, answer) = self.answer().await?;
        if status != 200 {
            bail!("POST /v1/videos was answered with {status}: {answer}");
        }
        Ok(answer["id"].as_str().context("the answer has no id")?.to_owned())
    }

    async fn answer(&mut self) -> anyhow::Result<(u16, Value)> {
        let (mut status, mut length, mut line) = (None, None, String::new());
        loop {
            line.clear();
            let read = self.stream.read_line(&mut line).await?;
            ensure!(read > 0, "the API closed the connection");
            let text = line.trim_end();
            if text.is_empty() {
                break;
            }
            if status.is_none() {
                status = text.split(' ').nth(1).and_then(|code| code.parse().ok());
            } else if let Some((name, value)) = text.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse::<usize>().ok();
            }
        }
        let mut body = vec![0; length.context("the answer has no length")?];
        self.stream.read_exact(&mut body).await?;
        Ok((status.context("the answer has no status")?, serde_json::from_slice(&body)?))
    }
}

/// The smallest video of a released checkpoint, told apart by its seed.
pub(super) fn smallest(seed: u64) -> Value {
    serde_json::json!({
        "prompt": "a black frame",
        "size": "256x256",
        "seconds": "4",
        "num_inference_steps": 2,
        "seed": seed,
    })
}
