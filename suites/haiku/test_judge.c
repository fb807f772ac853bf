/* The judge of FT-050 can refuse: spoilt weights and pretenders, by the very judgement that passes the fixture. */
#include "suites/support/as_llama.h"
#include "suites/haiku/corrupt.h"
#include "suites/support/minute_words.h"
#include "suites/support/haiku_stage.h"
#include "base/size.h"
#include <check.h>
#include <string.h>
#include <stdio.h>

struct corrupt_row {
    const char *name, *glob;
    kg_spoil_fn spoil; /* NULL: the file as llama, of whose tensors only the glob's rows are in llama's order */
    size_t n_tensors;  /* spoilt; 0: at least one */
};
static const struct corrupt_row CORRUPTIONS[] = {
    { "ffn_of_a_layer_shuffled_is_refused", "blk.1.ffn_[gud]*.weight", kg_spoil_shuffle, 3 },
    { "qkv_biases_zeroed_are_refused", "blk.*.attn_[qkv].bias", kg_spoil_zero, 0 },
    { "one_bias_zeroed_is_refused", "blk.0.attn_v.bias", kg_spoil_zero, 1 },
    { "embedding_halves_exchanged_are_refused", "token_embd.weight", kg_spoil_swap_halves, 1 },
    { "value_heads_exchanged_are_refused", "blk.2.attn_v.weight", kg_spoil_swap_halves, 1 },
    { "output_projection_negated_is_refused", "blk.3.attn_output.weight", kg_spoil_negate_f16, 1 },
    { "llama_rows_in_halves_are_refused", "none", NULL, 0 },
    { "llama_keys_in_halves_are_refused", "blk.*.attn_q.*", NULL, 0 },
    { "llama_biases_in_halves_are_refused", "blk.*.attn_[qk].weight", NULL, 0 },
};

/* The very judgement that passes the fixture fails its spoilt copy: by logits always; how many poems broke is recorded.
 */
static void corrupted_weights(struct kg_record *rec, const void *arg) {
    enum { N_REQUESTS = 3 };
    const struct kg_haiku_arg *const a = arg;
    const struct corrupt_row *const row = a->row;
    struct kg_haiku_stage *const stage = kg_haiku_stage_open(rec, a->target, a->model);
    if (!stage) return;
    struct kg_engine_poet spoilt;
    struct kg_error err = { 0 };
    size_t n_spoilt = 0;
    int n_poems = 0;
    char path[1024];
    snprintf(path, sizeof path, "%s/spoilt.gguf", kg_scratch_dir(rec));
    if (row->spoil) {
        kg_must(kg_model_corrupt(kg_fixture_path(KG_HAIKU_MODEL), path, row->glob, row->spoil, &n_spoilt, &err), &err);
        ck_assert_msg(row->n_tensors ? n_spoilt == row->n_tensors : n_spoilt > 0, "%zu tensors match %s", n_spoilt,
                      row->glob);
    } else kg_must(kg_haiku_write_as_llama(kg_fixture_path(KG_HAIKU_MODEL), path, row->glob, &err), &err);
    kg_must(kg_engine_poet_open(KG_HAIKU_TARGETS[a->target].backend, stage->engine.precision, path, &spoilt, &err),
            &err);
    const struct kg_poet poet = kg_engine_poet(&spoilt);
    for (uint64_t i = 0; i < N_REQUESTS; i++) {
        const struct kg_haiku_request request =
            kg_haiku_request_make(i, kg_minute_word(19 * (int)i), 0.0, kg_record_seed(rec));
        struct kg_haiku_judgement j;
        kg_must(kg_haiku_judge(&stage->bench, &poet, &request, KG_JUDGE_ALL, &j, &err), &err);
        kg_record_transcript(rec, kg_haiku_transcript(&request, &j));
        if (i == 0) kg_record_compare(rec, "golden_logits", &j.golden, &stage->bench.golden_tolerance);
        ck_assert_msg(j.faults & KG_EVIDENCE_GOLDEN, "passed for the model's: NMSE %g", j.golden.nmse);
        ck_assert_msg(j.golden_margin > 100, "margin %g only", j.golden_margin);
        n_poems += j.poem.faults == 0;
        kg_haiku_judgement_free(&j);
    }
    kg_record_metric(rec, "valid_haiku", "count", n_poems);
    kg_engine_poet_close(&spoilt);
}

