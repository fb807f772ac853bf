#include "run/session_kill.h"
#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* proc(5): /proc/PID/stat is "pid (name) state ppid pgrp session ...", and the name may hold anything. */
static bool lives_in(pid_t pid, pid_t session) {
    char path[32], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (!file) return false;
    const size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = '\0';
    const char *behind = strrchr(text, ')');
    char state;
    int its_session;
    return behind && sscanf(behind + 1, " %c %*d %*d %d", &state, &its_session) == 2 && its_session == session &&
           state != 'Z' && state != 'X';
}

static bool kill_those_seen(pid_t session) {
    DIR *dir = opendir("/proc");
    bool any = false;
    if (!dir) return false;
    for (const struct dirent *entry; (entry = readdir(dir));) {
        const pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (pid <= 0 || pid == getpid() || !lives_in(pid, session)) continue;
        any = kill(pid, SIGKILL) == 0 || any;
    }
    closedir(dir);
    return any;
}

void kg_session_kill(pid_t session) {
    enum { MOST_ROUNDS = 100 };
    for (int round = 0; round < MOST_ROUNDS && kill_those_seen(session); round++) usleep(1000);
}
