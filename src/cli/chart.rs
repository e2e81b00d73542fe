//! Tables.

use comfy_table::Table;

/// A table without lines, its columns parted by blanks.
pub(super) fn table() -> Table {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table
}

/// A table as text, without blanks at the ends of its lines.
pub(super) fn lines(table: &Table) -> String {
    let text = table.to_string();
    // Each cell has a blank on both sides; the first one's would indent the table.
    let line = |line: &str| line.strip_prefix(' ').unwrap_or(line).trim_end().to_owned() + "\n";
    text.lines().map(line).collect()
}
