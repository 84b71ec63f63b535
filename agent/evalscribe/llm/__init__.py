"""Models behind `ports.Model`, each layer of one kind of care.

    Persistent(Budgeted(AnthropicModel))            # what `service` opens, by name
    Budgeted(Batched(AnthropicModel))               # with it beside, for what a batch leaves: `--batch`

`anthropic` makes one attempt and says what its failure means, `budget` lets a call start only if its worst case
still fits, `retry` tries again within a bound. `scripted` plays prepared replies, offline.
"""
