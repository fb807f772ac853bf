#include "suites/integration/fleet_server.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/file.h"
#include "suites/harness/process.h"
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <grp.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_ARGS = 48, MOST_SOCKET_PATH = 80, PAUSE_US = 10000, WAIT_S = 50 };

/* The program's server. */
static struct {
    char *dir;     /* data/, log and the socket */
    char *bin;     /* where initdb and postgres are */
    char why[512]; /* why there is none */
    pid_t owner;   /* the process that made it: no other removes it */
    pid_t postgres, standby;
    bool tried, promoted;
    int small_mb; /* of small/, 0: there is none */
} server;

/* The user that the server runs as where this one is root; NULL: this one. */
static const struct passwd *other_user(void) {
    if (geteuid() != 0) return NULL;
    const struct passwd *user = getpwnam("postgres");
    return user ? user : getpwnam("nobody");
}

/* In a child of root's: mounts small/ for it and what it starts. */
static bool mount_small(void) {
    const struct passwd *user = other_user();
    char *small = kg_path_join(server.dir, "small");
    char *how = kg_xasprintf("size=%dm,mode=700,uid=%u,gid=%u", server.small_mb, user ? (unsigned)user->pw_uid : 0,
                             user ? (unsigned)user->pw_gid : 0);
    return unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           (mkdir(small, 0755) == 0 || errno == EEXIST) && mount("kigo", small, "tmpfs", 0, how) == 0;
}

/* In a child: becomes that user, and ends when this program does. */
static void become_server(void) {
    const struct passwd *user = other_user();
    char *log = kg_path_join(server.dir, "log");
    if (server.small_mb > 0 && !mount_small()) _exit(126);
    const int fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (user && (setgroups(0, NULL) != 0 || setgid(user->pw_gid) != 0 || setuid(user->pw_uid) != 0)) _exit(126);
    if (chdir(server.dir) != 0) _exit(126);
    if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0) _exit(126);
    prctl(PR_SET_PDEATHSIG, SIGQUIT);
}

static pid_t spawn(const char *const *argv) {
    char *path = kg_path_join(server.bin, argv[0]);
    const pid_t child = fork();
    if (child == 0) {
        become_server();
        execv(path, (char *const *)argv);
        _exit(127);
    }
    free(path);
    return child;
}

static int wait_for(pid_t child) {
    int state = 0;
    while (waitpid(child, &state, 0) < 0 && errno == EINTR) {}
    return WIFEXITED(state) ? WEXITSTATUS(state) : -1;
}

const char *const KG_FLEET_SERVER_DEFAULTS[] = { "-c", "shared_buffers=128MB", "-c", "fsync=on", "-c", "autovacuum=on",
                                                 "-c", "max_connections=120",  NULL };

static void end_standby(void) {
    kill(server.standby, SIGQUIT);
    wait_for(server.standby);
    server.standby = 0;
}

static void end_server(void) {
    if (!server.dir || server.owner != getpid()) return;
    if (server.postgres > 0) kg_fleet_server_kill();
    if (server.standby > 0) end_standby();
    struct kg_error err;
    if (kg_path_remove(server.dir, &err) != KG_OK) fprintf(stderr, "%s\n", err.message);
    free(server.dir);
    free(server.bin);
}

/* Debian keeps the server's programs out of PATH. */
static char *find_programs(void) {
    glob_t found;
    char *bin = NULL;
    if (glob("/usr/lib/postgresql/*/bin/initdb", 0, NULL, &found) == 0)
        bin = kg_xstrndup(found.gl_pathv[found.gl_pathc - 1],
                          strlen(found.gl_pathv[found.gl_pathc - 1]) - strlen("/initdb"));
    globfree(&found);
    return bin;
}

/* Whether the server's user gets there. */
static bool is_reachable(const char *dir) {
    const struct passwd *user = other_user();
    if (!user) return true;
    const pid_t child = fork();
    if (child == 0) _exit(setgroups(0, NULL) == 0 && setuid(user->pw_uid) == 0 && chdir(dir) == 0 ? 0 : 1);
    return wait_for(child) == 0;
}

/* A folder with a short path, behind which a socket's name fits. A run's own scratch folder is closed to others. */
static bool make_dir(void) {
    const char *const tmp = getenv("TMPDIR"), *const parents[] = { tmp && *tmp ? tmp : "/tmp", "/tmp", "/dev/shm" };
    const struct passwd *user = other_user();
    for (size_t i = 0; i < sizeof parents / sizeof *parents && !server.dir; i++) {
        char *dir = kg_xasprintf("%s/kg-XXXXXX", parents[i]);
        if (strlen(parents[i]) < MOST_SOCKET_PATH && is_reachable(parents[i]) && mkdtemp(dir)) server.dir = dir;
        else free(dir);
    }
    if (!server.dir) {
        snprintf(server.why, sizeof server.why, "no scratch folder is in reach of the server's user");
        return false;
    }
    server.owner = getpid();
    atexit(end_server);
    return chmod(server.dir, 0755) == 0 && (!user || chown(server.dir, user->pw_uid, user->pw_gid) == 0);
}

