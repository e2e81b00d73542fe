//! Who retries: shares of doubled tickets with their intervals.

use kuva::{
    plot::{LegendPosition, LegendShape, MarkerShape},
    render::{layout::Layout, plots::Plot, render::render_multiple},
};

use super::{BLUE, GREY, ORANGE, entry, marks, percents, reach, scatter, svg, word};
use crate::{
    lab::{
        Sheet as _, hundredths, percent,
        retries::{ArmResult, Retries},
    },
    stats::Proportion,
};

/// Draws the share of tickets with a double refund in each arm: as measured, as it must come out, and as the
/// article has it.
pub(crate) fn retries(table: &Retries) -> String {
    let rows: Vec<Row> = table.arms().iter().rev().map(Row::new).collect();
    let plots = vec![
        shares(&rows, 0.12, BLUE, MarkerShape::Square, |row| row.measured),
        shares(&rows, -0.30, ORANGE, MarkerShape::Circle, |row| row.article),
        exact(&rows),
    ];
    let mut layout = Layout::auto_from_plots(&plots)
        .with_title("Tickets with a double refund")
        .with_subtitle(table.title())
        .with_x_label("share of tickets; 95 % Wilson intervals")
        .with_x_axis_min(-0.02)
        .with_x_axis_max(1.02)
        .with_x_tick_step(0.2)
        .with_x_tick_format(percents())
        .with_y_axis_min(0.5)
        .with_y_axis_max(top(&rows) + 0.7)
        .with_y_categories(rows.iter().map(|row| row.name.to_owned()).collect())
        .with_width(820.0)
        .with_height(560.0)
        .with_legend_position(LegendPosition::OutsideBottomCenter)
        .with_legend_box(false)
        .with_legend_entries(vec![
            entry("measured", BLUE, LegendShape::Marker(MarkerShape::Square)),
            entry("exact, from the plan's rates", GREY, LegendShape::Marker(MarkerShape::Diamond)),
            entry("article, 30 tickets", ORANGE, LegendShape::Marker(MarkerShape::Circle)),
        ]);
    for (row, y) in rows.iter().zip(places()) {
        layout = layout.with_annotation(word(row.words(), (0.5, y + 0.22)));
    }
    svg(&render_multiple(plots, layout))
}

/// An arm.
struct Row {
    name: &'static str,
    measured: Proportion,
    exact: f64,
    article: Proportion,
}

impl Row {
    fn new(arm: &ArmResult) -> Self {
        Self {
            name: arm.name,
            measured: Proportion::wilson(arm.double_tickets, arm.tickets),
            exact: arm.exact.double_ticket,
            article: arm.article_double_tickets(),
        }
    }

    fn words(&self) -> String {
        let Proportion { share, low, high } = self.measured;
        let [share, exact, article] = [share, self.exact, self.article.share].map(percent);
        let [low, high] = [low, high].map(hundredths);
        format!("measured {share} ({low} to {high}), exact {exact}, article {article}")
    }
}

/// Where arms have their middle, from the lowest.
fn places() -> impl Iterator<Item = f64> {
    (1_u32..).map(f64::from)
}

fn top(rows: &[Row]) -> f64 {
    rows.iter().zip(places()).last().map_or(1.0, |(_, y)| y)
}

fn shares(
    rows: &[Row],
    above: f64,
    color: &str,
    marker: MarkerShape,
    of: impl Fn(&Row) -> Proportion,
) -> Plot {
    let points: Vec<_> =
        rows.iter().zip(places()).map(|(row, y)| (of(row).share, y + above)).collect();
    let intervals =
        rows.iter().map(of).map(|Proportion { share, low, high }| reach(share, low, high));
    scatter(marks(&points, color, marker, 5.0).with_x_err_asymmetric(intervals))
}

fn exact(rows: &[Row]) -> Plot {
    let points: Vec<_> = rows.iter().zip(places()).map(|(row, y)| (row.exact, y - 0.09)).collect();
    scatter(marks(&points, GREY, MarkerShape::Diamond, 5.0))
}
