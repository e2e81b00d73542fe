//! `--snapshot`: pins a run, and lets the verdict decide.

use super::Folder;

const PINNED: &str = "run --seed 7 --harness keyed --snapshot run.snap";

#[test]
fn a_missing_snapshot_fails_and_is_shown() {
    let folder = Folder::new();
    let told = folder.run(PINNED).ends_with(1);
    assert!(told.stderr.contains("run.snap does not exist; --update writes it"), "{}", told.stderr);
    assert!(told.stderr.contains("\nA-9160 refund #1 duplicate\n"), "{}", told.stderr);
    assert!(told.stdout.contains("\nreplay it with\n"), "{}", told.stdout);
    assert!(folder.contents().is_empty());
}

#[test]
fn an_equal_snapshot_leaves_the_verdict_to_decide() {
    let folder = Folder::new();
    folder.run(&format!("{PINNED} --update")).ends_with(0);
    let written = folder.read("run.snap");
    assert!(written.starts_with("badbank faults v1 seed=7\n"), "{written}");
    assert!(written.contains("\"verdict\": \"pass\""), "{written}");
    folder.run(PINNED).ends_with(0);
    let told = folder.run(&format!("{PINNED} --expect fail")).ends_with(1);
    assert!(told.stderr.contains("the verdict is pass, and fail was expected"), "{}", told.stderr);
    let replay = "replay it with\n  badbank run --seed 7 --harness keyed\n";
    assert!(told.stdout.ends_with(replay), "{}", told.stdout);

    let failing = PINNED.replace("keyed", "retries");
    folder.run(&format!("{failing} --update")).ends_with(1);
    folder.run(&failing).ends_with(1);
    folder.run(&format!("{failing} --expect fail")).ends_with(0);
}

#[test]
fn a_changed_run_fails_and_shows_what_changed() {
    let folder = Folder::new();
    folder.run(&format!("{PINNED} --update")).ends_with(0);
    let changed =
        folder.read("run.snap").replace("A-9160 refund #1 duplicate", "A-9160 refund #1 late(1)");
    std::fs::write(folder.path("run.snap"), &changed).unwrap();
    let told = folder.run(PINNED).ends_with(1);
    for line in ["-A-9160 refund #1 late(1)", "+A-9160 refund #1 duplicate", "--update accepts it"]
    {
        assert!(told.stderr.contains(line), "{line}: {}", told.stderr);
    }
    assert_eq!(folder.read("run.snap"), changed, "it was written without --update");
    folder.run(&format!("{PINNED} --update")).ends_with(0);
    folder.run(PINNED).ends_with(0);
}

#[test]
fn many_seeds_have_one_snapshot_however_many_go_on_at_once() {
    let folder = Folder::new();
    let many = "run --seeds 1..8 --harness keyed --snapshot many.snap";
    let first = folder.run(&format!("{many} --jobs 1 --update"));
    let held = folder.read("many.snap");
    assert_eq!(held.matches("badbank faults v1 seed=").count(), 8);
    let second = folder.run(&format!("{many} --jobs 8"));
    assert_eq!((first.code, first.stdout), (second.code, second.stdout));
}

#[test]
fn a_snapshot_does_not_tell_the_command_that_made_it() {
    let folder = Folder::new();
    folder.run(&format!("{PINNED} --update")).ends_with(0);
    assert!(!folder.read("run.snap").contains("keyed"));
}

#[test]
fn the_line_ends_of_a_snapshot_are_up_to_whoever_checked_it_out() {
    let folder = Folder::new();
    folder.run(&format!("{PINNED} --update")).ends_with(0);
    let windows = folder.read("run.snap").replace('\n', "\r\n");
    std::fs::write(folder.path("run.snap"), windows).unwrap();
    folder.run(PINNED).ends_with(0);
}
