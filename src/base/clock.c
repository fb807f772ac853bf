#include "base/clock.h"
#include <stdio.h>
#include <time.h>

uint64_t kg_clock_monotonic_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int64_t kg_clock_utc_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

int kg_clock_local_minute(void) {
    const time_t now = time(NULL);
    struct tm local;
    localtime_r(&now, &local);
    return local.tm_min;
}

void kg_clock_utc_text(int64_t utc_us, char text[KG_UTC_TEXT_SIZE]) {
    const time_t seconds = (time_t)(utc_us / 1000000);
    struct tm utc;
    gmtime_r(&seconds, &utc);
    const size_t used = strftime(text, KG_UTC_TEXT_SIZE, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(text + used, KG_UTC_TEXT_SIZE - used, ".%06dZ", (int)(utc_us % 1000000));
}

void kg_clock_utc_compact(int64_t utc_us, char text[KG_UTC_TEXT_SIZE]) {
    const time_t seconds = (time_t)(utc_us / 1000000);
    struct tm utc;
    gmtime_r(&seconds, &utc);
    strftime(text, KG_UTC_TEXT_SIZE, "%Y%m%dT%H%M%SZ", &utc);
}