static bool is_up(const char *data) {
    char *ready = kg_xasprintf("%s/%s/postmaster.pid", server.dir, data), *text = NULL;
    size_t len = 0;
    const bool up = kg_file_read(ready, &text, &len, NULL) == KG_OK && strstr(text, "\nready ");
    free(text);
    free(ready);
    return up;
}

static pid_t start(const char *data, const char *port, const char *const *settings) {
    const char *argv[MOST_ARGS] = { "postgres",
                                    "-D",
                                    data,
                                    "-p",
                                    port,
                                    "-k",
                                    server.dir,
                                    "-c",
                                    "listen_addresses=",
                                    "-c",
                                    "max_connections=40",
                                    "-c",
                                    "shared_buffers=16MB",
                                    "-c",
                                    "fsync=off",
                                    "-c",
                                    "autovacuum=off",
                                    "-c",
                                    "jit=off" };
    size_t n = 0;
    while (argv[n]) n++;
    for (; settings && *settings; settings++) argv[n++] = *settings;
    const uint64_t last_ns = kg_clock_monotonic_ns() + (uint64_t)WAIT_S * 1000000000;
    const pid_t postgres = spawn(argv);
    while (!is_up(data) && kg_clock_monotonic_ns() < last_ns && waitpid(postgres, NULL, WNOHANG) == 0) usleep(PAUSE_US);
    ck_assert_msg(is_up(data), "postgres does not start: %s/log", server.dir);
    return postgres;
}

void kg_fleet_server_start(const char *const *settings) {
    server.postgres = start("data", "5432", settings);
}

void kg_fleet_server_own(const char *name) {
    const struct passwd *user = other_user();
    char *path = kg_path_join(server.dir, name);
    ck_assert_int_eq(chmod(path, 0600), 0);
    if (user) ck_assert_int_eq(chown(path, user->pw_uid, user->pw_gid), 0);
    free(path);
}

static void run(const char *const *argv) {
    const int code = wait_for(spawn(argv));
    ck_assert_msg(code == 0, "%s ended with %d: %s/log", argv[0], code, server.dir);
}

void kg_fleet_server_add_standby(void) {
    kg_fleet_server_kill();
    kg_fleet_server_start(ARGS("-c", "synchronous_standby_names=*", "-c", "synchronous_commit=remote_apply"));
    run(ARGS("pg_basebackup", "-h", server.dir, "-p", "5432", "-U", "postgres", "-D", "standby", "-R", "-X", "stream",
             "-c", "fast", "--no-sync"));
    server.standby = start("standby", "5433", NULL);
}

void kg_fleet_server_promote(void) {
    run(ARGS("pg_ctl", "promote", "-D", "standby", "-w"));
    server.promoted = true;
}

void kg_fleet_server_drop_standby(void) {
    struct kg_error err;
    char *standby = kg_path_join(server.dir, "standby"), *data = kg_path_join(server.dir, "data");
    if (server.postgres > 0) kg_fleet_server_kill();
    end_standby();
    ck_assert_msg(kg_path_remove(server.promoted ? data : standby, &err) == KG_OK, "%s", err.message);
    if (server.promoted) ck_assert_int_eq(rename(standby, data), 0);
    server.promoted = false;
    kg_fleet_server_start(NULL);
    free(data);
    free(standby);
}

const char *kg_fleet_server_start_with_small(int megabytes) {
    if (geteuid() != 0) return "only root can give the server a small file system";
    server.small_mb = megabytes;
    const pid_t child = fork();
    if (child == 0) _exit(mount_small() ? 0 : 1);
    if (wait_for(child) == 0) kg_fleet_server_start(NULL);
    else server.small_mb = 0;
    const bool is_small = server.small_mb > 0;
    server.small_mb = 0;
    if (is_small) return NULL;
    kg_fleet_server_start(NULL);
    return "no file system can be mounted here";
}

void kg_fleet_server_kill(void) {
    kill(server.postgres, SIGQUIT);
    wait_for(server.postgres);
    server.postgres = 0;
}

/* What a machine may lack is in server.why. */
static void try_server(void) {
    server.bin = find_programs();
    if (!server.bin) {
        snprintf(server.why, sizeof server.why, "there is no PostgreSQL server (Debian: postgresql)");
        return;
    }
    if (!make_dir()) return;
    const int code = wait_for(spawn(ARGS("initdb", "-D", "data", "-A", "trust", "-U", "postgres", "-E", "UTF8",
                                         "--locale=C", "--no-sync", "--no-instructions")));
    ck_assert_msg(code == 0, "initdb ended with %d: %s/log", code, server.dir);
}

const char *kg_fleet_server_dir(const char **why) {
    if (!server.tried) try_server();
    server.tried = true;
    *why = *server.why ? server.why : NULL;
    if (!*why && server.postgres == 0) kg_fleet_server_start(NULL);
    return server.dir;
}
