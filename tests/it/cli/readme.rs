//! The README's console blocks are true.
//!
//! Lines that begin with `$ badbank` or `$ cargo run --release --` are run, all in one folder that has the
//! repository's `fixtures`; what follows, up to the next `$` or the block's end, is what they print to stdout. A
//! line `…` stands for any lines. `$ echo $?` is the exit code of the command before. Other commands are not run.

use std::{
    fmt::Write as _,
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::symlink,
    process::{Command, Stdio},
};

use rustix::process::Signal;
use similar::TextDiff;

use super::{
    Folder, interrupt::signal, is_skipped_for_want_of, is_without_python, root, within_patience,
};

/// A command of a console block.
#[derive(Debug, PartialEq)]
struct Shown {
    /// The line of the text that it stands on, from 1.
    line: usize,
    command: String,
    output: Vec<String>,
}

/// The commands in the console blocks of a text, with what they are shown to print.
fn commands(text: &str) -> Vec<Shown> {
    let mut shown: Vec<Shown> = Vec::new();
    let (mut is_console, mut is_block, mut is_continued) = (false, false, false);
    for (line, text) in (1..).zip(text.lines()) {
        if text.trim_start().starts_with("```") {
            is_block = !is_block;
            is_console = is_block && text.trim() == "```console";
            is_continued = false;
            continue;
        }
        if !is_console {
            continue;
        }
        let last = shown.last_mut();
        match text.strip_prefix("$ ") {
            Some(command) => {
                shown.push(Shown { line, command: command.to_owned(), output: Vec::new() });
            }
            None if is_continued => last.unwrap().command += &["\n", text].concat(),
            None => last.expect("a console block begins with `$ `").output.push(text.to_owned()),
        }
        is_continued = text.ends_with('\\') && shown.last().unwrap().output.is_empty();
    }
    for shown in &mut shown {
        while shown.output.last().is_some_and(|line| line.trim().is_empty()) {
            shown.output.pop();
        }
    }
    shown
}

/// Whether `lines` are the shown ones, `…` standing for any lines.
fn matches(shown: &[String], lines: &[String]) -> bool {
    match shown.split_first() {
        None => lines.is_empty(),
        Some((first, rest)) if first.trim() == "…" => {
            (0..=lines.len()).any(|skipped| matches(rest, &lines[skipped..]))
        }
        Some((first, rest)) => lines.split_first().is_some_and(|(line, lines)| {
            line.trim_end() == first.trim_end() && matches(rest, lines)
        }),
    }
}

/// The lines of a text, with what differs from start to start of a server blotted out.
fn lines(text: &str) -> Vec<String> {
    text.trim_end().lines().map(blot).collect()
}

fn blot(line: &str) -> String {
    let mut line = line.to_owned();
    for (start, end, blot) in [("127.0.0.1:", "/\"", "PORT"), ("\"token\":\"", "\"", "TOKEN")] {
        let pieces: Vec<&str> = line.split(start).collect();
        let after = |piece: &&str| {
            format!("{start}{blot}{}", piece.trim_start_matches(|c| !end.contains(c)))
        };
        line = pieces[0].to_owned() + &pieces[1..].iter().map(after).collect::<String>();
    }
    line
}

