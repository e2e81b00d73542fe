#![allow(clippy::unwrap_used, reason = "a broken test should panic")]
//! Rules that the compiler does not hold: who imports whom, and what lies where.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use walkdir::WalkDir;

/// Modules that may not be imported, by the module that may not.
const FORBIDDEN: [(&str, &[&str]); 4] = [
    ("ledger", &["fault", "history", "bank"]),
    ("grade", &["fault", "bank", "http"]),
    ("harness", &["fault", "history", "bank", "grade"]),
    ("agent", &["fault", "history", "bank", "grade"]),
];

/// What may lie at the top, beside dotfiles.
const TOP_LEVEL: [&str; 12] = [
    "Cargo.toml",
    "Cargo.lock",
    "README.md",
    "CHANGELOG.md",
    "LICENSE-MIT",
    "LICENSE-APACHE",
    "src",
    "tests",
    "fixtures",
    "snapshots",
    "benches",
    "target",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Files below a folder of the root, sorted.
fn files(folder: &str) -> Vec<PathBuf> {
    WalkDir::new(root().join(folder))
        .sort_by_file_name()
        .into_iter()
        .map(|entry| entry.unwrap().into_path())
        .filter(|path| path.is_file())
        .collect()
}

fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    let is_rust = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "rs");
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        (path.strip_prefix(root()).unwrap().to_owned(), text)
    };
    files(folder).into_iter().filter(is_rust).map(read).collect()
}

/// The code of a file: without comments, texts and test modules.
fn code(source: &str) -> String {
    without_tests(&without_comments_and_texts(source))
}

/// The file with every comment, string and character taken out; line breaks stay.
fn without_comments_and_texts(source: &str) -> String {
    let mut code = String::new();
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(length) = raw_text(rest).filter(|_| !code.ends_with(is_word)) {
            length
        } else if first == '"' {
            text(rest)
        } else if first == '\'' {
            character(rest)
        } else {
            code.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        };
        code.extend(rest[..length].matches('\n'));
        rest = &rest[length..];
    }
    code
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Length of the raw string that the code starts with, if it does.
fn raw_text(code: &str) -> Option<usize> {
    let marks = code.strip_prefix("br").or_else(|| code.strip_prefix('r'))?;
    let hashes = marks.len() - marks.trim_start_matches('#').len();
    let content = marks[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let start = code.len() - content.len();
    Some(content.find(&end).map_or(code.len(), |at| start + at + end.len()))
}

/// Length of the string that the code starts with.
fn text(code: &str) -> usize {
    let mut is_escaped = false;
    for (at, letter) in code.char_indices().skip(1) {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    code.len()
}

/// Length of the character that the code starts with; 1 for the tick of a lifetime.
fn character(code: &str) -> usize {
    let mut letters = code.char_indices().skip(1);
    match letters.next() {
        Some((_, '\\')) => code[3..].find('\'').map_or(code.len(), |end| end + 4),
        Some(_) => match letters.next() {
            Some((at, '\'')) => at + 1,
            _ => 1,
        },
        None => 1,
    }
}

/// The code without what stands under `#[cfg(test)]`.
fn without_tests(code: &str) -> String {
    let mut kept = String::new();
    let mut rest = code;
    while let Some((before, after)) = rest.split_once("#[cfg(test)]") {
        kept.push_str(before);
        let end = after.find(['{', ';']).unwrap_or(after.len());
        rest = if after[end..].starts_with('{') {
            &after[end + block(&after[end..])..]
        } else {
            after.get(end + 1..).unwrap_or("")
        };
    }
    kept + rest
}

/// Length of the block that the code starts with.
fn block(code: &str) -> usize {
    let mut depth = 0_usize;
    for (at, letter) in code.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 1 => return at + 1,
            '}' => depth -= 1,
            _ => {}
        }
    }
    code.len()
}

/// The names that directly follow each `prefix::` in the code: of `crate::{a::B, c}`, `a` and `c`.
fn names_after(code: &str, prefix: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (at, _) in code.match_indices(prefix) {
        if code[..at].ends_with(is_word) || code[..at].ends_with(':') {
            continue;
        }
        let rest = code[at + prefix.len()..].trim_start();
        if rest.starts_with('{') {
            let list = &rest[1..block(rest) - 1];
            let mut depth = 0_usize;
            let items = list.split(|letter| {
                match letter {
                    '{' => depth += 1,
                    '}' => depth -= 1,
                    _ => {}
                }
                letter == ',' && depth == 0
            });
            names.extend(items.map(first_word).filter(|name| !name.is_empty()));
        } else {
            names.insert(first_word(rest));
        }
    }
    names
}

