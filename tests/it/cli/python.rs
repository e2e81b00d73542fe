//! Programs in another language: the three designs, and ten lines of somebody's own.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{badbank, is_without_python, root};

/// The part of a result that must not depend on the program's language, as it was printed.
#[derive(Debug, Deserialize)]
struct Result {
    seed: u64,
    faults: Box<RawValue>,
    grade: Box<RawValue>,
}

#[derive(Deserialize)]
struct Results {
    runs: Vec<Result>,
}

fn results(program: &str) -> Vec<Result> {
    let told = badbank(&format!("run --seeds 1..20 --format json {program}"));
    let results: Results = serde_json::from_str(&told.stdout)
        .unwrap_or_else(|error| panic!("{program}: {error}: {told:#?}"));
    assert_eq!(results.runs.len(), 20);
    results.runs
}

/// Fault logs and grades of a program in `fixtures/harnesses` are, byte for byte, those of the built-in design.
fn assert_same(design: &str, file: &str) {
    if is_without_python() {
        return;
    }
    let built_in = results(&format!("--harness {design}"));
    let script = root().join("fixtures/harnesses").join(file);
    let python = results(&format!("-- python3 '{}'", script.display()));
    for (built_in, python) in built_in.iter().zip(&python) {
        let seed = built_in.seed;
        assert_eq!(python.seed, seed);
        assert_eq!(python.faults.get(), built_in.faults.get(), "{design} under seed {seed}");
        assert_eq!(python.grade.get(), built_in.grade.get(), "{design} under seed {seed}");
    }
}

#[test]
fn model_only_in_python_meets_the_same_faults_and_gets_the_same_grade() {
    assert_same("model-only", "model_only.py");
}

#[test]
fn retries_in_python_meet_the_same_faults_and_get_the_same_grade() {
    assert_same("retries", "retries.py");
}

#[test]
fn keyed_in_python_meets_the_same_faults_and_gets_the_same_grade() {
    assert_same("keyed", "keyed.py");
}

#[test]
fn ten_lines_of_somebodys_own_are_graded() {
    if is_without_python() {
        return;
    }
    let script = root().join("fixtures/harnesses/ten_lines.py");
    let run = |plan: &str| {
        let script = script.display();
        badbank(&format!("run --seed 7 --plan {plan} --format json -- python3 '{script}'"))
    };
    let calm = run("calm").ends_with(0).json();
    assert_eq!(calm["grade"]["all_ok"], true);
    assert_eq!(calm["grade"]["report_true"], true, "{calm}");
    // One request is refused, one delivered twice.
    let article = run("article").ends_with(1).json();
    assert_eq!(article["grade"]["missed"], 1, "{article}");
    assert_eq!(article["grade"]["dup_orders"], 1, "{article}");
    assert_eq!(article["grade"]["report_true"], false, "{article}");
}
