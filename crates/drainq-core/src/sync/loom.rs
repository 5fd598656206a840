//! The contents of `sync` under loom, which explores every interleaving.

modelled!(loom);

#[cfg(test)]
pub(crate) fn model(preemptions: usize, test: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.max_branches = builder.max_branches.max(10_000);
    if builder.preemption_bound.is_none() {
        builder.preemption_bound = Some(preemptions);
    }
    builder.check(test);
}
