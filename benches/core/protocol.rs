//! The protocol of a measurement: interleaved rounds in one run, each contestant once a round.
//!
//! A figure asks one question of several contestants. Each round asks every contestant once, in an order that rotates
//! from round to round, so that a slow minute of the machine falls on all of them.
//!
//! What a contestant returns is a cost in the figure's unit: less is better. A contestant whose name begins with
//! `drainq` is ours; one in brackets is shown for scale. A figure goes to standard output as one line of JSON, with all
//! of its rounds and its goals; `benches/core.py` reads these lines, judges the goals and makes the page.

use crate::machine::quoted;

/// What was asked for on the command line.
pub struct Options {
    /// Fewer items and rounds: to see that it runs, not to quote.
    pub quick: bool,
    /// Only the figures whose group or name contains this.
    pub only: String,
    /// Rounds that count, where a figure does not need its own number.
    pub rounds: usize,
}

impl Options {
    /// `full` items in a run to quote, a twentieth of them in a quick one.
    pub fn items(&self, full: usize) -> usize {
        if self.quick { (full / 20).max(1) } else { full }
    }
}

/// Something that the costs of a figure must hold, and more that they should.
pub struct Goal {
    ours: &'static str,
    /// Whose cost ours is set against; without one the cost itself is judged.
    theirs: Option<&'static str>,
    /// Which side of the limit is good.
    side: &'static str,
    must: f64,
    aim: f64,
}

impl Goal {
    /// `ours` costs at most `must` times what `theirs` costs, at best `aim` times.
    pub fn times(ours: &'static str, theirs: &'static str, must: f64, aim: f64) -> Self {
        Self { ours, theirs: Some(theirs), side: "at most", must, aim }
    }

    /// `ours` is at least `must` times as fast as `theirs`, at best `aim` times.
    pub fn faster(ours: &'static str, theirs: &'static str, must: f64, aim: f64) -> Self {
        Self { ours, theirs: Some(theirs), side: "at least", must, aim }
    }

    /// `ours` is at most `must` in the figure's unit, at best `aim`.
    pub fn at_most(ours: &'static str, must: f64, aim: f64) -> Self {
        Self { ours, theirs: None, side: "at most", must, aim }
    }

    fn json(&self) -> String {
        let Self { ours, theirs, side, must, aim } = self;
        let theirs = theirs.map_or("null".to_owned(), quoted);
        let ours = quoted(ours);
        format!(r#"{{"ours": {ours}, "theirs": {theirs}, "side": "{side}", "must": {must}, "aim": {aim}}}"#)
    }
}

/// One question: what it cost each contestant in each round, and its goals.
pub struct Figure<'a> {
    name: &'static str,
    unit: &'static str,
    costs: Costs,
    goals: &'a [Goal],
    note: &'static str,
}

impl<'a> Figure<'a> {
    /// A figure from the costs that each contestant had in each round.
    pub fn new(name: &'static str, unit: &'static str, costs: Costs, goals: &'a [Goal], note: &'static str) -> Self {
        Self { name, unit, costs, goals, note }
    }

    fn json(&self) -> String {
        let cost = |(name, values): &(&str, Vec<f64>)| {
            let values: Vec<String> = values.iter().map(|value| format!("{value:.4}")).collect();
            format!("{}: [{}]", quoted(name), values.join(", "))
        };
        let costs: Vec<String> = self.costs.iter().map(cost).collect();
        let goals: Vec<String> = self.goals.iter().map(Goal::json).collect();
        format!(
            r#"{{"name": {}, "unit": {}, "costs": {{{}}}, "goals": [{}], "note": {}}}"#,
            quoted(self.name),
            quoted(self.unit),
            costs.join(", "),
            goals.join(", "),
            quoted(self.note)
        )
    }
}

/// One who answers a question: a name, and a round that returns what it cost.
pub type Contestant<'a, T = f64> = (&'static str, Box<dyn FnMut() -> T + 'a>);

/// What each contestant cost in each round.
pub type Costs<T = f64> = Vec<(&'static str, Vec<T>)>;

/// Asks every contestant once a round, in a rotating order, after one round that does not count.
pub fn rounds<T>(count: usize, contestants: &mut [Contestant<'_, T>]) -> Costs<T> {
    let mut costs: Costs<T> = contestants.iter().map(|(name, _)| (*name, Vec::with_capacity(count))).collect();
    for round in 0..=count {
        for turn in 0..contestants.len() {
            let at = (round + turn) % contestants.len();
            let cost = contestants[at].1();
            if round > 0 {
                costs[at].1.push(cost);
            }
        }
    }
    costs
}

/// One part of what each round cost.
pub fn part<T>(costs: &Costs<T>, of: impl Fn(&T) -> f64) -> Costs {
    costs.iter().map(|(name, values)| (*name, values.iter().map(&of).collect())).collect()
}

/// The figures of one run.
pub struct Report {
    options: Options,
}

impl Report {
    pub fn new(options: Options) -> Self {
        Self { options }
    }

    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Whether a figure was asked for.
    pub fn wants(&self, group: &str, name: &str) -> bool {
        format!("{group}: {name}").contains(&self.options.only)
    }

    /// Takes in a figure and prints it, as a line of JSON.
    pub fn add(&mut self, figure: Figure<'_>) {
        println!("{}", figure.json());
    }
}

/// The value below which this share of the values lies.
pub fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = share * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    below + (above - below) * place.fract()
}
