/* Every fuzz target over good files made wrong: none may crash, hang or answer with a bad error, take memory beyond the
 * limits or keep any. */
#include "base/size.h"
#include "bundle/archive.h"
#include "bundle/records.h"
#include "suites/fuzz/folder.h"
#include "suites/fuzz/readers.h"
#include "suites/fuzz/run.h"
#include "suites/harness/case.h"
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void mutated_files(struct kg_record *rec, const void *arg) {
    const struct kg_fuzz_target *target = arg;
    struct kg_fuzz_inputs inputs;
    struct kg_buffer image = KG_BUFFER_INIT;
    size_t n_accepted = 0;
    int64_t peak, most = 0;
    if (target->run == kg_fuzz_archive && kg_archive_missing()) {
        kg_record_skip(rec, "%s", kg_archive_missing());
        return;
    }
    kg_fuzz_inputs_open(target, kg_record_seed(rec), &inputs);
    for (size_t s = 0; s < inputs.n_seeds; s++) {
        kg_fuzz_name_input("seed %zu as it is", s);
        ck_assert_msg(kg_fuzz_run(target, (const uint8_t *)inputs.seeds[s].data, inputs.seeds[s].len, &peak) == KG_OK,
                      "seed %zu is refused", s);
    }
    for (unsigned i = 0; i < target->n_quick; i++) {
        kg_fuzz_make_input(&inputs, i, &image);
        kg_fuzz_name_input("input %u", i);
        n_accepted += kg_fuzz_run(target, (const uint8_t *)image.data, image.len, &peak) == KG_OK;
        if (peak > most) most = peak;
    }
    kg_fuzz_inputs_close(&inputs);
    kg_fuzz_folder_remove();
    kg_buffer_free(&image);
    ck_assert_uint_lt(n_accepted, target->n_quick); /* some inputs are refused */
    kg_record_metric(rec, "accepted", "count", (double)n_accepted);
    kg_record_metric(rec, "trials", "count", target->n_quick);
}

/* What inputs once did to a reader. */
#define BYTES(text) text, sizeof text - 1
#define TEN(text) text text text text text text text text text text
static const struct {
    const char *target, *name, *data;
    size_t n_bytes;
} FOUND[] = {
    { "bundle_env", "env_is_a_list", BYTES("[]") },          /* was freed twice by verify */
    { "bundle_summary", "summary_is_a_number", BYTES("7") }, /* likewise, by all that read it */
    { "bundle_summary", "times_that_differ_by_more_than_64_bits",
      BYTES(
          "{\"bundle_id\":\"x\",\"seed\":\"7\",\"started_us\":1795418963084698,\"sealed_us\":-9223372036854775808}") },
    { "checkpoint", "fewer_runs_than_64_bits_hold",
      BYTES("{\"kigo_checkpoint\":1,\"utc\":\"\",\"n_runs\":-9223372036854775808,\"heads\":[{\"d\":\"\",\"\":1}]}") },
    { "hf_config", "more_layers_than_types", /* each number of layers was tried as the period of the list */
      BYTES(
          "{\"architectures\":[\"Gemma3ForCausalLM\"],\"model_type\":\"gemma3_text\",\"vocab_size\":264,\"hidden_"
          "size\":48,"
          "\"intermediate_size\":64,\"num_hidden_layers\":16777215,\"num_attention_heads\":4,\"num_key_value_heads\":2,"
          "\"head_dim\":32,\"max_position_embeddings\":128,\"rms_norm_eps\":1e-6,\"sliding_window\":16,\"layer_types\":"
          "[" TEN(TEN("\"sliding_attention\",")) "64]}") },
    /* Formats of before version 0.8, which libzstd reads as well, without a limit of the window. */
    { "zstd", "legacy_frame", BYTES("\x27\xb5\x2f\xfd\x04\x88") },
    { "archive_compressed", "legacy_frame_behind_an_empty_one",
      BYTES("\x28\xb5\x2f\xfd\x24\0\x01\0\0\x99\xe9\xd8\x51\x27\xb5\x2f\xfd\x04\x88") },
    { "archive_compressed", "window_of_120_mib", /* was allocated before anything was read */
      BYTES("\x28\xb5\x2f\xfd\xd4\x87\x12\x67\xf2\xa5\xc8\xaa\xb8\x0f") },
};