/// A shell command as a process of this folder, `badbank` being the one under test.
fn shell(folder: &Folder, command: &str) -> Command {
    let command = command.replace("cargo run --release -- ", "badbank ");
    let path = format!("{}:{}", folder.path("bin").display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    shell.args(["-c", &command]).env("PATH", path).current_dir(folder.0.path());
    shell.stdin(Stdio::null()).stderr(Stdio::null());
    for name in ["BADBANK_URL", "BADBANK_TICKET", "BADBANK_TOKEN", "COLUMNS"] {
        shell.env_remove(name);
    }
    shell
}

/// What a command prints, and its exit code. A server is interrupted after its first line.
fn printed(folder: &Folder, command: &str) -> (String, i32) {
    if !command.contains("badbank serve ") && !command.ends_with("badbank serve") {
        let mut shell = shell(folder, command);
        let output = within_patience(move || shell.output().unwrap());
        return (String::from_utf8(output.stdout).unwrap(), output.status.code().unwrap());
    }
    let mut server = shell(folder, &format!("exec {command}"));
    let mut child = server.stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let line = within_patience(move || {
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        line
    });
    signal(&child, Signal::INT);
    (line, within_patience(move || child.wait().unwrap()).code().unwrap())
}

/// Runs what a text shows, and describes every difference.
fn differences(text: &str) -> String {
    let folder = Folder::new();
    fs::create_dir(folder.path("bin")).unwrap();
    symlink(env!("CARGO_BIN_EXE_badbank"), folder.path("bin/badbank")).unwrap();
    symlink(root().join("fixtures"), folder.path("fixtures")).unwrap();
    let mut code = 0;
    let mut differences = String::new();
    for Shown { line, command, output } in commands(text) {
        let words = command.replace("cargo run --release -- ", "badbank ");
        let told = if command == "echo $?" {
            format!("{code}\n")
        } else if words.starts_with("badbank ") {
            let told;
            (told, code) = printed(&folder, &words);
            told
        } else {
            continue;
        };
        let (shown, told) = (lines(&output.join("\n")), lines(&told));
        if !matches(&shown, &told) {
            let (shown, told) = (shown.join("\n") + "\n", told.join("\n") + "\n");
            let diff = TextDiff::from_lines(&shown, &told);
            let diff = diff.unified_diff().header("the text", "badbank").to_string();
            writeln!(differences, "\nline {line}: $ {command}\n{diff}").unwrap();
        }
    }
    differences
}

#[test]
fn every_console_block_of_the_readme_is_what_badbank_prints() {
    let readme = fs::read_to_string(root().join("README.md"));
    if is_skipped_for_want_of("README.md", readme.is_ok()) || is_without_python() {
        return;
    }
    let differences = differences(&readme.unwrap());
    assert!(differences.is_empty(), "README.md differs from what badbank prints\n{differences}");
}

#[test]
fn a_block_is_read_command_by_command() {
    let text = "```console\n$ badbank a \\\n    b\nout\n\nmore\n\n$ echo $?\n0\n```\n```json\n$ no\n```\n$ no\n";
    let shown = |line, command: &str, output: &[&str]| Shown {
        line,
        command: command.to_owned(),
        output: output.iter().map(|&line| line.to_owned()).collect(),
    };
    let wanted =
        [shown(2, "badbank a \\\n    b", &["out", "", "more"]), shown(8, "echo $?", &["0"])];
    assert_eq!(commands(text), wanted);
}

#[test]
fn an_ellipsis_stands_for_any_lines() {
    let text = |text: &str| lines(text);
    assert!(matches(&text("a\n…\nd\n…"), &text("a\nb\nc\nd")));
    assert!(matches(&text("a\n…"), &text("a")));
    assert!(!matches(&text("a\n…\nd"), &text("a\nb\nd\ne")));
    assert!(!matches(&text("a"), &text("a\nb")));
}

#[test]
fn a_block_that_is_untrue_is_shown_as_a_difference() {
    let block = |version: &str| {
        format!(
            "```console\n$ badbank --version\nbadbank {version}\n$ cargo run --release -- run\n$ echo $?\n2\n```\n"
        )
    };
    assert_eq!(differences(&block(env!("CARGO_PKG_VERSION"))), "");
    let difference = differences(&block("0.0.0"));
    assert!(difference.contains("line 2: $ badbank --version"), "{difference}");
    assert!(difference.contains("\n-badbank 0.0.0\n+badbank "), "{difference}");
    let server = "```console\n$ badbank serve --seed 7\n{\"url\":\"http://127.0.0.1:40001/runs/1\",\"control\":\"http://127.0.0.1:40002\",\"token\":\"0f\",\"run\":\"1\"}\n$ echo $?\n130\n```\n";
    assert_eq!(differences(server), "");
}
