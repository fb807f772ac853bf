/* Every fuzz target over good files made wrong: none may crash, hang or answer with a bad error. */
#include "base/file.h"
#include "base/size.h"
#include "suites/fuzz/mutate.h"
#include "suites/fuzz/targets.h"
#include "suites/harness/case.h"
#include "suites/unit/gguf_image.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { N_SEEDS = 3, N_TRIALS = 50000 };

static void load_fixture(struct kg_buffer *image, const char *path) {
    struct kg_error err = { 0 };
    char *data;
    size_t len;
    ck_assert_msg(kg_file_read(kg_fixture_path(path), &data, &len, &err) == KG_OK, "%s", err.message);
    kg_buffer_append(image, data, len);
    free(data);
}

static void gguf_seeds(struct kg_buffer seeds[N_SEEDS]) {
    kg_image_build_sample(&seeds[0], 2);
    kg_image_build_sample(&seeds[1], 3);
    load_fixture(&seeds[2], "formats/other-writer.gguf");
}

static void put_safetensors(struct kg_buffer *image, const char *header, size_t n_data) {
    const uint64_t len = strlen(header);
    kg_buffer_append(image, &len, sizeof len);
    kg_buffer_puts(image, header);
    for (size_t i = 0; i < n_data; i++) kg_buffer_append(image, &(char){ (char)i }, 1);
}

static void safetensors_seeds(struct kg_buffer seeds[N_SEEDS]) {
    put_safetensors(&seeds[0], "{\"t\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}", 24);
    put_safetensors(&seeds[1],
                    "{\"__metadata__\":{\"made_by\":\"hand\"},\"a\":{\"dtype\":\"BF16\",\"shape\":[5],\"data_offsets\":"
                    "[8,18]},\"b\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]},\"c\":{\"dtype\":\"BOOL\","
                    "\"shape\":[0,7],\"data_offsets\":[18,18]}}  ",
                    18);
    put_safetensors(&seeds[2], "{}", 0);
}

struct target {
    const char *name;
    void (*make_seeds)(struct kg_buffer seeds[N_SEEDS]);
    bool (*run)(const uint8_t *data, size_t size);
};
static const struct target TARGETS[] = {
    { "gguf", gguf_seeds, kg_fuzz_gguf },
    { "safetensors", safetensors_seeds, kg_fuzz_safetensors },
};

/* The target sees an allocation of exactly the image's size, so that a read past its end is one past the allocation's. */
static bool run_exactly(const struct target *target, const struct kg_buffer *image) {
    uint8_t *bytes = malloc(image->len ? image->len : 1);
    if (image->len) memcpy(bytes, image->data, image->len);
    const bool accepted = target->run(bytes, image->len);
    free(bytes);
    return accepted;
}

static void mutated_files(struct kg_record *rec, const void *arg) {
    const struct target *target = arg;
    struct kg_buffer seeds[N_SEEDS] = { KG_BUFFER_INIT, KG_BUFFER_INIT, KG_BUFFER_INIT }, image = KG_BUFFER_INIT;
    struct kg_rng rng;
    size_t n_accepted = 0;
    target->make_seeds(seeds);
    for (int s = 0; s < N_SEEDS; s++) ck_assert_msg(run_exactly(target, &seeds[s]), "seed %d is refused", s);
    kg_rng_init(&rng, kg_record_seed(rec), 0);
    for (int trial = 0; trial < N_TRIALS; trial++) {
        const struct kg_buffer *seed = &seeds[kg_rng_below(&rng, N_SEEDS)];
        kg_buffer_clear(&image);
        kg_buffer_append(&image, seed->data, seed->len);
        kg_mutate(&image, &rng);
        n_accepted += run_exactly(target, &image);
    }
    ck_assert_uint_gt(n_accepted, N_TRIALS / 100); /* some changes do no harm, most do */
    ck_assert_uint_lt(n_accepted, N_TRIALS * 3 / 4);
    kg_record_metric(rec, "accepted", "count", (double)n_accepted);
    kg_record_metric(rec, "trials", "count", N_TRIALS);
    kg_buffer_free(&image);
    for (int s = 0; s < N_SEEDS; s++) kg_buffer_free(&seeds[s]);
}

static void build(struct kg_case_list *list) {
    for (size_t i = 0; i < KG_COUNT_OF(TARGETS); i++)
        kg_case_list_add(list, &(struct kg_case){ .layer = "unit",
                                                  .op = "fuzz",
                                                  .name = TARGETS[i].name,
                                                  .definition = "50000 mutations",
                                                  .run = mutated_files,
                                                  .arg = &TARGETS[i] });
}

int main(int argc, char **argv) {
    return kg_suite_main_built(argc, argv, build);
}
