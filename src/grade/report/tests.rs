//! Reports of all kinds, and what they claim.

use super::*;

/// All ids with their claims, `nothing`, or `unreadable`.
fn told(text: &str) -> String {
    let report = Report::read(text);
    let tell = |id: &OrderId| {
        let claims: Vec<_> = report.claims(id).map(Claim::as_str).collect();
        format!("{id} {}", claims.join("+"))
    };
    let told: Vec<_> = report.ids().map(tell).collect();
    match (report.is_readable(), told.is_empty()) {
        (false, true) => "unreadable".to_owned(),
        (true, true) => "nothing".to_owned(),
        _ => told.join(", "),
    }
}

fn check(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        assert_eq!(told(text), *expected, "{text:?}");
    }
}

#[test]
fn a_claim_line_is_a_label_a_colon_and_ids() {
    check(&[
        ("REFUNDED: A-1", "A-1 REFUNDED"),
        ("FAILED: A-1", "A-1 FAILED"),
        ("DUPLICATED: A-1", "A-1 DUPLICATED"),
        ("UNKNOWN: A-1", "A-1 UNKNOWN"),
        ("Refunded: A-1", "A-1 REFUNDED"),
        ("refunded:A-1", "A-1 REFUNDED"),
        ("REFUNDED : A-1", "A-1 REFUNDED"),
        ("REFUNDED： A-1", "A-1 REFUNDED"),
        ("\t REFUNDED:\tA-1 \t", "A-1 REFUNDED"),
        ("\u{feff}REFUNDED: A-1", "A-1 REFUNDED"),
        ("REFUNDED A-1", "unreadable"),
        ("REFUNDED", "unreadable"),
        ("REFUNDED - A-1", "unreadable"),
        ("REFUNDED = A-1", "unreadable"),
        ("REFUNDEDX: A-1", "unreadable"),
        ("REFUND: A-1", "unreadable"),
        ("XREFUNDED: A-1", "unreadable"),
        ("NOT REFUNDED: A-1", "unreadable"),
        ("I have REFUNDED: A-1", "unreadable"),
        ("REFUNDED (2): A-1, A-2", "unreadable"),
        ("REFUNDED orders: A-1", "unreadable"),
        ("2 REFUNDED: A-1", "unreadable"),
        ("✗ REFUNDED: A-1", "unreadable"),
        ("~~REFUNDED: A-1~~", "unreadable"),
        ("\"REFUNDED: A-1\"", "unreadable"),
        ("ＲＥＦＵＮＤＥＤ: A-1", "unreadable"),
    ]);
}

#[test]
fn markdown_around_the_label_is_passed_over() {
    check(&[
        ("- REFUNDED: A-1", "A-1 REFUNDED"),
        ("* REFUNDED: A-1", "A-1 REFUNDED"),
        ("+ REFUNDED: A-1", "A-1 REFUNDED"),
        ("• REFUNDED: A-1", "A-1 REFUNDED"),
        ("> REFUNDED: A-1", "A-1 REFUNDED"),
        (">> - REFUNDED: A-1", "A-1 REFUNDED"),
        ("## REFUNDED: A-1", "A-1 REFUNDED"),
        ("1. REFUNDED: A-1", "A-1 REFUNDED"),
        ("12) REFUNDED: A-1", "A-1 REFUNDED"),
        ("- **REFUNDED**: A-1", "A-1 REFUNDED"),
        ("**REFUNDED:** A-1", "A-1 REFUNDED"),
        ("**REFUNDED: A-1**", "A-1 REFUNDED"),
        ("**1. REFUNDED:** A-1", "A-1 REFUNDED"),
        ("__REFUNDED:__ A-1", "A-1 REFUNDED"),
        ("__REFUNDED__ : A-1", "A-1 REFUNDED"),
        ("__REFUNDED: A-1__", "A-1 REFUNDED"),
        ("**`REFUNDED`**: `A-1`", "A-1 REFUNDED"),
        ("`REFUNDED: A-1`", "A-1 REFUNDED"),
        ("| REFUNDED: A-1 |", "A-1 REFUNDED"),
        ("| **REFUNDED:** | A-1, A-2 |", "A-1 REFUNDED, A-2 REFUNDED"),
        ("|REFUNDED:|A-1|A-2|", "A-1 REFUNDED, A-2 REFUNDED"),
    ]);
}

