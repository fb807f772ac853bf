/* A page as a headless Chromium shows it. */
#ifndef KIGO_SUITES_BROWSER_H
#define KIGO_SUITES_BROWSER_H

#include "suites/harness/case.h"
#include "suites/harness/process.h"
#include <stdbool.h>

struct kg_look {
    int width, scroll_width; /* of the page's area, and of what is in it, in CSS pixels, with every fold open */
    int n_images;            /* <svg> and <img> */
    int n_unnamed;           /* of them without a text alternative */
    int n_scripts;           /* <script>, and attributes whose names begin with "on" */
    int n_outside;           /* attributes that name anything outside of the page */
    int n_ids_twice;
    int n_headings;
    int n_narrow;  /* cells whose only word, of at most 9 characters, takes more than a line */
    int finds;     /* 1: the page's text holds the words looked for */
    int n_console; /* lines that the browser's console has: errors, refused or failed requests */
};

/* Opens the page in a frame of that width. False, with the case marked as skipped, where there is no Chromium. */
bool kg_browser_look(struct kg_record *rec, const char *html, int width, const char *words, struct kg_look *look);
/* The same, and fails the case unless the page is as wide as its frame, says `words` and has what every page owes its
 * reader: no picture without a name, no script, no id twice, nothing on the console. */
bool kg_browser_looks_right(struct kg_record *rec, const char *html, int width, const char *words,
                            struct kg_look *look);

enum kg_ground {
    KG_GROUND_LIGHT, /* the reader prefers light pages */
    KG_GROUND_DARK,
    KG_GROUND_PAPER, /* prefers dark ones, and prints: the rules for print in force */
};
struct kg_colours {
    double ground;         /* relative luminance of the page's background: 0 black, 1 white; -1: it sets none */
    double least_contrast; /* of any text on what is behind it (WCAG 2.2): 1 to 21 */
    char of[128];          /* the text that has it */
    int n_texts;           /* shown elements that hold text themselves, every fold open; texts of pictures, too */
};
/* The computed colours of a page. False as above. */
bool kg_browser_colours(struct kg_record *rec, const char *html, int width, enum kg_ground ground,
                        struct kg_colours *colours);

struct kg_printed {
    int n_pages, n_a4; /* upright, within a point */
    char *text; /* malloc'ed, in the page's order, without blanks and line ends; NULL where there is no pdftotext */
    double lightness; /* mean of the first page, 0 black to 1 white; NaN where there is no pdftoppm */
};
/* The page as it comes out of the printer of a reader who prefers dark pages. False as above. */
bool kg_browser_print(struct kg_record *rec, const char *html, struct kg_printed *printed);

/* Runs a headless Chromium with these arguments (NULL at the end) after those that every run has. False as above. */
bool kg_browser_run(struct kg_record *rec, const char *const *args, struct kg_process_result *result);
/* <file>'s URL with that content, in the case's scratch folder; malloc'ed. */
char *kg_browser_file(struct kg_record *rec, const char *name, const char *content);
/* A page with `head` in it and an <iframe> of that width that holds the other page; malloc'ed. */
char *kg_browser_frame(const char *head, const char *html, int width);

#endif
