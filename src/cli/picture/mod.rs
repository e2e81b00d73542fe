//! Pictures of the lab's tables, as SVG.
//!
//! The same table gives the same bytes in every process.
#![allow(clippy::float_arithmetic, reason = "this is where numbers become places")]

mod amplification;
mod breaker;
mod retries;

use std::sync::Arc;

use kuva::{
    plot::{LegendEntry, LegendShape, MarkerShape, scatter::ScatterPlot},
    render::{annotations::TextAnnotation, layout::TickFormat, plots::Plot, render::Scene},
};

pub(super) use self::{amplification::amplification, breaker::breaker, retries::retries};

/// Colours that people with any kind of colour vision tell apart (Okabe and Ito 2008).
const BLUE: &str = "#0072b2";
const ORANGE: &str = "#d55e00";
const GREEN: &str = "#009e73";
const GREY: &str = "#666666";

/// What kuva calls the n-th picture's clipping, counted in a process.
const CLIP: &str = "kuva-clip-";

/// The text of a picture.
fn svg(scene: &Scene) -> String {
    number_clips(&kuva::backend::svg::SvgBackend.render_scene(scene))
}

/// Numbers the clippings of a picture from 0: how many were drawn before it is no part of it.
fn number_clips(svg: &str) -> String {
    let mut pieces = svg.split(CLIP);
    let mut text = pieces.next().unwrap_or_default().to_owned();
    let mut known: Vec<&str> = Vec::new();
    for piece in pieces {
        let end = piece.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(piece.len());
        let (number, rest) = piece.split_at(end);
        let place = known.iter().position(|other| *other == number).unwrap_or_else(|| {
            known.push(number);
            known.len() - 1
        });
        text.extend([CLIP, &place.to_string(), rest]);
    }
    text
}

/// Points of one kind.
fn marks(points: &[(f64, f64)], color: &str, marker: MarkerShape, size: f64) -> ScatterPlot {
    ScatterPlot::new()
        .with_data(points.iter().copied())
        .with_color(color)
        .with_marker(marker)
        .with_size(size)
}

/// How far an interval reaches to either side of a share.
fn reach(share: f64, low: f64, high: f64) -> (f64, f64) {
    ((share - low).max(0.0), (high - share).max(0.0))
}

fn entry(label: &str, color: &str, shape: LegendShape) -> LegendEntry {
    LegendEntry { label: label.to_owned(), color: color.to_owned(), shape, dasharray: None }
}

/// Words a little above a place.
fn word(text: impl Into<String>, (x, y): (f64, f64)) -> TextAnnotation {
    TextAnnotation::new(text, x, y)
}

/// Shares from 0 to 1 as percent; what an axis shows beyond them stays blank.
fn percents() -> TickFormat {
    TickFormat::Custom(Arc::new(|share| {
        if (-1e-9..=1.0 + 1e-9).contains(&share) {
            format!("{:.0} %", share * 100.0)
        } else {
            String::new()
        }
    }))
}

fn scatter(plot: ScatterPlot) -> Plot {
    Plot::Scatter(plot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clips_are_numbered_from_zero() {
        let before = r#"id="kuva-clip-17" url(#kuva-clip-17) id="kuva-clip-4" url(#kuva-clip-4)"#;
        let after = r#"id="kuva-clip-0" url(#kuva-clip-0) id="kuva-clip-1" url(#kuva-clip-1)"#;
        assert_eq!(number_clips(before), after);
        assert_eq!(number_clips("<svg/>"), "<svg/>");
    }
}
