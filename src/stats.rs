//! Proportions and means with their intervals, repeated runs, and paired arms.
#![allow(clippy::float_arithmetic, reason = "this is where statistics are made")]

/// The 97.5 % point of the normal distribution.
const Z_95: f64 = 1.959_963_984_540_054;

/// A proportion with its 95 % Wilson score interval (Wilson 1927), all from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Proportion {
    /// How often it was so.
    pub share: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

impl Proportion {
    /// The proportion of `hits` in `of`; the whole range if there was nothing to count.
    ///
    /// # Examples
    ///
    /// ```
    /// use badbank::stats::Proportion;
    ///
    /// let nineteen = Proportion::wilson(19, 30);
    /// assert!(nineteen.low > 0.455 && nineteen.high < 0.782);
    /// ```
    #[allow(clippy::cast_precision_loss, reason = "nobody counts 2^53 runs")]
    pub fn wilson(hits: u64, of: u64) -> Self {
        if of == 0 {
            return Self { share: 0.0, low: 0.0, high: 1.0 };
        }
        let (count, share) = (of as f64, hits as f64 / of as f64);
        let square = Z_95 * Z_95;
        let scale = 1.0 + square / count;
        let centre = (share + square / (2.0 * count)) / scale;
        let half =
            Z_95 / scale * (share * (1.0 - share) / count + square / (4.0 * count * count)).sqrt();
        // At the ends it is exact, whatever the last digit of the sums.
        let low = if hits == 0 { 0.0 } else { (centre - half).max(0.0) };
        let high = if hits == of { 1.0 } else { (centre + half).min(1.0) };
        Self { share, low, high }
    }
}

/// The sum of whole numbers and of their squares, for their mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    sum: u64,
    squares: u128,
}

impl Sums {
    /// Adds a number.
    pub fn add(&mut self, number: u64) {
        self.sum += number;
        self.squares += u128::from(number).pow(2);
    }

    /// Adds what others have added up.
    pub fn merge(&mut self, other: Self) {
        self.sum += other.sum;
        self.squares += other.squares;
    }

    /// The sum.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// The mean of so many numbers; those that were not added are zero. None if there are none.
    #[allow(clippy::cast_precision_loss, reason = "nobody counts 2^53 runs")]
    pub fn mean(&self, count: u64) -> Option<f64> {
        (count > 0).then(|| self.sum as f64 / count as f64)
    }

    /// The 95 % interval of that mean, by the normal distribution; none if there are fewer than two numbers.
    ///
    /// # Examples
    ///
    /// ```
    /// use badbank::stats::Sums;
    ///
    /// let mut sums = Sums::default();
    /// (1..=9).for_each(|number| sums.add(number));
    /// let (low, high) = sums.interval(9).unwrap();
    /// assert!((low - 3.211).abs() < 1e-3 && (high - 6.789).abs() < 1e-3);
    /// ```
    #[allow(clippy::cast_precision_loss, reason = "nobody counts 2^53 runs")]
    pub fn interval(&self, count: u64) -> Option<(f64, f64)> {
        let mean = self.mean(count).filter(|_| count > 1)?;
        let (all, sum) = (u128::from(count), u128::from(self.sum));
        let scatter = (all * self.squares).saturating_sub(sum * sum) as f64;
        let half = Z_95 * (scatter / (count - 1) as f64).sqrt() / count as f64;
        Some((mean - half, mean + half))
    }
}

/// The chance that `k` runs, drawn from `of` runs of which `passed` passed, all pass: pass^k, as τ-bench
/// (Yao et al. 2024) estimates it, C(passed, k) / C(of, k); zero if there are fewer than `k`.
///
/// # Examples
///
/// ```
/// use badbank::stats::pass_hat;
///
/// assert!((pass_hat(3, 4, 2) - 0.5).abs() < 1e-12);
/// ```
pub fn pass_hat(passed: u64, of: u64, k: u64) -> f64 {
    match usize::try_from(k) {
        Ok(0) => 1.0,
        Ok(k) => pass_hats(passed, of).nth(k - 1).unwrap_or(0.0),
        Err(_) => 0.0,
    }
}

