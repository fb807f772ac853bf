/* Whether a page of HTML closes what it opens. */
#ifndef KIGO_SUITES_HTML_TAGS_H
#define KIGO_SUITES_HTML_TAGS_H

/* Asserts that every element but the void ones is closed in the order of its opening, and that a page is closed to its
 * end. The page writes "<" only for elements and <!DOCTYPE>. */
void kg_expect_html_closed(const char *html);

/* What is wrong, malloc'ed; NULL if nothing is. */
char *kg_html_unclosed(const char *html);

#endif
