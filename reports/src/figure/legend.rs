//! The legend, a column beside the plot: the meanings of lines, marks, bands and rings.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::Curve;
use super::draw::{Canvas, DIM, Drawn, TEXT, Unit, ink, mark, text};

/// Draws the legend of these curves; `dotted` is the meaning of dotted lines.
pub(super) fn draw<B: DrawingBackend>(curves: &[Curve], dotted: &str, area: &Canvas<B>, unit: Unit) -> Drawn<B> {
    let mut row = Row { area, unit, y: unit.of(16) };
    for curve in curves.iter().filter(|curve| !curve.name.is_empty()) {
        row.line(if curve.dashed { (7, 5) } else { (1, 0) }, ink(curve.ink))?;
        let places: Vec<(i32, i32)> = mark(curve.ink).iter().map(|(dx, dy)| row.at(18 + dx, *dy)).collect();
        area.draw(&Polygon::new(places, ink(curve.ink).filled()))?;
        row.said(&curve.name)?;
    }
    row.y += unit.of(12);
    if curves.iter().any(Curve::has_band) {
        let low = row.at(6, 6);
        area.draw(&Rectangle::new([row.at(30, -6), low], DIM.mix(0.2).filled()))?;
        row.said("95 % interval")?;
    }
    if curves.iter().any(|curve| !curve.formula.is_empty()) {
        row.line((2, 4), DIM)?;
        row.said(dotted)?;
    }
    if curves.iter().any(|curve| !curve.model.is_empty()) {
        area.draw(&Circle::new(row.at(18, 0), unit.of(7), TEXT.stroke_width(unit.stroke(1))))?;
        row.said("independent model")?;
    }
    Ok(())
}

/// The position of the next row.
struct Row<'a, B: DrawingBackend> {
    area: &'a Canvas<B>,
    unit: Unit,
    y: i32,
}

impl<B: DrawingBackend> Row<'_, B> {
    fn at(&self, x: i32, dy: i32) -> (i32, i32) {
        (self.unit.of(x), self.y + self.unit.of(dy))
    }

    /// Draws a line of strokes of this length with these gaps.
    fn line(&self, (stroke, gap): (i32, i32), color: RGBColor) -> Drawn<B> {
        let style = color.stroke_width(self.unit.stroke(2));
        if gap == 0 {
            return self.area.draw(&PathElement::new(vec![self.at(4, 0), self.at(32, 0)], style));
        }
        let mut from = 4;
        while from < 32 {
            let to = (from + stroke).min(32);
            self.area.draw(&PathElement::new(vec![self.at(from, 0), self.at(to, 0)], style))?;
            from = to + gap;
        }
        Ok(())
    }

    fn said(&mut self, words: &str) -> Drawn<B> {
        self.area.draw(&Text::new(words.to_owned(), self.at(42, 0), text(13, TEXT, self.unit).pos(Pos::new(HPos::Left, VPos::Center))))?;
        self.y += self.unit.of(24);
        Ok(())
    }
}