/// [`pass_hat`] for every k from 1 to `of`, each from the one before.
#[allow(clippy::cast_precision_loss, reason = "nobody counts 2^53 runs")]
pub fn pass_hats(passed: u64, of: u64) -> impl Iterator<Item = f64> {
    (0..of).scan(1.0, move |hat, drawn| {
        *hat *= passed.saturating_sub(drawn) as f64 / (of - drawn) as f64;
        Some(*hat)
    })
}

/// The two-sided p-value of the exact McNemar test: how likely is it, if two paired arms do not differ,
/// that of `first + second` pairs that disagree so few lie on the rarer side?
///
/// One that is too small for a float comes out as 0; [`mcnemar_log10`] has it.
///
/// # Examples
///
/// ```
/// use badbank::stats::mcnemar;
///
/// // Six pairs flip one way and two the other.
/// assert!((mcnemar(6, 2) - 0.2890625).abs() < 1e-12);
/// ```
pub fn mcnemar(first: u64, second: u64) -> f64 {
    ln_mcnemar(first, second).exp()
}

/// The decimal logarithm of [`mcnemar`], however small that is.
///
/// # Examples
///
/// ```
/// use badbank::stats::mcnemar_log10;
///
/// // Two in 2^5000.
/// assert!((mcnemar_log10(0, 5000) + 4999.0 * 2.0_f64.log10()).abs() < 1e-9);
/// ```
pub fn mcnemar_log10(first: u64, second: u64) -> f64 {
    ln_mcnemar(first, second) / std::f64::consts::LN_10
}

#[allow(clippy::cast_precision_loss, reason = "nobody counts 2^53 pairs")]
fn ln_mcnemar(first: u64, second: u64) -> f64 {
    let pairs = first + second;
    // The terms of the binomial sum as logarithms, since even the last of them, the greatest, may be too small.
    let mut term = -(pairs as f64) * std::f64::consts::LN_2;
    let mut sum = 1.0;
    for chosen in 0..first.min(second) {
        let ratio = (pairs - chosen) as f64 / (chosen + 1) as f64;
        term += ratio.ln();
        // The sum is in units of the latest term.
        sum = sum / ratio + 1.0;
    }
    (std::f64::consts::LN_2 + sum.ln() + term).min(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_agree_with_known_ones() {
        // R: prop.test(15, 20, correct = FALSE) and prop.test(0, 300, correct = FALSE).
        for (hits, of, low, high) in
            [(15, 20, 0.5313, 0.8881), (0, 300, 0.0, 0.0126), (300, 300, 0.9874, 1.0)]
        {
            let interval = Proportion::wilson(hits, of);
            assert!(
                (interval.low - low).abs() < 5e-5 && (interval.high - high).abs() < 5e-5,
                "{interval:?}"
            );
        }
        assert_eq!(Proportion::wilson(0, 0), Proportion { share: 0.0, low: 0.0, high: 1.0 });
    }

    #[test]
    fn pass_hat_counts_draws_without_putting_back() {
        for (passed, of, k, chance) in [
            (4, 4, 4, 1.0),
            (3, 4, 1, 0.75),
            (3, 4, 3, 0.25),
            (3, 4, 4, 0.0),
            (0, 4, 1, 0.0),
            (2, 4, 5, 0.0),
        ] {
            assert!((pass_hat(passed, of, k) - chance).abs() < 1e-12, "{passed} of {of}, {k}");
        }
    }

    #[test]
    fn a_p_value_too_small_for_a_float_has_a_logarithm() {
        assert!((10_f64.powf(mcnemar_log10(6, 2)) - 0.289_062_5).abs() < 1e-12);
        assert!(
            (mcnemar_log10(1, 2000) - (2002.0_f64.log10() - 2000.0 * 2.0_f64.log10())).abs() < 1e-9
        );
        assert!(mcnemar_log10(5, 5).abs() < 1e-15);
    }

    #[test]
    fn mcnemar_agrees_with_the_binomial_distribution() {
        use statrs::distribution::{Binomial, DiscreteCDF as _};

        for (first, second) in [(1, 9), (0, 12), (5, 5), (0, 0), (300, 200), (3000, 2800)] {
            let below = Binomial::new(0.5, first + second).unwrap().cdf(first.min(second));
            assert!(
                (mcnemar(first, second) - (2.0 * below).min(1.0)).abs() < 1e-9,
                "{first}, {second}"
            );
        }
    }
}
