/* The table of back ends: names, refusals, tables with an entry replaced, the memory figures, and copies. */
#include "base/buffer.h"
#include "base/size.h"
#include "backend/backend.h"
#include "backend/gpu.h"
#include "backend/plan.h"
#include "suites/harness/must.h"
#include "suites/support/op_device.h"
#include <check.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void unknown_name(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    struct kg_backend *backend = NULL;
    struct kg_error err;
    ck_assert_int_eq(kg_backend_open("tpu", 0, &backend, &err), KG_ERR_USAGE);
    ck_assert_ptr_nonnull(strstr(err.message, "'tpu'"));
    ck_assert_int_eq(kg_backend_open("", 0, &backend, &err), KG_ERR_USAGE);
    ck_assert_int_eq(kg_backend_open("CPU", 0, &backend, &err), KG_ERR_USAGE);
    ck_assert_ptr_null(backend);
}

static void negative_threads(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    struct kg_backend *backend = NULL;
    struct kg_error err;
    ck_assert_int_eq(kg_backend_open("cpu", -1, &backend, &err), KG_ERR_USAGE);
    ck_assert_ptr_nonnull(strstr(err.message, "-1"));
    ck_assert_ptr_null(backend);
}

/* Whatever this build has: cuda opens or says why not, and auto opens either way. */
static void cuda_opens_or_says_why(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    struct kg_backend *cuda = NULL, *automatic = NULL;
    struct kg_error err = { 0 };
    const enum kg_status status = kg_backend_open("cuda", 0, &cuda, &err);
    ck_assert(status == KG_OK || status == KG_ERR_UNSUPPORTED);
    if (status) ck_assert_uint_gt(strlen(err.message), 0);
    ck_assert_int_eq(kg_backend_open("auto", 0, &automatic, &err), KG_OK);
    ck_assert_str_eq(kg_backend_name(automatic), cuda ? "cuda" : "cpu");
    kg_backend_close(automatic);
    kg_backend_close(cuda);
}

static int n_adds; /* by the replaced entry */

static enum kg_status counted_add(struct kg_backend *backend, const struct kg_add_args *args, struct kg_error *err) {
    n_adds++;
    return kg_cpu_ops.add(backend, args, err);
}

static void replaced_entry_is_called(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    static struct kg_backend_ops changed;
    struct kg_backend *backend;
    struct kg_error err;
    changed = kg_cpu_ops;
    changed.name = "cpu with counted additions";
    changed.add = counted_add;
    ck_assert_int_eq(kg_backend_open_ops(&changed, 1, &backend, &err), KG_OK);
    ck_assert_str_eq(kg_backend_name(backend), changed.name);
    const float a[] = { 1, 2, 3 }, b[] = { 10, 20, 30 };
    float y[3] = { 0 };
    const struct kg_add_args args = { .a = a, .b = b, .y = y, .n_rows = 1, .n_cols = 3 };
    n_adds = 0;
    ck_assert_int_eq(backend->ops->add(backend, &args, &err), KG_OK);
    ck_assert_int_eq(n_adds, 1);
    ck_assert_float_eq(y[0], 11);
    ck_assert_float_eq(y[1], 22);
    ck_assert_float_eq(y[2], 33);
    kg_backend_close(backend);
}

/* By operation; what is no operation is none of both. */
static void same_operation_of_two_tables(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    struct kg_backend_ops changed = kg_cpu_ops;
    changed.add = counted_add;
    for (enum kg_op op = 0; op < KG_N_OPS; op++)
        ck_assert_int_eq(kg_backend_same_op(&kg_cpu_ops, &changed, op), op != KG_OP_add);
    ck_assert(!kg_backend_same_op(&kg_cpu_ops, &kg_cpu_ops, KG_N_OPS));
}

