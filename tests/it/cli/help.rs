//! What the command says of itself.

use super::{assert_text, badbank};

#[test]
fn every_command_explains_itself_within_a_hundred_columns() {
    let commands = [
        "badbank",
        "badbank run",
        "badbank replay",
        "badbank serve",
        "badbank grade",
        "badbank plan",
        "badbank plan list",
        "badbank plan show",
        "badbank plan check",
        "badbank plan forecast",
        "badbank lab",
    ];
    let help = commands.map(|command| {
        let arguments = command.trim_start_matches("badbank");
        let told = badbank(&format!("{arguments} --help")).ends_with(0);
        format!("$ {command} --help\n{}", told.stdout)
    });
    let help = help.join("\n");
    let widest = help.lines().max_by_key(|line| line.chars().count()).unwrap();
    assert!(widest.chars().count() <= 100, "{widest}");
    assert_text("every_command_explains_itself_within_a_hundred_columns", &help);
}

#[test]
fn the_version_is_the_packages() {
    let told = badbank("--version").ends_with(0);
    assert_eq!(told.stdout, format!("badbank {}\n", env!("CARGO_PKG_VERSION")));
}
