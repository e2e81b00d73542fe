//! What the command says of itself.

use super::{assert_text, badbank};

#[test]
fn every_command_explains_itself_within_a_hundred_columns() {
    for command in [
        "",
        "run",
        "replay",
        "serve",
        "grade",
        "plan",
        "plan list",
        "plan show",
        "plan check",
        "plan forecast",
    ] {
        let told = badbank(&format!("{command} --help")).ends_with(0);
        let widest = told.stdout.lines().max_by_key(|line| line.chars().count()).unwrap();
        assert!(widest.chars().count() <= 100, "{widest}");
        let name = format!("help_{command}").replace(' ', "_");
        assert_text(name.trim_end_matches('_'), &told.stdout);
    }
}

#[test]
fn the_version_is_the_packages() {
    let told = badbank("--version").ends_with(0);
    assert_eq!(told.stdout, format!("badbank {}\n", env!("CARGO_PKG_VERSION")));
}
