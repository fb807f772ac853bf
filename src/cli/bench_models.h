/* The table of whole models that `kigo bench` prints, as users of llama-bench know it. */
#ifndef KIGO_CLI_BENCH_MODELS_H
#define KIGO_CLI_BENCH_MODELS_H

#include "base/buffer.h"
#include "bundle/records.h"

/* For --help. */
#define KG_BENCH_MODELS_HELP                                                                                           \
    "Whole models come as a table, a row a test. pp512: 512 tokens of a prompt in one pass. tg256 @ d16: 256 tokens\n" \
    "written one by one, greedy, behind a prompt of 16. t/s: tokens a second by the median sample, +- half of its\n"   \
    "95% bootstrap interval, or 'slowed down' where heat or the power limit spoilt each try; size: the weights.\n"     \
    "-m without --filter runs the models' benches alone; with --peer also\n"                                           \
    "llama.cpp's llama-bench (in PATH, or $KIGO_LLAMA_BENCH) on the same files and lengths, in a column beside."

/* Appends the table of the records' model cases that passed: model, size, params, back end, dtype, threads (where a row
 * is of the CPU), test, t/s +- interval ("slowed down" where the timing is not valid), and the same of llama.cpp where
 * it was timed. Nothing if there are none. */
void kg_bench_models_print(const struct kg_records *records, int n_threads, struct kg_buffer *out);

#endif