static void found_before(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    for (size_t i = 0; i < KG_COUNT_OF(FOUND); i++) {
        const struct kg_fuzz_target *target = kg_fuzz_find(FOUND[i].target);
        struct kg_fuzz_inputs inputs;
        int64_t peak;
        if (target->run == kg_fuzz_archive && kg_archive_missing()) continue;
        kg_fuzz_inputs_open(target, 1, &inputs);
        kg_fuzz_name_input("%s", FOUND[i].name);
        ck_assert_int_ne(kg_fuzz_run(target, (const uint8_t *)FOUND[i].data, FOUND[i].n_bytes, &peak), KG_OK);
        kg_fuzz_inputs_close(&inputs);
    }
    kg_fuzz_folder_remove();
}

/* Callers give back what they hold after an error, too. */
static void no_object_after_an_error(struct kg_record *rec, const void *arg) {
    (void)arg;
    static const char *const TEXTS[] = { "[]", "7", "\"a\"", "{", "" };
    const char *dir = kg_scratch_dir(rec);
    for (size_t i = 0; i < KG_COUNT_OF(TEXTS); i++) {
        json_t *object = NULL;
        struct kg_error err = { .status = KG_OK };
        kg_fuzz_put(dir, "a.json", TEXTS[i], strlen(TEXTS[i]));
        ck_assert_int_eq(kg_bundle_read_json(dir, "a.json", &object, &err), KG_ERR_FORMAT);
        ck_assert_ptr_null(object);
    }
}

/* In a separate process: a bad error for the input "a\"\\\377". */
static void give_up_into(int fd) {
    static const uint8_t BYTES[] = { 'a', '"', '\\', 0xff };
    const struct kg_error bad = { .status = KG_ERR_FORMAT, .message = "" };
    dup2(fd, STDERR_FILENO);
    signal(SIGABRT, SIG_DFL);
    kg_fuzz_name_input("mutation %d", 7);
    kg_fuzz_begin("sample", BYTES, sizeof BYTES);
    kg_fuzz_expect_error(&bad);
    _exit(0);
}

static void says_what_it_found(struct kg_record *rec, const void *arg) {
    (void)rec, (void)arg;
    char said[256] = "", expected[256];
    size_t n_said = 0;
    int ends[2], status;
    ck_assert_int_eq(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) give_up_into(ends[1]);
    close(ends[1]);
    for (ssize_t n; (n = read(ends[0], said + n_said, sizeof said - 1 - n_said)) > 0;) n_said += (size_t)n;
    close(ends[0]);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    snprintf(expected, sizeof expected,
             "kg_fuzz_sample: an error of status %d without a message: mutation 7, 4 bytes \"a\\\"\\\\\\377\"\n",
             (int)KG_ERR_FORMAT);
    ck_assert_str_eq(said, expected);
}

static void build(struct kg_case_list *list) {
    kg_case_list_add(
        list,
        &(struct kg_case){ .layer = "unit", .op = "fuzz", .name = "says_what_it_found", .run = says_what_it_found });
    kg_case_list_add(
        list, &(struct kg_case){
                  .layer = "unit", .op = "fuzz", .name = "no_object_after_an_error", .run = no_object_after_an_error });
    kg_case_list_add(list,
                     &(struct kg_case){ .layer = "unit", .op = "fuzz", .name = "found_before", .run = found_before });
    for (size_t i = 0; i < KG_FUZZ_N_TARGETS; i++) {
        const struct kg_fuzz_target *target = &KG_FUZZ_TARGETS[i];
        char definition[32];
        snprintf(definition, sizeof definition, "%u inputs", target->n_quick);
        kg_case_list_add(list, &(struct kg_case){ .layer = "unit",
                                                  .op = "fuzz",
                                                  .name = target->name,
                                                  .definition = definition,
                                                  .run = mutated_files,
                                                  .arg = target });
    }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
