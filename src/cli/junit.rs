//! Grades for build servers: a suite for each run, a case for each order.

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use super::{arguments::Expect, run::Complaint};
use crate::grade::{Cause, Grade, OrderGrade, OrderVerdict, Verdict};

/// A grade as a suite; `notes` say what else belongs to the run. What is wrong is no failure where a failure is wanted.
pub(super) fn suite(name: &str, grade: &Grade, expect: Expect, notes: &str) -> TestSuite {
    let mut suite = TestSuite::new(name);
    suite.add_test_cases(grade.orders().iter().map(|grade| order(grade, expect)));
    suite.add_test_case(report(grade, expect));
    suite.add_test_case(exposure(grade));
    suite.set_system_out(notes);
    suite
}

/// The suites of several runs as a report, and what the command complains of beside them.
pub(super) fn write(
    suites: impl IntoIterator<Item = TestSuite>,
    complaints: &[Complaint],
) -> String {
    let mut report = Report::new("badbank");
    report.add_test_suites(suites);
    if !complaints.is_empty() {
        let mut suite = TestSuite::new("the command");
        let cases =
            complaints.iter().map(|found| complaint(found.kind, found.kind, &found.message));
        suite.add_test_cases(cases);
        report.add_test_suite(suite);
    }
    report.to_string().expect("memory takes every byte") + "\n"
}

/// Something wrong that no grade shows, as a case.
pub(super) fn complaint(name: &str, kind: &str, message: &str) -> TestCase {
    case(name, failure(kind, message, ""))
}

fn order(order: &OrderGrade, expect: Expect) -> TestCase {
    if order.verdict == OrderVerdict::Ok {
        return case(&order.order, TestCaseStatus::success());
    }
    let causes: Vec<&str> =
        order.causes.iter().map(|finding| Cause::as_str(finding.cause)).collect();
    let message = format!("{}: {}", order.verdict, causes.join(", "));
    let status = match expect {
        Expect::Pass => failure(order.verdict.as_str(), &message, order.story().trim_start()),
        Expect::Fail => skipped(&format!("{message}, as is expected")),
    };
    case(&order.order, status)
}

fn report(grade: &Grade, expect: Expect) -> TestCase {
    let note = grade.report_note().unwrap_or_default();
    let status = match (grade.report_true(), expect) {
        (Some(true), _) => TestCaseStatus::success(),
        (Some(false), Expect::Pass) => failure("report_false", note, ""),
        (Some(false), Expect::Fail) => skipped(&format!("{note}, as is expected")),
        (None, _) => skipped(note),
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

fn skipped(message: &str) -> TestCaseStatus {
    let mut status = TestCaseStatus::skipped();
    status.set_message(message);
    status
}

fn failure(kind: &str, message: &str, description: &str) -> TestCaseStatus {
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
    status.set_type(kind).set_message(message);
    if !description.is_empty() {
        status.set_description(description);
    }
    status
}
