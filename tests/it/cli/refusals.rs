//! What makes no sense is refused: the right exit code, a sentence that helps, and nothing done.

use std::net::TcpListener;

use super::Folder;

/// Refuses `arguments`: nothing on stdout, nothing written, and `phrases` on stderr.
#[track_caller]
fn refuses(folder: &Folder, arguments: &str, code: i32, phrases: &[&str]) {
    let before = folder.contents();
    let told = folder.run(arguments);
    assert_eq!(told.code, Some(code), "{arguments}: {told:#?}");
    assert_eq!(told.stdout, "", "{arguments}");
    for phrase in phrases {
        assert!(
            told.stderr.contains(phrase),
            "{arguments}: `{phrase}` is not in:\n{}",
            told.stderr
        );
    }
    assert!(!told.stderr.contains("panicked"), "{}", told.stderr);
    assert_eq!(folder.contents(), before, "{arguments}: something was written");
}

/// A program that would leave a trace.
const TRACE: &str = "-- sh -c 'echo ran > trace'";

#[test]
fn a_command_line_without_sense_is_refused() {
    let folder = Folder::new();
    for (arguments, phrases) in [
        ("", &["Usage: badbank"][..]),
        ("walk", &["unrecognized subcommand 'walk'"]),
        ("run", &["--harness <NAME>|CMD", "badbank run [OPTIONS] -- <CMD>..."]),
        ("run --harness keyed -- true", &["'--harness <NAME>' cannot be used with '[CMD]...'"]),
        (
            "run --harness careful",
            &["the designs are model-only, retries, keyed, business-key, model-key, hasty"],
        ),
        ("run --real-time -- true", &["--harness"]),
        ("run --seeds 5..3 --harness keyed", &["5 comes after 3"]),
        ("run --seeds 5 --harness keyed", &["1..100"]),
        ("run --seeds 1..2 --seed 1 --harness keyed", &["cannot be used with"]),
        ("run --seeds 1..2 --jobs 0 --harness keyed", &["0 is not in 1..=1024"]),
        ("run --jobs 2 --harness keyed", &["--seeds <A..B>"]),
        ("run --seed -1 --harness keyed", &["'-1'"]),
        ("run --seed 1.5 --harness keyed", &["a whole number from 0 to 18446744073709551615"]),
        ("run --update --harness keyed", &["--snapshot <FILE>"]),
        ("run --seeds 1..2 --history h --harness keyed", &["--history <FILE>"]),
        ("run --time-limit 0 --harness keyed", &["a whole number above 0"]),
        ("run --expect success --harness keyed", &["pass, fail"]),
        ("grade", &["<HISTORY>"]),
        ("replay", &["<HISTORY|FAULTS>"]),
        ("plan", &["Usage: badbank plan"]),
        ("plan list --format junit", &["text, json"]),
        ("plan forecast --format junit", &["text, json"]),
        ("serve --port 99999", &["99999 is not in 0..=65535"]),
        ("serve --bind localhost", &["invalid IP address"]),
        ("serve --token ''", &["--token"]),
        ("serve --bind 0.0.0.0", &["--token or BADBANK_TOKEN"]),
    ] {
        refuses(&folder, arguments, 2, phrases);
    }
}

#[test]
fn a_program_that_cannot_start_is_refused() {
    let folder = Folder::with("plain", "echo hi\n");
    let history = "run --history h.jsonl --snapshot s --update";
    refuses(&folder, &format!("{history} -- badbank-no-such-program"), 3, &["was not found"]);
    refuses(&folder, &format!("{history} -- ./missing"), 3, &["`./missing` was not found"]);
    refuses(&folder, &format!("{history} -- ./plain"), 3, &["is not executable", "chmod +x"]);
    refuses(&folder, "run --seeds 1..4 -- ./missing", 3, &["`./missing` was not found"]);
}

