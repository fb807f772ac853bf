/* An archive in the fleet: chunks of a megabyte, so that neither side holds it whole in memory. */
#include "fleet/internal.h"
#include "base/buffer.h"
#include "base/file.h"
#include "bundle/limits.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK_BYTES = 1 << 20 };

uint64_t kg_fleet_n_chunks(uint64_t size_bytes) {
    return (size_bytes + CHUNK_BYTES - 1) / CHUNK_BYTES;
}

static void report(const struct kg_fleet_watch *watch, uint64_t done, uint64_t total) {
    if (watch && watch->progress) watch->progress(watch->user, done, total);
}

static enum kg_status put_chunk(struct kg_fleet *fleet, const char *tagmanifest_sha256,
                                const struct kg_fleet_place *place, uint64_t i, const struct kg_file_map *file,
                                struct kg_error *err) {
    static const char SQL[] = "INSERT INTO archive_chunk(tagmanifest_sha256, chunk_no, runner_no, month, data)"
                              " VALUES ($1, $2::integer, $3::integer, $4::date, $5::bytea)";
    enum { N_ARGS = 5, DATA = 4, BINARY = 1 };
    const uint64_t at = i * CHUNK_BYTES, left = file->size_bytes - at;
    const int n = (int)(left < CHUNK_BYTES ? left : CHUNK_BYTES);
    char number[24];
    snprintf(number, sizeof number, "%llu", (unsigned long long)i);
    const char *const args[N_ARGS] = { tagmanifest_sha256, number, place->runner_no, place->month,
                                       (const char *)file->data + at };
    const int lengths[N_ARGS] = { [DATA] = n }, formats[N_ARGS] = { [DATA] = BINARY };
    PGresult *result = fleet->pq->execParams(fleet->conn, SQL, N_ARGS, NULL, args, lengths, formats, 0);
    if (fleet->pq->resultStatus(result) != PGRES_COMMAND_OK)
        return kg_fleet_fail(fleet, "storing the archive", result, err);
    fleet->pq->clear(result);
    return KG_OK;
}

enum kg_status kg_fleet_put_chunks(struct kg_fleet *fleet, const char *tagmanifest_sha256,
                                   const struct kg_fleet_place *place, const struct kg_file_map *file,
                                   const struct kg_fleet_watch *watch, struct kg_error *err) {
    const uint64_t n = kg_fleet_n_chunks(file->size_bytes);
    enum kg_status status = KG_OK;
    for (uint64_t i = 0; i < n && status == KG_OK; i++) {
        report(watch, i * CHUNK_BYTES, file->size_bytes);
        status = put_chunk(fleet, tagmanifest_sha256, place, i, file, err);
    }
    return status;
}

/* Where an archive's chunks are; texts, as arguments of a statement. */
enum { TAGMANIFEST, RUNNER, MONTH, N_PLACE, CHUNK = N_PLACE, N_CHUNK_ARGS };

static enum kg_status get_chunk(struct kg_fleet *fleet, const char **args, uint64_t i, int fd, struct kg_sha256 *sha,
                                uint64_t *done, struct kg_error *err) {
    static const char SQL[] = "SELECT data FROM archive_chunk WHERE tagmanifest_sha256 = $1 AND runner_no = $2::integer"
                              " AND month = $3::date AND chunk_no = $4::integer";
    enum { BINARY = 1 };
    const struct kg_libpq *pq = fleet->pq;
    char number[24];
    snprintf(number, sizeof number, "%llu", (unsigned long long)i);
    args[CHUNK] = number;
    PGresult *result = pq->execParams(fleet->conn, SQL, N_CHUNK_ARGS, NULL, args, NULL, NULL, BINARY);
    if (pq->resultStatus(result) != PGRES_TUPLES_OK) return kg_fleet_fail(fleet, "reading the archive", result, err);
    enum kg_status status = KG_OK;
    if (pq->ntuples(result) != 1)
        status = kg_fail(err, KG_ERR_INTEGRITY, "%s: chunk %s of the archive is missing", fleet->where, number);
    if (status == KG_OK) {
        const size_t n = (size_t)pq->getlength(result, 0, 0);
        const char *data = pq->getvalue(result, 0, 0);
        kg_sha256_update(sha, data, n);
        *done += n;
        status = kg_fd_write(fd, data, n, err);
    }
    pq->clear(result);
    return status;
}

/* *row: size_bytes, n_chunks, sha256 and the place of the chunks. */
static enum kg_status find_archive(struct kg_fleet *fleet, const char *id, struct kg_fleet_rows *row,
                                   struct kg_error *err) {
    static const char SQL[] = "SELECT size_bytes, n_chunks, sha256, tagmanifest_sha256, runner_no, month FROM archive"
                              " WHERE bundle_id = $1";
    enum kg_status status = kg_fleet_ask(fleet, "looking for the archive", SQL, &id, 1, row, err);
    if (status == KG_OK && row->n == 0) status = kg_fail(err, KG_ERR_NOT_FOUND, "%s has no run %s", fleet->where, id);
    return status;
}

enum kg_status kg_fleet_fetch(struct kg_fleet *fleet, const char *id, const char *path,
                              const struct kg_fleet_watch *watch, struct kg_error *err) {
    enum { SIZE, N_CHUNKS, SHA, FIRST_OF_PLACE };
    struct kg_fleet_rows row;
    char got[KG_SHA256_HEX_SIZE];
    uint64_t done = 0;
    enum kg_status status = find_archive(fleet, id, &row, err);
    if (status != KG_OK) return kg_fleet_rows_free(&row), status;
    const char *args[N_CHUNK_ARGS] = { NULL };
    for (int i = 0; i < N_PLACE; i++) args[i] = kg_fleet_cell(&row, 0, FIRST_OF_PLACE + i);
    const uint64_t size_bytes = (uint64_t)kg_fleet_integer(&row, 0, SIZE),
                   n_chunks = (uint64_t)kg_fleet_integer(&row, 0, N_CHUNKS);
    if (size_bytes > KG_MAX_IMPORT_BYTES || n_chunks != kg_fleet_n_chunks(size_bytes)) {
        status = kg_fail(err, KG_ERR_INTEGRITY, "%s: the archive of %s has %s bytes in %s chunks", fleet->where, id,
                         kg_fleet_cell(&row, 0, SIZE), kg_fleet_cell(&row, 0, N_CHUNKS));
        return kg_fleet_rows_free(&row), status;
    }
    struct kg_sha256 *sha = kg_sha256_new();
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) status = kg_fail(err, KG_ERR_IO, "cannot make %s: %s", path, strerror(errno));
    for (uint64_t i = 0; i < n_chunks && status == KG_OK; i++) {
        report(watch, done, size_bytes);
        status = get_chunk(fleet, args, i, fd, sha, &done, err);
    }
    if (fd >= 0 && close(fd) != 0 && status == KG_OK)
        status = kg_fail(err, KG_ERR_IO, "cannot write %s: %s", path, strerror(errno));
    kg_sha256_finish(sha, got);
    if (status == KG_OK && (done != size_bytes || strcmp(got, kg_fleet_cell(&row, 0, SHA)) != 0))
        status =
            kg_fail(err, KG_ERR_INTEGRITY, "%s: the archive of %s is not the one that was pushed: SHA-256 %s, not %s",
                    fleet->where, id, got, kg_fleet_cell(&row, 0, SHA));
    kg_fleet_rows_free(&row);
    return status;
}
