#include "run/known_lists.h"
#include "base/buffer.h"
#include "base/json_put.h"
#include "bundle/built_from.h"
#include "bundle/records.h"
#include "bundle/verified.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The notes of a folder of programs. */
struct folder {
    char *path;
    struct kg_verified *notes;
};

struct kg_known_lists {
    struct folder *folders;
    size_t n_folders;
    char name[KG_SHA256_HEX_SIZE]; /* of the notes: what programs find in their environment */
};

static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void put_text(struct kg_buffer *text, const char *value) {
    kg_buffer_printf(text, "%s\n", value ? value : "");
}

/* Variables KIGO_* of this process, in the order of their names, and those that a child is given (child.c). */
static void name_of_surroundings(const struct kg_child_surroundings *around, char name[KG_SHA256_HEX_SIZE]) {
    struct kg_buffer text = KG_BUFFER_INIT;
    size_t n = 0, n_taken = 0;
    while (environ[n]) n++;
    char **taken = kg_xcalloc(n + 1, sizeof *taken);
    for (size_t i = 0; i < n; i++)
        if (strncmp(environ[i], "KIGO_", 5) == 0) taken[n_taken++] = environ[i];
    qsort(taken, n_taken, sizeof *taken, by_text);
    for (size_t i = 0; i < n_taken; i++) put_text(&text, taken[i]);
    free(taken);
    put_text(&text, around->kigo_path);
    put_text(&text, around->models);
    put_text(&text, around->bench);
    put_text(&text, around->counted);
    kg_sha256_hex(kg_buffer_text(&text), text.len, name);
    kg_buffer_free(&text);
}

struct kg_known_lists *kg_known_lists_open(const struct kg_child_surroundings *around) {
    struct kg_known_lists *known = kg_xcalloc(1, sizeof *known);
    name_of_surroundings(around, known->name);
    return known;
}

void kg_known_lists_close(struct kg_known_lists *known) {
    for (size_t i = 0; i < known->n_folders; i++) {
        kg_verified_close(known->folders[i].notes);
        free(known->folders[i].path);
    }
    free(known->folders);
    free(known);
}

/* Where the program's file itself lies, since a link's stamps say nothing of it; *folder is malloc'ed and holds both.
 */
static const char *split(const struct kg_suite_program *program, char **folder) {
    *folder = realpath(program->path, NULL);
    char *slash = *folder ? strrchr(*folder, '/') : NULL;
    if (!slash) return NULL; /* it is gone */
    *slash = '\0';
    return slash + 1;
}

static struct kg_verified *notes_of(struct kg_known_lists *known, const char *folder) {
    for (size_t i = 0; i < known->n_folders; i++)
        if (strcmp(known->folders[i].path, folder) == 0) return known->folders[i].notes;
    known->folders = kg_xrealloc(known->folders, (known->n_folders + 1) * sizeof *known->folders);
    known->folders[known->n_folders] = (struct folder){ kg_xstrdup(folder), kg_verified_open(folder) };
    return known->folders[known->n_folders++].notes;
}

/* What a note keeps of the lines of a plan. */
static json_t *kept_of(const json_t *lines) {
    static const char *const FIELDS[] = { "key", "layer", "spec" };
    json_t *kept = json_array();
    size_t i;
    json_t *line;
    json_array_foreach(lines, i, line) {
        json_t *fields = json_object();
        for (size_t k = 0; k < sizeof FIELDS / sizeof *FIELDS; k++)
            json_object_set(fields, FIELDS[k], json_object_get(line, FIELDS[k]));
        json_array_append_new(kept, fields);
    }
    return kept;
}

static bool is_list(const json_t *lines) {
    size_t i;
    json_t *line;
    json_array_foreach(lines, i, line) {
        if (!kg_json_text(line, "key") || !kg_json_text(line, "layer")) return false;
    }
    return json_array_size(lines) > 0;
}

void kg_known_list_find(struct kg_known_lists *known, const struct kg_suite_program *program,
                        struct kg_known_list *found) {
    char *folder;
    const char *names[] = { split(program, &folder), NULL };
    *found = (struct kg_known_list){ .lines = NULL };
    if (!names[0]) return free(folder);
    kg_stamps_of_files(folder, names, &found->stamps);
    const char *text = kg_verified_get(notes_of(known, folder), names[0], known->name, &found->stamps);
    json_t *lines = text ? json_loads(text, 0, NULL) : NULL;
    if (is_list(lines)) found->lines = json_incref(lines);
    json_decref(lines);
    free(folder);
}

bool kg_known_list_keep(struct kg_known_lists *known, const struct kg_suite_program *program,
                        const struct kg_known_list *found, const struct kg_listing *listing) {
    const bool from_here = listing->lines && strcmp(listing->built_from, kg_built_from()) == 0;
    json_t *kept = kept_of(listing->lines);
    const bool as_known = !found->lines || json_equal(found->lines, kept);
    if (from_here && listing->alone && !(found->lines && as_known)) {
        char *folder, *text = json_dumps(kept, JSON_COMPACT);
        const char *name = split(program, &folder);
        if (text && name) kg_verified_put(notes_of(known, folder), name, known->name, &found->stamps, text);
        free(text);
        free(folder);
    }
    json_decref(kept);
    return as_known;
}