static void gpu_as_text(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    const struct kg_gpu_info gpu = { .name = "Some GPU",
                                     .memory_bytes = UINT64_C(3) << 29,
                                     .compute_capability = 87,
                                     .n_sms = 16,
                                     .driver_version = 12060 };
    struct kg_buffer out = KG_BUFFER_INIT;
    kg_gpu_put(&gpu, 3, &out);
    ck_assert_str_eq(kg_buffer_text(&out), "cuda  3: Some GPU, 1.5 GiB, compute capability 8.7, 16 multiprocessors, "
                                           "driver for CUDA 12.6\n");
    kg_buffer_free(&out);
}

/* 100 + 50 of activations, 30 of KV, in an order that makes the peaks differ from sums and from one another. */
static void memory_by_tag(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    struct kg_backend *backend;
    struct kg_error err;
    struct kg_block a, b, kv, none;
    struct kg_memory_use use;
    ck_assert_int_eq(kg_backend_open("cpu", 1, &backend, &err), KG_OK);
    const struct kg_backend_ops *ops = backend->ops;
    ck_assert_int_eq(ops->alloc(backend, KG_MEMORY_ACTIVATIONS, 100, "a", &a, &err), KG_OK);
    ck_assert_int_eq(ops->alloc(backend, KG_MEMORY_KV, 30, "kv", &kv, &err), KG_OK);
    ops->free(backend, &a);
    ck_assert_int_eq(ops->alloc(backend, KG_MEMORY_ACTIVATIONS, 50, "b", &b, &err), KG_OK);
    ck_assert_int_eq(ops->alloc(backend, KG_MEMORY_WORKSPACE, 0, "nothing", &none, &err), KG_OK);
    kg_backend_memory(backend, &use);
    ck_assert_uint_eq(use.current_bytes[KG_MEMORY_ACTIVATIONS], 50);
    ck_assert_uint_eq(use.peak_bytes[KG_MEMORY_ACTIVATIONS], 100);
    ck_assert_uint_eq(use.current_bytes[KG_MEMORY_KV], 30);
    ck_assert_uint_eq(use.peak_bytes[KG_MEMORY_KV], 30);
    ck_assert_uint_eq(use.peak_bytes[KG_MEMORY_WORKSPACE], 0);
    ck_assert_uint_eq(use.total_current_bytes, 80);
    ck_assert_uint_eq(use.total_peak_bytes, 130);
    ck_assert_uint_eq(use.n_allocations, 3);
    ck_assert_ptr_null(a.data);
    ck_assert_uint_eq((uintptr_t)b.data % 256, 0);
    ops->free(backend, &a); /* an empty block: nothing happens */
    ops->free(backend, &none);
    ops->free(backend, &b);
    ops->free(backend, &kv);
    kg_backend_memory(backend, &use);
    ck_assert_uint_eq(use.total_current_bytes, 0);
    ck_assert_uint_eq(use.total_peak_bytes, 130);
    kg_backend_close(backend);
}

static void weights_in_place_are_counted_once(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    static const char file[300] = "mapped";
    struct kg_backend *backend;
    struct kg_block block;
    struct kg_memory_use use;
    struct kg_error err;
    ck_assert_int_eq(kg_backend_open("cpu", 1, &backend, &err), KG_OK);
    ck_assert_int_eq(backend->ops->import_weights(backend, file, sizeof file, "weights", &block, &err), KG_OK);
    ck_assert_ptr_eq(block.data, file);
    kg_backend_memory(backend, &use);
    ck_assert_uint_eq(use.current_bytes[KG_MEMORY_WEIGHTS], sizeof file);
    backend->ops->free(backend, &block);
    kg_backend_memory(backend, &use);
    ck_assert_uint_eq(use.total_current_bytes, 0);
    ck_assert_str_eq(file, "mapped");
    kg_backend_close(backend);
}

