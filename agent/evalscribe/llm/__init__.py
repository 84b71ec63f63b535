"""Clients for language models, in layers that all implement `Model`.

`service` opens a model by name and wraps the adapter in retries and a budget. With `--batch`, calls go through a
Message Batch first, and those that it does not answer go to the model one at a time.

`anthropic` and `openai` (for every service with OpenAI's chat completions, each in its dialect) make one attempt and
map its failures. `attempt` has the time limit and streaming that both share. `service` retries transient failures and
pauses all calls to a provider that limits the rate. `budget` starts a call only if its worst case still fits. `batch`
sends many requests at once. `scripted` plays prepared replies, offline.
"""