#[test]
fn ids_are_whole_words_without_their_wrapping() {
    check(&[
        ("REFUNDED: A-1 A-2,A-3;A-4", "A-1 REFUNDED, A-2 REFUNDED, A-3 REFUNDED, A-4 REFUNDED"),
        ("REFUNDED: A-10", "A-10 REFUNDED"),
        ("REFUNDED: A-1, a-1, A-1", "A-1 REFUNDED"),
        ("REFUNDED: [A-1, A-2]", "A-1 REFUNDED, A-2 REFUNDED"),
        ("REFUNDED: (A-1) {A-2} <A-3>", "A-1 REFUNDED, A-2 REFUNDED, A-3 REFUNDED"),
        ("REFUNDED: \"A-1\", 'A-2'", "A-1 REFUNDED, A-2 REFUNDED"),
        ("REFUNDED: “A-1” «A-2»", "A-1 REFUNDED, A-2 REFUNDED"),
        ("REFUNDED: **A-1**, `A-2`", "A-1 REFUNDED, A-2 REFUNDED"),
        ("REFUNDED: ['A-1', 'A-2'].", "A-1 REFUNDED, A-2 REFUNDED"),
        ("REFUNDED: \"A-1.\"", "A-1 REFUNDED"),
        ("REFUNDED: A-1.", "A-1 REFUNDED"),
        ("REFUNDED: A.1.", "A.1 REFUNDED"),
        ("REFUNDED: A.1..", "A.1. REFUNDED"),
        ("REFUNDED: A-1\u{a0}A-2", "A-1 REFUNDED, A-2 REFUNDED"),
        ("REFUNDED：A-1，A-2、A-3；", "A-1 REFUNDED, A-2 REFUNDED, A-3 REFUNDED"),
        ("REFUNDED: Ä-1, A‑2, A/3, A-4!, #5", "nothing"),
        ("REFUNDED: A-1: done", "done REFUNDED"),
        ("REFUNDED: F-1 100.00 EUR", "F-1 REFUNDED, 100.00 REFUNDED, EUR REFUNDED"),
        ("FAILED: F-1 (already)", "F-1 FAILED, already FAILED"),
    ]);
}

#[test]
fn an_empty_list_and_none_claim_nothing() {
    check(&[
        ("REFUNDED:", "nothing"),
        ("REFUNDED: ,;", "nothing"),
        ("REFUNDED: none", "nothing"),
        ("REFUNDED: None.", "nothing"),
        ("REFUNDED: (NONE)", "nothing"),
        ("**FAILED:** *none*", "nothing"),
        ("FAILED: none; A-1 took three attempts", "nothing"),
        ("REFUNDED: A-1\nFAILED: none", "A-1 REFUNDED"),
        ("REFUNDED: nonesuch", "nonesuch REFUNDED"),
    ]);
}

#[test]
fn the_last_block_counts() {
    check(&[
        ("REFUNDED: A-1\nFAILED: A-2", "A-1 REFUNDED, A-2 FAILED"),
        ("REFUNDED: A-1\r\nFAILED: A-2\r\n", "A-1 REFUNDED, A-2 FAILED"),
        ("1 of 2\r2 of 2\rREFUNDED: A-1", "A-1 REFUNDED"),
        ("REFUNDED: A-1\n\n \t\nFAILED: A-2\n\n", "A-1 REFUNDED, A-2 FAILED"),
        ("> REFUNDED: A-1\n>\n> FAILED: A-2", "A-1 REFUNDED, A-2 FAILED"),
        ("REFUNDED: A-1\nREFUNDED: A-2", "A-1 REFUNDED, A-2 REFUNDED"),
        ("REFUNDED: A-1\nNow the rest.\nFAILED: A-2", "A-2 FAILED"),
        ("REFUNDED: A-1\n---\nFAILED: A-2", "A-2 FAILED"),
        ("FAILED: A-1\n\nAll done:\n\nREFUNDED: A-1\n\nBye.", "A-1 REFUNDED"),
        ("REFUNDED: A-1\nSorry.\nUNKNOWN: none", "nothing"),
        ("REFUNDED:\n- A-1\nFAILED: none", "nothing"),
        ("Report:\n```\nREFUNDED: A-1\n```\n", "A-1 REFUNDED"),
        ("REFUNDED: A-1\n```text\nFAILED: A-2\n~~~", "A-2 FAILED"),
        ("```\nFAILED: A-1\n```\n```\nREFUNDED: A-1\n```", "A-1 REFUNDED"),
        ("> ```\n> REFUNDED: A-1\n> ```\nFAILED: A-2", "A-2 FAILED"),
    ]);
}

