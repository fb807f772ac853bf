/* What people say about runs and cases, as files beside the bundles: <root>/annotations/<id>.json, one each, never
 * changed once written. The index's table `annotation` is read from them.
 *
 * kind      means
 * break     runs that started before bundle_id are no baseline for runs from it on (of case_key, or of every case)
 * exclude   bundle_id is no baseline (of case_key, or at all)
 * note      words about a run or a case
 * waive     what regress finds at case_key is reported, and does not count, until until_us
 * accept    what regress finds at case_key in bundle_id is the norm from now on: it does not count there, and runs
 * before bundle_id are no baseline of case_key for later ones pin       prune keeps bundle_id confirm, selfcheck   what
 * `kigo confirm` and `kigo selfcheck` found, as JSON in text
 *
 * {"kind", "bundle_id", "case_key", "until_us", "utc_us", "author", "text"}; bundle_id, case_key and until_us may be
 * null. case_key is a pattern: * also crosses '/', and brackets stand for themselves. */
#ifndef KIGO_HISTORY_ANNOTATION_H
#define KIGO_HISTORY_ANNOTATION_H

#include <kigo/bundle.h>
#include <stdint.h>

struct kg_annotation {
    char *id; /* <utc>-<kind>-<8 hexadecimal digits>; made by add */
    char *kind;
    char *bundle_id, *case_key; /* NULL: none */
    int64_t until_us;           /* 0: none */
    int64_t utc_us;             /* when it was said */
    char *author, *text;
    char *signer; /* who signed it, NULL: it was not looked at, or nobody whose key counts */
};

struct kg_annotations {
    struct kg_annotation *items; /* sorted bytewise by id */
    size_t n_items;
};

/* Keeps of a list what counts: with a policy that asks for it, what an allowed signer signed
 * (annotations/<id>.json.sig, purpose KG_SIGN_ANNOTATION). n_dropped: what does not. A bad signature never counts. */
struct kg_policy;
KG_WARN_UNUSED enum kg_status kg_annotations_keep_counted(const char *root, const struct kg_policy *policy,
                                                          struct kg_annotations *list, size_t *n_dropped,
                                                          struct kg_error *err);

/* All of a root; a folder without any is good. Files that are no annotation are added to problems (may be NULL). */
KG_WARN_UNUSED enum kg_status kg_annotations_load(const char *root, struct kg_annotations *list,
                                                  struct kg_bundle_findings *problems, struct kg_error *err);
/* The same of a history: of a fleet, its table; of a folder, the files in `root`. */
struct kg_history;
KG_WARN_UNUSED enum kg_status kg_annotations_read(struct kg_history *history, const char *root,
                                                  struct kg_annotations *list, struct kg_error *err);
void kg_annotations_free(struct kg_annotations *list);

/* KG_ERR_USAGE for a kind that is not known, or one that lacks what it speaks of. */
KG_WARN_UNUSED enum kg_status kg_annotation_check(const struct kg_annotation *annotation, struct kg_error *err);

/* What a new one is named (<utc>-<kind>-<8 digits>), and the text of its file; both malloc'ed. KG_ERR_USAGE as above,
 * and for words that are not UTF-8. */
KG_WARN_UNUSED enum kg_status kg_annotation_make(const struct kg_annotation *annotation, char **id, char **text,
                                                 struct kg_error *err);

/* Writes a new file, signed with that key (NULL: not signed); *id (malloc'ed; may be NULL) names it. Its own id is not
 * looked at. KG_ERR_USAGE for a kind that is not known, or one that lacks what it speaks of. */
KG_WARN_UNUSED enum kg_status kg_annotation_add(const char *root, const struct kg_annotation *annotation,
                                                const char *key, char **id, struct kg_error *err);
/* KG_ERR_NOT_FOUND if there is no such annotation. */
KG_WARN_UNUSED enum kg_status kg_annotation_remove(const char *root, const char *id, struct kg_error *err);

/* Both of a history: a fleet's table, or the files in `root`. A fleet keeps no signatures: KG_ERR_UNSUPPORTED with a
 * key; KG_ERR_UNWRITABLE for who is no admin. */
KG_WARN_UNUSED enum kg_status kg_annotation_put(struct kg_history *history, const char *root,
                                                const struct kg_annotation *annotation, const char *key, char **id,
                                                struct kg_error *err);
KG_WARN_UNUSED enum kg_status kg_annotation_take_back(struct kg_history *history, const char *root, const char *id,
                                                      struct kg_error *err);

/* Whether an annotation of that kind speaks of the run (NULL: of any). */
bool kg_annotation_of_run(const struct kg_annotations *list, const char *kind, const char *bundle_id);

/* Whether a pattern speaks of a case; NULL speaks of all. */
bool kg_case_matches(const char *pattern, const char *case_key);

#endif
