//! The figures of the core, beside its rivals, in one process. `python -m benches.core` runs it and makes the page.
//!
//! | group | asks |
//! | --- | --- |
//! | `op` | what does one operation cost on one thread? |
//! | `contend` | how much gets through, with many producers and few drain threads? |
//! | `scale` | how much more gets through, with as many drain threads and producers as there are cores? |
//! | `source` | the benchmark of the source design in its own shape: what gets through, and what is dropped? |
//! | `seed` | how close to the physical limit, in the benchmark that the source published? |
//! | `wake` | how soon does an item reach the handler of an idle queue? |
//! | `burst` | how long does a burst hold its producer up, when the drain thread sleeps? |
//! | `move` | how long does the old owner keep a partition that moves? |
//! | `grow` | what do two thousand types cost, in time and in memory? |
//! | `shutdown` | how long does an end take? |
//! | `sketch` | what does a value in a sketch of quantiles cost? |
//!
//! Options: `--quick`, `--only WORD`, `--rounds N`. Each figure is printed as a line of JSON.

mod contend;
mod engine;
mod grow;
mod item;
mod latency;
mod machine;
mod moves;
mod op;
mod protocol;
mod rivals;
mod scale;
mod seed;
mod shutdown;
mod sketch;
mod source;

use protocol::{Options, Report};
use std::process::ExitCode;

const USAGE: &str = "options: --quick, --only WORD, --rounds N";

fn options() -> Result<Options, String> {
    let mut options = Options { quick: false, only: String::new(), rounds: 0 };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{name} needs a value; {USAGE}"));
        match name.as_str() {
            "--quick" => options.quick = true,
            "--only" => options.only = value()?,
            "--rounds" => {
                let text = value()?;
                options.rounds = text
                    .parse()
                    .ok()
                    .filter(|count| *count > 0)
                    .ok_or(format!("--rounds must be a number from 1 on, got {text}"))?;
            }
            // What cargo itself says to every benchmark.
            "--bench" => {}
            _ => return Err(format!("unknown option {name}; {USAGE}")),
        }
    }
    if options.rounds == 0 {
        options.rounds = if options.quick { 3 } else { 11 };
    }
    Ok(options)
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(refusal) => {
            eprintln!("{refusal}");
            return ExitCode::from(2);
        }
    };
    let mut report = Report::new(options);
    op::run(&mut report);
    contend::run(&mut report);
    scale::run(&mut report);
    source::run(&mut report);
    seed::run(&mut report);
    latency::wake(&mut report);
    latency::burst(&mut report);
    moves::run(&mut report);
    grow::run(&mut report);
    shutdown::run(&mut report);
    sketch::run(&mut report);
    ExitCode::SUCCESS
}
