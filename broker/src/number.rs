//! Numbers that others measured or chose: each is made finite and put between two bounds before a law sees it.

/// Puts `value` between `least` and `most`; what is not a number becomes `least`.
pub(crate) fn within(value: f64, least: f64, most: f64) -> f64 {
    if value >= most {
        most
    } else if value > least {
        value
    } else {
        least
    }
}

/// Returns `value` if it is finite and above zero.
pub(crate) fn positive(value: f64) -> Option<f64> {
    (value.is_finite() && value > 0.0).then_some(value)
}

/// Returns the square root.
pub(crate) fn root(value: f64) -> f64 {
    libm::sqrt(value)
}

/// Returns the natural logarithm.
pub(crate) fn ln(value: f64) -> f64 {
    libm::log(value)
}
