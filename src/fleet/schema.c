/* The fleet's tables as a list of migrations: entry n brings those of version n to n + 1. Entries are only ever added.
 *
 * Tables of rows have the names, columns and values of the index (history/schema.c), and three columns more: the runner
 * that pushed the run, without which a row counts for no other's run, and the month in which it started, by which large
 * tables are partitioned. INTEGER is bigint, REAL is double precision. */
#include "fleet/internal.h"
#include "base/buffer.h"
#include <stdlib.h>
#include <string.h>

static const char *const MIGRATIONS[] = {
    "CREATE TABLE runner(runner_no integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL UNIQUE);"

    /* The archives: with `runner`, all that the other tables can be made again from. */
    "CREATE TABLE archive(bundle_id text PRIMARY KEY, tagmanifest_sha256 text NOT NULL UNIQUE,"
    " runner_no integer NOT NULL REFERENCES runner, month date NOT NULL, sha256 text NOT NULL,"
    " size_bytes bigint NOT NULL, n_chunks integer NOT NULL, previous_id text, previous_sha256 text,"
    " pushed_at timestamptz NOT NULL DEFAULT now());"
    "CREATE INDEX archive_by_runner ON archive(runner_no, bundle_id);"
    "CREATE TABLE archive_chunk(tagmanifest_sha256 text NOT NULL, chunk_no integer NOT NULL, runner_no integer NOT "
    "NULL,"
    " month date NOT NULL, data bytea NOT NULL CHECK (octet_length(data) <= 1048576), PRIMARY KEY(tagmanifest_sha256, "
    "chunk_no, runner_no, month))"
    " PARTITION BY RANGE (month);"
    "ALTER TABLE archive_chunk ALTER COLUMN data SET STORAGE EXTERNAL;" /* it is compressed already */

    "CREATE TABLE env(env_id text PRIMARY KEY, cpu_model text, n_cpus bigint, memory_bytes bigint, os text,"
    " kernel text, gpu_name text, gpu_driver bigint, cuda_runtime bigint, gpu_power_limit_w double precision,"
    " json text NOT NULL);"
    "CREATE TABLE build(build_id text PRIMARY KEY, version text, compiler text, cflags text, sanitizers text,"
    " cuda text, program_sha256 text, json text NOT NULL);"
    "CREATE TABLE bundle(bundle_id text PRIMARY KEY, path text NOT NULL, state text NOT NULL, verdict text NOT NULL,"
    " exit_code bigint NOT NULL, started_us bigint NOT NULL, sealed_us bigint NOT NULL, git_commit text,"
    " git_branch text, git_dirty bigint, content_sha256 text, env_id text REFERENCES env,"
    " build_id text REFERENCES build, seed text NOT NULL, n_planned bigint NOT NULL, n_pass bigint NOT NULL,"
    " n_fail bigint NOT NULL, n_skip bigint NOT NULL, n_crash bigint NOT NULL, n_timeout bigint NOT NULL,"
    " n_norun bigint NOT NULL, overhead_share double precision, manifest_sha256 text NOT NULL, sig_state text NOT NULL,"
    " bundle_no bigint NOT NULL UNIQUE, comparison_key text NOT NULL,"
    " runner_no integer NOT NULL REFERENCES runner, month date NOT NULL);"
    "CREATE INDEX bundle_by_time ON bundle(started_us);"
    "CREATE TABLE tcase(case_id bigint PRIMARY KEY, case_key text NOT NULL, suite text NOT NULL, layer text NOT NULL,"
    " op text NOT NULL, name text NOT NULL, backend text, dtype text, shape text, spec text, def_sha text NOT NULL);"
    /* By its digest: a key may be longer than an entry of an index. */
    "CREATE INDEX tcase_by_key ON tcase(md5(case_key));"
    "CREATE TABLE figure_name(figure_id bigint PRIMARY KEY, name text NOT NULL, unit text NOT NULL);"
    "CREATE TABLE result_row(result_id bigint NOT NULL, bundle_no bigint NOT NULL, case_id bigint NOT NULL,"
    " status text NOT NULL, reason text, seed text, started_us bigint, duration_ns bigint, runner_no integer NOT NULL,"
    " month date NOT NULL, PRIMARY KEY(result_id, runner_no, month)) PARTITION BY RANGE (month);"
    "CREATE INDEX result_by_case ON result_row(case_id);"
    "CREATE TABLE metric_row(result_id bigint NOT NULL, seq bigint NOT NULL, figure_id bigint NOT NULL,"
    " value double precision, tol double precision, n bigint, mad double precision, ci_lo double precision,"
    " ci_hi double precision, valid bigint NOT NULL, runner_no integer NOT NULL, month date NOT NULL,"
    " PRIMARY KEY(result_id, seq, runner_no, month)) PARTITION BY RANGE (month);"
    "CREATE TABLE annotation(annotation_id text PRIMARY KEY, kind text NOT NULL, bundle_id text, case_key text,"
    " until_us bigint, utc_us bigint NOT NULL, author text NOT NULL, text text NOT NULL);"

    /* Months: a partition each, made when the first of its runs comes. What started before kigo was written or later
     * than next month (a wrong clock) lies in `_other`, and stays there. */
    "CREATE TABLE archive_chunk_other PARTITION OF archive_chunk DEFAULT;"
    "CREATE TABLE result_row_other PARTITION OF result_row DEFAULT;"
    "CREATE TABLE metric_row_other PARTITION OF metric_row DEFAULT;"
    "CREATE FUNCTION make_month(month date) RETURNS void LANGUAGE plpgsql SECURITY DEFINER"
    " SET search_path = pg_catalog, pg_temp AS $$"
    "DECLARE parent text; part text; taken boolean;"
    "BEGIN"
    " IF month <> date_trunc('month', month)::date OR month < date '2020-01-01' OR month > current_date + 31"
    " OR to_regclass('kigo.metric_row_' || to_char(month, 'YYYY_MM')) IS NOT NULL THEN RETURN; END IF;"
    " PERFORM pg_advisory_xact_lock(" KG_FLEET_LOCK ");"
    " FOREACH parent IN ARRAY ARRAY['archive_chunk', 'result_row', 'metric_row'] LOOP"
    "  part := parent || to_char(month, '_YYYY_MM');"
    "  CONTINUE WHEN to_regclass('kigo.' || part) IS NOT NULL;"
    "  EXECUTE format('SELECT EXISTS (SELECT FROM kigo.%I WHERE month = %L)', parent || '_other', month) INTO taken;"
    "  CONTINUE WHEN taken;"
    "  EXECUTE format('CREATE TABLE kigo.%I PARTITION OF kigo.%I FOR VALUES FROM (%L) TO (%L)', part, parent, month,"
    "   (month + interval '1 month')::date);"
    " END LOOP;"
    "END $$;"

    /* Everybody in a role reads; a runner adds what bears its name, which is the one that the server let in, whatever
     * role it took since. Rows that runs share bear none: they are held against those of each push. */
    "CREATE FUNCTION my_runner() RETURNS integer LANGUAGE sql STABLE AS"
    " 'SELECT runner_no FROM kigo.runner WHERE name = session_user';"
    "DO $$ DECLARE name text; BEGIN"
    " FOREACH name IN ARRAY ARRAY['runner', 'archive', 'archive_chunk', 'bundle', 'result_row', 'metric_row', 'env',"
    "  'build', 'tcase', 'figure_name', 'annotation'] LOOP"
    "  EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);"
    "  EXECUTE format('CREATE POLICY to_read ON %I FOR SELECT USING (true)', name);"
    " END LOOP;"
    " FOREACH name IN ARRAY ARRAY['archive', 'archive_chunk', 'bundle', 'result_row', 'metric_row'] LOOP"
    "  EXECUTE format('CREATE POLICY to_push ON %I FOR INSERT TO kigo_runner"
    "   WITH CHECK (runner_no = (SELECT kigo.my_runner()))', name);"
    " END LOOP;"
    " FOREACH name IN ARRAY ARRAY['env', 'build', 'tcase', 'figure_name'] LOOP"
    "  EXECUTE format('CREATE POLICY to_push ON %I FOR INSERT TO kigo_runner WITH CHECK (true)', name);"
    " END LOOP;"
    "END $$;"
    "CREATE POLICY to_push ON runner FOR INSERT TO kigo_runner WITH CHECK (name = session_user);"
    "REVOKE ALL ON FUNCTION make_month(date) FROM PUBLIC;"
    "GRANT EXECUTE ON FUNCTION make_month(date) TO kigo_runner;"
    "GRANT USAGE ON SCHEMA kigo TO kigo_runner, kigo_reader;"
    "GRANT SELECT ON ALL TABLES IN SCHEMA kigo TO kigo_runner, kigo_reader;"
    "GRANT INSERT ON runner, archive_chunk, env, build, bundle, tcase, figure_name, result_row, metric_row"
    " TO kigo_runner;"
    "GRANT INSERT (bundle_id, tagmanifest_sha256, runner_no, month, sha256, size_bytes, n_chunks, previous_id,"
    " previous_sha256) ON archive TO kigo_runner;" /* not pushed_at: that is the server's word */,

    /* Views for people, as those of the index (history/views.h). */
    "CREATE VIEW run AS SELECT b.bundle_id AS run, b.verdict, b.state, b.exit_code,"
    " to_char(to_timestamp(b.started_us / 1000000) AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS') AS started_utc,"
    " (b.sealed_us - b.started_us) / 1e6::double precision AS run_seconds, b.overhead_share, b.n_planned, b.n_pass,"
    " b.n_fail, b.n_skip, b.n_crash, b.n_timeout, b.n_norun, b.seed AS run_seed, b.git_commit, b.git_branch,"
    " b.git_dirty, e.gpu_name, e.gpu_power_limit_w, e.gpu_driver, e.cuda_runtime, e.cpu_model, e.n_cpus,"
    " e.memory_bytes AS host_memory_bytes, e.os, e.kernel, c.compiler, c.cflags, c.sanitizers, c.cuda AS cuda_compiler,"
    " (b.sig_state <> 'unsigned')::int AS has_signature, b.comparison_key, w.name AS runner"
    " FROM bundle b JOIN runner w USING (runner_no) LEFT JOIN env e USING (env_id) LEFT JOIN build c USING (build_id);"
    "CREATE VIEW figure AS SELECT b.bundle_id AS run, r.result_id AS result_no, c.case_key, c.layer, c.op,"
    " c.name AS case_name, coalesce(c.backend, '-') AS backend, coalesce(c.dtype, '-') AS dtype,"
    " coalesce(c.shape, '-') AS shape, coalesce(c.spec, '-') AS spec, r.status, f.name AS figure, f.unit, m.value,"
    " m.tol AS value_limit, m.n AS n_values, m.mad, m.ci_lo AS ci_low, m.ci_hi AS ci_high, m.valid"
    " FROM bundle b JOIN result_row r ON r.result_id BETWEEN b.bundle_no << 20 AND (b.bundle_no << 20) + 1048575"
    "  AND r.runner_no = b.runner_no AND r.month = b.month"
    " JOIN metric_row m ON m.result_id = r.result_id AND m.runner_no = r.runner_no AND m.month = r.month"
    " JOIN figure_name f ON f.figure_id = m.figure_id JOIN tcase c ON c.case_id = r.case_id;"
    "CREATE VIEW failure AS SELECT b.bundle_id AS run, r.result_id AS result_no, c.case_key, c.layer, c.op,"
    " c.name AS case_name, coalesce(c.backend, '-') AS backend, coalesce(c.dtype, '-') AS dtype,"
    " coalesce(c.shape, '-') AS shape, coalesce(c.spec, '-') AS spec, r.status, coalesce(r.reason, '') AS reason,"
    " r.seed AS case_seed, r.duration_ns / 1e9::double precision AS case_seconds"
    " FROM bundle b JOIN result_row r ON r.result_id BETWEEN b.bundle_no << 20 AND (b.bundle_no << 20) + 1048575"
    "  AND r.runner_no = b.runner_no AND r.month = b.month"
    " JOIN tcase c ON c.case_id = r.case_id WHERE r.status NOT IN ('pass', 'skip');"
    "GRANT SELECT ON run, figure, failure TO kigo_runner, kigo_reader;",

    /* What is left of a run that was pruned: enough to know it again, and to follow the chain past it. */
    "CREATE TABLE tombstone(bundle_id text PRIMARY KEY, tagmanifest_sha256 text NOT NULL, manifest_sha256 text NOT "
    "NULL,"
    " archive_sha256 text NOT NULL, size_bytes bigint NOT NULL, runner_no integer NOT NULL REFERENCES runner,"
    " month date NOT NULL, previous_id text, previous_sha256 text, pushed_at timestamptz NOT NULL,"
    " pruned_at timestamptz NOT NULL DEFAULT now(), pruned_by text NOT NULL DEFAULT session_user, author text NOT NULL,"
    " why text NOT NULL);"
    "GRANT SELECT ON tombstone TO kigo_runner, kigo_reader;",

    /* The text of a function in SQL is read by the search_path of who calls it: a runner who may make operators in any
     * schema (up to PostgreSQL 14 in `public`) would have said what `=` of a name is. */
    "ALTER FUNCTION my_runner() SET search_path = pg_catalog, pg_temp;",

    /* The results of a run are found by equality, of the upper bits of result_id, which are bundle_no: a range of
     * numbers the planner takes for many, and reads whole partitions then. Which runner and month they are of follows
     * from the run, which the planner does not know: as equalities they would divide what it expects by the number of
     * runners and of months, down to one figure where a run has 10^5, and two runs would be compared by nested loops.
     * ANALYZE, as nothing else looks at a month that is over. */
    "CREATE INDEX result_by_run ON result_row((result_id >> 20));"
    "CREATE OR REPLACE VIEW figure AS SELECT b.bundle_id AS run, r.result_id AS result_no, c.case_key, c.layer, c.op,"
    " c.name AS case_name, coalesce(c.backend, '-') AS backend, coalesce(c.dtype, '-') AS dtype,"
    " coalesce(c.shape, '-') AS shape, coalesce(c.spec, '-') AS spec, r.status, f.name AS figure, f.unit, m.value,"
    " m.tol AS value_limit, m.n AS n_values, m.mad, m.ci_lo AS ci_low, m.ci_hi AS ci_high, m.valid"
    " FROM bundle b JOIN result_row r ON r.result_id >> 20 = b.bundle_no"
    "  AND coalesce(r.runner_no = b.runner_no, false) AND r.month BETWEEN b.month AND b.month"
    " JOIN metric_row m ON m.result_id = r.result_id AND coalesce(m.runner_no = r.runner_no, false)"
    "  AND m.month BETWEEN r.month AND r.month"
    " JOIN figure_name f ON f.figure_id = m.figure_id JOIN tcase c ON c.case_id = r.case_id;"
    "CREATE OR REPLACE VIEW failure AS SELECT b.bundle_id AS run, r.result_id AS result_no, c.case_key, c.layer, c.op,"
    " c.name AS case_name, coalesce(c.backend, '-') AS backend, coalesce(c.dtype, '-') AS dtype,"
    " coalesce(c.shape, '-') AS shape, coalesce(c.spec, '-') AS spec, r.status, coalesce(r.reason, '') AS reason,"
    " r.seed AS case_seed, r.duration_ns / 1e9::double precision AS case_seconds"
    " FROM bundle b JOIN result_row r ON r.result_id >> 20 = b.bundle_no"
    "  AND coalesce(r.runner_no = b.runner_no, false) AND r.month BETWEEN b.month AND b.month"
    " JOIN tcase c ON c.case_id = r.case_id WHERE r.status NOT IN ('pass', 'skip');"
    "ANALYZE result_row;",
};
enum { SCHEMA_VERSION = sizeof MIGRATIONS / sizeof *MIGRATIONS };

