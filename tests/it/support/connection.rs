//! HTTP by hand, to see the bytes.

use std::{
    fmt::Write as _,
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
};

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
        let lines = self.head.split_inclusive("\r\n");
        let mut text: String =
            lines.filter(|line| !line.to_ascii_lowercase().starts_with("date:")).collect();
        text.push_str(&self.body);
        text
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
