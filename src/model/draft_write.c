/* SPDX-License-Identifier: MIT */
/*
 * The data of a GGUF file (see draft.h). Threads take runs of rows in the file's order, widen, sort and pack them, and put
 * each run where it belongs; what is one run does not depend on who takes it. Of several errors the first in the file's order
 * is told: every run in front of it was taken before.
 */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <unistd.h>

#include "draft.h"
#include "quantize.h"

enum { RUN = 1 << 18, MAX_WORKERS = 1024 }; /* RUN: elements, unless a row has more */

typedef struct writer {
    const seqmix_draft *d;
    const char *path;
    int file;
    size_t data_at;
    pthread_mutex_t lock;
    int64_t tensor, row, taken; /* what comes next; runs taken so far */
    int64_t failed;             /* the first run that failed; -1: none */
    char text[512];
} writer;

typedef struct run {
    const seqmix_draft_tensor *t;
    int64_t from, rows, number;
} run;

static int64_t run_rows(const seqmix_draft_tensor *t)
{
    const int64_t row = seqmix_draft_row(t);
    return row < RUN ? RUN / row : 1;
}

static bool take(writer *w, run *r)
{
    (void)pthread_mutex_lock(&w->lock);
    const bool more = w->failed < 0 && w->tensor < w->d->n_tensors;
    if (more) {
        const seqmix_draft_tensor *t = w->d->tensors[w->tensor];
        const int64_t rows = seqmix_draft_rows(t), most = run_rows(t);
        *r = (run){t, w->row, rows - w->row < most ? rows - w->row : most, w->taken++};
        w->row += r->rows;
        if (w->row == rows) {
            w->row = 0;
            w->tensor++;
        }
    }
    (void)pthread_mutex_unlock(&w->lock);
    return more;
}

static void fail(writer *w, int64_t number, const char *text)
{
    (void)pthread_mutex_lock(&w->lock);
    if (w->failed < 0 || number < w->failed) {
        w->failed = number;
        (void)snprintf(w->text, sizeof w->text, "%s", text);
    }
    (void)pthread_mutex_unlock(&w->lock);
}

static bool write_at(int file, const unsigned char *bytes, size_t n, size_t at, const char *path, seqmix_why why)
{
    while (n > 0) {
        const ssize_t done = pwrite(file, bytes, n, (off_t)at);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return seqmix_fail(why, "%s: %s", path, strerror(done < 0 ? errno : ENOSPC));
        bytes += done;
        n -= (size_t)done;
        at += (size_t)done;
    }
    return true;
}

/* What one thread works with: a row as it is stored, the same sorted, a run packed. */
typedef struct buffers {
    float *wide, *sorted;
    unsigned char *packed;
} buffers;

static bool open_buffers(const seqmix_draft *d, buffers *b)
{
    size_t row = 1, packed = 1;
    for (int64_t i = 0; i < d->n_tensors; i++) {
        const seqmix_draft_tensor *t = d->tensors[i];
        const size_t elements = (size_t)seqmix_draft_row(t);
        const size_t bytes =
            (size_t)run_rows(t) * seqmix_dtype_bytes(seqmix_gguf_type_dtype(t->type), (int64_t)elements);
        row = elements > row ? elements : row;
        packed = bytes > packed ? bytes : packed;
    }
    b->wide = malloc(row * sizeof *b->wide);
    b->sorted = malloc(row * sizeof *b->sorted);
    b->packed = malloc(packed);
    return b->wide != NULL && b->sorted != NULL && b->packed != NULL;
}

static bool is_finite(const float *x, int64_t n)
{
    int bad = 0;
    for (int64_t i = 0; i < n; i++)
        bad |= !(fabsf(x[i]) <= 3.402823466e38F);
    return bad == 0;
}

/* Its rows, as far as they are in one part. */
static void let_go(const run *r)
{
    const int64_t part_rows = seqmix_draft_rows(r->t) / r->t->n_parts, at = r->from % part_rows;
    const size_t row = seqmix_dtype_bytes(r->t->from, seqmix_draft_row(r->t));
    const int64_t n = r->rows < part_rows - at ? r->rows : part_rows - at;
    seqmix_let_go((const char *)r->t->parts[r->from / part_rows] + (size_t)at * row, (size_t)n * row);
}