int kg_fleet_version(void) {
    return SCHEMA_VERSION;
}

enum kg_status kg_fleet_read_version(struct kg_fleet *fleet, int *version, struct kg_error *err) {
    struct kg_fleet_rows rows;
    enum kg_status status = kg_fleet_ask(fleet, "reading the version",
                                         "SELECT to_regclass('kigo.schema_version')::text", NULL, 0, &rows, err);
    const bool is_made = status == KG_OK && *kg_fleet_cell(&rows, 0, 0);
    kg_fleet_rows_free(&rows);
    *version = 0;
    if (status != KG_OK || !is_made) return status;
    status =
        kg_fleet_ask(fleet, "reading the version", "SELECT max(version) FROM kigo.schema_version", NULL, 0, &rows, err);
    if (status == KG_OK) *version = (int)kg_fleet_integer(&rows, 0, 0);
    kg_fleet_rows_free(&rows);
    return status;
}

static enum kg_status refuse_newer(const struct kg_fleet *fleet, int version, struct kg_error *err) {
    if (version <= SCHEMA_VERSION) return KG_OK;
    return kg_fail(err, KG_ERR_SCHEMA, "%s has tables of version %d, this kigo knows up to %d: use the newer kigo",
                   fleet->where, version, (int)SCHEMA_VERSION);
}