#[test]
fn an_order_claimed_two_ways_shows_both() {
    check(&[
        ("REFUNDED: A-1\nFAILED: A-1", "A-1 REFUNDED+FAILED"),
        ("UNKNOWN: a-1\nREFUNDED: A-1, A-1", "a-1 UNKNOWN+REFUNDED"),
        (r#"{"refunded": ["A-1"], "duplicated": ["A-1"]}"#, "A-1 REFUNDED+DUPLICATED"),
        (r#"{"failed": ["A-1"], "failed": ["A-2"]}"#, "A-1 FAILED, A-2 FAILED"),
    ]);
}

#[test]
fn json_has_lists_of_strings() {
    check(&[
        (
            r#"{"refunded":["A-1"],"failed":["A-2"],"duplicated":["A-3"],"unknown":["A-4"]}"#,
            "A-1 REFUNDED, A-2 FAILED, A-3 DUPLICATED, A-4 UNKNOWN",
        ),
        (r#"{"refunded":[],"failed":[],"duplicated":[],"unknown":[]}"#, "nothing"),
        ("\n {\"refunded\" : [ \"A-1\" ] }\n", "A-1 REFUNDED"),
        ("```json\n{\"refunded\": [\"A-1\"]}\n```\n", "A-1 REFUNDED"),
        ("{\n  \"refunded\": [\n    \"A-1\"\n  ]\n}", "A-1 REFUNDED"),
        (r#"{"failed": ["A-1"], "note": {"refunded": "all"}, "n": 1}"#, "A-1 FAILED"),
        (r#"{"REFUNDED": ["A-1"]}"#, "A-1 REFUNDED"),
        (
            r#"{"refunded": ["A.1.", "A-2, A-3", "none", ""]}"#,
            "A.1. REFUNDED, A-2 REFUNDED, A-3 REFUNDED",
        ),
        (r#"{"refunded": ["\u0041-1", "é"]}"#, "A-1 REFUNDED"),
        ("{}", "unreadable"),
        (r#"{"done": ["A-1"]}"#, "unreadable"),
        (r#"{"refunded": "A-1"}"#, "unreadable"),
        (r#"{"refunded": null}"#, "unreadable"),
        (r#"{"refunded": [1]}"#, "unreadable"),
        (r#"{"refunded": ["A-1"], "failed": {}}"#, "unreadable"),
        (r#"{"refunded": [["A-1"]]}"#, "unreadable"),
        (r#"{"refunded": ["A-1"]"#, "unreadable"),
        (r#"[{"refunded": ["A-1"]}]"#, "unreadable"),
        (r#""REFUNDED: A-1""#, "unreadable"),
        ("Done: {\"refunded\": [\"A-1\"]}", "unreadable"),
        ("{\"refunded\": [\"A-1\"]}\nFAILED: A-1", "A-1 FAILED"),
    ]);
}

#[test]
fn free_text_is_unreadable() {
    check(&[
        ("", "unreadable"),
        (" \n\n", "unreadable"),
        ("```\n```", "unreadable"),
        ("A-1 refunded 20.00. A-2 was not refunded.", "unreadable"),
        ("Neither A-1 nor A-2 was refunded.", "unreadable"),
        ("null", "unreadable"),
        ("🏦 💸", "unreadable"),
    ]);
    assert_eq!(Report::default(), Report::read(""));
}

#[test]
fn a_report_of_a_megabyte_is_read_in_one_go() {
    let words = "A-1 ".repeat(250_000);
    assert_eq!(told(&format!("REFUNDED: {words}")), "A-1 REFUNDED");
    let ids: Vec<_> = (0..70_000).map(|n| format!("order-{n:08}")).collect();
    let report = Report::read(&format!("FAILED: {}", ids.join(",")));
    assert_eq!(report.ids().count(), 70_000);
    assert!(report.claims("ORDER-00069999").eq([Claim::Failed]));
    for piece in ["REFUNDED:\n", "*", "1", "`", "[", " ", "REFUNDED ", "\u{a0}", "_", "."] {
        let text = piece.repeat(50_000);
        assert!(Report::read(&text).ids().next().is_none(), "{piece:?}");
        Report::read(&format!("__REFUNDED: {text}"));
    }
}

#[test]
fn deep_json_does_not_overflow() {
    let deep = "[".repeat(500_000);
    assert_eq!(told(&deep), "unreadable");
    assert_eq!(told(&format!("{{\"refunded\": {deep}")), "unreadable");
    let shut = "]".repeat(500_000);
    let ignored = format!("{{\"log\": {deep}{shut}, \"refunded\": [\"A-1\"]}}");
    assert_eq!(told(&ignored), "A-1 REFUNDED");
    assert_eq!(told(&"{\"refunded\":".repeat(80_000)), "unreadable");
}

#[test]
fn a_report_keeps_its_text() {
    let text = "Done.\r\nREFUNDED: A-1\n";
    assert_eq!(Report::read(text).text(), text);
    assert_eq!(Report::read(text), Report::read(text));
    assert_ne!(Report::read(text), Report::read("REFUNDED: A-1"));
}
