//! Samples as text: Prometheus' format 0.0.4, and OpenMetrics 1.0.0.
//!
//! The two differ in this: OpenMetrics names a counter's family without `_total`, has a line for the unit, and
//! ends with `# EOF`.
//!
//! Source: "Exposition formats" of Prometheus; the specification of OpenMetrics 1.0.0.

use super::catalog::{FamilyKind, MetricFamily};
use super::sample::{Reading, Sample, SampleValue};
use std::fmt::Write;

/// A text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextFormat {
    Prometheus,
    OpenMetrics,
}

impl TextFormat {
    /// Returns the value of the header `Content-Type`.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// Writes the samples.
    pub fn write(self, reading: Reading) -> String {
        let mut text = String::new();
        let mut last = None;
        for sample in reading.into_samples() {
            let family = sample.family.family();
            if last.replace(sample.family) != Some(sample.family) {
                self.write_head(&mut text, family);
            }
            write_sample(&mut text, family, &sample);
        }
        if self == Self::OpenMetrics {
            text.push_str("# EOF\n");
        }
        text
    }

    fn write_head(self, text: &mut String, family: &MetricFamily) {
        let (kind, help) = (family.kind.name(), escaped(family.help()));
        let name = match self {
            Self::Prometheus => family.sample_name(),
            Self::OpenMetrics => family.name.to_owned(),
        };
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "# HELP {name} {help}");
        let _ = writeln!(text, "# TYPE {name} {kind}");
        if let (Self::OpenMetrics, Some(unit)) = (self, family.unit()) {
            let _ = writeln!(text, "# UNIT {name} {unit}");
        }
    }
}

fn write_sample(text: &mut String, family: &MetricFamily, sample: &Sample) {
    match &sample.value {
        SampleValue::Whole(count) => write_line(text, &family.sample_name(), family, sample, None, count.to_string()),
        SampleValue::Real(number) => write_line(text, &family.sample_name(), family, sample, None, shown(*number)),
        SampleValue::Buckets { up_to, sum, count } => {
            debug_assert_eq!(family.kind, FamilyKind::Histogram);
            let bucket = format!("{}_bucket", family.name);
            for (bound, below) in up_to {
                write_line(text, &bucket, family, sample, Some(shown(*bound)), below.to_string());
            }
            write_line(text, &bucket, family, sample, Some("+Inf".into()), count.to_string());
            write_line(text, &format!("{}_sum", family.name), family, sample, None, shown(*sum));
            write_line(text, &format!("{}_count", family.name), family, sample, None, count.to_string());
        }
    }
}

fn write_line(
    text: &mut String,
    name: &str,
    family: &MetricFamily,
    sample: &Sample,
    bound: Option<String>,
    value: String,
) {
    let own = family.labels.iter().copied().zip(sample.labels.iter().map(|label| escaped(label)));
    let labels: Vec<_> =
        own.chain(bound.map(|bound| ("le", bound))).map(|(name, value)| format!("{name}=\"{value}\"")).collect();
    let _ = writeln!(text, "{name}{{{}}} {value}", labels.join(","));
}

/// Returns a number with a point, as OpenMetrics asks for bounds: 1.0, 0.001.
fn shown(number: f64) -> String {
    format!("{number:?}")
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n").replace('"', "\\\"")
}
