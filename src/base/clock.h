/* Clocks: monotonic for durations, UTC for names and records. */
#ifndef KIGO_BASE_CLOCK_H
#define KIGO_BASE_CLOCK_H

#include <stdint.h>
#include <stddef.h>

uint64_t kg_clock_monotonic_ns(void);
int64_t kg_clock_utc_us(void);   /* microseconds since 1970-01-01T00:00:00Z */
int kg_clock_local_minute(void); /* the minute of the local time, 0 to 59 */

enum { KG_UTC_TEXT_SIZE = 32 };
/* "2026-11-20T09:38:22.123456Z" */
void kg_clock_utc_text(int64_t utc_us, char text[KG_UTC_TEXT_SIZE]);
/* "20261120T093822Z", for file names */
void kg_clock_utc_compact(int64_t utc_us, char text[KG_UTC_TEXT_SIZE]);

#endif
