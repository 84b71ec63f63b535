BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0013');
CREATE TABLE approvals (
	run_id VARCHAR NOT NULL, 
	recommendation VARCHAR NOT NULL, 
	patch VARCHAR NOT NULL, 
	PRIMARY KEY (run_id, recommendation)
);
CREATE TABLE batch_intents (
	id VARCHAR NOT NULL, 
	created VARCHAR NOT NULL, 
	batch_id VARCHAR, 
	PRIMARY KEY (id)
);
CREATE TABLE batch_items (
	"key" VARCHAR NOT NULL, 
	intent_id VARCHAR NOT NULL, 
	body BLOB, 
	taken BOOLEAN DEFAULT 0 NOT NULL, 
	PRIMARY KEY ("key")
);
CREATE TABLE collection_runs (
	collection_id VARCHAR NOT NULL, 
	run_id VARCHAR NOT NULL, 
	number INTEGER NOT NULL, 
	PRIMARY KEY (collection_id, run_id)
);
CREATE TABLE collections (
	number INTEGER NOT NULL, 
	id VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	PRIMARY KEY (number), 
	UNIQUE (id)
);
CREATE TABLE dataset_versions (
	id VARCHAR NOT NULL, 
	dataset_id VARCHAR NOT NULL, 
	number INTEGER NOT NULL, 
	items INTEGER NOT NULL, 
	provenance VARCHAR NOT NULL, 
	parent_run_id VARCHAR, 
	description TEXT NOT NULL, 
	created_at VARCHAR NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (dataset_id, number)
);
CREATE TABLE datasets (
	number INTEGER NOT NULL, 
	id VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	description TEXT NOT NULL, 
	created_at VARCHAR NOT NULL, 
	PRIMARY KEY (number), 
	UNIQUE (id), 
	UNIQUE (name)
);
CREATE TABLE deployments (
	number INTEGER NOT NULL, 
	id VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	body BLOB NOT NULL, 
	PRIMARY KEY (number), 
	UNIQUE (id)
);
CREATE TABLE documents (
	run_id VARCHAR NOT NULL, 
	eval_id VARCHAR NOT NULL, 
	number INTEGER NOT NULL, 
	role VARCHAR NOT NULL, 
	path VARCHAR NOT NULL, 
	digest VARCHAR NOT NULL, 
	PRIMARY KEY (run_id, eval_id, number)
);
CREATE TABLE draft_items (
	dataset_id VARCHAR NOT NULL, 
	item_key VARCHAR NOT NULL, 
	number INTEGER NOT NULL, 
	digest VARCHAR NOT NULL, 
	likeness VARCHAR NOT NULL, 
	content VARCHAR NOT NULL, 
	source JSON NOT NULL, 
	PRIMARY KEY (dataset_id, item_key)
);
CREATE TABLE evals (
	run_id VARCHAR NOT NULL, 
	eval_id VARCHAR NOT NULL, 
	number INTEGER NOT NULL, 
	category VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	trial INTEGER NOT NULL, 
	trials INTEGER NOT NULL, 
	path VARCHAR NOT NULL, 
	status VARCHAR NOT NULL, 
	failed_step VARCHAR, 
	reason TEXT, 
	url VARCHAR, 
	task_digest VARCHAR, 
	grader_digest VARCHAR, 
	metadata_json JSON NOT NULL, 
	missing JSON NOT NULL, 
	digest VARCHAR, 
	PRIMARY KEY (run_id, eval_id)
);
CREATE TABLE evidence (
	run_id VARCHAR NOT NULL, 
	eval_id VARCHAR NOT NULL, 
	digest VARCHAR, 
	body BLOB NOT NULL, 
	PRIMARY KEY (run_id, eval_id)
);
CREATE TABLE experiment_runs (
	number INTEGER NOT NULL, 
	id VARCHAR NOT NULL, 
	experiment_id VARCHAR NOT NULL, 
	experiment_version_id VARCHAR NOT NULL, 
	dataset_version_id VARCHAR NOT NULL, 
	deployment_id VARCHAR, 
	name VARCHAR, 
	state VARCHAR NOT NULL, 
	reason TEXT, 
	repetitions INTEGER NOT NULL, 
	concurrency INTEGER NOT NULL, 
	budget_usd FLOAT, 
	items INTEGER NOT NULL, 
	created_at VARCHAR NOT NULL, 
	started_at VARCHAR, 
	ended_at VARCHAR, 
	heartbeat_at VARCHAR, 
	worker VARCHAR, 
	cancelling BOOLEAN DEFAULT 0 NOT NULL, 
	archived BOOLEAN DEFAULT 0 NOT NULL, revision INTEGER DEFAULT 0 NOT NULL, gate_key VARCHAR, gate_passed BOOLEAN, 
	PRIMARY KEY (number), 
	UNIQUE (id)
);
CREATE TABLE experiment_versions (
	id VARCHAR NOT NULL, 
	experiment_id VARCHAR NOT NULL, 
	number INTEGER NOT NULL, 
	dataset_id VARCHAR NOT NULL, 
	dataset_version_id VARCHAR NOT NULL, 
	body BLOB NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (experiment_id, number)
);
CREATE TABLE experiments (
	number INTEGER NOT NULL, 
	id VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	type VARCHAR NOT NULL, 
	status VARCHAR NOT NULL, 
	collection_id VARCHAR NOT NULL, 
	latest_version_id VARCHAR NOT NULL, 
	created_at VARCHAR NOT NULL, 
	PRIMARY KEY (number), 
	UNIQUE (id), 
	UNIQUE (name)
);
CREATE TABLE findings (
	run_id VARCHAR NOT NULL, 
	number INTEGER NOT NULL, 
	eval_id VARCHAR, 
	path VARCHAR NOT NULL, 
	step VARCHAR, 
	classification VARCHAR, 
	cause VARCHAR, 
	cause_kind VARCHAR, 
	confidence FLOAT, 
	uncertain BOOLEAN, 
	judge VARCHAR, 
	error TEXT, 
	reasoning TEXT, 
	recurrence VARCHAR, 
	finding_json JSON NOT NULL, 
	PRIMARY KEY (run_id, number)
);
CREATE TABLE judge_results (
	"key" VARCHAR NOT NULL, 
	kind VARCHAR NOT NULL, 
	agent_run_id VARCHAR NOT NULL, 
	rubric_id VARCHAR NOT NULL, 
	rubric_version INTEGER NOT NULL, 
	judge VARCHAR NOT NULL, 
	output JSON NOT NULL, 
	reason TEXT, 
	confidence FLOAT, 
	cost_usd FLOAT NOT NULL, 
	body BLOB NOT NULL, 
	PRIMARY KEY ("key")
);
CREATE TABLE judged_groups (
	run_id VARCHAR NOT NULL, 
	number INTEGER NOT NULL, 
	body BLOB NOT NULL, 
	PRIMARY KEY (run_id, number)
);
CREATE TABLE label_sets (
	number INTEGER NOT NULL, 
	collection_id VARCHAR NOT NULL, 
	id VARCHAR NOT NULL, 
	body BLOB NOT NULL, 
	PRIMARY KEY (number), 
	UNIQUE (collection_id, id)
);
CREATE TABLE labels (
	run_id VARCHAR NOT NULL, 
	number INTEGER NOT NULL, 
	eval VARCHAR NOT NULL, 
	label VARCHAR, 
	reviewer VARCHAR, 
	label_json JSON NOT NULL, 
	PRIMARY KEY (run_id, number)
);
CREATE TABLE prompt_versions (
	prompt_id VARCHAR NOT NULL, 
	number INTEGER NOT NULL, 
	id VARCHAR NOT NULL, 
	body BLOB NOT NULL, 
	PRIMARY KEY (prompt_id, number)
);
CREATE TABLE proofs (
	run_id VARCHAR NOT NULL, 
	eval_id VARCHAR NOT NULL, 
	body BLOB NOT NULL, 
	PRIMARY KEY (run_id, eval_id)
);
CREATE TABLE proposals (
	"key" VARCHAR NOT NULL, 
	body BLOB NOT NULL, 
	PRIMARY KEY ("key")
);
CREATE TABLE replays (
	"key" VARCHAR NOT NULL, 
	attempt INTEGER NOT NULL, 
	body BLOB NOT NULL, 
	PRIMARY KEY ("key", attempt)
);
CREATE TABLE reports (
	run_id VARCHAR NOT NULL, 
	path VARCHAR NOT NULL, 
	text TEXT NOT NULL, 
	PRIMARY KEY (run_id)
);
CREATE TABLE result_sets (
	id VARCHAR NOT NULL, 
	collection_id VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	output_schema JSON, 
	created_at VARCHAR NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (collection_id, name)
);
CREATE TABLE results (
	id VARCHAR NOT NULL, 
	result_set_id VARCHAR NOT NULL, 
	number INTEGER NOT NULL, 
	request VARCHAR NOT NULL, 
	prompt JSON NOT NULL, 
	user_metadata JSON NOT NULL, 
	model VARCHAR NOT NULL, 
	effort VARCHAR, 
	"key" VARCHAR, 
	output JSON, 
	error TEXT, 
	final BOOLEAN NOT NULL, 
	input_tokens INTEGER NOT NULL, 
	output_tokens INTEGER NOT NULL, 
	cost_usd FLOAT NOT NULL, 
	created_at VARCHAR NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (result_set_id, number)
);
CREATE TABLE rubric_versions (
	collection_id VARCHAR NOT NULL, 
	id VARCHAR NOT NULL, 
	version INTEGER NOT NULL, 
	digest VARCHAR NOT NULL, 
	body BLOB NOT NULL, 
	PRIMARY KEY (collection_id, id, version)
);
CREATE TABLE run_items (
	id VARCHAR NOT NULL, 
	run_id VARCHAR NOT NULL, 
	number INTEGER NOT NULL, 
	repetition INTEGER NOT NULL, 
	item_key VARCHAR NOT NULL, 
	status VARCHAR NOT NULL, 
	verdict VARCHAR NOT NULL, 
	error TEXT, 
	duration_ms FLOAT NOT NULL, 
	usage JSON, 
	cost_usd FLOAT NOT NULL, 
	model VARCHAR, 
	output VARCHAR, 
	transcript VARCHAR, 
	state VARCHAR, 
	log VARCHAR, 
	created_at VARCHAR NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (run_id, number, repetition)
);
CREATE TABLE running_analyses (
	run_id VARCHAR NOT NULL, 
	body BLOB NOT NULL, 
	PRIMARY KEY (run_id)
);
CREATE TABLE runs (
	run_id VARCHAR NOT NULL, 
	provider VARCHAR NOT NULL, 
	model VARCHAR NOT NULL, 
	experiment VARCHAR NOT NULL, 
	status VARCHAR NOT NULL, 
	passed INTEGER NOT NULL, 
	failed INTEGER NOT NULL, 
	total INTEGER NOT NULL, 
	recorded INTEGER NOT NULL, 
	url VARCHAR, 
	body BLOB NOT NULL, 
	PRIMARY KEY (run_id)
);
INSERT INTO "runs" VALUES('r','example','m','default','completed',0,0,0,0,NULL,X'789C658F310EC3300845EFE23943E75CA5AA2C1413C52A3611862852D5BB97A84E3A74FB3CF87C78859CC218240C6115DE7242F11277282BA1C3C209C949718DFB8A920B56759070062375DC14D49AA3890F9362BA601484C6358CD5883C015AF3EE781BC20C99BA5456A00B9AA0EFBA3F3C6E036AA7D5844EE9ABC54322E849920968E61AAFF15C57D3A8FCC47A3136FD8713378DD6D2CF787E117BFE718A557F247DF5C464A5F6862E7EEEC2D4FDEF0FD58B7493');
CREATE TABLE scorer_versions (
	scorer_id VARCHAR NOT NULL, 
	number INTEGER NOT NULL, 
	id VARCHAR NOT NULL, 
	body BLOB NOT NULL, 
	PRIMARY KEY (scorer_id, number)
);
CREATE TABLE scorers (
	number INTEGER NOT NULL, 
	id VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	created_at VARCHAR NOT NULL, 
	PRIMARY KEY (number), 
	UNIQUE (id), 
	UNIQUE (name)
);
CREATE TABLE scores (
	number INTEGER NOT NULL, 
	id VARCHAR NOT NULL, 
	run_id VARCHAR NOT NULL, 
	run_item_id VARCHAR NOT NULL, 
	item_key VARCHAR NOT NULL, 
	repetition INTEGER NOT NULL, 
	scorer VARCHAR NOT NULL, 
	scorer_version_id VARCHAR NOT NULL, 
	required BOOLEAN NOT NULL, 
	status VARCHAR NOT NULL, 
	value FLOAT, 
	passed BOOLEAN, 
	label VARCHAR, 
	explanation TEXT NOT NULL, 
	error_type VARCHAR, 
	cost_usd FLOAT NOT NULL, 
	supersedes VARCHAR, 
	current BOOLEAN NOT NULL, 
	reason TEXT, 
	created_at VARCHAR NOT NULL, 
	input VARCHAR, 
	output VARCHAR, 
	evidence VARCHAR, 
	metadata_json JSON NOT NULL, 
	PRIMARY KEY (number), 
	UNIQUE (id)
);
CREATE TABLE sightings (
	run_id VARCHAR NOT NULL, 
	body BLOB NOT NULL, 
	PRIMARY KEY (run_id)
);
CREATE TABLE steps (
	run_id VARCHAR NOT NULL, 
	eval_id VARCHAR NOT NULL, 
	number INTEGER NOT NULL, 
	name VARCHAR NOT NULL, 
	status VARCHAR NOT NULL, 
	error TEXT, 
	PRIMARY KEY (run_id, eval_id, number)
);
CREATE TABLE target_prompts (
	number INTEGER NOT NULL, 
	id VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	created_at VARCHAR NOT NULL, 
	PRIMARY KEY (number), 
	UNIQUE (id), 
	UNIQUE (name)
);
CREATE TABLE texts (
	digest VARCHAR NOT NULL, 
	body BLOB NOT NULL, 
	PRIMARY KEY (digest)
);
CREATE TABLE transcripts (
	run_id VARCHAR NOT NULL, 
	eval_id VARCHAR NOT NULL, 
	number INTEGER NOT NULL, 
	id VARCHAR NOT NULL, 
	name VARCHAR, 
	messages JSON NOT NULL, 
	metadata_json JSON NOT NULL, 
	PRIMARY KEY (run_id, eval_id, number)
);
CREATE TABLE verdicts (
	"key" VARCHAR NOT NULL, 
	kind VARCHAR NOT NULL, 
	body BLOB NOT NULL, 
	PRIMARY KEY ("key")
);
CREATE TABLE version_items (
	version_id VARCHAR NOT NULL, 
	number INTEGER NOT NULL, 
	item_key VARCHAR NOT NULL, 
	digest VARCHAR NOT NULL, 
	likeness VARCHAR NOT NULL, 
	content VARCHAR NOT NULL, 
	source JSON NOT NULL, 
	PRIMARY KEY (version_id, number), 
	UNIQUE (version_id, item_key)
);
CREATE INDEX ix_batch_items_intent_id ON batch_items (intent_id);
CREATE INDEX evals_by_id ON evals (eval_id);
CREATE INDEX evals_in_order ON evals (run_id, number);
CREATE INDEX ix_transcripts_id ON transcripts (id);
CREATE INDEX ix_judge_results_agent_run_id ON judge_results (agent_run_id);
CREATE INDEX ix_documents_digest ON documents (digest);
CREATE INDEX ix_results_key ON results ("key");
CREATE INDEX ix_draft_items_digest ON draft_items (digest);
CREATE INDEX draft_items_in_order ON draft_items (dataset_id, number);
CREATE INDEX ix_version_items_digest ON version_items (digest);
CREATE INDEX ix_experiment_runs_experiment_id ON experiment_runs (experiment_id);
CREATE INDEX ix_experiment_runs_name ON experiment_runs (name);
CREATE INDEX ix_scores_run_item_id ON scores (run_item_id);
CREATE INDEX scores_of_run ON scores (run_id, current);
CREATE INDEX run_items_by_output ON run_items (output) WHERE output IS NOT NULL;
CREATE INDEX run_items_by_transcript ON run_items (transcript) WHERE transcript IS NOT NULL;
CREATE INDEX run_items_by_state ON run_items (state) WHERE state IS NOT NULL;
CREATE INDEX run_items_by_log ON run_items (log) WHERE log IS NOT NULL;
CREATE INDEX scores_by_input ON scores (input) WHERE input IS NOT NULL;
CREATE INDEX scores_by_output ON scores (output) WHERE output IS NOT NULL;
CREATE INDEX scores_by_evidence ON scores (evidence) WHERE evidence IS NOT NULL;
CREATE TRIGGER dataset_versions_update BEFORE UPDATE ON dataset_versions BEGIN SELECT RAISE(ABORT, 'what is here never changes and is never deleted: a new version is made instead'); END;
CREATE TRIGGER version_items_update BEFORE UPDATE ON version_items BEGIN SELECT RAISE(ABORT, 'what is here never changes and is never deleted: a new version is made instead'); END;
CREATE TRIGGER deployments_update BEFORE UPDATE ON deployments BEGIN SELECT RAISE(ABORT, 'what is here never changes and is never deleted: a new version is made instead'); END;
CREATE TRIGGER prompt_versions_update BEFORE UPDATE ON prompt_versions BEGIN SELECT RAISE(ABORT, 'what is here never changes and is never deleted: a new version is made instead'); END;
CREATE TRIGGER scorer_versions_update BEFORE UPDATE ON scorer_versions BEGIN SELECT RAISE(ABORT, 'what is here never changes and is never deleted: a new version is made instead'); END;
CREATE TRIGGER experiment_versions_update BEFORE UPDATE ON experiment_versions BEGIN SELECT RAISE(ABORT, 'what is here never changes and is never deleted: a new version is made instead'); END;
CREATE TRIGGER deployments_delete BEFORE DELETE ON deployments BEGIN SELECT RAISE(ABORT, 'what is here never changes and is never deleted: a new version is made instead'); END;
CREATE TRIGGER prompt_versions_delete BEFORE DELETE ON prompt_versions BEGIN SELECT RAISE(ABORT, 'what is here never changes and is never deleted: a new version is made instead'); END;
CREATE TRIGGER scorer_versions_delete BEFORE DELETE ON scorer_versions BEGIN SELECT RAISE(ABORT, 'what is here never changes and is never deleted: a new version is made instead'); END;
CREATE TRIGGER scores_update BEFORE UPDATE OF number, id, run_id, run_item_id, item_key, repetition, scorer, scorer_version_id, required, status, value, passed, label, explanation, error_type, cost_usd, supersedes, reason, created_at, input, output, evidence, metadata_json ON scores BEGIN SELECT RAISE(ABORT, 'scores never change and are never deleted: a new one supersedes them'); END;
CREATE TRIGGER dataset_versions_delete BEFORE DELETE ON dataset_versions WHEN EXISTS (SELECT 1 FROM datasets WHERE id = OLD.dataset_id) BEGIN SELECT RAISE(ABORT, 'what is here never changes; it is deleted only with what it belongs to'); END;
CREATE TRIGGER version_items_delete BEFORE DELETE ON version_items WHEN EXISTS (SELECT 1 FROM dataset_versions WHERE id = OLD.version_id) BEGIN SELECT RAISE(ABORT, 'what is here never changes; it is deleted only with what it belongs to'); END;
CREATE TRIGGER experiment_versions_delete BEFORE DELETE ON experiment_versions WHEN EXISTS (SELECT 1 FROM experiments WHERE id = OLD.experiment_id) BEGIN SELECT RAISE(ABORT, 'what is here never changes; it is deleted only with what it belongs to'); END;
CREATE TRIGGER scores_delete BEFORE DELETE ON scores WHEN EXISTS (SELECT 1 FROM experiment_runs WHERE id = OLD.run_id) BEGIN SELECT RAISE(ABORT, 'what is here never changes; it is deleted only with what it belongs to'); END;
COMMIT;
