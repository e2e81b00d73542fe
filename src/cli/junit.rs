//! Grades for build servers: a suite for each run, a case for each order.

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use crate::grade::{Cause, Grade, OrderGrade, OrderVerdict, Verdict};

/// A grade as a suite; `notes` say what else belongs to the run.
pub(super) fn suite(name: &str, grade: &Grade, notes: &str) -> TestSuite {
    let mut suite = TestSuite::new(name);
    suite.add_test_cases(grade.orders().iter().map(order));
    suite.add_test_case(report(grade));
    suite.add_test_case(exposure(grade));
    suite.set_system_out(notes);
    suite
}

/// The suites of several runs as a report.
pub(super) fn write(suites: impl IntoIterator<Item = TestSuite>) -> String {
    let mut report = Report::new("badbank");
    report.add_test_suites(suites);
    report.to_string().expect("memory takes every byte") + "\n"
}

fn order(order: &OrderGrade) -> TestCase {
    if order.verdict == OrderVerdict::Ok {
        return case(&order.order, TestCaseStatus::success());
    }
    let causes: Vec<&str> =
        order.causes.iter().map(|finding| Cause::as_str(finding.cause)).collect();
    let message = format!("{}: {}", order.verdict, causes.join(", "));
    case(&order.order, failure(order.verdict.as_str(), &message, order.story().trim_start()))
}

fn report(grade: &Grade) -> TestCase {
    let note = grade.report_note().unwrap_or_default();
    let status = match grade.report_true() {
        Some(true) => TestCaseStatus::success(),
        Some(false) => failure("report_false", note, ""),
        None => {
            let mut status = TestCaseStatus::skipped();
            status.set_message(note);
            status
        }
    };
    case("report", status)
}

fn exposure(grade: &Grade) -> TestCase {
    let status = match grade.verdict() {
        Verdict::NotExposed => failure(
            "not_exposed",
            "the faults that matter were not met, so the run shows nothing",
            "",
        ),
        _ => TestCaseStatus::success(),
    };
    case("exposure", status)
}

fn case(name: &str, status: TestCaseStatus) -> TestCase {
    TestCase::new(name, status)
}

fn failure(kind: &str, message: &str, description: &str) -> TestCaseStatus {
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
    status.set_type(kind).set_message(message);
    if !description.is_empty() {
        status.set_description(description);
    }
    status
}
