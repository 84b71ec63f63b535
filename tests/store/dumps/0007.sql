BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0007');
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
CREATE TABLE documents (
	run_id VARCHAR NOT NULL, 
	eval_id VARCHAR NOT NULL, 
	number INTEGER NOT NULL, 
	role VARCHAR NOT NULL, 
	path VARCHAR NOT NULL, 
	digest VARCHAR NOT NULL, 
	PRIMARY KEY (run_id, eval_id, number)
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
CREATE TABLE proposals (
	"key" VARCHAR NOT NULL, 
	body BLOB NOT NULL, 
	PRIMARY KEY ("key")
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
INSERT INTO "runs" VALUES('r','example','m','default','completed',0,0,0,0,NULL,X'789C4D8DC10AC23010447FA5E4ECC1B3BF22228B9942609394DD4D2988FF6E07A4F5F8DE3033EF5472BA4DC9D2654A8BF5B564180536A98B82BAF60CA5AB246C0BAC54B4A0CA98656830F090184EF9EAAC06F2A99F06F1DEF6B40D557E893B787DDD6196A207440FD1BF6018B87A7FF07C15F5736498FEE0F3058ECC3E6A');
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
CREATE INDEX ix_batch_items_intent_id ON batch_items (intent_id);
CREATE INDEX evals_by_id ON evals (eval_id);
CREATE INDEX evals_in_order ON evals (run_id, number);
CREATE INDEX ix_transcripts_id ON transcripts (id);
CREATE INDEX ix_judge_results_agent_run_id ON judge_results (agent_run_id);
CREATE INDEX ix_documents_digest ON documents (digest);
CREATE INDEX ix_results_key ON results ("key");
COMMIT;
