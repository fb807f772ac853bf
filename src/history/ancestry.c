#include "history/ancestry.h"
#include "base/file.h"
#include "bundle/git.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_LIST_BYTES = 16 << 20 };

/* A word that git would take for an option, or that is no revision at all. */
static bool is_word(const char *revision) {
    return *revision && *revision != '-' && !strpbrk(revision, " \t\n\r");
}

enum kg_status kg_resolve_commit(const char *dir, const char *revision, char commit[KG_COMMIT_SIZE],
                                 struct kg_error *err) {
    struct kg_buffer out = KG_BUFFER_INIT;
    char *word = kg_xasprintf("%s^{commit}", revision);
    const char *const words[] = { "rev-parse", "--verify", "-q", word, NULL };
    enum kg_status status = is_word(revision) ? kg_git(dir, words, KG_COMMIT_SIZE, &out, NULL, NULL) : KG_ERR_USAGE;
    const size_t len = strcspn(kg_buffer_text(&out), "\n");
    if (status == KG_OK && len > 0 && len < KG_COMMIT_SIZE) {
        memcpy(commit, out.data, len);
        commit[len] = '\0';
    } else {
        status = kg_fail(err, KG_ERR_NOT_FOUND, "%s: git knows no commit '%s'", dir, revision);
    }
    kg_buffer_free(&out);
    free(word);
    return status;
}

enum kg_status kg_find_repository(const char *const *places, const char *revision, const char **dir,
                                  struct kg_error *err) {
    enum kg_status status = KG_ERR_NOT_FOUND;
    for (size_t i = 0; places[i] && status != KG_OK; i++) {
        char commit[KG_COMMIT_SIZE];
        if (!kg_path_is_dir(places[i])) continue;
        status = kg_resolve_commit(places[i], revision, commit, NULL);
        if (status == KG_OK) *dir = places[i];
    }
    if (status == KG_OK) return KG_OK;
    if (places[0] && !places[1]) return kg_fail(err, status, "git knows no commit '%s' in %s", revision, places[0]);
    return kg_fail(err, status, "git knows no commit '%s' in any repository at hand", revision);
}

static int by_id(const void *a, const void *b) {
    return strcmp(((const struct kg_commit *)a)->id, ((const struct kg_commit *)b)->id);
}

/* more: one more option, or NULL */
static enum kg_status list_commits(const char *dir, const char *which, const char *more, const char *range,
                                   struct kg_commits *commits, struct kg_error *err) {
    struct kg_buffer out = KG_BUFFER_INIT;
    const char *const words[] = { "rev-list", which, more ? more : which, range, "--", NULL };
    *commits = (struct kg_commits){ NULL, 0 };
    if (!is_word(range)) return kg_fail(err, KG_ERR_USAGE, "'%s' is no range of commits", range);
    enum kg_status status = kg_git(dir, words, MAX_LIST_BYTES, &out, NULL, NULL);
    if (status != KG_OK) {
        kg_buffer_free(&out);
        return kg_fail(err, KG_ERR_NOT_FOUND, "%s: git knows no commits '%s'", dir, range);
    }
    size_t n_lines = 0;
    for (const char *s = kg_buffer_text(&out); *s; s++) n_lines += *s == '\n';
    commits->items = kg_xcalloc(n_lines, sizeof *commits->items);
    for (char *line = out.data; line && *line;) {
        char *end = strchr(line, '\n');
        if (end && end - line < KG_COMMIT_SIZE) {
            struct kg_commit *commit = &commits->items[commits->n_items];
            memcpy(commit->id, line, (size_t)(end - line));
            commit->place = commits->n_items++;
        }
        line = end ? end + 1 : NULL;
    }
    kg_buffer_free(&out);
    if (commits->n_items > 1) qsort(commits->items, commits->n_items, sizeof *commits->items, by_id);
    return KG_OK;
}

enum kg_status kg_commits_list(const char *dir, const char *range, struct kg_commits *commits, struct kg_error *err) {
    return list_commits(dir, "--max-count=100000", NULL, range, commits, err);
}

enum kg_status kg_commits_mainline(const char *dir, const char *commit, struct kg_commits *commits,
                                   struct kg_error *err) {
    return list_commits(dir, "--first-parent", NULL, commit, commits, err);
}

enum kg_status kg_commits_merges(const char *dir, const char *range, struct kg_commits *commits, struct kg_error *err) {
    return list_commits(dir, "--first-parent", "--merges", range, commits, err);
}

const struct kg_commit *kg_commits_find(const struct kg_commits *commits, const char *commit) {
    struct kg_commit wanted = { .place = 0 };
    if (!commit || commits->n_items == 0 || strlen(commit) >= KG_COMMIT_SIZE) return NULL;
    memcpy(wanted.id, commit, strlen(commit) + 1);
    return bsearch(&wanted, commits->items, commits->n_items, sizeof wanted, by_id);
}

bool kg_commits_hold(const struct kg_commits *commits, const char *commit) {
    return kg_commits_find(commits, commit) != NULL;
}

void kg_commits_free(struct kg_commits *commits) {
    free(commits->items);
    *commits = (struct kg_commits){ NULL, 0 };
}