struct paste_row {
    const char *name;
    enum kg_paste_skill skill;
    uint32_t shown;  /* faults it must be found out by */
    uint32_t hidden; /* faults it hides */
};
/* What shows a pretender shows him on every back end but the time: a GPU reads the fixture in microseconds, less than a
 * paste takes, and there the logits have to tell. */
static const struct paste_row PRETENDERS[] = {
    { "pasted_text_is_refused", KG_PASTE_TEXT, KG_EVIDENCE_TEXT, KG_EVIDENCE_POEM | KG_EVIDENCE_PROMPT },
    { "pasted_ids_are_refused", KG_PASTE_IDS, KG_EVIDENCE_MEMORY,
      KG_EVIDENCE_POEM | KG_EVIDENCE_PROMPT | KG_EVIDENCE_TEXT | KG_EVIDENCE_IDS },
    { "pasted_beside_a_model_is_refused", KG_PASTE_MEMORY, KG_EVIDENCE_TIME,
      KG_EVIDENCE_POEM | KG_EVIDENCE_TEXT | KG_EVIDENCE_IDS | KG_EVIDENCE_MEMORY },
    { "pasted_slowly_is_refused", KG_PASTE_WAIT, KG_EVIDENCE_GOLDEN, ~(uint32_t)KG_EVIDENCE_GOLDEN },
    { "pasted_with_true_logits_is_refused", KG_PASTE_LOGITS, KG_EVIDENCE_REPLAY, ~(uint32_t)KG_EVIDENCE_REPLAY },
};

/* A template with the word pasted in makes a good poem, so that all that can refuse it is the evidence. */
static void pretender(struct kg_record *rec, const void *arg) {
    enum { TRIES = 10 }; /* the scheduler may make a fast pretender slow, once */
    const struct kg_haiku_arg *const a = arg;
    const struct paste_row *const row = a->row;
    struct kg_haiku_stage *const stage = kg_haiku_stage_open(rec, a->target, a->model);
    if (!stage) return;
    struct kg_paste_poet paste = { .skill = row->skill, .engine = &stage->engine };
    const struct kg_poet poet = kg_paste_poet(&paste);
    const struct kg_haiku_request request = kg_haiku_request_make(2, "thirteen", a->temperature, kg_record_seed(rec));
    struct kg_error err = { 0 };
    uint32_t faults = 0;
    const bool time_tells = strcmp(KG_HAIKU_TARGETS[a->target].backend, "cpu") == 0;
    const uint32_t shown = row->shown == KG_EVIDENCE_TIME && !time_tells ? KG_EVIDENCE_GOLDEN : row->shown;
    for (int i = 0; i < TRIES && !(faults & shown); i++) {
        struct kg_haiku_judgement j;
        kg_must(kg_haiku_judge(&stage->bench, &poet, &request, KG_JUDGE_ALL, &j, &err), &err);
        kg_record_transcript(rec, kg_haiku_transcript(&request, &j));
        faults = j.faults;
        kg_haiku_judgement_free(&j);
    }
    ck_assert_msg(faults & shown, "faults 0x%x, expected 0x%x", faults, shown);
    ck_assert_msg((faults & row->hidden) == 0, "faults 0x%x: it ought to hide 0x%x", faults, row->hidden);
}

static void build(struct kg_case_list *list) {
    for (size_t target = 0; target < KG_HAIKU_N_TARGETS; target++) {
        for (size_t i = 0; i < KG_COUNT_OF(CORRUPTIONS); i++)
            kg_haiku_add(list, "judge", CORRUPTIONS[i].name, NULL, CORRUPTIONS[i].glob, corrupted_weights,
                         (struct kg_haiku_arg){ .target = target, .row = &CORRUPTIONS[i] });
        for (size_t i = 0; i < KG_COUNT_OF(PRETENDERS); i++)
            kg_haiku_add(list, "judge", PRETENDERS[i].name, NULL, KG_HAIKU_MODEL, pretender,
                         (struct kg_haiku_arg){ .target = target, .row = &PRETENDERS[i] });
    }
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
