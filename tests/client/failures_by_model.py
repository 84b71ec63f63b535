"""The script after it: what the causes of one model's failures have in common, and another's have not."""

from evalscribe import Client, LLMRequest, Prompt, ResultRef

COLLECTION = "airline"
MODELS = "SELECT id, metadata_json->'agent'->>'model_name' AS model FROM agent_runs"

with Client() as client:
    model_of = {row["id"]: row["model"] for row in client.dql_result_to_dicts(client.execute_dql(COLLECTION, MODELS))}
    causes = client.get_result_set_dataframe(COLLECTION, "failures/causes/v1")
    set_id = client.get_result_set(COLLECTION, "failures/causes/v1")["id"]
    parts: list[str | ResultRef] = ["Why runs failed, by model."]
    for model, rows in causes.groupby(causes["user_metadata.failed"].map(model_of)):
        parts.append(f"## Model: {model}")
        parts += [ResultRef(id=id, result_set_id=set_id, collection_id=COLLECTION) for id in rows["id"]]
    parts.append("How do the models' failures differ? Cite the results.")
    summary = [LLMRequest(prompt=Prompt(parts))]
    done = client.submit_llm_requests(COLLECTION, summary, "openai/gpt-5-mini", "failures/by-model/v1")
