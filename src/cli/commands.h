/* The verbs of kigo: one cmd_<verb>.c each. X(function suffix, verb, one-line summary) in the order --help shows them.
 */
#ifndef KIGO_CLI_COMMANDS_H
#define KIGO_CLI_COMMANDS_H

#include <stdbool.h>
#include <stddef.h>

/* clang-format off */
#define KG_COMMAND_LIST(X) \
    X(inspect, "inspect", "show a GGUF file's metadata and tensors") \
    X(convert, "convert", "make a GGUF file from a Hugging Face folder") \
    X(quantize, "quantize", "round a GGUF file's weights to fewer bits") \
    X(synth, "synth", "make a GGUF file of true shapes and random weights") \
    X(tokenize, "tokenize", "convert text into token ids, and back") \
    X(check, "check", "run the suites and seal a proof bundle") \
    X(bench, "bench", "time operations and models, sealed like a check") \
    X(devices, "devices", "list the processors and GPUs this build can run on") \
    X(generate, "generate", "write text from a prompt") \
    X(chat, "chat", "talk with a model") \
    X(logits, "logits", "print the logits of given token ids") \
    X(op, "op", "run an operation on given tensors") \
    X(list, "list", "list the runs whose proof bundles are here") \
    X(show, "show", "show a run: verdict, failures, errors, timings") \
    X(verify, "verify", "check that a bundle is what was sealed") \
    X(checkpoint, "checkpoint", "say what the folder of bundles holds, to keep elsewhere") \
    X(sign, "sign", "vouch for a bundle with an SSH key") \
    X(export, "export", "write a bundle to one file") \
    X(import, "import", "take in a bundle from such a file") \
    X(push, "push", "put runs into a fleet's history") \
    X(pull, "pull", "bring a run back from a fleet's history") \
    X(fleet, "fleet", "make and look after a fleet's history") \
    X(diff, "diff", "print what differs between two runs") \
    X(history, "history", "show what a case gave in every run") \
    X(steps, "steps", "find where times changed for good") \
    X(regress, "regress", "judge a run against those before it") \
    X(report, "report", "show a run, or all, as a page") \
    X(web, "web", "show the history in a browser") \
    X(confirm, "confirm", "measure again what regress flagged") \
    X(selfcheck, "selfcheck", "measure how often regress is wrong") \
    X(annotate, "annotate", "keep a note on a run or a case") \
    X(waive, "waive", "let a known regression pass until a day") \
    X(accept, "accept", "make what a run gave the norm from now on") \
    X(pin, "pin", "keep a run from being pruned") \
    X(prune, "prune", "delete old bundles, leaving tombstones") \
    X(signoff, "signoff", "hold a sprint's criteria against runs") \
    X(rerun, "rerun", "run a run again and compare") \
    X(query, "query", "ask the history by SQL") \
    X(reindex, "reindex", "make the index again from the bundles") \
    X(recover, "recover", "publish what runs that died left") \
    /* every row ends in a backslash, so that rows merge line by line */

/* clang-format on */

/* argv[0] is the verb. Returns the exit code (enum kg_exit). */
#define KG_COMMAND_DECLARE(suffix, verb, summary) int kg_cmd_##suffix(int argc, char **argv);
KG_COMMAND_LIST(KG_COMMAND_DECLARE)
#undef KG_COMMAND_DECLARE

/* "kigo <verb>: <message>" on standard error; returns the exit code that goes with the error. */
struct kg_error;
int kg_cli_error(const char *verb, const struct kg_error *err);

/* When words that judge have colours; kg_cli_parse obeys it. Rows of a table of options. */
extern const char *kg_cli_color;
#define KG_COLOR_OPTION                                                                                                \
    {                                                                                                                  \
        .name = "color", .kind = KG_OPTION_TEXT, .value = &kg_cli_color, .metavar = "WHEN",                            \
        .help = "colours: always, never, or auto: on a terminal, unless $NO_COLOR is set (auto)"                       \
    }

/* The positional arguments, in order, NULL where there are fewer. False if the command is over with *exit_code: help
 * was asked for, or the call is wrong, which is said. */
struct kg_command;
bool kg_cli_parse(const struct kg_command *command, int argc, char **argv, const char **args, size_t n_args,
                  int *exit_code);

/* From now on kg_cli_parse gives each command to `take` and ends it with exit code 0, whatever its arguments; NULL: no
 * more. So the tables of options can be read where they stand, in the verbs. */
void kg_cli_ask_commands(void (*take)(void *user, const struct kg_command *command), void *user);

#endif
