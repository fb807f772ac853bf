#include "suites/harness/report_tap.h"
#include "base/json_put.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

void kg_tap_plan(size_t n_cases) {
    printf("TAP version 13\n1..%zu\n", n_cases);
}

/* One line, as a JSON string is also a YAML scalar. */
static void print_field(const char *name, const char *text) {
    json_t *string = kg_json_utf8(text);
    char *quoted = json_dumps(string, JSON_ENCODE_ANY);
    printf("  %s: %s\n", name, quoted ? quoted : "\"?\"");
    free(quoted);
    json_decref(string);
}

static void print_figures(const char *name, const json_t *list) {
    size_t i;
    json_t *row;
    json_array_foreach(list, i, row) {
        char *text = json_dumps(row, JSON_COMPACT | JSON_REAL_PRECISION(6));
        if (text && strlen(text) < 1000) printf("# %s %s\n", name, text);
        free(text);
    }
}

void kg_tap_case(size_t number, const struct kg_record *rec, const struct kg_case_result *result, bool verbose) {
    printf("%s %zu - %s", result->outcome == KG_OUTCOME_FAIL ? "not ok" : "ok", number, rec->key);
    if (result->outcome == KG_OUTCOME_SKIP) printf(" # SKIP %s", result->reason);
    putchar('\n');
    if (result->outcome == KG_OUTCOME_FAIL) {
        puts("  ---");
        print_field("message", result->reason);
        print_field("at", result->where ? result->where : "?");
        printf("  seed: %llu\n", (unsigned long long)rec->seed);
        puts("  ...");
    }
    if (verbose) {
        print_figures("error", rec->errors);
        print_figures("timing", rec->timings);
        print_figures("metric", rec->metrics);
        print_figures("memory", rec->memory);
    }
    fflush(stdout);
}

static char limit_message[640];

static void on_limit(int signal_number) {
    (void)signal_number;
    const ssize_t n = write(STDOUT_FILENO, limit_message, strlen(limit_message));
    _exit(n < 0 ? KG_EXIT_INTERNAL : KG_EXIT_FAILED);
}

void kg_tap_arm_limit(const char *key, double timeout_s) {
    snprintf(limit_message, sizeof limit_message, "Bail out! %s ran past its limit of %g s\n", key, timeout_s);
    signal(SIGALRM, on_limit);
    struct itimerval timer = { .it_value = { .tv_sec = (time_t)timeout_s } };
    timer.it_value.tv_usec = (suseconds_t)((timeout_s - (double)timer.it_value.tv_sec) * 1e6);
    setitimer(ITIMER_REAL, &timer, NULL);
}

void kg_tap_disarm_limit(void) {
    const struct itimerval off = { 0 };
    setitimer(ITIMER_REAL, &off, NULL);
}
