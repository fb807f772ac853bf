#include "suites/fuzz/folder.h"
#include "base/file.h"
#include "suites/fuzz/targets.h"
#include "suites/support/bundle_maker.h"
#include "suites/support/hf_maker.h"
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *base; /* <memory>/kigo-fuzz-XXXXXX; below it "template" and a folder a process */
static pid_t maker, owner;
static struct kg_fuzz_folder template, own;

static void remove_base(void) {
    if (getpid() == maker && kg_path_remove(base, NULL) != KG_OK) fprintf(stderr, "cannot remove %s\n", base);
}

static void name_parts(struct kg_fuzz_folder *folder, const char *name, const char *id) {
    char *dir = kg_path_join(base, name);
    folder->root = kg_path_join(dir, "store");
    folder->hf = kg_path_join(dir, "hf");
    folder->id = kg_xstrdup(id);
    folder->dir = kg_path_join(folder->root, id);
    free(dir);
}

/* Folders of a store that no run makes. */
static void make_beside(const char *root) {
    static const char *const DIRS[] = { "signoffs", "signed", "annotations", "tombstones" };
    for (size_t i = 0; i < sizeof DIRS / sizeof *DIRS; i++) {
        struct kg_error err;
        char *dir = kg_path_join(root, DIRS[i]);
        EXPECT_OK(kg_dir_make(dir, &err), err);
        free(dir);
    }
}

const struct kg_fuzz_folder *kg_fuzz_folder_template(void) {
    static const char *const STATUSES[] = { "pass", "fail", "skip" };
    if (template.root) return &template;
    struct kg_bundle_summary summary;
    struct kg_error err;
    base = kg_xstrdup(access("/dev/shm", W_OK) == 0 ? "/dev/shm/kigo-fuzz-XXXXXX" : "/tmp/kigo-fuzz-XXXXXX");
    if (!mkdtemp(base)) kg_fuzz_give_up("no folder %s: %s", base, strerror(errno));
    maker = getpid();
    atexit(remove_base);
    char *root = kg_path_join(base, "template/store");
    EXPECT_OK(kg_maker_write(root, STATUSES, 3, &summary, &err), err);
    char *dir = kg_maker_only(root);
    name_parts(&template, "template", strrchr(dir, '/') + 1);
    kg_hf_make(template.hf, kg_hf_expected("llama3_rope"), NULL);
    make_beside(root);
    free(dir);
    free(root);
    return &template;
}

const struct kg_fuzz_folder *kg_fuzz_folder(void) {
    const struct kg_fuzz_folder *from = kg_fuzz_folder_template();
    if (owner == getpid()) return &own;
    owner = getpid();
    char name[32];
    snprintf(name, sizeof name, "%ld", (long)owner);
    char *all = kg_path_join(base, "template"), *to = kg_path_join(base, name);
    name_parts(&own, name, from->id);
    free(kg_maker_copy(all, to));
    free(to);
    free(all);
    return &own;
}

void kg_fuzz_folder_remove(void) {
    if (owner != getpid()) return;
    char *dir = kg_xstrndup(own.root, strlen(own.root) - strlen("/store"));
    if (kg_path_remove(dir, NULL) != KG_OK) fprintf(stderr, "cannot remove %s\n", dir);
    free(dir);
    free(own.dir);
    free(own.id);
    free(own.hf);
    free(own.root);
    own = (struct kg_fuzz_folder){ 0 };
    owner = 0;
}

void kg_fuzz_put(const char *dir, const char *file, const void *data, size_t size) {
    char *path = kg_path_join(dir, file);
    struct kg_error err = { .message = "" };
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || kg_fd_write(fd, data, size, &err) != KG_OK)
        kg_fuzz_give_up("cannot write %s: %s %s", path, err.message, strerror(errno));
    close(fd);
    free(path);
}

char *kg_fuzz_get(const char *dir, const char *file, size_t *size) {
    char *path = kg_path_join(dir, file), *text = NULL;
    struct kg_error err = { .message = "" };
    *size = 0;
    if (kg_path_exists(path) && kg_file_read(path, &text, size, &err) != KG_OK) kg_fuzz_give_up("%s", err.message);
    free(path);
    return text;
}

void kg_fuzz_restore(const char *dir, const char *template_dir, const char *file) {
    size_t size;
    char *text = kg_fuzz_get(template_dir, file, &size), *path = kg_path_join(dir, file);
    if (text) kg_fuzz_put(dir, file, text, size);
    else (void)!unlink(path);
    free(path);
    free(text);
}