static bool pack_run(const seqmix_draft *d, const run *r, const buffers *b, seqmix_why why)
{
    const seqmix_draft_tensor *t = r->t;
    const int64_t row = seqmix_draft_row(t), part_rows = seqmix_draft_rows(t) / t->n_parts;
    const size_t from_bytes = seqmix_dtype_bytes(t->from, row);
    const seqmix_dtype dtype = seqmix_gguf_type_dtype(t->type);
    const size_t to_bytes = seqmix_dtype_bytes(dtype, row);
    for (int64_t i = 0; i < r->rows; i++) {
        const int64_t at = (r->from + i) % part_rows, stored = t->rows != NULL ? t->rows[at] : at;
        const char *part = t->parts[(r->from + i) / part_rows];
        const float *x = b->wide;
        seqmix_widen_row(t->from, part + (size_t)stored * from_bytes, row, t->how, b->wide);
        if (t->columns != NULL) {
            for (int64_t c = 0; c < row; c++)
                b->sorted[c] = b->wide[t->columns[c]];
            x = b->sorted;
        }
        if (!is_finite(x, row)) return seqmix_fail(why, "tensor '%s' holds a value that is not finite", t->name);
        if (!seqmix_quantize_row(dtype, x, row, b->packed + (size_t)i * to_bytes))
            return seqmix_fail(why, "no packing of %s", seqmix_gguf_type_name(t->type));
    }
    if (d->mapped && t->rows == NULL) let_go(r);
    return true;
}

static void *work(void *argument)
{
    writer *w = argument;
    buffers b = {0};
    run r;
    char text[512] = "no memory for a row";
    const seqmix_why why = {text, sizeof text};
    const bool ready = open_buffers(w->d, &b);
    while (take(w, &r)) {
        const size_t row_bytes = seqmix_dtype_bytes(seqmix_gguf_type_dtype(r.t->type), seqmix_draft_row(r.t));
        if (!ready || !pack_run(w->d, &r, &b, why) ||
            !write_at(w->file, b.packed, (size_t)r.rows * row_bytes,
                      w->data_at + r.t->offset + (size_t)r.from * row_bytes, w->path, why))
            fail(w, r.number, text);
    }
    free(b.wide);
    free(b.sorted);
    free(b.packed);
    return NULL;
}

/* With the threads that could be had. */
static bool write_data(writer *w, int64_t workers, seqmix_why why)
{
    pthread_t threads[MAX_WORKERS];
    int64_t n = 0;
    if (pthread_mutex_init(&w->lock, NULL) != 0) return seqmix_fail(why, "no memory for a lock");
    while (n + 1 < workers && n < MAX_WORKERS && pthread_create(&threads[n], NULL, work, w) == 0)
        n++;
    (void)work(w);
    for (int64_t i = 0; i < n; i++)
        (void)pthread_join(threads[i], NULL);
    (void)pthread_mutex_destroy(&w->lock);
    return w->failed < 0 || seqmix_fail(why, "%s", w->text);
}

/* Gaps between tensors are zeros that nobody writes. */
static bool write_all(writer *w, const seqmix_bytes *head, int64_t workers, seqmix_why why)
{
    const seqmix_draft *d = w->d;
    size_t end = head->n;
    for (int64_t i = 0; i < d->n_tensors; i++) {
        const size_t bytes = seqmix_draft_bytes(d->tensors[i]);
        end = head->n + d->tensors[i]->offset + (bytes + d->alignment - 1) / d->alignment * d->alignment;
    }
    if (ftruncate(w->file, (off_t)end) != 0) return seqmix_fail(why, "%s: %s", w->path, strerror(errno));
    return write_at(w->file, head->data, head->n, 0, w->path, why) && write_data(w, workers, why);
}

bool seqmix_draft_write(seqmix_draft *d, const char *path, int64_t workers,
                        bool (*check)(const char *path, seqmix_why why), seqmix_why why)
{
    char beside[4096];
    seqmix_bytes head;
    const int n = snprintf(beside, sizeof beside, "%s.partial", path);
    if (n < 0 || (size_t)n >= sizeof beside) return seqmix_fail(why, "the name of the new file is too long");
    bool ok = seqmix_draft_head(d, &head) || seqmix_fail(why, "no memory for the head of %s", path);
    writer w = {.d = d, .path = beside, .data_at = head.n, .failed = -1};
    w.file = ok ? open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666) : -1;
    if (ok && w.file < 0) ok = seqmix_fail(why, "%s: %s", beside, strerror(errno));
    ok = ok && write_all(&w, &head, workers, why);
    if (w.file >= 0 && close(w.file) != 0 && ok) ok = seqmix_fail(why, "%s: %s", beside, strerror(errno));
    ok = ok && (check == NULL || check(beside, why));
    if (ok && rename(beside, path) != 0) ok = seqmix_fail(why, "%s: %s", path, strerror(errno));
    if (!ok && w.file >= 0) (void)unlink(beside);
    free(head.data);
    return ok;
}
