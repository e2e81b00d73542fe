//! Calls against layers of retries, plain and within budgets.

use kuva::{
    plot::{LegendPosition, LegendShape, LinePlot, MarkerShape},
    render::{
        layout::{Layout, TickFormat},
        plots::Plot,
        render::render_multiple,
    },
};

use super::{BLUE, GREEN, ORANGE, entry, marks, scatter, svg, word};
use crate::lab::{
    Sheet as _,
    amplification::{Amplification, AmplificationRow},
};

/// Times a height on this axis, words clear a mark from above.
const ABOVE: f64 = 1.12;

/// Times a height on this axis, words clear a mark from below.
const BELOW: f64 = 0.61;

/// Behind what was measured.
const PALE: &str = "#bbbbbb";

/// Draws the calls that reach a dead service, on a logarithmic axis.
pub(crate) fn amplification(table: &Amplification) -> String {
    let plain = points(table, |row| row.calls);
    let first = points(table, |row| small(row.budget_first));
    let budget = points(table, |row| row.budget_calls);
    let exact = points(table, |row| small(row.exact));
    let mut plots = vec![scatter(marks(&exact, PALE, MarkerShape::Diamond, 7.5))];
    for (points, color, marker) in [
        (&plain, ORANGE, MarkerShape::Circle),
        (&first, GREEN, MarkerShape::Triangle),
        (&budget, BLUE, MarkerShape::Square),
    ] {
        plots.push(line(points, color));
        plots.push(scatter(marks(points, color, marker, 4.5)));
    }
    let layout = layout(table, &plots);
    svg(&render_multiple(plots, words(table, layout)))
}

/// Says each number beside its mark.
fn words(table: &Amplification, layout: Layout) -> Layout {
    table.rows.iter().fold(layout, |layout, row| {
        let (x, first) = (f64::from(row.layers), small(row.budget_first));
        let article = row.article.map_or_else(String::new, |calls| format!(" (article {calls})"));
        let plain = format!("{:.0}{article}", row.calls);
        let budget = format!("{:.2}", row.budget_calls);
        let has_room = row.calls >= 2.0 * row.budget_calls;
        let budget_height = row.budget_calls * if has_room { ABOVE } else { BELOW };
        let layout = layout
            .with_annotation(word(plain, (x, row.calls * ABOVE)))
            .with_annotation(word(budget, (x, budget_height)));
        // Where the first operation does not yet feel its budgets, or alone makes the mean, there is no room.
        if row.budget_first == row.exact || first < row.budget_calls * 2.5 {
            return layout;
        }
        layout.with_annotation(word(row.budget_first.to_string(), (x, first * BELOW)))
    })
}

fn layout(table: &Amplification, plots: &[Plot]) -> Layout {
    Layout::auto_from_plots(plots)
        .with_title("How layers of retries multiply")
        .with_subtitle(table.title())
        .with_x_label("layers that retry")
        .with_y_label("calls for an operation")
        .with_log_y()
        .with_x_axis_min(0.5)
        .with_x_axis_max(5.5)
        .with_y_axis_min(0.5)
        .with_y_axis_max(1000.0)
        .with_x_categories(table.rows.iter().map(|row| row.layers.to_string()).collect())
        .with_y_tick_format(TickFormat::Auto)
        .with_width(820.0)
        .with_height(560.0)
        .with_legend_position(LegendPosition::OutsideBottomCenter)
        .with_legend_box(false)
        .with_legend_entries(vec![
            entry("no budget, measured", ORANGE, LegendShape::Marker(MarkerShape::Circle)),
            entry("no budget, exact", PALE, LegendShape::Marker(MarkerShape::Diamond)),
            entry("budgets, first operation", GREEN, LegendShape::Marker(MarkerShape::Triangle)),
            entry("budgets, all operations", BLUE, LegendShape::Marker(MarkerShape::Square)),
        ])
}

fn points(table: &Amplification, of: impl Fn(&AmplificationRow) -> f64) -> Vec<(f64, f64)> {
    table.rows.iter().map(|row| (f64::from(row.layers), of(row))).collect()
}

#[allow(clippy::cast_precision_loss, reason = "nobody counts 2^53 calls")]
fn small(calls: u64) -> f64 {
    calls as f64
}

fn line(points: &[(f64, f64)], color: &str) -> Plot {
    Plot::Line(LinePlot::new().with_data(points.iter().copied()).with_color(color))
}