fn first_word(path: &str) -> String {
    path.trim_start().chars().take_while(|letter| is_word(*letter)).collect()
}

/// A path as deep as its file lies below `src`: what leads from there to the root of the crate.
fn module_of(path: &Path) -> (String, usize) {
    let inside = path.strip_prefix("src").unwrap().with_extension("");
    let mut parts: Vec<String> = inside
        .iter()
        .map(|part| part.to_string_lossy().into_owned())
        .filter(|part| part != "mod")
        .collect();
    let depth = parts.len();
    (parts.swap_remove(0), depth)
}

/// Which top-level module uses which others, and where.
#[derive(Default)]
struct Imports(BTreeMap<String, BTreeMap<String, PathBuf>>);

impl Imports {
    fn of_src() -> Self {
        let sources = sources("src");
        let lib = &sources.iter().find(|(path, _)| path.ends_with("lib.rs")).unwrap().1;
        let lib = code(lib);
        let mut imports = Self::default();
        for (path, source) in &sources {
            let (module, depth) = module_of(path);
            if path.file_stem().is_some_and(|stem| stem == "tests") || module == "lib" {
                continue;
            }
            let code = code(source);
            let to_root = "super::".repeat(depth);
            let named = ["crate::", "badbank::", &to_root].map(|prefix| names_after(&code, prefix));
            for name in named.into_iter().flatten().filter(|name| name != "super") {
                let target = home_of(&lib, &name);
                if target != module {
                    let of = imports.0.entry(module.clone()).or_default();
                    of.entry(target).or_insert_with(|| path.clone());
                }
            }
        }
        imports
    }

    fn place(&self, from: &str, to: &str) -> Option<&PathBuf> {
        self.0.get(from)?.get(to)
    }

    /// A way from a module back to itself.
    fn cycle(&self) -> Option<Vec<&str>> {
        self.0.keys().find_map(|start| {
            let mut ways = vec![vec![start.as_str()]];
            let mut seen = BTreeSet::new();
            while let Some(way) = ways.pop() {
                let last = way[way.len() - 1];
                for next in self.0.get(last).into_iter().flatten().map(|(next, _)| next.as_str()) {
                    let further = || way.iter().copied().chain([next]).collect::<Vec<_>>();
                    if next == start {
                        return Some(further());
                    }
                    if seen.insert(next) {
                        ways.push(further());
                    }
                }
            }
            None
        })
    }
}

/// The module that a name at the root of the crate comes from: itself, or whence it is exported again.
fn home_of(lib: &str, name: &str) -> String {
    for statement in lib.split(';') {
        if let Some((_, path)) = statement.split_once("pub use ")
            && path.split(|letter| !is_word(letter)).skip(1).any(|word| word == name)
        {
            return first_word(path);
        }
    }
    name.to_owned()
}

#[test]
fn no_module_imports_one_above_it() {
    let imports = Imports::of_src();
    for (module, forbidden) in FORBIDDEN {
        assert!(root().join("src").join(module).exists(), "{module} has moved");
        for other in forbidden {
            let place = imports.place(module, other);
            assert_eq!(place, None, "{module} imports {other}");
        }
    }
    for module in imports.0.keys().filter(|module| *module != "main") {
        assert_eq!(imports.place(module, "cli"), None, "{module} imports cli");
    }
}

#[test]
fn no_modules_import_each_other_in_a_circle() {
    let imports = Imports::of_src();
    assert!(imports.0.len() >= 8, "too few modules were read: {:?}", imports.0.keys());
    if let Some(cycle) = imports.cycle() {
        let steps = cycle.windows(2).map(|pair| {
            let place = imports.place(pair[0], pair[1]).unwrap().display();
            format!("{} imports {} in {place}", pair[0], pair[1])
        });
        panic!("{}", steps.collect::<Vec<_>>().join("\n"));
    }
}

