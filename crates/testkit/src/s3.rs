//! An S3 server with one empty bucket.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use hyper::Method;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use s3s::S3Result;
use s3s::access::{S3Access, S3AccessContext};
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s_fs::FileSystem;

use crate::background::Background;
use crate::port::Port;
use crate::watchdog::Watchdog;

const BUCKET: &str = "clapboard";
const ACCESS_KEY: &str = "clapboard-test";
const SECRET_KEY: &str = "clapboard-test-secret";

/// An S3 server of its own inside this process, over plain HTTP on a port of 127.0.0.1.
///
/// Buckets are named in the path, not in the host. Its objects are gone when this is dropped and when the process of
/// the test ends in any way.
#[derive(Debug)]
pub struct S3 {
    port: Port,
    running: Option<Background>,
    root: PathBuf,
    read_only: Arc<AtomicBool>,
    _watchdog: Watchdog,
}

/// What the access key may do: anything, or anything but change something.
struct Permission {
    read_only: Arc<AtomicBool>,
}

#[async_trait]
impl S3Access for Permission {
    async fn check(&self, context: &mut S3AccessContext<'_>) -> S3Result<()> {
        if context.credentials().is_none() {
            return Err(s3s::s3_error!(AccessDenied, "Signature is required"));
        }
        let reads = matches!(*context.method(), Method::GET | Method::HEAD);
        if !reads && self.read_only.load(Ordering::SeqCst) {
            return Err(s3s::s3_error!(AccessDenied, "Access Denied"));
        }
        Ok(())
    }
}

impl S3 {
    /// Starts a server with the empty bucket `clapboard`.
    pub fn start() -> Self {
        let watchdog = Watchdog::over_new_folder("KILL");
        let root = watchdog.folder().join("data");
        fs::create_dir(root.join(BUCKET)).expect("a folder can be made in a new folder");
        let mut s3 =
            Self { port: Port::reserve(), running: None, root, read_only: Arc::default(), _watchdog: watchdog };
        s3.start_again();
        s3
    }

    /// Returns the URL of the server.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.port.address())
    }

    /// Returns the server's address.
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// Returns the one access key that it knows.
    pub fn access_key(&self) -> &'static str {
        ACCESS_KEY
    }

    /// Returns the secret of the access key.
    pub fn secret_key(&self) -> &'static str {
        SECRET_KEY
    }

    /// Returns the name of the bucket.
    pub fn bucket(&self) -> &'static str {
        BUCKET
    }

    /// Returns the folder that holds a folder for each bucket, where an object is a file.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the keys of the objects in the bucket, in order.
    pub fn keys(&self) -> Vec<String> {
        let bucket = self.root.join(BUCKET);
        let mut keys = Vec::new();
        let mut folders = vec![bucket.clone()];
        while let Some(folder) = folders.pop() {
            // An object may be deleted, and its folder with it, while we look.
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    folders.push(path);
                } else if let Some(key) = path.strip_prefix(&bucket).ok().and_then(Path::to_str) {
                    keys.push(key.to_owned());
                }
            }
        }
        keys.sort();
        keys
    }

    /// Returns how many multipart uploads were begun and neither completed nor aborted.
    pub fn unfinished_uploads(&self) -> usize {
        let files = fs::read_dir(&self.root).into_iter().flatten().flatten();
        let names = files.filter_map(|file| file.file_name().into_string().ok());
        names.filter(|name| name.starts_with(".upload-") && name.ends_with(".json")).count()
    }

    /// Lets the access key list and read, and put and delete only if `read_only` is false again.
    pub fn set_read_only(&self, read_only: bool) {
        self.read_only.store(read_only, Ordering::SeqCst);
    }

    /// Stops the server: connections are closed, the objects are kept.
    pub fn stop(&mut self) {
        self.running = None;
    }

    /// Starts the server again on the same port.
    ///
    /// # Panics
    ///
    /// Panics if the server runs.
    pub fn start_again(&mut self) {
        assert!(self.running.is_none(), "the S3 server runs already");
        let files = FileSystem::new(&self.root).expect("the folder is there");
        let mut builder = S3ServiceBuilder::new(files);
        builder.set_auth(SimpleAuth::from_single(ACCESS_KEY, SECRET_KEY));
        builder.set_access(Permission { read_only: Arc::clone(&self.read_only) });
        let service = builder.build();
        let listener = TcpListener::bind(self.port.address()).expect("the port is ours");
        listener.set_nonblocking(true).expect("a listener can be made non-blocking");
        self.running = Some(Background::spawn("testkit-s3", move || serve(listener, service)));
    }
}

async fn serve(listener: TcpListener, service: S3Service) {
    let listener = tokio::net::TcpListener::from_std(listener).expect("the listener does not block");
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let service = service.clone();
        tokio::spawn(async move {
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::*;

    fn status(s3: &S3) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(s3.address())?;
        stream.write_all(b"GET /clapboard/a/b HTTP/1.1\r\nhost: s3\r\nconnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer.lines().next().unwrap_or_default().to_owned())
    }

    #[test]
    fn a_server_comes_back_on_its_port_with_its_objects() {
        let mut s3 = S3::start();
        assert!(s3.keys().is_empty());
        fs::create_dir(s3.root().join("clapboard/a")).unwrap();
        fs::write(s3.root().join("clapboard/a/b"), "x").unwrap();
        assert!(status(&s3).unwrap().contains("403"), "{:?}", status(&s3));
        s3.stop();
        status(&s3).unwrap_err();
        s3.start_again();
        assert!(status(&s3).unwrap().contains("403"));
        assert_eq!(s3.keys(), ["a/b"]);
        assert_eq!(s3.unfinished_uploads(), 0);
        let root = s3.root().to_owned();
        drop(s3);
        assert!(!root.exists());
    }
}
