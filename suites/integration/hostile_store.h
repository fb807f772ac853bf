/* Bundles of which every stored string is hostile: to a terminal, a page, a table, a spreadsheet, a line-wise reader.
 */
#ifndef KIGO_SUITES_HOSTILE_STORE_H
#define KIGO_SUITES_HOSTILE_STORE_H

#include <stdbool.h>
#include <stddef.h>

/* Controls (C0, DEL, C1), marks and overrides of direction, characters of no width, separators, markup of HTML,
 * Markdown and shells, and lines that begin with "FORGED". UTF-8. */
extern const char KG_HOSTILE[];
/* The same for names of files and arguments, behind bytes that are no UTF-8. No '/'. */
extern const char KG_HOSTILE_NAME[];
/* What printed text holds of either. */
bool kg_shows_hostile(const char *text);

/* Puts = + - @ or a tab before every string in the JSON files of a bundle, and KG_HOSTILE behind it; the same string
 * becomes the same everywhere, so that the records still belong together. What programs look up stays: hashes, ids,
 * numbers, statuses and kinds. Then makes the manifests again. Returns how many strings that were. */
size_t kg_hostile_records(const char *dir);
/* The same for all strings of one of its files, those that stay too, without the manifests. */
void kg_hostile_file(const char *dir, const char *relative);

/* What kg_hostile_records makes of a string; malloc'ed. */
char *kg_hostile_text(const char *text);

#endif