static void names_of_precisions_and_tags(struct kg_record *rec, const void *arg) {
    (void)rec;
    (void)arg;
    const char *const names[] = { "f32", "f16", "f8" };
    struct kg_error err;
    enum kg_precision p;
    for (int i = 0; i < 3; i++) {
        ck_assert_str_eq(kg_precision_name((enum kg_precision)i), names[i]);
        ck_assert_int_eq(kg_precision_from_name(names[i], &p, &err), KG_OK);
        ck_assert_int_eq((int)p, i);
    }
    ck_assert_int_eq(kg_precision_from_name("fp16", &p, &err), KG_ERR_USAGE);
    ck_assert_ptr_nonnull(strstr(err.message, "'fp16'"));
    const char *const tags[] = { "weights", "kv", "activations", "workspace" };
    ck_assert_int_eq(KG_MEMORY_TAG_COUNT, 4);
    for (int i = 0; i < 4; i++) ck_assert_str_eq(kg_memory_tag_name((enum kg_memory_tag)i), tags[i]);
}

/* Uploads one behind the other, none waited for: smaller and larger than what a thread's buffers hold and than what one
 * thread does alone, at places and of lengths that no unit divides, from memory that is changed once the call is back.
 */
static void copies_come_back(struct kg_record *rec, const void *arg) {
    static const size_t SIZES[] = { 1, (1u << 20) - 1, 1u << 20, (3u << 20) + 17, 5, (70u << 20) + 5, 999 };
    const char *name = arg;
    struct kg_backend *backend;
    struct kg_block block;
    struct kg_error err;
    size_t total = 0, at = 0;
    if (!kg_backend_or_skip(rec, name)) return;
    kg_must(kg_backend_open(name, 0, &backend, &err), &err);
    const struct kg_backend_ops *ops = backend->ops;
    for (size_t i = 0; i < KG_COUNT_OF(SIZES); i++) total += SIZES[i];
    uint8_t *want = kg_xmalloc(total), *sent = kg_xmalloc(total + 1), *got = kg_xcalloc(total, 1);
    for (size_t i = 0; i < total; i++) want[i] = (uint8_t)(i * 0x9E3779B97F4A7C15u >> 56);
    kg_must(ops->alloc(backend, KG_MEMORY_WORKSPACE, total, "copies", &block, &err), &err);
    for (size_t i = 0; i < KG_COUNT_OF(SIZES); at += SIZES[i++]) {
        memcpy(sent + 1, want + at, SIZES[i]);
        kg_must(ops->upload(backend, (char *)block.data + at, sent + 1, SIZES[i], &err), &err);
        memset(sent, 0xA5, total + 1);
    }
    kg_must(ops->download(backend, got, block.data, total, &err), &err);
    for (size_t i = 0; i < total; i++)
        if (got[i] != want[i]) ck_abort_msg("byte %zu of %zu is %u, not %u", i, total, got[i], want[i]);
    ops->free(backend, &block);
    free(got);
    free(sent);
    free(want);
    kg_backend_close(backend);
}

#define CASE(function)                                                                                                 \
    { .layer = "unit", .op = "backend", .name = #function, .run = function }
static const struct kg_case CASES[] = {
    CASE(unknown_name),
    CASE(negative_threads),
    CASE(cuda_opens_or_says_why),
    CASE(replaced_entry_is_called),
    CASE(same_operation_of_two_tables),
    CASE(gpu_as_text),
    CASE(memory_by_tag),
    CASE(weights_in_place_are_counted_once),
    CASE(names_of_precisions_and_tags),
    { .layer = "unit",
      .op = "backend",
      .name = "copies_come_back",
      .backend = "cpu",
      .run = copies_come_back,
      .arg = "cpu" },
    { .layer = "unit",
      .op = "backend",
      .name = "copies_come_back",
      .backend = "cuda",
      .run = copies_come_back,
      .arg = "cuda" },
};

int main(int argc, char **argv) {
    return kg_suite_main(argc, argv, CASES, KG_COUNT_OF(CASES));
}