#[test]
fn a_plan_without_sense_is_refused_by_line() {
    let rule = |rule: &str| format!("{{\"version\": 1,\n \"rules\": [\n  {rule}\n]}}");
    for (plan, line, phrases) in [
        ("{\"version\": 1,\n \"sede\": 8}".to_owned(), 2, &["unknown field `sede`", "`seed`"][..]),
        (
            rule(r#"{"on": "refund", "fault": "lost", "rat": 1}"#),
            3,
            &["unknown field `rat`", "`rate`"],
        ),
        (
            rule(r#"{"on": "refund", "fault": "lost", "rate": 1.5}"#),
            3,
            &["`1.5` is not a rate", "0 to 1"],
        ),
        (rule(r#"{"on": "refund", "fault": "lost", "rate": -1}"#), 3, &["`-1` is not a rate"]),
        (
            rule(r#"{"on": "get_order", "fault": "timeout", "rate": 0.1}"#),
            3,
            &["timeout", "refund"],
        ),
        (rule(r#"{"on": "refund", "fault": "boom", "rate": 0.1}"#), 3, &["`boom` is not a fault"]),
        (
            rule(
                "{\"on\": \"*\", \"fault\": \"lost\", \"rate\": 0.6},\n  {\"on\": \"refund\", \"fault\": \"timeout\", \"rate\": 0.5}",
            ),
            4,
            &["1.1", "1 at the most"],
        ),
        (rule(r#"{"on": "refund", "fault": "lost"}"#), 3, &["rate", "attempts"]),
        (
            rule(r#"{"on": "refund", "fault": "lost", "rate": 1, "attempts": "1"}"#),
            3,
            &["rate", "attempts"],
        ),
        (
            rule(r#"{"on": "refund", "fault": "lost", "attempts": "0"}"#),
            3,
            &["`0` is not a range of attempts", "counted from 1"],
        ),
        (rule(r#"{"on": "refund", "fault": "late(0)", "rate": 1}"#), 3, &["late(0)"]),
        (rule(r#"{"on": "pay", "fault": "lost", "rate": 1}"#), 3, &["`pay`", "`get_order`"]),
        ("{\"version\": 1,\n \"dedupe\": \"maybe\"}".to_owned(), 2, &["maybe", "first_reply"]),
        ("{\"version\": 2}".to_owned(), 1, &["version 2", "version 1"]),
        ("{\"version\": 1".to_owned(), 1, &[]),
        (String::new(), 1, &[]),
    ] {
        let folder = Folder::with("plan.json", &plan);
        let place = format!("error: plan.json:{line}: ");
        let phrases: Vec<&str> = phrases.iter().copied().chain([place.as_str()]).collect();
        refuses(&folder, &format!("run --plan plan.json {TRACE}"), 2, &phrases);
        refuses(&folder, "plan check plan.json", 2, &phrases);
    }
}

#[test]
fn an_unknown_plan_is_refused_with_the_names_there_are() {
    for arguments in ["run --plan nope --harness keyed", "plan show nope", "serve --plan nope"] {
        refuses(&Folder::new(), arguments, 2, &["`nope` is neither a plan", "article", "calm"]);
    }
}

#[test]
fn a_ticket_without_sense_is_refused_by_line() {
    let ticket = |orders: &str| {
        format!("{{\"version\": 1, \"currency\": \"EUR\",\n \"orders\": [{orders}]}}").into_bytes()
    };
    for (content, phrases) in [
        (Vec::new(), &["ticket.json:1: "][..]),
        (ticket(""), &["ticket.json:"]),
        (
            ticket(
                "{\"id\": \"A-1\", \"amount\": \"1.00\"},\n {\"id\": \"A-1\", \"amount\": \"2.00\"}",
            ),
            &["ticket.json:3: ", "A-1"],
        ),
        (ticket("\n{\"id\": \"A-1\", \"amount\": \"1.005\"}"), &["ticket.json:3: ", "1.005"]),
        (ticket("{\"id\": \"A-1\", \"amount\": \"1.00\", \"expect\": []}"), &["ticket.json:"]),
        (ticket("\n{\"id\": \"none\", \"amount\": \"1.00\"}"), &["ticket.json:3: ", "none"]),
        (ticket("\n{\"id\": \"A-1\", \"amount\": \"0.00\"}"), &["ticket.json:3: ", "above zero"]),
        (
            ticket("\n{\"id\": \"A-1\", \"amount\": \"1.00\", \"expects\": []}"),
            &["ticket.json:3: ", "unknown field `expects`"],
        ),
        (
            ticket("\n{\"id\": \"A-1\", \"amount\": \"1.00\", \"currency\": \"XXX\"}"),
            &["ticket.json:3: ", "XXX"],
        ),
        (b"{\n\"text\": \"\xff\"}".to_vec(), &["ticket.json:2: this is not UTF-8 text"]),
    ] {
        let folder = Folder::with("ticket.json", content);
        refuses(&folder, &format!("run --ticket ticket.json {TRACE}"), 2, phrases);
        refuses(&folder, "serve --ticket ticket.json", 2, phrases);
    }
    let missing = ["none.json cannot be read"];
    refuses(&Folder::new(), &format!("run --ticket none.json {TRACE}"), 2, &missing);
}

#[test]
fn a_record_that_is_none_is_refused() {
    let folder = Folder::with("plan.json", "{\"version\": 1}\n");
    for arguments in ["grade none.jsonl", "replay none.jsonl -- sh -c 'echo ran > trace'"] {
        refuses(&folder, arguments, 2, &["none.jsonl cannot be read"]);
    }
    refuses(&folder, "grade plan.json", 2, &["plan.json:1: "]);
    refuses(&folder, &format!("replay plan.json {TRACE}"), 2, &["plan.json"]);
}

#[test]
fn files_that_cannot_be_written_are_refused_before_the_run() {
    let folder = Folder::with("file", "");
    std::fs::create_dir(folder.path("folder")).unwrap();
    for (options, phrase) in [
        (
            "--history no/such/h.jsonl",
            "no/such/h.jsonl cannot be written: the folder no/such does not exist",
        ),
        ("--snapshot no/such/s --update", "the folder no/such does not exist"),
        ("--history folder", "folder cannot be written: it is a folder"),
        ("--snapshot folder", "it is a folder"),
        ("--history file/h", "file is not a folder"),
    ] {
        refuses(&folder, &format!("run {options} {TRACE}"), 3, &[phrase]);
    }
}

#[test]
fn a_port_in_use_cannot_be_served_on() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    for option in ["--port", "--control-port"] {
        let phrases = [&*format!("127.0.0.1:{port}"), "in use"];
        refuses(&Folder::new(), &format!("serve {option} {port}"), 3, &phrases);
    }
}
