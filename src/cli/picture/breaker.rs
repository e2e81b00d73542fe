//! Failures in a row against failures within an hour: the source's morning, and fleets.

use kuva::{
    plot::{LegendShape, LinePlot, MarkerShape},
    render::{
        annotations::ReferenceLine,
        figure::Figure,
        layout::{Layout, TickFormat},
        plots::Plot,
    },
};

use super::{BLUE, GREEN, GREY, ORANGE, entry, marks, percents, reach, scatter, svg, word};
use crate::lab::breaker::{Arm, Breaker, FleetRow, TimelineRow};

/// The failures at which either rule opens the circuit.
const THRESHOLD: f64 = 3.0;

/// Draws the count of either rule after each event of the source's log, and how often fleets of every size
/// trip.
pub(crate) fn breaker(table: &Breaker) -> String {
    let morning: Vec<&TimelineRow> =
        table.timeline.rows.iter().filter(|row| row.sequence == "morning").collect();
    let (mut plots, mut layouts) = (Vec::new(), Vec::new());
    let (panel, layout) = counts(&morning);
    plots.push(panel);
    layouts.push(layout);
    for rows in table.fleet.rows.chunk_by(|one, other| one.fail_percent == other.fail_percent) {
        let (panel, layout) = trips(rows);
        plots.push(panel);
        layouts.push(layout);
    }
    let figure = Figure::new(2, 3)
        .with_structure(vec![vec![0, 1, 2], vec![3], vec![4], vec![5]])
        .with_plots(plots)
        .with_layouts(layouts)
        .with_title(format!(
            "Three failures in a row against three within an hour; {} runs of each fleet, 95 % Wilson intervals",
            table.fleet.runs
        ))
        .with_title_size(18)
        .with_cell_size(340.0, 330.0)
        .with_shared_legend_bottom()
        .with_shared_legend_entries(vec![
            entry("3 in a row", ORANGE, LegendShape::Marker(MarkerShape::Circle)),
            entry("3 in 60 min", BLUE, LegendShape::Marker(MarkerShape::Square)),
            entry("2 + workers/2 in 60 min", GREEN, LegendShape::Marker(MarkerShape::Triangle)),
        ]);
    svg(&figure.render())
}

/// The source's log.
fn counts(rows: &[&TimelineRow]) -> (Vec<Plot>, Layout) {
    let streak = numbered(rows, |row| row.streak_count);
    let window = numbered(rows, |row| row.window_count);
    let mut plots = Vec::new();
    for (points, color, marker) in
        [(&window, BLUE, MarkerShape::Square), (&streak, ORANGE, MarkerShape::Circle)]
    {
        let line = LinePlot::new().with_data(points.iter().copied()).with_color(color);
        plots.push(Plot::Line(line));
        plots.push(scatter(marks(points, color, marker, 4.5)));
    }
    let labels = rows.iter().map(|row| format!("{} {}", row.time, row.event)).collect();
    let mut layout = Layout::auto_from_plots(&plots)
        .with_title("The article's morning: the count after each session")
        .with_x_categories(labels)
        .with_x_axis_min(0.5)
        .with_x_axis_max(small(rows.len()) + 0.5)
        .with_y_label("failures counted")
        .with_y_axis_min(-0.2)
        .with_y_axis_max(4.0)
        .with_y_tick_format(TickFormat::Integer)
        .with_y_tick_step(1.0)
        .with_reference_line(
            ReferenceLine::horizontal(THRESHOLD).with_color(GREY).with_label("opens at 3"),
        );
    for (place, row) in (1_u32..).zip(rows) {
        if row.window_count.is_none() {
            let text = format!("3 in 60 min: {}", row.window);
            layout = layout.with_annotation(word(text, (f64::from(place), 2.5)));
        }
    }
    let opens = |row: &&TimelineRow| row.window_count.map(f64::from) >= Some(THRESHOLD);
    if let Some((place, row)) = (1_u32..).zip(rows).find(|(_, row)| opens(row)) {
        layout = layout.with_annotation(word(&row.window, (f64::from(place), THRESHOLD + 0.1)));
    }
    (plots, layout)
}

fn numbered(rows: &[&TimelineRow], count: impl Fn(&TimelineRow) -> Option<u32>) -> Vec<(f64, f64)> {
    let place = |(place, row): (u32, &&TimelineRow)| {
        count(row).map(|count| (f64::from(place), f64::from(count)))
    };
    (1_u32..).zip(rows).filter_map(place).collect()
}

#[allow(clippy::cast_precision_loss, reason = "a few events or sizes")]
fn small(count: usize) -> f64 {
    count as f64
}

/// Fleets before a backend.
fn trips(rows: &[FleetRow]) -> (Vec<Plot>, Layout) {
    let rule = |arm: fn(&FleetRow) -> &Arm, color, marker, aside: f64| {
        let places = (1_u32..).map(|place| f64::from(place) + aside);
        let points: Vec<_> = places.zip(rows).map(|(x, row)| (x, arm(row).share)).collect();
        let intervals = rows.iter().map(|row| {
            let Arm { share, low, high, .. } = *arm(row);
            reach(share, low, high)
        });
        let line = LinePlot::new().with_data(points.iter().copied()).with_color(color);
        let marks = marks(&points, color, marker, 4.0).with_y_err_asymmetric(intervals);
        [Plot::Line(line), scatter(marks)]
    };
    let plots: Vec<Plot> = [
        rule(|row| &row.streak, ORANGE, MarkerShape::Circle, -0.06),
        rule(|row| &row.window, BLUE, MarkerShape::Square, 0.0),
        rule(|row| &row.scaled, GREEN, MarkerShape::Triangle, 0.06),
    ]
    .into_iter()
    .flatten()
    .collect();
    let title = rows.first().map_or_else(String::new, |row| {
        format!("{} backend, {} % fail, {} h", row.phase, row.fail_percent, row.hours)
    });
    let layout = Layout::auto_from_plots(&plots)
        .with_title(title)
        .with_title_size(14)
        .with_x_label("workers")
        .with_y_label("runs that trip")
        .with_x_axis_min(0.5)
        .with_x_axis_max(small(rows.len()) + 0.5)
        .with_x_categories(rows.iter().map(|row| row.workers.to_string()).collect())
        .with_y_axis_min(-0.03)
        .with_y_axis_max(1.03)
        .with_y_tick_step(0.2)
        .with_y_tick_format(percents());
    (plots, layout)
}
