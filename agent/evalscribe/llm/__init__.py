"""Clients for language models, in layers that all implement `Model`.

`service` opens a model by name and wraps the adapter in retries and a budget. With `--batch`, calls go through a
Message Batch first; questions that the batch does not answer are then asked in single calls.

`anthropic` and `openai` (for every service with OpenAI's chat completions) make one attempt at a call and map its
errors. `attempt` has the time limit and the streaming that both use. `service` retries transient failures and pauses
all calls to a provider that limits the rate. `budget` starts a call only if its maximum cost still fits. `batch` sends
many requests at once. `scripted` returns prepared replies, offline.
"""
