"""The lanes: LangGraph drives up to `concurrency` sub-agents over the groups of one run. The only LangGraph.

    plan ──Send──▶ lane 1…n ──▶ tally

What `app` uses:

    from evalscribe.graph.deps import Deps, Judged, Outcome
    from evalscribe.graph.run import judge_groups          # imports LangGraph: only from a command's body

    outcome = await judge_groups(
        Deps(run=…, groups=…, case_of=…, judge=…, store=…, concurrency=4, timeout_s=660, fresh=False, on_event=…),
        Path(".evalscribe/checkpoints.db"),
    )
    outcome.findings   # one `Finding` per group, in the groups' order, recurrence still empty
    outcome.counts     # total, judged, cached, unclassified

`on_event` is called with a `Judged` for each group as it is answered. An error that concerns all failures stops every
lane and is raised once they have wound down; whatever was answered is in the store: the same call goes on from there.
"""
