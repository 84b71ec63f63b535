"""Clients for language models, in layers that all implement `Model`.

`service` opens a model by name, and wraps its adapter in a budget and in retries. With `--batch`, questions are sent in
a Message Batch first. Those that the batch does not answer are then asked in single calls.

The adapters `anthropic` and `openai` make one attempt at a call and map its errors. `openai` works with every service
that has OpenAI's chat completions API. Both use `attempt` for the time limit and for streaming. `service` retries
transient failures, and pauses all calls to a provider that reports a rate limit. `budget` starts a call only if its
maximum cost still fits. `batch` sends many requests at once. `scripted` returns prepared replies, offline.
"""
