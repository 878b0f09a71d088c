//! What drawings have in common: the frame that a screen reader can name, axes, ticks.

use super::markup::{Markup, Px};

/// A drawing: its size in units of its own, and what it is called.
pub struct Drawing<'a> {
    /// Unique in the document.
    pub id: &'a str,
    /// Width.
    pub width: f64,
    /// Height.
    pub height: f64,
    /// What it is, in a few words.
    pub title: &'a str,
    /// What it says, for who cannot see it.
    pub description: &'a str,
}

impl Drawing<'_> {
    /// Writes the drawing; it scrolls on its own where the page is narrower than it can shrink.
    pub fn write(&self, m: &mut Markup, inside: impl FnOnce(&mut Markup)) {
        let (title, description) = (format!("{}-t", self.id), format!("{}-d", self.id));
        let view = format!("0 0 {} {}", Px(self.width), Px(self.height));
        let labels = format!("{title} {description}");
        let class = if self.width > 600.0 { "wide" } else { "narrow" };
        m.line();
        let scroll: super::markup::Attributes<'_> = &[
            ("class", &"scroll"),
            ("tabindex", &0),
            ("role", &"group"),
            ("aria-label", &self.title),
        ];
        m.within("div", scroll, |m| {
            m.within(
                "svg",
                &[
                    ("viewBox", &view),
                    ("class", &class),
                    ("role", &"img"),
                    ("aria-labelledby", &labels),
                ],
                |m| {
                    m.leaf("title", &[("id", &title)], self.title);
                    m.leaf("desc", &[("id", &description)], self.description);
                    inside(m);
                },
            );
        });
    }
}

/// A line.
pub fn line(m: &mut Markup, class: &str, from: (f64, f64), to: (f64, f64)) {
    m.empty(
        "line",
        &[
            ("class", &class),
            ("x1", &Px(from.0)),
            ("y1", &Px(from.1)),
            ("x2", &Px(to.0)),
            ("y2", &Px(to.1)),
        ],
    );
}

/// A rectangle.
pub fn rect(m: &mut Markup, class: &str, at: (f64, f64), size: (f64, f64)) {
    m.empty(
        "rect",
        &[
            ("class", &class),
            ("x", &Px(at.0)),
            ("y", &Px(at.1)),
            ("width", &Px(size.0.max(0.0))),
            ("height", &Px(size.1.max(0.0))),
        ],
    );
}

/// Text; `class` says where it is held.
pub fn text(m: &mut Markup, class: &str, at: (f64, f64), text: &str) {
    m.leaf("text", &[("class", &class), ("x", &Px(at.0)), ("y", &Px(at.1))], text);
}

/// A name, shortened in the middle to so many characters: both ends tell names apart.
pub fn shortened(name: &str, most: usize) -> String {
    let characters: Vec<char> = name.chars().collect();
    if characters.len() <= most {
        return name.to_owned();
    }
    let kept = most.saturating_sub(1);
    let (first, last) = (kept.div_ceil(2), kept / 2);
    let mut text: String = characters[..first].iter().collect();
    text.push('…');
    text.extend(&characters[characters.len() - last..]);
    text
}

/// Round numbers from `low` to `high`, about `count` of them.
pub fn ticks(low: f64, high: f64, count: usize) -> Vec<f64> {
    let span = high - low;
    if !span.is_finite() || span <= 0.0 {
        return vec![low];
    }
    let rough = span / count.max(1) as f64;
    let power = 10_f64.powf(rough.log10().floor());
    let step =
        [1.0, 2.0, 5.0, 10.0].into_iter().map(|it| it * power).find(|it| *it >= rough * 0.99);
    let step = step.unwrap_or(10.0 * power);
    let first = (low / step - 1e-9).ceil() as i64;
    let last = (high / step + 1e-9).floor() as i64;
    (first..=last).map(|index| index as f64 * step).collect()
}

/// 1, 2 and 5 times powers of ten from `low` to `high`; powers alone where that is too many.
pub fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    let first = low.log10().floor() as i32;
    let decades = high.log10().ceil() as i32 - first;
    let factors: &[f64] = if decades > 3 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    (first..=first + decades)
        .flat_map(|power| factors.iter().map(move |factor| factor * 10_f64.powi(power)))
        .filter(|tick| (low * 0.999..=high * 1.001).contains(tick))
        .collect()
}

/// A round number as it stands at an axis: `12k`, `1.5M`, `0.02`.
pub fn short(value: f64) -> String {
    let (scaled, unit) = match value.abs() {
        size if size >= 1e9 => (value / 1e9, "G"),
        size if size >= 1e6 => (value / 1e6, "M"),
        size if size >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = format!("{scaled:.4}");
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(ticks(0.0, 10.0, 5), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(ticks(-3.0, 7.0, 2), [0.0, 5.0]);
        assert_eq!(ticks(4.0, 4.0, 5), [4.0]);
        assert_eq!(log_ticks(15.0, 250.0), [20.0, 50.0, 100.0, 200.0]);
        assert_eq!(log_ticks(0.9, 1_100_000.0).len(), 7);
    }

    #[test]
    fn numbers_at_axes_are_short() {
        let all = [0.0, 0.02, 950.0, 9_500.0, 12_000.0, 1_500_000.0, -20_000.0].map(short);
        assert_eq!(all, ["0", "0.02", "950", "9500", "12k", "1.5M", "-20k"]);
    }

    #[test]
    fn long_names_keep_both_ends() {
        assert_eq!(shortened("pg1518_o3_lto.pg-small", 11), "pg151…small");
        assert_eq!(shortened("short", 11), "short");
    }
}
