//! `badbank serve`: one line when it is ready, two planes, and an end when told so.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    process::{Child, ChildStdout, Stdio},
};

use rustix::process::Signal;
use serde_json::Value;

use super::{Folder, PATIENCE, Told, interrupt::signal, within_patience};

/// A server that is ready; killed with the test.
struct Served {
    child: Child,
    stdout: BufReader<ChildStdout>,
    ready: Value,
}

impl Served {
    fn start(arguments: &str, token: Option<&str>) -> Self {
        let mut command = Folder::new().command(&format!("serve {arguments}"));
        command.envs(token.map(|token| ("BADBANK_TOKEN", token)));
        // The folder is gone by now; the server needs none.
        command.current_dir("/").stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let (line, stdout) = within_patience(move || {
            let mut line = String::new();
            stdout.read_line(&mut line).unwrap();
            (line, stdout)
        });
        let ready = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        Self { child, stdout, ready }
    }

    fn word(&self, name: &str) -> &str {
        self.ready[name].as_str().unwrap()
    }

    /// Interrupts it, and reads what it has left to say.
    fn interrupt(self) -> Told {
        let Self { child, mut stdout, .. } = self;
        signal(&child, Signal::INT);
        let (output, rest) = within_patience(move || {
            let mut rest = String::new();
            stdout.read_to_string(&mut rest).unwrap();
            (child.wait_with_output().unwrap(), rest)
        });
        Told { stdout: rest, ..Told::from(output) }
    }
}

/// Status and body of a request to `url`.
fn request(method: &str, url: &str, token: Option<&str>, body: &str) -> (u16, String) {
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let token =
        token.map_or_else(String::new, |token| format!("authorization: Bearer {token}\r\n"));
    let length = body.len();
    write!(
        stream,
        "{method} /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\naccept: application/json\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n{token}\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

#[test]
fn one_line_tells_where_it_is_and_both_planes_answer() {
    let served = Served::start("--plan calm --seed 7", None);
    let (url, control) = (served.word("url").to_owned(), served.word("control").to_owned());
    let token = served.word("token").to_owned();
    assert_eq!(served.ready.as_object().unwrap().len(), 4, "{}", served.ready);
    assert_eq!(served.word("run"), "1");
    assert!(token.len() >= 32, "{token}");

    let (status, ticket) = request("GET", &format!("{url}/ticket"), None, "");
    assert_eq!(status, 200, "{ticket}");
    assert!(ticket.contains("A-9160"), "{ticket}");
    let body = r#"{"amount": "161.28"}"#;
    let (status, reply) = request("POST", &format!("{url}/orders/A-9160/refunds"), None, body);
    assert_eq!(status, 201, "{reply}");

    let grade = format!("{control}/runs/1/grade");
    assert_eq!(request("GET", &grade, None, "").0, 401);
    assert_eq!(request("GET", &grade, Some("guess"), "").0, 401);
    let (status, grade) = request("GET", &grade, Some(&token), "");
    assert_eq!(status, 200, "{grade}");
    assert!(grade.contains(r#""ok":1,"missed":7"#), "{grade}");
    assert_eq!(served.interrupt().ends_with(130).stdout, "");
}

#[test]
fn an_interrupted_server_frees_its_ports() {
    let served = Served::start("", None);
    let ports: Vec<String> = ["url", "control"]
        .map(|plane| served.word(plane).trim_start_matches("http://").to_owned())
        .map(|url| url.split('/').next().unwrap().to_owned())
        .to_vec();
    // A connection that stays open does not hold it up.
    let idle = TcpStream::connect(&*ports[0]).unwrap();
    served.interrupt().ends_with(130);
    for port in &ports {
        TcpListener::bind(&**port).unwrap_or_else(|error| panic!("{port}: {error}"));
    }
    drop(idle);
}

#[test]
fn the_token_may_come_from_the_environment() {
    let served = Served::start("", Some("a-secret-of-mine"));
    assert_eq!(served.word("token"), "a-secret-of-mine");
    served.interrupt().ends_with(130);
    let served = Served::start("--token another", Some("a-secret-of-mine"));
    assert_eq!(served.word("token"), "another");
    served.interrupt().ends_with(130);
}

#[test]
fn with_a_token_it_may_be_reached_from_elsewhere() {
    let served = Served::start("--bind 0.0.0.0", Some("a-secret-of-mine"));
    assert!(served.word("url").ends_with("/runs/1"));
    served.interrupt().ends_with(130);
}
