/* Folders for readers of files: a store with a sealed bundle of three cases, and a Hugging Face folder. Made once; each
 * process works on a copy, in memory where there is such a file system. */
#ifndef KIGO_SUITES_FUZZ_FOLDER_H
#define KIGO_SUITES_FUZZ_FOLDER_H

#include <stddef.h>

struct kg_fuzz_folder {
    char *root, *hf; /* the store; the Hugging Face folder */
    char *id, *dir;  /* of the bundle in root */
};
/* This process's own. kg_fuzz_folder_template is what it is copied from; call it before forking. */
const struct kg_fuzz_folder *kg_fuzz_folder(void);
const struct kg_fuzz_folder *kg_fuzz_folder_template(void);
/* Removes this process's copy; who made the template removes all when it ends. */
void kg_fuzz_folder_remove(void);

/* Writes a file, new or not; gives up if it cannot. */
void kg_fuzz_put(const char *dir, const char *file, const void *data, size_t size);
/* A file's bytes and a NUL, malloc'ed; NULL if there is none. */
char *kg_fuzz_get(const char *dir, const char *file, size_t *size);
/* Makes a file what it is in the folder of that kind in the template. */
void kg_fuzz_restore(const char *dir, const char *template_dir, const char *file);

#endif