enum kg_status kg_fleet_check(struct kg_fleet *fleet, struct kg_error *err) {
    int version = 0;
    enum kg_status status = kg_fleet_read_version(fleet, &version, err);
    if (status == KG_OK) status = refuse_newer(fleet, version, err);
    if (status != KG_OK || version == SCHEMA_VERSION) return status;
    if (version == 0)
        return kg_fail(err, KG_ERR_NOT_FOUND, "%s has no tables of kigo: 'kigo fleet init' makes them", fleet->where);
    return kg_fail(err, KG_ERR_SCHEMA, "%s has tables of version %d, this kigo needs %d: 'kigo fleet migrate'",
                   fleet->where, version, (int)SCHEMA_VERSION);
}

/* All objects belong to kigo_admin, so that every admin may migrate. */
static enum kg_status run_migrations(struct kg_fleet *fleet, int version, struct kg_error *err) {
    enum kg_status status = kg_fleet_exec(fleet, "becoming kigo_admin", "SET LOCAL ROLE kigo_admin", err);
    for (; status == KG_OK && version < SCHEMA_VERSION; version++) {
        char *sql = kg_xasprintf("UPDATE schema_version SET version = %d", version + 1);
        status = kg_fleet_exec(fleet, "migrating", MIGRATIONS[version], err);
        if (status == KG_OK) status = kg_fleet_exec(fleet, "migrating", sql, err);
        free(sql);
    }
    return status;
}

