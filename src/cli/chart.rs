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
    table.to_string().lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}
