//! Drawing of figures, on any backend.

use std::ops::Range;
use std::sync::Once;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::prelude::*;

use super::legend;
use super::{Curve, DrawError, Figure};

/// The width of a drawing; a picture has twice as many pixels each way.
pub const WIDTH: u32 = 960;
/// The height of a drawing, in the unit of [`WIDTH`].
pub const HEIGHT: u32 = 500;

/// The number of curves that can be told apart.
pub const INKS: usize = 8;

/// The colours of Okabe and Ito, the most striking first.
const INK: [RGBColor; INKS] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x4d, 0x4d, 0x4d),
    RGBColor(0xf0, 0xe4, 0x42),
];
pub(super) const TEXT: RGBColor = RGBColor(0x1b, 0x1f, 0x24);
pub(super) const DIM: RGBColor = RGBColor(0x5b, 0x64, 0x70);
const GRID: RGBColor = RGBColor(0xe3, 0xe6, 0xea);
const PAPER: RGBColor = RGBColor(0xff, 0xff, 0xff);

const FONT: &str = "sans-serif";
const FONT_BYTES: &[u8] = include_bytes!("../../assets/DejaVuSans-subset.ttf");

/// The largest number of points of a curve that have a mark each.
const MARKS_MAX: usize = 24;

/// The space for the legend on the right.
const LEGEND: u32 = 268;

pub(super) fn ink(number: usize) -> RGBColor {
    INK[number % INKS]
}

/// A length in units of the drawing, in pixels.
#[derive(Clone, Copy)]
pub(super) struct Unit(pub(super) u32);

impl Unit {
    pub(super) fn of(self, length: i32) -> i32 {
        length * self.0 as i32
    }

    pub(super) fn stroke(self, width: u32) -> u32 {
        width * self.0
    }
}

fn with_font() {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // The bytes are constant; the first drawing of the tests finds any error in them.
        let _ = plotters::style::register_font(FONT, FontStyle::Normal, FONT_BYTES);
    });
}

pub(super) fn text(size: i32, color: RGBColor, unit: Unit) -> TextStyle<'static> {
    (FONT, unit.of(size)).into_font().color(&color)
}

