//! What the lab says of breakers, stopping rules and layers of retries, beside their sources.

use std::{
    num::NonZero,
    sync::atomic::{AtomicU64, Ordering},
};

use badbank::lab::{
    Settings, Sheet, amplification,
    breaker::{self, Arm, FleetRow},
    keys, recovery, stopping,
};

use crate::{lab_retries::is_rectangular, trial::assert_log};

/// "The third failure never came": its log, and its regression test.
#[test]
fn the_morning_of_the_source_comes_out_as_it_says() {
    let timeline = breaker::timeline();
    for row in &timeline.rows[..6] {
        assert_eq!(row.streak, row.streak_article, "{row:?}");
    }
    let windows: Vec<&str> = timeline.rows.iter().map(|row| row.window.as_str()).collect();
    let open = "3, open until 13:09";
    assert_eq!(windows[..6], ["1", "2", "2", open, open, "not sent"]);
    assert_eq!(timeline.rows[9].streak, "2");
    assert_eq!(windows[6..], ["1", "1", "2", "3, open until 13:04"]);
    for row in &timeline.rows {
        assert_eq!((&row.streak, &row.window), (&row.streak_exact, &row.window_exact), "{row:?}");
    }
    assert_log!("lab", timeline.text());
}

#[test]
fn a_window_is_sooner_than_a_streak_and_needs_a_threshold_that_grows_with_the_fleet() {
    let fleet = breaker::fleet(&Settings::new(200, 1));
    let delay = |arm: &Arm| arm.median_delay_ms.unwrap_or(u64::MAX);
    for row in &fleet.rows {
        assert!(delay(&row.window) <= delay(&row.streak), "{row:?}");
        assert!(row.window.tripped >= row.streak.tripped, "{row:?}");
    }
    let (healthy, bad): (Vec<&FleetRow>, Vec<&FleetRow>) =
        fleet.rows.iter().partition(|row| row.phase == "healthy");
    assert_eq!(healthy[4].workers, 16);
    assert!(healthy[4].window.low > 0.7, "{:?}", healthy[4]);
    assert!(healthy.iter().all(|row| row.streak.high < 0.05), "{healthy:?}");
    assert!(healthy.iter().all(|row| row.scaled.high < 0.15), "{healthy:?}");
    assert!(bad.iter().all(|row| row.fail_percent < 60 || row.scaled.low > 0.8), "{bad:?}");
}

#[test]
fn stopping_rules_come_out_as_worked_out() {
    let sheet = stopping::run(&Settings::new(10, 1));
    for row in &sheet.rows {
        assert!((row.calls - f64::from(row.calls_exact)).abs() < 1e-9, "{row:?}");
        assert_eq!(row.true_reports, 10, "{row:?}");
        let recovers = row.calls_exact > row.failing;
        assert_eq!(row.recovered, if recovers { 10 } else { 0 }, "{row:?}");
    }
    for figure in sheet.figures() {
        assert_eq!(figure.measured, figure.exact, "{figure:?}");
    }
    assert_log!("lab", sheet.text());
}

#[test]
fn layers_multiply_to_243_and_budgets_keep_them_from_it() {
    let sheet = amplification::run(&Settings::new(1000, 1));
    for row in &sheet.rows {
        assert!((row.calls - f64::from(3_u32.pow(row.layers))).abs() < 1e-9, "{row:?}");
        assert!(row.budget_calls <= row.budget_bound, "{row:?}");
    }
    assert_eq!(sheet.rows[4].exact, 243);
    assert!(sheet.rows[4].budget_calls < 3.0);
    assert_log!("lab", sheet.text());
}

#[test]
fn operations_are_shared_by_threads_and_told_of_as_they_are_done() {
    let told = AtomicU64::new(0);
    let progress = |done| {
        told.fetch_add(done, Ordering::Relaxed);
    };
    let one = Settings::new(300, 1);
    let jobs = NonZero::new(3).unwrap();
    let shared = amplification::run(&Settings { jobs, progress: &progress, ..one });
    assert_eq!(shared, amplification::run(&one));
    assert_eq!(told.into_inner(), 300);
}

#[test]
fn every_sheet_is_json_and_csv_too() {
    #[track_caller]
    fn check(sheet: &impl Sheet) {
        let json: serde_json::Value = serde_json::from_str(&sheet.json()).unwrap();
        let records = sheet.records();
        assert_eq!(json["figures"].as_array().unwrap().len(), records.len() - 1);
        is_rectangular(sheet);
        for line in sheet.text().lines() {
            assert!(line.chars().count() <= 140, "{line}");
        }
    }
    let settings = Settings::new(2, 1);
    check(&breaker::run(&settings));
    check(&stopping::run(&settings));
    check(&amplification::run(&settings));
    check(&recovery::run(&settings));
    check(&keys::run(&settings));
}
