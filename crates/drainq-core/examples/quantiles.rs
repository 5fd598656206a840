//! Quantiles of a stream, from a sketch: `cargo run --example quantiles`.

use drainq_core::sketch::{DDSketch, SketchRefusal};

fn main() -> Result<(), SketchRefusal> {
    let (mut morning, mut evening) = (DDSketch::new(0.01, None)?, DDSketch::new(0.01, None)?);
    for milliseconds in 1..=1_000 {
        morning.add(f64::from(milliseconds))?;
        evening.add(f64::from(milliseconds) * 2.0)?;
    }
    morning.merge(&evening)?;
    for rank in [0.5, 0.95, 0.99] {
        let value = morning.quantile(rank)?.expect("there are values");
        println!("{:>3.0} percent of the requests took at most {value:.0} ms", rank * 100.0);
    }
    Ok(())
}
