//! The 97.5 % quantiles of the normal distribution and of Student's t: half widths of intervals of 95 %.

/// The quantile of the normal distribution.
pub const NORMAL_95: f64 = 1.959_963_984_540_054;

/// The quantiles of Student's t for the first degrees of freedom, where the expansion below is not good enough.
const FIRST: [f64; 8] = [12.706_205, 4.302_653, 3.182_446, 2.776_445, 2.570_582, 2.446_912, 2.364_624, 2.306_004];

/// The quantile of Student's t with this many degrees of freedom; infinite with none.
///
/// Fisher's and Cornish's expansion around the normal quantile to the fourth order; at most 0.0001 off.
pub fn student_95(degrees: u64) -> f64 {
    match degrees {
        0 => f64::INFINITY,
        1..=8 => FIRST[degrees as usize - 1],
        _ => {
            let (z, n) = (NORMAL_95, degrees as f64);
            let odd = |coefficients: &[f64]| coefficients.iter().rev().fold(0.0, |sum, coefficient| sum * z * z + coefficient) * z;
            z + odd(&[1.0, 1.0]) / (4.0 * n)
                + odd(&[3.0, 16.0, 5.0]) / (96.0 * n * n)
                + odd(&[-15.0, 17.0, 19.0, 3.0]) / (384.0 * n.powi(3))
                + odd(&[-945.0, -1_920.0, 1_482.0, 776.0, 79.0]) / (92_160.0 * n.powi(4))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The logarithm of the gamma function at half a whole number.
    fn ln_gamma_of_half(twice: u64) -> f64 {
        match twice {
            1 => std::f64::consts::PI.sqrt().ln(),
            2 => 0.0,
            _ => (twice as f64 / 2.0 - 1.0).ln() + ln_gamma_of_half(twice - 2),
        }
    }

    /// The probability that t lies between 0 and `end`, by Simpson's rule over its density.
    fn between_zero_and(end: f64, degrees: u64) -> f64 {
        let n = degrees as f64;
        let factor = (ln_gamma_of_half(degrees + 1) - ln_gamma_of_half(degrees)).exp() / (n * std::f64::consts::PI).sqrt();
        let density = |t: f64| factor * (1.0 + t * t / n).powf(-(n + 1.0) / 2.0);
        let steps = 4_000;
        let step = end / f64::from(steps);
        let inner = (1..steps).map(|i| density(f64::from(i) * step) * if i % 2 == 1 { 4.0 } else { 2.0 }).sum::<f64>();
        (density(0.0) + inner + density(end)) * step / 3.0
    }

    #[test]
    fn half_of_the_rest_lies_beyond_the_quantile() {
        for degrees in (1..=40).chain([63, 100, 255, 999, 5_000]) {
            let inside = between_zero_and(student_95(degrees), degrees);
            assert!((inside - 0.475).abs() < 3e-6, "{degrees}: {inside}");
        }
        assert!(student_95(0).is_infinite());
        assert!((student_95(u64::MAX) - NORMAL_95).abs() < 1e-12);
    }
}
