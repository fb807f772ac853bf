/* What each writer makes of one fixed run, by the number of the format. Verify makes derived files again and compares
 * them: a writer that makes something else under the same number would make every bundle that was sealed before red. */
#include "base/buffer.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/size.h"
#include "bundle/derived.h"
#include "report/report.h"
#include "suites/harness/case.h"
#include "suites/support/bundle_maker.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

static const char STATEMENT[] = "statement.intoto.json";
enum { STATEMENT_SINCE = 2 }; /* verify_derived.c reads a statement of format 1 in another way */

/* Of what this run gives. Rows of a number stay as long as bundles of it may be verified. */
static const struct {
    int format;
    const char *file, *sha256;
} GOLDEN[] = {
    { 3, "data/junit.xml", "f1134de331756255d372f2d0a6f6784038589f2b614ae1acb53410f3310fd585" },
    { 3, "data/results.tap", "3f0f04a1f8e868659e0a98d388f6907e9b3feb544121631d6345b9e2b957a739" },
    { 3, "data/results.csv", "ba19d13ed9cca34697d695eaec14535a54f64998071bc7ce5f576f8b2a7aaeb1" },
    { 3, "data/report.md", "37b71791ffd779ccf4aba83db3cfbee3e1b7e3d7d7cd52e70df5a4112b860a79" },
    { 3, "data/report.html", "6b3ea5e763b8ab2694539392718c6e7d5c7498c27c00d02e17b6889da09a94c2" },
    { 3, "statement.intoto.json", "0f773b48384c5f21686fb76ee62b578e83bebfe8006dc991d1aa1850f44053c1" },
    { 2, "data/junit.xml", "f1134de331756255d372f2d0a6f6784038589f2b614ae1acb53410f3310fd585" },
    { 2, "data/results.tap", "3f0f04a1f8e868659e0a98d388f6907e9b3feb544121631d6345b9e2b957a739" },
    { 2, "data/results.csv", "bb7523f68181e093c70a155719da2cfa48ef6ab12fc1fc6a052a043c7cebe487" },
    { 2, "data/report.md", "37b71791ffd779ccf4aba83db3cfbee3e1b7e3d7d7cd52e70df5a4112b860a79" },
    { 2, "data/report.html", "b31b51dc079aed4057d51961821a6d8505aa822eeddb0e7e377f42e56950d4da" },
    { 2, "statement.intoto.json", "0f773b48384c5f21686fb76ee62b578e83bebfe8006dc991d1aa1850f44053c1" },
};

#define DEFINED "'def_sha':'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'"
#define PLAN(layer, op, name, backend, dtype, shape, spec)                                                             \
    "{'key':'" layer "/" op "/" name "','suite':'" layer "/test_" op "','layer':'" layer "','op':'" op                 \
    "','name':'" name "','backend':" backend ",'dtype':" dtype ",'shape':" shape ",'spec':" spec                       \
    ",'seed':'7'," DEFINED ",'timeout_s':60.0}\n"
#define RESULT(layer, op, name, status, reason, at, took, figures)                                                     \
    "{'key':'" layer "/" op "/" name "','suite':'" layer "/test_" op "'," DEFINED ",'status':'" status                 \
    "','reason':" reason ",'seed':'7','started_us':" at ",'duration_ns':" took "," figures "}\n"
#define NO_FIGURES "'errors':[],'timings':[],'metrics':[],'memory':[]"

