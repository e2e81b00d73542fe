//! Finds the claim lines of a text, and the ids on them.

use super::Claim;
use crate::ticket::OrderId;

/// Characters of Markdown that may stand before a label: bullets, quote marks, headings, cells, emphasis.
const MARKS: [char; 9] = ['-', '*', '+', '•', '>', '#', '|', '_', '`'];

/// Those of them that are closed again.
const EMPHASIS: [char; 3] = ['*', '_', '`'];

/// Colons that end a label.
const COLONS: [char; 2] = [':', '：'];

/// What parts ids, beside blanks. None of these, nor of [`WRAPPING`], can be in an id.
const SEPARATORS: [char; 6] = [',', ';', '|', '，', '；', '、'];

/// What may be wrapped around an id.
const WRAPPING: &[char] = &[
    '(', ')', '[', ']', '{', '}', '<', '>', '"', '\'', '`', '“', '”', '„', '‘', '’', '‚', '«', '»',
    '‹', '›', '*',
];

/// The claims of the last block of claim lines, if there is one.
pub(super) fn read(text: &str) -> Option<Vec<(Claim, OrderId)>> {
    let block = last_block(text);
    let claims = |(claim, list)| ids(list).map(move |id| (claim, id));
    (!block.is_empty()).then(|| block.into_iter().flat_map(claims).collect())
}

/// The ids of a list, unless it begins with `none`.
pub(super) fn ids(list: &str) -> impl Iterator<Item = OrderId> {
    let mut words = list
        .split(|char: char| char.is_whitespace() || SEPARATORS.contains(&char))
        .map(unwrapped)
        .filter(|word| !word.is_empty())
        .peekable();
    let is_none = |word: &&str| word.eq_ignore_ascii_case("none");
    let kept = if words.peek().is_some_and(is_none) { 0 } else { usize::MAX };
    words.take(kept).filter_map(|word| OrderId::new(word).ok())
}

/// A word without brackets, quotes, asterisks and one final dot.
fn unwrapped(word: &str) -> &str {
    let word = word.trim_matches(WRAPPING);
    word.strip_suffix('.').unwrap_or(word).trim_matches(WRAPPING)
}

fn last_block(text: &str) -> Vec<(Claim, &str)> {
    let mut block = Vec::new();
    let mut is_open = false;
    // A lone carriage return starts a line too: that is how progress bars are overwritten.
    for line in text.split(['\n', '\r']) {
        if let Some(claim) = claim_line(line) {
            if !is_open {
                block.clear();
            }
            block.push(claim);
            is_open = true;
        } else if !is_blank(line) {
            is_open = false;
        }
    }
    block
}

/// Whether the line is blank, perhaps in a quotation.
fn is_blank(line: &str) -> bool {
    line.trim_start_matches(|char: char| char == '>' || char.is_whitespace()).is_empty()
}

/// The label of a claim line and what follows its colon.
fn claim_line(line: &str) -> Option<(Claim, &str)> {
    let start = line.find(|char: char| char.is_ascii_alphabetic())?;
    let (lead, line) = line.split_at(start);
    if !lead.split_whitespace().all(is_mark) {
        return None;
    }
    let end = line.find(|char: char| !char.is_ascii_alphabetic()).unwrap_or(line.len());
    let (label, line) = line.split_at(end);
    Some((Claim::from_label(label)?, list(lead, line)?))
}

/// Whether a word is a mark of Markdown, or the number of a list's item.
fn is_mark(word: &str) -> bool {
    let number = word.trim_matches(MARKS);
    let digits = number.trim_end_matches(['.', ')']);
    number.is_empty()
        || number.len() == digits.len() + 1 && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// What follows the colon after a label. Emphasis that opens right before the label closes before the colon, after
/// it, or at the end of the line.
fn list<'a>(lead: &str, line: &'a str) -> Option<&'a str> {
    let opening = &lead[lead.trim_end_matches(EMPHASIS).len()..];
    let closing: String = opening.chars().rev().collect();
    let after_colon = |line: &'a str| line.trim_start().strip_prefix(COLONS);
    if let Some(list) = line.strip_prefix(&closing).and_then(after_colon) {
        return Some(list);
    }
    let list = after_colon(line)?.trim_end();
    let inner = list.strip_prefix(&closing);
    Some(inner.or_else(|| list.strip_suffix(&closing)).unwrap_or(list))
}
