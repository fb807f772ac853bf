/* A page as a headless Chromium shows it. */
#ifndef KIGO_SUITES_BROWSER_H
#define KIGO_SUITES_BROWSER_H

#include "suites/harness/case.h"
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

#endif
