//! HTTP by hand, to see the bytes.

use std::{
    fmt::Write as _,
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
};

use tokio::time::Duration;

use super::PATIENCE;

/// A connection that is kept until it is dropped.
pub(crate) struct Connection(TcpStream);

/// An answer, as it came.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

/// How what a server sends came to an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum End {
    /// The answer is there in full.
    Complete,
    /// The connection was closed before.
    Closed,
    /// The connection was reset before.
    Reset,
    /// Nothing more came for as long as one waited.
    Silent,
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(stream)
    }

    /// Sends a request and reads its answer.
    pub(crate) fn ask(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        self.send(&request(method, path, headers, body));
        self.read().unwrap()
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }

    /// Says that nothing more will be sent.
    pub(crate) fn finish_sending(&self) {
        self.0.shutdown(std::net::Shutdown::Write).unwrap();
    }

    /// Reads one answer.
    pub(crate) fn read(&mut self) -> io::Result<Answer> {
        let mut bytes = Vec::new();
        let mut byte = [0];
        while !bytes.ends_with(b"\r\n\r\n") {
            self.0.read_exact(&mut byte)?;
            bytes.push(byte[0]);
        }
        let head = String::from_utf8(bytes).unwrap();
        let status = head[9..12].parse().unwrap();
        let length = field(&head, "content-length").map_or(0, |value| value.parse().unwrap());
        let mut body = vec![0; length];
        self.0.read_exact(&mut body)?;
        Ok(Answer { status, head, body: String::from_utf8(body).unwrap() })
    }

    /// Waits for bytes as long as that, and no longer.
    pub(crate) fn wait_at_most(&self, limit: Duration) {
        self.0.set_read_timeout(Some(limit)).unwrap();
    }

    /// What is there to be read; nothing at the end.
    pub(crate) fn read_piece(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; 4096];
        let length = self.0.read(&mut bytes)?;
        bytes.truncate(length);
        Ok(bytes)
    }

    /// Reads one answer, or what comes of it, as it was sent.
    pub(crate) fn read_raw(&mut self) -> (String, End) {
        let mut text = String::new();
        let end = loop {
            if is_complete(&text) {
                break End::Complete;
            }
            match self.read_piece() {
                Ok(piece) if piece.is_empty() => break End::Closed,
                Ok(piece) => text.push_str(std::str::from_utf8(&piece).unwrap()),
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => break End::Reset,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break End::Silent,
                Err(error) => panic!("{error}"),
            }
        };
        (text, end)
    }

    /// Reads until the other side is done.
    pub(crate) fn read_to_end(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.0.read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        field(&self.head, name)
    }

    /// Every byte but the date's.
    pub(crate) fn undated(&self) -> String {
        undated(&self.head) + &self.body
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// The code of a refusal, which must look like one.
    #[track_caller]
    pub(crate) fn code(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem = self.json();
        assert_eq!(problem["type"], "about:blank");
        assert_eq!(problem["status"], self.status);
        assert!(!problem["title"].as_str().unwrap().is_empty());
        problem["code"].as_str().unwrap().to_owned()
    }

    /// The sentence of a refusal.
    pub(crate) fn detail(&self) -> String {
        self.json()["detail"].as_str().unwrap().to_owned()
    }
}

/// The bytes of an answer, or of its beginning, but the date's.
pub(crate) fn undated(text: &str) -> String {
    let lines = text.split_inclusive("\r\n");
    lines.filter(|line| !line.to_ascii_lowercase().starts_with("date:")).collect()
}

/// Whether a text is an answer in full.
fn is_complete(text: &str) -> bool {
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    match field(head, "content-length") {
        Some(length) => body.len() >= length.parse().unwrap(),
        None if field(head, "transfer-encoding").is_some() => body.ends_with("0\r\n\r\n"),
        None => true,
    }
}

/// The bytes of a request.
pub(crate) fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Vec<u8> {
    let mut text = format!("{method} {path} HTTP/1.1\r\nHost: bank\r\n");
    for (name, value) in headers {
        write!(text, "{name}: {value}\r\n").unwrap();
    }
    if !body.is_empty() || method == "POST" {
        write!(text, "Content-Length: {}\r\n", body.len()).unwrap();
    }
    text.push_str("\r\n");
    text.push_str(body);
    text.into_bytes()
}

fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| {
        let (field, value) = line.split_once(':')?;
        field.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}