#[test]
fn imports_are_read_as_the_compiler_reads_them() {
    let source = r##"
        //! See [`crate::history`].
        use crate::{
            call::{Operation, Answer},
            fault, // crate::grade
            Seed,
        };
        const TEXT: &str = "crate::http";
        const RAW: &str = r#"crate::http "quoted" "#;
        const TICK: char = '"';
        fn f<'a>(x: &'a crate::money::Amount) -> super::super::bank::Bank { 'x'; /* crate::lab */ }
        macro_rules! m { () => { $crate::ticket::Ticket } }
        #[cfg(test)]
        mod tests { use crate::hunt::X; fn g() {} }
        fn h() { crate::ledger::f() }
    "##;
    let code = code(source);
    let names = names_after(&code, "crate::");
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    assert_eq!(names, ["Seed", "call", "fault", "ledger", "money", "ticket"]);
    assert!(names_after(&code, "super::super::").contains("bank"));
    assert_eq!(home_of("pub use bank::{Bank, Seed as S};", "Bank"), "bank");
    assert_eq!(home_of("pub use bank::Bank;", "call"), "call");
}

#[test]
fn a_circle_would_be_found() {
    let import = |from: &str, to: &str| {
        let to = BTreeMap::from([(to.to_owned(), PathBuf::from("src/x.rs"))]);
        (from.to_owned(), to)
    };
    let circle = [import("a", "b"), import("b", "c"), import("c", "b")];
    assert_eq!(Imports(BTreeMap::from(circle)).cycle(), Some(vec!["b", "c", "b"]));
    let line = [import("a", "b"), import("b", "c")];
    assert_eq!(Imports(BTreeMap::from(line)).cycle(), None);
}

#[test]
fn every_file_opens_with_what_it_is_for() {
    let sources = [sources("src"), sources("tests")].concat();
    assert!(sources.len() > 40);
    let mut silent = vec![];
    for (path, source) in &sources {
        // The root of a test binary begins with what it allows, and for what reason.
        let mut lines = source.lines().skip_while(|line| !line.starts_with("//"));
        let attributes = source.split("//!").next().unwrap_or("").trim();
        let is_first = attributes.is_empty() || attributes.starts_with("#![");
        if !is_first || !lines.next().is_some_and(|line| line.starts_with("//! ")) {
            silent.push(path.display().to_string());
        }
    }
    assert_eq!(silent, [""; 0], "these need a line `//! …` at their start");
}

/// The texts in which a fixture may be named.
fn readers() -> Vec<(PathBuf, String)> {
    let documents = files("tests").into_iter().chain([root().join("README.md")]);
    documents
        .chain(files("fixtures"))
        .filter_map(|path| Some((path.clone(), fs::read_to_string(&path).ok()?)))
        .collect()
}

/// Whether a text holds `word` as a whole word.
fn names(text: &str, word: &str) -> bool {
    let is_part = |letter: char| is_word(letter) || letter == '-';
    text.match_indices(word).any(|(at, _)| {
        !text[..at].ends_with(is_part) && !text[at + word.len()..].starts_with(is_part)
    })
}

#[test]
fn every_fixture_is_read_by_something() {
    let readers = readers();
    let orphans = files("fixtures").into_iter().filter(|fixture| {
        let name = fixture.file_name().unwrap().to_string_lossy();
        // A program of Python names a module of Python without its ending.
        let module = name.strip_suffix(".py").map(|stem| format!("import {stem}\n"));
        !readers.iter().filter(|(reader, _)| reader != fixture).any(|(_, text)| {
            names(text, &name) || module.as_ref().is_some_and(|import| text.contains(import))
        })
    });
    let orphans: Vec<String> = orphans.map(|path| path.display().to_string()).collect();
    assert_eq!(orphans, [""; 0], "no test, no README and no other fixture names these");
}

#[test]
fn the_top_level_holds_what_the_style_lists() {
    let entries = fs::read_dir(root()).unwrap();
    let strangers: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| !name.starts_with('.') && !TOP_LEVEL.contains(&name.as_str()))
        .collect();
    assert_eq!(strangers, [""; 0], "these have no place at the top");
}

#[test]
fn every_snapshot_belongs_to_a_test() {
    let sources: String = sources("tests").into_iter().map(|(_, source)| source).collect();
    let is_orphan = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        let test = name.split(['.', '@']).next().unwrap_or("").to_owned();
        !names(&sources, &test)
    };
    let orphans = files("snapshots").into_iter().filter(is_orphan);
    let orphans: Vec<String> = orphans.map(|path| path.display().to_string()).collect();
    assert_eq!(orphans, [""; 0], "no test has the name of these");
}
