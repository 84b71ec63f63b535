"""Models behind `Model`, each layer of one kind of care.

    Persistent(Budgeted(AnthropicModel))            # what `service` opens, by name
    Budgeted(Batched(AnthropicModel))               # with it beside, for what a batch leaves: `--batch`

`anthropic` and `openai` (for whatever speaks its chat completions, each in its dialect) make one attempt and say what
a failure means, `streaming` lets an answer be heard while it is written, `budget` lets a call start only if its worst
case still fits, `retry` tries again within a bound, and `pause` holds all calls to a provider that keeps limiting the
rate. `scripted` plays prepared replies, offline.
"""