/* ' stands for a quotation mark. A run in which everything happened that changes what a writer makes. */
static const struct {
    const char *file, *text;
} RUN[] = {
    { "data/plan.ndjson", PLAN("unit", "rmsnorm", "odd", "'cpu'", "'f32'", "'3x5'", "'S-1'")
                              PLAN("unit", "rmsnorm", "even", "'cuda'", "'f16'", "'4x8'", "null")
                                  PLAN("unit", "text", "hidden", "null", "null", "null", "null")
                                      PLAN("haiku", "poem", "pond", "'cpu'", "null", "null", "'S-2'")
                                          PLAN("haiku", "poem", "frog", "'cpu'", "null", "null", "null")
                                              PLAN("bench", "decode", "long", "'cuda'", "'f16'", "null", "null")
                                                  PLAN("bench", "decode", "never", "'cuda'", "'f16'", "null", "null") },
    { "data/results.ndjson",
      RESULT("unit", "rmsnorm", "odd", "pass", "null", "1700000000000000", "1000000",
             "'errors':[{'name':'logits','n':64,'n_nonfinite':0,'max_abs':0.001,'nmse':1e-6,"
             "'tolerance':{'max_abs':0.01},'why':'a sample','margin':0.1,'judged':true}],"
             "'timings':[{'name':'decode','kind':'host','state':'warm','n':10,'median':5.0,'mad':0.5,'ci_lo':4.5,"
             "'ci_hi':6.0125,'min':3.0,'max':9.0,'bytes':4096,'flops':512,'valid':true,'samples_offset':0}],"
             "'metrics':[{'name':'speed','unit':'tokens/s','value':100.0}],"
             "'memory':[{'tag':'weights','peak_bytes':4096,'left_bytes':0}]")
          RESULT("unit", "rmsnorm", "even", "fail",
                 "'max_abs 0.02 > 0.01 <at> \\u0027[3]\\u0027 & \\u0022x\\u0022|`y`'", "1700000001000000", "2500000",
                 "'errors':[{'name':'y','n':32,'n_nonfinite':1,'max_abs':0.02,'nmse':0.5,'tolerance':{'max_abs':0.01},"
                 "'why':'a sample','margin':2.0,'judged':true}],'timings':[],'metrics':[],'memory':[]")
              RESULT("unit", "text", "hidden", "skip", "'=1+1\\n\\u001b[31mred\\u202e\\r,;'", "1700000002000000", "10",
                     NO_FIGURES) RESULT("haiku", "poem", "pond", "crash", "'signal 11 in this case'",
                                        "1700000003000000", "40000000", NO_FIGURES)
                  RESULT("haiku", "poem", "frog", "timeout", "'60 s'", "1700000004000000", "60000000000", NO_FIGURES)
                      RESULT("bench", "decode", "long", "pass", "null", "1700000070000000", "3000000000", NO_FIGURES)
                          RESULT("bench", "decode", "never", "norun", "'the run ended before'", "null", "0",
                                 NO_FIGURES) },
    { "data/journal.ndjson", "{'event':'open','utc_us':1700000000000000,'bundle_id':"
                             "'20231114T221320Z-0123456789ab-dirty-00c0ffee','seed':'7'}\n" },
    { "data/summary.json", "{'bundle_id':'20231114T221320Z-0123456789ab-dirty-00c0ffee','state':'complete',"
                           "'verdict':'fail','exit_code':1,'seed':'7','started_us':1700000000000000,"
                           "'sealed_us':1700000100000000,'n_planned':7,'n_pass':2,'n_fail':1,'n_skip':1,'n_crash':1,"
                           "'n_timeout':1,'n_norun':1}" },
    { "data/env.json", "{'cpu':{'model':'A Processor','n_online':2,'n_usable':2,'governor':null,'cgroup_max':null},"
                       "'memory_bytes':8589934592,'os':'An OS 12','kernel':'6.1.0','machine':'x86_64','libraries':"
                       "{'libc':'2.36'},'locale':'C','lang':'C.UTF-8','gpus':[{'name':'A GPU','driver':'550.1'}],"
                       "'run':{'argv':['kigo','check','--sample','4'],'sample':4,'report':'sprint'}}" },
    { "data/build.json", "{'version':'0.1.0','compiler':'gcc 12.2.0','cc':'gcc','optimized':true,'cflags':'-g -O3',"
                         "'sanitizers':'address','cuda':'12.4','program_sha256':"
                         "'0000000000000000000000000000000000000000000000000000000000000000','kernels':["
                         "{'name':'spilling_kernel<float>','arch':'sm_90a','registers':255,'spill_store_bytes':8,"
                         "'spill_load_bytes':16,'stack_bytes':24,'shared_bytes':512},"
                         "{'name':'other_kernel','arch':'sm_90a','registers':40,'spill_store_bytes':0,"
                         "'spill_load_bytes':0,'stack_bytes':0,'shared_bytes':0}]}" },
    { "data/source.json", "{'version':'0.1.0','git':{'commit':'0123456789abcdef0123456789abcdef01234567','tree':"
                          "'89abcdef0123456789abcdef0123456789abcdef','branch':'main','author_date':"
                          "'2023-11-14T22:00:00+00:00','subject':'A <change>','dirty':true,'diff_cut':false,"
                          "'untracked':[]},'content_sha256':"
                          "'1111111111111111111111111111111111111111111111111111111111111111','content_files':2}" },
};
static const char MANIFEST[] = "2222222222222222222222222222222222222222222222222222222222222222  data/logs/unit.txt\n"
                               "3333333333333333333333333333333333333333333333333333333333333333  data/results.ndjson\n"
                               "4444444444444444444444444444444444444444444444444444444444444444  data/samples.bin\n";

