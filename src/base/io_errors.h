/* Errors of input and output, heard or not: much of what kigo reads may be missing, so callers take the lack of it for
 * an answer; an existing file that cannot be read must not look the same. kg_error_set notes every KG_ERR_IO and
 * KG_ERR_NO_MEMORY of the process, with or without a place for the error, and a program that read past one gives no
 * verdict. */
#ifndef KIGO_BASE_IO_ERRORS_H
#define KIGO_BASE_IO_ERRORS_H

#include <kigo/status.h>

/* The first message noted; NULL: none. */
const char *kg_io_error_noted(void);
/* How many errors were noted so far. */
unsigned kg_io_errors_count(void);
/* How many errors so far were a lack of memory: what one was met on says nothing of the data. */
unsigned kg_io_errors_of_memory(void);

void kg_io_error_note(enum kg_status status, const char *message);

/* Between these two this thread's errors are not noted: for what changes no answer, as a cache. They nest. */
void kg_io_errors_harmless_begin(void);
void kg_io_errors_harmless_end(void);

#endif
