//! The lab's pictures: what they say, and that they are the same each time.

use super::{Folder, badbank};

/// Draws an experiment; two processes draw the same.
#[track_caller]
fn picture(experiment: &str) -> String {
    let folder = Folder::new();
    for file in ["first.svg", "second.svg"] {
        folder.run(&format!("lab {experiment} --svg {file}")).ends_with(0);
    }
    let picture = folder.read("first.svg");
    assert_eq!(picture, folder.read("second.svg"));
    assert_eq!(open_tags(&picture), Vec::<String>::new(), "{picture}");
    picture
}

/// The names of tags that are opened and never closed, in a text that is one SVG.
#[track_caller]
fn open_tags(svg: &str) -> Vec<String> {
    assert!(svg.starts_with("<svg xmlns=") && svg.trim_end().ends_with("</svg>"), "{svg}");
    let mut open = Vec::new();
    for piece in svg.split('<').skip(1).filter(|piece| !piece.starts_with("!--")) {
        let (tag, _) = piece.split_once('>').unwrap_or_else(|| panic!("`<{piece}` has no end"));
        let name = tag.split_whitespace().next().unwrap_or_default();
        if let Some(name) = name.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name), "{svg}");
        } else if !tag.ends_with('/') {
            open.push(name.to_owned());
        }
    }
    open
}

#[track_caller]
fn says(picture: &str, words: &[&str]) {
    for word in words {
        let is_there = picture.lines().any(|line| line.contains(&format!(">{word}")));
        assert!(is_there, "`{word}` is not in:\n{picture}");
    }
}

#[test]
fn retries_are_drawn_with_their_shares() {
    let picture = picture("retries --tickets 200");
    says(&picture, &["model_only<", "retries<", "keyed<", "model_key<", "article, 30 tickets<"]);
    says(
        &picture,
        &[
            "measured 0.0 % (0.0 to 1.9), exact 0.0 %, article 0.0 %<",
            "who retries: 200 tickets of 8 orders an arm, the same in each, from seed 1<",
        ],
    );
    for exact in ["exact 63.1 %, article 63.3 %<", "exact 93.1 %, article 93.3 %<"] {
        assert!(picture.contains(exact), "`{exact}` is not in:\n{picture}");
    }
}

#[test]
fn amplification_is_drawn_with_its_calls() {
    let picture = picture("amplification");
    says(&picture, &["3<", "9<", "27<", "81<", "243 (article 243)<", "1.21<", "2.56<", "49<"]);
    says(&picture, &["no budget, measured<", "budgets, all operations<", "1000<"]);
}

#[test]
fn breakers_are_drawn_with_the_morning_and_the_fleets() {
    let picture = picture("breaker --tickets 20");
    says(&picture, &["opens at 3<", "3, open until 13:09<", "3 in 60 min: not sent<"]);
    says(&picture, &["12:05 success (18 min)<", "12:18 failure (4 s)<", "3 in a row<", "16<"]);
    says(&picture, &["healthy backend, 2 % fail, 8 h<", "bad backend, 60 % fail, 2 h<"]);
}

#[test]
fn a_picture_changes_nothing_of_the_table() {
    let plain = badbank("lab breaker --tickets 3").ends_with(0);
    let drawn = badbank("lab breaker --tickets 3 --svg picture.svg").ends_with(0);
    assert_eq!(plain.stdout, drawn.stdout);
}

#[test]
fn a_table_of_several_tables_is_one_csv() {
    let told = badbank("lab breaker --tickets 3 --format csv").ends_with(0);
    let csv = told.stdout;
    assert!(csv.starts_with("table,sequence,time,event,backend,fail_percent,"), "{csv}");
    let row = r#"timeline,morning,12:09,failure (6 s),,,,,,failures within 60 min,"trips, for an hour",,,"3, open until 13:09","#;
    assert!(csv.lines().any(|line| line.starts_with(row)), "{csv}");
    let told = badbank("lab recovery --tickets 3 --format csv").ends_with(0);
    let row = "moments,stale,2,after_commit,orders refunded twice,,,,0.5,12,24,";
    assert!(told.stdout.lines().any(|line| line.starts_with(row)), "{}", told.stdout);
}

#[test]
fn more_jobs_than_there_is_memory_for_are_no_reason_to_panic() {
    let command = "ulimit -v 300000 && exec \"$0\" lab stopping --tickets 640 --jobs 1024";
    let shell = std::process::Command::new("sh")
        .args(["-c", command, env!("CARGO_BIN_EXE_badbank")])
        .output()
        .unwrap();
    assert!(shell.status.success(), "{}", String::from_utf8_lossy(&shell.stderr));
}

#[test]
fn what_has_no_picture_is_refused_before_it_runs() {
    for experiment in ["recovery", "stopping", "keys"] {
        // So many tickets would take days.
        let folder = Folder::new();
        let told = folder.run(&format!("lab {experiment} --tickets 1000000000 --svg p.svg"));
        let told = told.ends_with(2);
        let sentence = format!(
            "retries, amplification and breaker; {experiment} has no picture, only its table"
        );
        assert!(told.stderr.contains(&sentence), "{told:#?}");
        assert_eq!(told.stdout, "");
        assert!(folder.contents().is_empty());
    }
}

#[test]
fn a_picture_without_a_folder_is_refused_before_the_run() {
    let folder = Folder::new();
    let told = folder.run("lab retries --tickets 1000000000 --svg missing/p.svg").ends_with(3);
    assert!(told.stderr.contains("the folder missing does not exist"), "{told:#?}");
    let told = folder.run("lab breaker --tickets 1000000000 --svg .").ends_with(3);
    assert!(told.stderr.contains("it is a folder"), "{told:#?}");
    assert!(folder.contents().is_empty());
}
