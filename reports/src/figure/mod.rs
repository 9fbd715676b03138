//! Figures: curves with their intervals, drawn as SVG and PNG.
//!
//! A [`Figure`] is data; [`Figure::svg`] and [`Figure::png`] draw it the same way. Colours are those of Okabe and Ito, which most
//! colour-blind readers can tell apart, and each curve has a mark of a different shape. The font comes with the package (`assets`), so no
//! system library and no installed font is needed.

mod draw;
mod legend;
mod scale;

pub use draw::{HEIGHT, INKS, WIDTH};
pub use scale::{Axis, Kind, Scale};

use crate::statistics::Estimate;

/// Some curves over one axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// The name of its files.
    pub id: String,
    /// The title, drawn above the curves.
    pub title: String,
    /// The axis along the bottom, shared by all curves.
    pub x: Axis,
    /// The axis along the left, shared by all curves.
    pub y: Axis,
    /// The curves; at most [`INKS`] inks can be told apart.
    pub curves: Vec<Curve>,
    /// The meaning of its dotted lines.
    pub dotted: &'static str,
}

/// A line through points, with values to compare it with.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve {
    /// The name in the legend; a curve without a name is explained by another one of its ink.
    pub name: String,
    /// The number of its colour and mark.
    pub ink: usize,
    /// Whether its line is dashed: it matters less than the solid one of its ink.
    pub dashed: bool,
    /// Its points, by x; the intervals make a band.
    pub points: Vec<(f64, Estimate)>,
    /// The values of a formula, or a limit: a dotted line.
    pub formula: Vec<(f64, f64)>,
    /// The values of an independent model: rings.
    pub model: Vec<(f64, f64)>,
}

impl Curve {
    /// Whether any of its values has an interval that is more than the value itself.
    fn has_band(&self) -> bool {
        self.points.iter().any(|(_, y)| y.low != Some(y.value) || y.high != Some(y.value))
    }
}

/// The reason why a figure could not be drawn.
#[derive(Debug, thiserror::Error)]
#[error("failed to draw {figure}: {reason}")]
pub struct DrawError {
    /// The [`Figure::id`] of the figure that failed.
    pub figure: String,
    /// The error, in the words of the library that draws or encodes.
    pub reason: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure() -> Figure {
        let estimate = |value: f64| Estimate { value, low: Some(value * 0.9), high: Some(value * 1.1) };
        Figure {
            id: "test".to_owned(),
            title: "Conflicts & <others>".to_owned(),
            x: Axis { label: "adaptors".to_owned(), kind: Kind::Count, scale: Scale::Log },
            y: Axis { label: "conflicts per call".to_owned(), kind: Kind::Count, scale: Scale::Linear },
            dotted: "closed form",
            curves: vec![Curve {
                name: "in use".to_owned(),
                points: [2.0, 4.0, 8.0].map(|x: f64| (x, estimate(x.log2()))).to_vec(),
                formula: vec![(2.0, 1.1), (8.0, 3.1)],
                model: vec![(4.0, 2.0)],
                ..Curve::default()
            }],
        }
    }

    #[test]
    fn a_drawing_has_its_words_and_is_the_same_each_time() {
        let svg = figure().svg().unwrap();
        for word in ["Conflicts &amp; &lt;others&gt;", "adaptors", "conflicts per call", "in use", "95 % interval", "closed form", "model"]
        {
            assert!(svg.contains(word), "{word} is missing:\n{svg}");
        }
        assert_eq!(svg, figure().svg().unwrap());
    }

    #[test]
    fn a_picture_is_a_png_of_twice_the_size_with_ink_on_it() {
        let png = figure().png().unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(&png)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        assert_eq!((info.width, info.height), (2 * WIDTH, 2 * HEIGHT));
        let blue = pixels.chunks(3).filter(|pixel| *pixel == [0x00, 0x72, 0xb2]).count();
        let dark = pixels.chunks(3).filter(|pixel| pixel.iter().all(|part| *part < 0x60)).count();
        assert!(blue > 200, "the curve: {blue} pixels");
        assert!(dark > 1_000, "the words: {dark} pixels");
    }

    #[test]
    fn a_figure_without_points_is_drawn_empty() {
        let empty = Figure { curves: vec![Curve { name: "nothing".to_owned(), ..Curve::default() }], ..figure() };
        assert!(empty.svg().unwrap().contains("nothing"));
    }
}
