/* A program that does not keep to what the runner asks of a suite: which rule it breaks is in the name it is started
 * by (test_<rule>); run by test_check_e2e, which links it under each name. */
#include "bundle/built_from.h"
#include "run/case_key.h"
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct kg_case ONE = { .layer = "unit", .op = "broken", .name = "one" };
static char key[KG_CASE_KEY_MAX];
static int events;

static void print_plan_line(uint64_t run_seed) {
    char sha[KG_SHA256_HEX_SIZE];
    kg_case_definition_sha(&ONE, sha);
    printf("{\"key\":\"%s\",\"suite\":\"x\",\"layer\":\"unit\",\"op\":\"broken\",\"name\":\"one\",\"backend\":null,"
           "\"dtype\":null,\"shape\":null,\"spec\":null,\"seed\":\"%" PRIu64 "\",\"def_sha\":\"%s\",\"timeout_s\":5}\n",
           key, kg_case_seed(run_seed, key), sha);
}

static void say(const char *text) {
    if (write(events, text, strlen(text)) < 0) _exit(1);
}

static void say_case(const char *head, const char *tail) {
    say("{\"event\":\"");
    say(head);
    say("\",\"key\":\"");
    say(key);
    say("\"");
    say(tail);
    say("}\n");
}

#define LISTS ",\"errors\":[],\"timings\":[],\"metrics\":[],\"memory\":[]"

static int garbage(void) {
    say("\x01\xff not json\n");
    return 0;
}
static int garbage_in_case(void) {
    say_case("start", "");
    say("]]]]\n");
    return 0;
}
static int unknown_key(void) {
    say("{\"event\":\"start\",\"key\":\"unit/broken/other\"}\n");
    return 0;
}
/* The reason quotes the key and cuts it: inside a character, at one of these lengths. */
static int unknown_long_key(void) {
    say("{\"event\":\"start\",\"key\":\"");
    for (int i = 0; i < 100; i++) say("\xe2\x82\xac");
    say("\"}\n");
    return 0;
}
static int unknown_wide_key(void) {
    say("{\"event\":\"start\",\"key\":\"x");
    for (int i = 0; i < 100; i++) say("\xe2\x82\xac");
    say("\"}\n");
    return 0;
}
static int end_without_start(void) {
    say_case("end", ",\"status\":\"pass\",\"reason\":null,\"duration_ns\":1" LISTS);
    return 0;
}
static int wrong_types(void) {
    say_case("start", "");
    say_case("end", ",\"status\":\"pass\",\"reason\":null,\"duration_ns\":1,\"errors\":7,\"timings\":[],\"metrics\":[],"
                    "\"memory\":[]");
    return 0;
}
static int unknown_status(void) {
    say_case("start", "");
    say_case("end", ",\"status\":\"great\",\"reason\":null,\"duration_ns\":1" LISTS);
    return 0;
}
static int no_duration(void) {
    say_case("start", "");
    say_case("end", ",\"status\":\"pass\",\"reason\":null" LISTS);
    return 0;
}
static int false_pass(void) {
    say_case("start", "");
    say_case("end", ",\"status\":\"pass\",\"reason\":null,\"duration_ns\":1,\"errors\":[{\"name\":\"y\",\"n\":1,"
                    "\"n_nonfinite\":1,\"max_abs\":null,\"max_rel\":null,\"rms_rel\":null,\"nmse\":null,"
                    "\"one_minus_cos\":null,\"worst_index\":0,\"worst_got\":null,\"worst_want\":0,\"tolerance\":{},"
                    "\"why\":\"\",\"margin\":null,\"judged\":true}],\"timings\":[],\"metrics\":[],\"memory\":[]");
    say("{\"event\":\"done\"}\n");
    return 0;
}
static int escaping_attachment(void) {
    say_case("start", "");
    say_case("attach", ",\"file\":\"../../../escaped\",\"data\":\"AAAA\"");
    return 0;
}
static int unfinished_line(void) {
    say("{\"event\":");
    return 0;
}
static int never_starts(void) {
    return 0;
}
static int dies_after_done(void) {
    say_case("start", "");
    say_case("end", ",\"status\":\"pass\",\"reason\":null,\"duration_ns\":1" LISTS);
    say("{\"event\":\"done\"}\n");
    return 23;
}
static int floods(void) {
    say_case("start", "");
    for (int i = 0; i < 20; i++) {
        static char block[1 << 20];
        memset(block, 'x', sizeof block - 1);
        say(block);
    }
    return 0;
}
static int closes_everything(void) {
    say_case("start", "");
    for (int fd = 0; fd < 64; fd++) close(fd);
    sleep(1);
    return 0;
}

static const struct rule {
    const char *name;
    int (*run)(void);
} RULES[] = {
    { "garbage", garbage },
    { "garbage_in_case", garbage_in_case },
    { "unknown_key", unknown_key },
    { "unknown_long_key", unknown_long_key },
    { "unknown_wide_key", unknown_wide_key },
    { "end_without_start", end_without_start },
    { "wrong_types", wrong_types },
    { "unknown_status", unknown_status },
    { "no_duration", no_duration },
    { "false_pass", false_pass },
    { "escaping_attachment", escaping_attachment },
    { "unfinished_line", unfinished_line },
    { "never_starts", never_starts },
    { "dies_after_done", dies_after_done },
    { "floods", floods },
    { "closes_everything", closes_everything },
};

int main(int argc, char **argv) {
    const char *slash = strrchr(argv[0], '/');
    const char *rule = (slash ? slash + 1 : argv[0]) + strlen("test_");
    const bool listing = argc > 3 && strcmp(argv[3], "--list") == 0;
    if (listing && strcmp(rule, "lists_nothing") == 0) return 0;
    if (listing && strcmp(rule, "lists_garbage") == 0) return puts("{\"key\":1}") < 0;
    if (listing && strcmp(rule, "list_crashes") == 0) abort();
    if (kg_case_key(&ONE, key, NULL) != KG_OK || argc < 3) return 2;
    if (listing && strcmp(rule, "tells_no_build") != 0)
        printf("{\"built_from\":\"%s\"}\n", strcmp(rule, "other_build") == 0 ? "0123456789abcdef" : kg_built_from());
    if (listing) {
        print_plan_line(strtoull(argv[2], NULL, 10));
        return 0;
    }
    const char *fd = getenv("KIGO_EVENTS_FD");
    events = fd ? atoi(fd) : -1;
    puts("these are the last words of the program");
    fflush(stdout);
    for (size_t i = 0; i < sizeof RULES / sizeof *RULES; i++)
        if (strcmp(rule, RULES[i].name) == 0) return RULES[i].run();
    return 2;
}
