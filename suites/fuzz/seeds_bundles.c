/* Small good files of bundles and of what lies beside them, archives, and other texts. */
#include "suites/fuzz/readers.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/size.h"
#include "base/zstd.h"
#include "bundle/chain_links.h"
#include "bundle/checkpoint.h"
#include "suites/fuzz/folder.h"
#include "suites/harness/case.h"
#include "suites/harness/must.h"
#include "suites/support/tar_image.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

static const char SHA[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

KG_FUZZ_SEEDS(manifest) {
    (void)target;
    kg_buffer_printf(&seeds[0], "%s  data/env.json\n%s *data/failures/a b/case.json\n", SHA, SHA);
    kg_buffer_printf(&seeds[1], "%s  bagit.txt\n%s  bag-info.txt\n%s  manifest-sha256.txt\n", SHA, SHA, SHA);
    return 2;
}

KG_FUZZ_SEEDS(bag_info) {
    (void)target;
    kg_buffer_puts(&seeds[0], "Payload-Oxum: 12.3\nKigo-State: complete\nKigo-Verdict: pass\n");
    kg_buffer_printf(
        &seeds[1], "Bagging-Date: 2026-01-01\nPrevious-Bundle: 20260101T000000Z-nogit-89abcdef %s\nContact: a\n", SHA);
    return 2;
}

/* Words that a page of HTML must not pass on. */
KG_FUZZ_SEEDS(records) {
    (void)target;
    kg_buffer_printf(
        &seeds[0],
        "{\"key\":\"unit/a/b\",\"suite\":\"s\",\"layer\":\"unit\",\"op\":\"a\",\"name\":\"b\",\"seed\":\"1\","
        "\"def_sha\":\"%s\",\"timeout_s\":60.5}\n{\"key\":\"unit/a/b\",\"suite\":\"s\",\"def_sha\":\"%s\","
        "\"status\":\"fail\",\"reason\":\"r\\u00fc<script>\\u202e\",\"seed\":\"1\",\"started_us\":1,\"duration_ns\":"
        "null,"
        "\"errors\":[{\"name\":\"<img\",\"margin\":1e-3,\"judged\":true,\"max_abs\":1e-4,\"n\":3,\"why\":\"<base\","
        "\"tolerance\":"
        "{\"max_abs\":0.1}}],\"timings\":[{\"name\":\"<link\",\"kind\":\"host\",\"state\":\"warm\",\"n\":9,\"median\":"
        "5.5,"
        "\"ci_lo\":5,\"ci_hi\":6,\"bytes\":7,\"flops\":8,\"valid\":true}],\"metrics\":[{\"name\":\"m\",\"unit\":\"<"
        "iframe\","
        "\"value\":1}],\"memory\":[{\"tag\":\"<script>\",\"peak_bytes\":4096,\"left_bytes\":1}]}\n",
        SHA, SHA);
    return 1;
}

KG_FUZZ_SEEDS(json) {
    (void)target;
    kg_buffer_puts(&seeds[0],
                   "{\"a\":[1,-2.5e3,0.1,true,false,null,\"\\u00e9\\ud83d\\ude00\\n\"],\"b\":{\"c\":{}},\"\":[]}");
    kg_buffer_puts(&seeds[1], " [ 9223372036854775807 , 1e308,\t\"\u00e9\\\"\\/\" ]\n");
    kg_buffer_puts(&seeds[2], "[[[[{\"x\":[[],[[]]]}]]]]");
    return 3;
}

static size_t take(struct kg_buffer *seed, const char *dir, const char *file) {
    size_t size;
    char *text = kg_fuzz_get(dir, file, &size);
    ck_assert_msg(text != NULL, "%s has no %s", dir, file);
    kg_buffer_append(seed, text, size);
    free(text);
    return 1;
}

/* The sealed bundle's own file. */
KG_FUZZ_SEEDS(bundle) {
    return take(&seeds[0], kg_fuzz_folder_template()->dir, target->file);
}

/* A sign-off of the bundle and of a run that was pruned since: its note, its statement, that run's tombstone. */
static void put_signoff(const struct kg_fuzz_folder *t) {
    static const char PRUNED[] = "20200101T000000Z-nogit-00000001";
    static const char JUDGED[] =
        "{\"sprint\":\"s\",\"title\":\"t\",\"sprint_sha256\":\"0\",\"verdict\":\"missed\",\"n_met\":0,\"n_missed\":1,"
        "\"criteria\":[{\"spec\":\"S-1\",\"what\":\"w\",\"wanted\":\"speedup >= "
        "2\",\"state\":\"missed\",\"found\":\"1\","
        "\"record\":\"r\",\"notes\":[\"n\"],\"records\":[{\"record\":\"r\",\"run\":\"a\",\"met\":false,\"value\":1.5},"
        "{\"record\":\"q\",\"run\":\"a\",\"status\":\"fail\"}]}],\"runs\":[{\"run\":\"a\",\"commit\":\"c\",\"gpu\":"
        "\"g\"}],"
        "\"signed_off_utc\":\"2026\"}";
    struct kg_error err;
    char hex[KG_SHA256_HEX_SIZE], *path = kg_path_join(t->dir, "manifest-sha256.txt");
    kg_must(kg_sha256_file(path, hex, &err), &err);
    char *subject = kg_xasprintf("\"subject\":[{\"name\":\"%s/manifest-sha256.txt\",\"digest\":{\"sha256\":\"%s\"}},"
                                 "{\"name\":\"%s/manifest-sha256.txt\",\"digest\":{\"sha256\":\"%s\"}}]",
                                 t->id, hex, PRUNED, SHA);
    char *note = kg_xasprintf("{\"documents\":\"signed\",\"sprint\":\"s\",%s}", subject);
    char *statement = kg_xasprintf("{\"_type\":\"https://in-toto.io/Statement/v1\",%s,\"predicate\":{\"result\":"
                                   "\"PASSED\",\"kigo\":%s}}",
                                   subject, JUDGED);
    char *tombstone = kg_xasprintf("{\"bundle_id\":\"%s\",\"utc\":\"2026-01-01T00:00:00Z\",\"by\":\"a\","
                                   "\"tagmanifest_sha256\":\"%s\",\"manifest_sha256\":\"%s\",\"previous\":\"none\"}",
                                   PRUNED, SHA, SHA);
    kg_fuzz_put(t->root, "signoffs/s.json", note, strlen(note));
    kg_fuzz_put(t->root, "signed/statement.intoto.json", statement, strlen(statement));
    kg_fuzz_put(t->root, "tombstones/20200101T000000Z-nogit-00000001.json", tombstone, strlen(tombstone));
    free(tombstone);
    free(statement);
    free(note);
    free(subject);
    free(path);
}

static void put_checkpoint(const struct kg_fuzz_folder *t, struct kg_buffer *out) {
    struct kg_error err;
    json_t *checkpoint = NULL;
    kg_must(kg_checkpoint_make(t->root, kg_clock_utc_us(), &checkpoint, &err), &err);
    char *text = json_dumps(checkpoint, JSON_COMPACT);
    kg_buffer_puts(out, text);
    free(text);
    json_decref(checkpoint);
}

/* By the name of the file that the target stands for. Files that belong together are all put into the template. */
KG_FUZZ_SEEDS(store) {
    const struct kg_fuzz_folder *t = kg_fuzz_folder_template();
    const char *file = target->file;
    size_t n = 1;
    if (strcmp(file, ".chain") == 0) {
        take(&seeds[0], t->root, file);
    } else if (strcmp(file, "left-out.txt") == 0) {
        kg_buffer_printf(
            &seeds[0],
            "# why\n\n20260101T000000Z-nogit-89abcdef %s too large\n20260102T000000Z-nogit-89abcdef %s x y\n", SHA,
            SHA);
    } else if (strcmp(file, "kigo.policy.json") == 0) {
        kg_buffer_puts(&seeds[0],
                       "{\"baseline\":[\"@here\",\"*@example.org\"],\"latest\":[\"@signed\"],\"evidence\":[],"
                       "\"bundles\":[\"@anyone\"],\"annotations\":[\"[a-z]?\"]}");
    } else if (strncmp(file, "annotations/", 12) == 0) {
        kg_buffer_printf(&seeds[0], "{\"kind\":\"waive\",\"bundle_id\":null,\"case_key\":\"unit/*[cpu,*\",\"until_us\":"
                                    "1900000000000000,\"utc_us\":1,\"author\":\"a\",\"text\":\"t\"}");
        kg_buffer_printf(&seeds[1], "{\"kind\":\"pin\",\"bundle_id\":\"%s\",\"author\":\"b\",\"text\":\"\"}", t->id);
        n = 2;
    } else if (strncmp(file, "tombstones/", 11) == 0 || strncmp(file, "sign", 4) == 0) {
        put_signoff(t);
        take(&seeds[0], t->root, file);
    } else if (strcmp(file, "checkpoint.json") == 0) {
        put_checkpoint(t, &seeds[0]);
    } else {
        static const char *const SPRINTS[] = { "fused.json", "sdpa-fp8.json", "sdpa-fp16.json" };
        char *sprints = kg_path_join(kg_fixture_path(".."), "suites/sprints");
        for (n = 0; n < KG_COUNT_OF(SPRINTS); n++) take(&seeds[n], sprints, SPRINTS[n]);
        free(sprints);
    }
    return n;
}

KG_FUZZ_SEEDS(zstd) {
    (void)target;
    struct kg_error err;
    char zeros[4096] = "";
    kg_must(kg_zstd_compress("an old silent pond", 18, &seeds[0], &err), &err);
    kg_must(kg_zstd_compress(zeros, sizeof zeros, &seeds[1], &err), &err);
    for (size_t i = 0; i < sizeof zeros; i++) zeros[i] = (char)(i * i >> 3);
    kg_must(kg_zstd_compress(zeros, sizeof zeros, &seeds[2], &err), &err);
    return 3;
}

KG_FUZZ_SEEDS(compressed) {
    struct kg_buffer tars[KG_FUZZ_MAX_SEEDS] = { KG_BUFFER_INIT };
    struct kg_error err;
    const size_t n = kg_fuzz_archive_seeds(target, tars);
    for (size_t i = 0; i < n; i++) {
        kg_must(kg_zstd_compress(tars[i].data, tars[i].len, &seeds[i], &err), &err);
        kg_buffer_free(&tars[i]);
    }
    return n;
}
/* Two bundles' worth of entries and one long name; small, so that changes meet the headers. */
KG_FUZZ_SEEDS(archive) {
    (void)target;
    enum { N_TARS = 3 };
    static const char *const NAMES[N_TARS][3] = {
        { "20261120T093822Z-0123456789ab-89abcdef/bagit.txt",
          "20261120T093822Z-0123456789ab-89abcdef/data/plan.ndjson" },
        { "20261120T093822Z-nogit-89abcdef/bagit.txt", "20261120T093822Z-nogit-89abcdef/data/failures/a b/case.json",
          "20261120T093822Z-nogit-89abcdef/data/logs/unit.txt" },
        { "20261120T093822Z-0123456789ab-dirty-89abcdef/data/failures/"
          "unit_a_name_that_takes_more_than_a_hundred_bytes_of_a_"
          "header/worst.json" },
    };
    for (size_t s = 0; s < N_TARS; s++) {
        for (size_t i = 0; i < KG_COUNT_OF(NAMES[s]) && NAMES[s][i]; i++)
            kg_tar_add(&seeds[s], &(struct kg_tar_entry){ .name = NAMES[s][i], .data = "line\n", .data_bytes = 5 });
        kg_tar_end(&seeds[s]);
    }
    return N_TARS;
}

KG_FUZZ_SEEDS(ncu) {
    (void)target;
    static const char HEAD[] =
        "==PROF== Connected\n\"ID\",\"Kernel Name\",\"Metric Name\",\"Metric Unit\",\"Metric Value\"\n";
    kg_buffer_printf(&seeds[0], "%s\"0\",\"k<1, 2>\",\"gpu__time_duration.sum\",\"ns\",\"36,160\"\n", HEAD);
    kg_buffer_printf(
        &seeds[1],
        "%s\"0\",\"a \"\"b\"\"\",\"launch__registers_per_thread\",\"\",\"18\"\r\n==ERROR== x\n\"1\",\"c\",\"m\","
        "\"\",\"n/a\"",
        HEAD);
    kg_buffer_puts(&seeds[2], HEAD);
    return 3;
}