impl Figure {
    /// Draws the figure as SVG, in the colours of a light page. Each colour stands for one role, so that a page can replace it.
    ///
    /// # Errors
    /// The drawing failed.
    pub fn svg(&self) -> Result<String, DrawError> {
        let mut svg = String::new();
        let root = SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT)).into_drawing_area();
        self.draw(&root, Unit(1))?;
        drop(root);
        Ok(svg)
    }

    /// Draws the figure as PNG, on white.
    ///
    /// # Errors
    /// The drawing failed.
    pub fn png(&self) -> Result<Vec<u8>, DrawError> {
        let size = (2 * WIDTH, 2 * HEIGHT);
        let mut pixels = vec![0; 3 * size.0 as usize * size.1 as usize];
        self.draw(&BitMapBackend::with_buffer(&mut pixels, size).into_drawing_area(), Unit(2))?;
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, size.0, size.1);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        let written = encoder.write_header().and_then(|mut writer| writer.write_image_data(&pixels));
        written.map_err(|error| self.failed(&error))?;
        Ok(bytes)
    }

    fn failed(&self, reason: &dyn std::fmt::Display) -> DrawError {
        DrawError { figure: self.id.clone(), reason: reason.to_string() }
    }

    fn draw<B: DrawingBackend>(&self, root: &DrawingArea<B, plotters::coord::Shift>, unit: Unit) -> Result<(), DrawError> {
        with_font();
        self.draw_on(root, unit).map_err(|error| self.failed(&error))
    }

    fn draw_on<B: DrawingBackend>(&self, root: &Canvas<B>, unit: Unit) -> Drawn<B> {
        root.fill(&PAPER)?;
        root.draw(&Text::new(self.title.clone(), (unit.of(16), unit.of(12)), text(17, TEXT, unit)))?;
        let (left, right) =
            root.margin(unit.of(44), unit.of(6), unit.of(14), unit.of(8)).split_horizontally(unit.of((WIDTH - LEGEND) as i32 - 14));
        self.plot(&left, unit)?;
        legend::draw(&self.curves, self.dotted, &right, unit)?;
        root.present()
    }

    fn plot<B: DrawingBackend>(&self, area: &Canvas<B>, unit: Unit) -> Drawn<B> {
        let xs = || self.curves.iter().flat_map(|curve| curve.points.iter().map(|(x, _)| *x).chain(curve.formula.iter().map(|(x, _)| *x)));
        let ys = self.curves.iter().flat_map(|curve| {
            let points = curve.points.iter().flat_map(|(_, y)| [Some(y.value), y.low, y.high].into_iter().flatten());
            points.chain(curve.formula.iter().chain(&curve.model).map(|(_, y)| *y))
        });
        let (x_range, y_range) = (self.x.range(xs()), self.y.range(ys));
        let mut chart = ChartBuilder::on(area)
            .x_label_area_size(unit.of(46))
            .y_label_area_size(unit.of(74))
            .margin_right(unit.of(14))
            .margin_top(unit.of(6))
            .build_cartesian_2d(
                Ruler { ticks: self.x_ticks(&x_range, xs()), range: x_range },
                Ruler { ticks: self.y.ticks(&y_range), range: y_range.clone() },
            )?;
        let (x, y) = (self.x.clone(), self.y.clone());
        chart
            .configure_mesh()
            .bold_line_style(GRID.stroke_width(unit.stroke(1)))
            .light_line_style(TRANSPARENT)
            .axis_style(DIM.stroke_width(unit.stroke(1)))
            .label_style(text(13, TEXT, unit))
            .axis_desc_style(text(14, TEXT, unit))
            .x_desc(&self.x.label)
            .y_desc(&self.y.label)
            .x_label_formatter(&|place| x.label(x.number(*place)))
            .y_label_formatter(&|place| y.label(y.number(*place)))
            .draw()?;
        for curve in &self.curves {
            self.band(curve, &y_range, &mut chart)?;
        }
        let last = self.curves.iter().map(|curve| curve.ink).max().unwrap_or(0);
        for curve in &self.curves {
            // Where curves overlap, the later ones are thinner, so that the earlier ones show on both sides.
            self.curve(curve, (last - curve.ink).div_ceil(2).min(2) as u32, &mut chart, unit)?;
        }
        Ok(())
    }

    /// The numbers at which there are points, if they are few enough to be legible; else numbers in between.
    fn x_ticks(&self, range: &Range<f64>, xs: impl Iterator<Item = f64>) -> Vec<f64> {
        let mut places: Vec<f64> = xs.filter_map(|x| self.x.place(x)).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        let apart = (range.end - range.start) / 13.0;
        let legible = places.windows(2).all(|pair| pair[1] - pair[0] >= apart);
        if legible && !places.is_empty() { places } else { self.x.ticks(range) }
    }

    fn places(&self, points: &[(f64, f64)]) -> Vec<(f64, f64)> {
        points.iter().filter_map(|(x, y)| Some((self.x.place(*x)?, self.y.place(*y)?))).collect()
    }

    fn band<B: DrawingBackend>(&self, curve: &Curve, range: &Range<f64>, chart: &mut Chart<'_, B>) -> Drawn<B> {
        // An open end reaches to the edge of the figure.
        let edge = |x: f64, end: Option<f64>, open: f64| {
            let y = end.map_or(open, |end| self.y.place(end).unwrap_or(range.start)).clamp(range.start, range.end);
            self.x.place(x).map(|x| (x, y))
        };
        let upper = curve.points.iter().filter_map(|(x, y)| edge(*x, y.high, range.end));
        let lower = curve.points.iter().rev().filter_map(|(x, y)| edge(*x, y.low, range.start));
        let outline: Vec<(f64, f64)> = upper.chain(lower).collect();
        if outline.len() > 2 && curve.has_band() {
            chart.draw_series([Polygon::new(outline, ink(curve.ink).mix(0.2))])?;
        }
        Ok(())
    }

    fn curve<B: DrawingBackend>(&self, curve: &Curve, extra: u32, chart: &mut Chart<'_, B>, unit: Unit) -> Drawn<B> {
        let color = ink(curve.ink);
        let values: Vec<(f64, f64)> = curve.points.iter().map(|(x, y)| (*x, y.value)).collect();
        let places = self.places(&values);
        let line = color.stroke_width(unit.stroke(2 + extra));
        if curve.dashed {
            chart.draw_series(DashedLineSeries::new(places.iter().copied(), unit.of(7), unit.of(5), line))?;
        } else {
            chart.draw_series(LineSeries::new(places.iter().copied(), line))?;
        }
        let dots = color.stroke_width(unit.stroke(2));
        chart.draw_series(DashedLineSeries::new(self.places(&curve.formula), unit.of(2), unit.of(4), dots))?;
        chart.draw_series(
            self.places(&curve.model)
                .into_iter()
                .map(|at| EmptyElement::at(at) + Circle::new((0, 0), unit.of(7), TEXT.stroke_width(unit.stroke(1)))),
        )?;
        // Where there are many points, a mark at each would hide the line.
        let apart = if places.len() > MARKS_MAX { places.len().div_ceil(MARKS_MAX / 2) } else { 1 };
        for (x, y) in places.into_iter().skip(apart / 2).step_by(apart) {
            let mark: Vec<(i32, i32)> = mark(curve.ink).iter().map(|(dx, dy)| (unit.of(*dx), unit.of(*dy))).collect();
            chart.draw_series([EmptyElement::at((x, y)) + Polygon::new(mark, color.filled())])?;
        }
        Ok(())
    }
}

/// An area in which things are drawn by pixel.
pub(super) type Canvas<B> = DrawingArea<B, plotters::coord::Shift>;
/// The result of drawing on a backend.
pub(super) type Drawn<B> = Result<(), DrawingAreaErrorKind<<B as DrawingBackend>::ErrorType>>;
type Chart<'a, B> = ChartContext<'a, B, Cartesian2d<Ruler, Ruler>>;

/// The range along one edge of a plot, and the places in it that are labelled.
struct Ruler {
    range: Range<f64>,
    ticks: Vec<f64>,
}

impl Ranged for Ruler {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, place: &f64, (from, to): (i32, i32)) -> i32 {
        let part = (place - self.range.start) / (self.range.end - self.range.start);
        from + (part * f64::from(to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

/// The outline of an ink's mark, around its centre.
pub(super) fn mark(ink: usize) -> &'static [(i32, i32)] {
    match ink % INKS {
        0 => &[(-2, -4), (2, -4), (4, -2), (4, 2), (2, 4), (-2, 4), (-4, 2), (-4, -2)],
        1 => &[(-4, -4), (4, -4), (4, 4), (-4, 4)],
        2 => &[(0, -5), (5, 4), (-5, 4)],
        3 => &[(0, -6), (6, 0), (0, 6), (-6, 0)],
        4 => &[(0, 5), (5, -4), (-5, -4)],
        5 => &[(-2, -5), (2, -5), (2, 5), (-2, 5)],
        6 => &[(-5, -2), (5, -2), (5, 2), (-5, 2)],
        _ => &[(-5, 0), (4, -5), (4, 5)],
    }
}
