"""Call language models. The clients consist of layers, and every layer implements `Model`.

`service` opens a model by name. It wraps the model's adapter in a layer for the budget and a layer for retries. With
`--batch`, questions are first sent in a Message Batch. Questions that the batch does not answer are then asked in
single calls.

The adapters `anthropic` and `openai` make one attempt at a call and map the errors of their SDKs to evalscribe's
exceptions. `openai` works with every service that has OpenAI's chat completions API. Both adapters use `attempt` for
the time limit and for streaming. `service` retries transient failures, and pauses all calls to a provider that reports
a rate limit. `budget` only starts a call if the maximum cost of the call still fits into the budget. `batch` sends many
requests at once.
"""
