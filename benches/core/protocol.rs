//! How figures are made: interleaved rounds in one run, medians, spread, ratios, and the goals they are held to.
//!
//! A figure asks one question of several contestants. Each round asks every contestant once, in an order that turns
//! from round to round, so that a slow minute of the machine falls on all of them. A ratio is the median of the ratios
//! of single rounds: figures of different runs are never compared.
//!
//! What a contestant returns is a cost in the figure's unit: less is better. The JSON has the form that the Python
//! benchmarks write, so one command draws both.

use crate::machine;
use std::fmt::Write as _;

/// What was asked for on the command line.
pub struct Options {
    /// Fewer items and rounds: to see that it runs, not to quote.
    pub quick: bool,
    /// Only the figures whose group or name contains this.
    pub only: String,
    /// Rounds that count, where a figure does not need its own number.
    pub rounds: usize,
    /// Where the JSON goes.
    pub out: String,
    /// The page whose table is renewed, if any.
    pub markdown: Option<String>,
}

impl Options {
    /// `full` items in a run to quote, a twentieth of them in a quick one.
    pub fn items(&self, full: usize) -> usize {
        if self.quick { (full / 20).max(1) } else { full }
    }
}

/// Which side of a limit is good.
#[derive(Clone, Copy, PartialEq)]
pub enum Side {
    AtMost,
    AtLeast,
}

/// Something that the costs of a figure must hold, and more that they should.
pub struct Goal {
    ours: &'static str,
    /// Whose cost ours is set against; without one the cost itself is judged.
    theirs: Option<&'static str>,
    side: Side,
    must: f64,
    aim: f64,
}

impl Goal {
    /// `ours` costs at most `must` times what `theirs` costs, at best `aim` times.
    pub fn times(ours: &'static str, theirs: &'static str, must: f64, aim: f64) -> Self {
        Self { ours, theirs: Some(theirs), side: Side::AtMost, must, aim }
    }

    /// `ours` is at least `must` times as fast as `theirs`, at best `aim` times.
    pub fn faster(ours: &'static str, theirs: &'static str, must: f64, aim: f64) -> Self {
        Self { ours, theirs: Some(theirs), side: Side::AtLeast, must, aim }
    }

    /// `ours` is at most `must` in the figure's unit, at best `aim`.
    pub fn at_most(ours: &'static str, must: f64, aim: f64) -> Self {
        Self { ours, theirs: None, side: Side::AtMost, must, aim }
    }

    fn judge(&self, unit: &str, costs: &Costs) -> Verdict {
        let of = |name: &str| &costs.iter().find(|(known, _)| *known == name).expect("a goal names a contestant").1;
        let ours = of(self.ours);
        let values: Vec<f64> = match (self.theirs, self.side) {
            (None, _) => ours.clone(),
            (Some(theirs), Side::AtMost) => ours.iter().zip(of(theirs)).map(|(ours, theirs)| ours / theirs).collect(),
            (Some(theirs), Side::AtLeast) => ours.iter().zip(of(theirs)).map(|(ours, theirs)| theirs / ours).collect(),
        };
        let (low, middle, high) = quartiles(&values);
        let text = |value: f64| match self.theirs {
            Some(_) => format!("{}x", short(value)),
            None => format!("{} {unit}", short(value)),
        };
        let sign = if self.side == Side::AtMost { "<=" } else { ">=" };
        let rival = self.theirs.map_or(String::new(), |theirs| format!(" {theirs}"));
        let reaches = |limit: f64| if self.side == Side::AtMost { middle <= limit } else { middle >= limit };
        Verdict {
            asked: format!("{} {sign} {}{rival} (aim {})", self.ours, text(self.must), text(self.aim)),
            reached: text(middle),
            spread: format!("{}-{}", short(low), short(high)),
            met: reaches(self.must),
            aim: reaches(self.aim),
        }
    }
}

/// What a goal asked for and what was reached; `spread` is the range of the middle half of the rounds.
struct Verdict {
    asked: String,
    reached: String,
    spread: String,
    met: bool,
    aim: bool,
}

/// One question: what it cost each contestant in each round, and how that stands to the goals.
pub struct Figure {
    name: &'static str,
    unit: &'static str,
    costs: Costs,
    verdicts: Vec<Verdict>,
    note: &'static str,
}

impl Figure {
    /// A figure from the costs that each contestant had in each round.
    pub fn new(name: &'static str, unit: &'static str, costs: Costs, goals: &[Goal], note: &'static str) -> Self {
        let verdicts = goals.iter().map(|goal| goal.judge(unit, &costs)).collect();
        Self { name, unit, costs, verdicts, note }
    }
}

/// One who answers a question: a name, and a round that returns what it cost.
pub type Contestant<'a, T = f64> = (&'static str, Box<dyn FnMut() -> T + 'a>);