static void write_run(const char *dir) {
    struct kg_error err;
    char *data = kg_path_join(dir, "data");
    EXPECT_OK(kg_dir_make(data, &err), err);
    for (size_t i = 0; i < KG_COUNT_OF(RUN); i++) {
        char *path = kg_path_join(dir, RUN[i].file), *text = kg_xstrdup(RUN[i].text);
        for (char *c = text; *c; c++)
            if (*c == '\'') *c = '"';
        EXPECT_OK(kg_file_write(path, text, strlen(text), &err), err);
        free(text);
        free(path);
    }
    free(data);
}

/* What a reader of the failure is to do. */
static const char ADVICE[] = "raise KG_FORMAT (src/bundle/derived.h), set `since` of what changed to it, and add rows "
                             "of the new number for every file to GOLDEN (suites/unit/test_bundle_format.c)";

/* since, last: the formats whose files of that name are compared with what the writer makes. */
static void check_file(const char *file, int since, int last, const struct kg_buffer *made) {
    char hex[KG_SHA256_HEX_SIZE];
    bool known = false;
    kg_sha256_hex(kg_buffer_text(made), made->len, hex);
    for (size_t i = 0; i < KG_COUNT_OF(GOLDEN); i++) {
        if (strcmp(GOLDEN[i].file, file) != 0 || GOLDEN[i].format < since || GOLDEN[i].format > last) continue;
        known = known || GOLDEN[i].format == last;
        ck_assert_msg(strcmp(GOLDEN[i].sha256, hex) == 0,
                      "%s is not what its writer made in format %d, which verify compares: if that is meant, %s. Its "
                      "digest is %s",
                      file, GOLDEN[i].format, ADVICE, hex);
    }
    ck_assert_msg(known, "%s has no digest for format %d: { %d, \"%s\", \"%s\" }", file, last, last, file, hex);
}

static void as_its_format_says(struct kg_record *rec, const void *arg) {
    const struct kg_bundle_document *document = arg; /* NULL: the statement */
    const char *dir = kg_scratch_dir(rec);
    struct kg_records records;
    struct kg_bundle_findings findings = { NULL, 0 };
    struct kg_export from;
    struct kg_buffer made = KG_BUFFER_INIT;
    struct kg_error err;
    write_run(dir);
    EXPECT_OK(kg_records_load(dir, &records, &findings, &err), err);
    ck_assert_uint_eq(records.n_cases, 7);
    EXPECT_OK(kg_derived_open(dir, false, &records, &from, &err), err);
    if (document) document->make(&from, &made);
    else EXPECT_OK(kg_derived_statement(&from, MANIFEST, strlen(MANIFEST), &made, &err), err);
    kg_derived_close(&from);
    kg_records_free(&records);
    kg_bundle_findings_free(&findings);
    if (getenv("KIGO_SHOW_DERIVED")) fputs(kg_buffer_text(&made), stderr);
    check_file(document ? document->file : STATEMENT, document ? document->since : STATEMENT_SINCE,
               document && document->until ? document->until : KG_FORMAT, &made);
    kg_buffer_free(&made);
}

static void build(struct kg_case_list *list) {
    const struct kg_bundle_document *const lists[] = { KG_DERIVED, kg_report_documents };
    struct kg_case c = { .layer = "unit", .op = "bundle_format", .name = "statement", .run = as_its_format_says };
    kg_case_list_add(list, &c);
    for (size_t i = 0; i < KG_COUNT_OF(lists); i++)
        for (const struct kg_bundle_document *d = lists[i]; d->file; d++) {
            char name[64];
            snprintf(name, sizeof name, "%s%s", strrchr(d->file, '/') + 1, d->until ? "_as_before" : "");
            c.name = name;
            c.arg = d;
            kg_case_list_add(list, &c);
        }
}

int main(int argc, char **argv) {
    kg_bundle_derive_also(kg_report_documents);
    return kg_suite_main_built(argc, argv, build);
}