static enum kg_status make_schema(struct kg_fleet *fleet, struct kg_error *err) {
    struct kg_fleet_rows rows;
    enum kg_status status = kg_fleet_ask(fleet, "reading the encoding", "SHOW server_encoding", NULL, 0, &rows, err);
    if (status == KG_OK && strcmp(kg_fleet_cell(&rows, 0, 0), "UTF8") != 0)
        status = kg_fail(err, KG_ERR_USAGE, "%s has the encoding %s: createdb -E UTF8 -T template0", fleet->where,
                         kg_fleet_cell(&rows, 0, 0));
    kg_fleet_rows_free(&rows);
    if (status == KG_OK) status = kg_fleet_make_roles(fleet, err);
    if (status != KG_OK) return status;
    return kg_fleet_exec(fleet, "making the schema",
                         "CREATE SCHEMA kigo AUTHORIZATION kigo_admin; SET LOCAL ROLE kigo_admin;"
                         "CREATE TABLE schema_version(version integer NOT NULL); INSERT INTO schema_version VALUES (0);"
                         "GRANT SELECT ON schema_version TO kigo_runner, kigo_reader; RESET ROLE",
                         err);
}

/* One after another, whoever calls it. */
static enum kg_status to_this_version(struct kg_fleet *fleet, bool make, int *version, struct kg_error *err) {
    enum kg_status status =
        kg_fleet_exec(fleet, "waiting for others", "BEGIN; SELECT pg_advisory_xact_lock(" KG_FLEET_LOCK ")", err);
    if (status == KG_OK) status = kg_fleet_read_version(fleet, version, err);
    if (status == KG_OK) status = refuse_newer(fleet, *version, err);
    if (status == KG_OK && *version == 0) status = make ? make_schema(fleet, err) : kg_fleet_check(fleet, err);
    if (status == KG_OK && *version < SCHEMA_VERSION) status = run_migrations(fleet, *version, err);
    if (status == KG_OK) status = kg_fleet_exec(fleet, "committing", "COMMIT", err);
    if (status == KG_OK) *version = SCHEMA_VERSION;
    else kg_fleet_roll_back(fleet);
    return status;
}

enum kg_status kg_fleet_init(struct kg_fleet *fleet, int *version, struct kg_error *err) {
    return to_this_version(fleet, true, version, err);
}

enum kg_status kg_fleet_migrate(struct kg_fleet *fleet, int *version, struct kg_error *err) {
    return to_this_version(fleet, false, version, err);
}