/// What each contestant cost in each round.
pub type Costs<T = f64> = Vec<(&'static str, Vec<T>)>;

/// Asks every contestant once a round, in a turning order, after one round that does not count.
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

/// The figures of one run, printed one by one.
pub struct Report {
    options: Options,
    started: machine::Machine,
    figures: Vec<Figure>,
}

impl Report {
    pub fn new(options: Options) -> Self {
        let started = machine::Machine::now();
        println!("{started}");
        Self { options, started, figures: Vec::new() }
    }

    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Whether a figure was asked for.
    pub fn wants(&self, group: &str, name: &str) -> bool {
        format!("{group}: {name}").contains(&self.options.only)
    }

    /// Takes in a figure and prints it.
    pub fn add(&mut self, figure: Figure) {
        println!("{}", table(&figure));
        self.figures.push(figure);
    }

    /// Writes the files and says what missed its goal.
    pub fn finish(self) -> std::io::Result<()> {
        std::fs::create_dir_all(std::path::Path::new(&self.options.out).parent().expect("a file has a directory"))?;
        std::fs::write(&self.options.out, self.json())?;
        if let Some(path) = &self.options.markdown {
            let page = std::fs::read_to_string(path).unwrap_or_else(|_| format!("{TABLE}\n{END}\n"));
            std::fs::write(path, with_table(&page, &self.markdown()))?;
        }
        let verdicts =
            || self.figures.iter().flat_map(|figure| figure.verdicts.iter().map(move |at| (figure.name, at)));
        let met = verdicts().filter(|(_, verdict)| verdict.met).count();
        println!("\n{met} of {} goals met; {}", verdicts().count(), self.options.out);
        for (name, verdict) in verdicts().filter(|(_, verdict)| !verdict.met) {
            println!("  MISS {name}: {}, reached {} ({})", verdict.asked, verdict.reached, verdict.spread);
        }
        Ok(())
    }

    fn json(&self) -> String {
        let figures: Vec<String> = self.figures.iter().map(json_of).collect();
        format!(
            "{{\n \"title\": \"core\",\n \"machine\": {},\n \"figures\": [\n{}\n ]\n}}\n",
            self.started.json(),
            figures.join(",\n")
        )
    }

    fn markdown(&self) -> String {
        let mut text = format!("{}\n\n| figure | median | goal | reached (middle half) | |\n", self.started);
        text.push_str("| --- | --- | --- | --- | --- |\n");
        for figure in &self.figures {
            let joined =
                |part: &dyn Fn(&Verdict) -> String| figure.verdicts.iter().map(part).collect::<Vec<_>>().join("<br>");
            let costs: Vec<_> = figure
                .costs
                .iter()
                .map(|(name, values)| format!("{name} {} {}", short(quartiles(values).1), figure.unit))
                .collect();
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} |",
                figure.name,
                costs.join("<br>"),
                joined(&|at| at.asked.clone()),
                joined(&|at| format!("{} ({})", at.reached, at.spread)),
                joined(&|at| mark(at).to_owned()),
            );
        }
        text
    }
}

/// What stands around the table in a page, so that it can be renewed.
const TABLE: &str = "<!-- table -->";
const END: &str = "<!-- end of the table -->";

/// The page with a new table in the place of the old one, or at its end.
fn with_table(page: &str, table: &str) -> String {
    let (before, rest) = page.split_once(TABLE).unwrap_or((page, ""));
    let after = rest.split_once(END).map_or("\n", |(_, after)| after);
    format!("{before}{TABLE}\n{table}{END}{after}")
}

fn mark(verdict: &Verdict) -> &'static str {
    match (verdict.met, verdict.aim) {
        (true, true) => "ok, aim",
        (true, false) => "ok",
        _ => "MISS",
    }
}

fn table(figure: &Figure) -> String {
    let rounds = figure.costs[0].1.len();
    let mut text = format!("\n{}  [{}; median (middle half) of {rounds} rounds]\n", figure.name, figure.unit);
    for (name, values) in &figure.costs {
        let (low, middle, high) = quartiles(values);
        let _ = writeln!(text, "  {name:<34} {:>9}   ({} - {})", short(middle), short(low), short(high));
    }
    for verdict in &figure.verdicts {
        let _ = writeln!(text, "    {:<7} {}: {} ({})", mark(verdict), verdict.asked, verdict.reached, verdict.spread);
    }
    if !figure.note.is_empty() {
        let _ = writeln!(text, "    note: {}", figure.note);
    }
    text.truncate(text.trim_end().len());
    text
}

fn json_of(figure: &Figure) -> String {
    let quoted = machine::quoted;
    let costs: Vec<String> = figure
        .costs
        .iter()
        .map(|(name, values)| {
            let values: Vec<String> = values.iter().map(|value| format!("{value:.4}")).collect();
            format!("{}: [{}]", quoted(name), values.join(", "))
        })
        .collect();
    let verdicts: Vec<String> = figure
        .verdicts
        .iter()
        .map(|at| {
            let texts = format!(
                "\"asked\": {}, \"reached\": {}, \"spread\": {}",
                quoted(&at.asked),
                quoted(&at.reached),
                quoted(&at.spread)
            );
            format!("{{{texts}, \"met\": {}, \"aim\": {}}}", at.met, at.aim)
        })
        .collect();
    format!(
        "  {{\"name\": {}, \"unit\": {},\n   \"costs\": {{{}}},\n   \"verdicts\": [{}],\n   \"note\": {}}}",
        quoted(figure.name),
        quoted(figure.unit),
        costs.join(", "),
        verdicts.join(", "),
        quoted(figure.note)
    )
}

/// Lower quartile, median, upper quartile.
pub fn quartiles(values: &[f64]) -> (f64, f64, f64) {
    (quantile(values, 0.25), quantile(values, 0.5), quantile(values, 0.75))
}

/// The value below which this share of the values lies.
pub fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = share * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    below + (above - below) * place.fract()
}

/// Three figures that matter.
fn short(value: f64) -> String {
    match value.abs() {
        at if at >= 100.0 => format!("{value:.0}"),
        at if at >= 10.0 => format!("{value:.1}"),
        at if at >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}
