/* SPDX-License-Identifier: MIT */
/*
 * Gated delta rule over many rows (equation: seqmix.h), two rows a pass. With S the state before the pair, decays c1, c2 (per
 * key channel), keys k1, k2 and queries q1, q2:
 *   u1 = b1*(v1 - S^T(c1.k1))                          o1 = S^T(c1.q1) + (q1.k1)*u1
 *   u2 = b2*(v2 - S^T(c1.c2.k2) - (k2.(c2.k1))*u1)     o2 = S^T(c1.c2.q2) + (q2.(c2.k1))*u1 + (q2.k2)*u2
 *   S <- (c1.c2).S + (c2.k1) u1^T + k2 u2^T
 * The update of a pair is done in the pass that forms the four products of the next one, so S is read and written once for two
 * rows. Values are on the lanes, keys are broadcast: no transpose, no horizontal sum, no inverse, and only products of decays
 * <= 1, so nothing can overflow. A cell of the grid is a pair.
 * Task: some columns of one value head of one sequence. A segment's coefficients are prepared once, for all column tiles.
 */
#include "deltanet_row.h"
#include "isa.h"
#include "parallel.h"
#include "state_tile.h"
#include "tune.h"
#include "workspace.h"

enum { TILE = 2 * V_LANES, PAIRS = TUNE_DELTA_ROWS / 2 };

/* A pair of rows, ready for the passes. [DK] each. */
struct pair {
    float read[4][DELTA_DIM];  /* c1.k1, c1.q1, c1.c2.k2, c1.c2.q2 */
    float write[3][DELTA_DIM]; /* c1.c2, c2.k1, k2 */
    float half[2][DELTA_DIM];  /* c1, k1: the update after the first row alone, for checkpoints */
    float beta[2], k2_k1, k2_k1_rest, q1_k1, q2_k1, q2_k2; /* k2_k1 as an unevaluated pair */
};

struct delta {
    const seqmix_deltanet_args *args;
    int64_t column_tasks, task_columns; /* tasks of one head, columns of a task */
    char *workspace;
    size_t worker_size;
};

/* A worker's part of the workspace. */
struct buffers {
    struct pair *pairs; /* [PAIRS] */
    float *v, *o;  /* [TUNE_DELTA_ROWS][columns rounded up to TILE]: a segment's rows, which lie far apart in memory */
    float *state;  /* [tile][DK][TILE], carried between segments */
    int64_t width; /* of v and o */
};

/* One task's view of its work. */
struct work {
    const seqmix_deltanet_args *args;
    struct seqmix_seq seq;
    struct buffers buffers;
    int64_t head, first, end; /* columns */
    float scale;
};

/* The dot product as high + *rest. Its error is the same for every pair of a run of identical keys, so rounding it once to f32
 * would add up over thousands of rows where b*|k|^2 is near 2. */
static float exact_dot(const float *x, const float *y, int64_t n, float *rest)
{
    double partial[4] = {0};
    int64_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (int lane = 0; lane < 4; lane++)
            partial[lane] += (double)x[i + lane] * (double)y[i + lane];
    for (; i < n; i++)
        partial[0] += (double)x[i] * (double)y[i];
    const double sum = (partial[0] + partial[2]) + (partial[1] + partial[3]);
    *rest = (float)(sum - (double)(float)sum);
    return (float)sum;
}

static void prepare_pair(const seqmix_deltanet_args *a, int64_t t, int n_rows, int64_t h, struct pair *p)
{
    const int64_t dim = a->k.shape[2], key_head = delta_key_head(a, h);
    float q[2][DELTA_DIM], c2[DELTA_DIM], *c1 = p->half[0], *k1 = p->half[1], *k2 = p->write[2];
    delta_key(a, &a->q, t, key_head, q[0]);
    delta_key(a, &a->k, t, key_head, k1);
    delta_decays(a, t, h, c1);
    p->beta[0] = delta_beta(a, t, h);
    if (n_rows == 2) {
        delta_key(a, &a->q, t + 1, key_head, q[1]);
        delta_key(a, &a->k, t + 1, key_head, k2);
        delta_decays(a, t + 1, h, c2);
        p->beta[1] = delta_beta(a, t + 1, h);
    } else { /* a second row that changes nothing */
        for (int64_t d = 0; d < dim; d++) {
            q[1][d] = k2[d] = 0;
            c2[d] = 1;
        }
        p->beta[1] = 0;
    }
    for (int64_t d = 0; d < dim; d++) {
        const float both = c1[d] * c2[d];
        p->read[0][d] = c1[d] * k1[d];
        p->read[1][d] = c1[d] * q[0][d];
        p->read[2][d] = both * k2[d];
        p->read[3][d] = both * q[1][d];
        p->write[0][d] = both;
        p->write[1][d] = c2[d] * k1[d];
    }
    p->q1_k1 = row_dot(q[0], k1, dim);
    p->k2_k1 = exact_dot(k2, p->write[1], dim, &p->k2_k1_rest);
    p->q2_k1 = row_dot(q[1], p->write[1], dim);
    p->q2_k2 = row_dot(q[1], k2, dim);
}

/* Reads S with the pair's four vectors, after applying the pending update of the pair before (last; NULL = none). */
static void read_pass(float *s, int64_t dim, const struct pair *last, vf u[2][2], const struct pair *p, vf sum[4][2])
{
    vf acc[4][2];
    for (int i = 0; i < 4; i++)
        acc[i][0] = acc[i][1] = v_zero();
    if (last == NULL) {
        for (int64_t d = 0; d < dim; d++) {
            const vf s0 = v_load(s + d * TILE), s1 = v_load(s + d * TILE + V_LANES);
            for (int i = 0; i < 4; i++) {
                const vf x = v_set1(p->read[i][d]);
                acc[i][0] = v_fma(x, s0, acc[i][0]);
                acc[i][1] = v_fma(x, s1, acc[i][1]);
            }
        }
    } else {
        const vf u00 = u[0][0], u01 = u[0][1], u10 = u[1][0], u11 = u[1][1];
        for (int64_t d = 0; d < dim; d++) {
            const vf c = v_set1(last->write[0][d]), k1 = v_set1(last->write[1][d]), k2 = v_set1(last->write[2][d]);
            const vf s0 = v_fma(k2, u10, v_fma(k1, u00, v_mul(c, v_load(s + d * TILE))));
            const vf s1 = v_fma(k2, u11, v_fma(k1, u01, v_mul(c, v_load(s + d * TILE + V_LANES))));
            v_store(s + d * TILE, s0);
            v_store(s + d * TILE + V_LANES, s1);
            for (int i = 0; i < 4; i++) {
                const vf x = v_set1(p->read[i][d]);
                acc[i][0] = v_fma(x, s0, acc[i][0]);
                acc[i][1] = v_fma(x, s1, acc[i][1]);
            }
        }
    }
    memcpy(sum, acc, sizeof acc);
}

/* out = the state after the pair's first n rows; out may be s. */
static void update_pass(const float *s, int64_t dim, const struct pair *p, int n, vf u[2][2], float *out)
{
    const float *c = n == 2 ? p->write[0] : p->half[0], *k1 = n == 2 ? p->write[1] : p->half[1];
    for (int64_t d = 0; d < dim; d++)
        for (int v = 0; v < 2; v++) {
            vf row = v_mul(v_set1(c[d]), v_load(s + d * TILE + v * V_LANES));
            row = v_fma(v_set1(k1[d]), u[0][v], row);
            if (n == 2) row = v_fma(v_set1(p->write[2][d]), u[1][v], row);
            v_store(out + d * TILE + v * V_LANES, row);
        }
}

/* u of both rows and their outputs, for one tile of the packed rows i, i+1; a missing second row has v = 0, beta = 0, k = 0. */
static void solve_pair(const struct work *w, const struct pair *p, int64_t i, int64_t column, vf sum[4][2], vf u[2][2])
{
    const int64_t width = w->buffers.width, at = i * width + column - w->first;
    const float *v = w->buffers.v + at;
    float *o = w->buffers.o + at;
    const vf scale = v_set1(w->scale);
    for (int half = 0; half < 2; half++, v += V_LANES, o += V_LANES) {
        const vf u1 = v_mul(v_set1(p->beta[0]), v_sub(v_load(v), sum[0][half]));
        const vf o1 = v_fma(v_set1(p->q1_k1), u1, sum[1][half]);
        const vf seen = v_fma(v_set1(p->k2_k1_rest), u1, v_fma(v_set1(p->k2_k1), u1, sum[2][half]));
        const vf u2 = v_mul(v_set1(p->beta[1]), v_sub(v_load(v + width), seen));
        const vf o2 = v_fma(v_set1(p->q2_k2), u2, v_fma(v_set1(p->q2_k1), u1, sum[3][half]));
        v_store(o, v_mul(scale, o1));
        v_store(o + width, v_mul(scale, o2));
        u[0][half] = u1;
        u[1][half] = u2;
    }
}

static void store_columns(const struct work *w, int64_t slot, int64_t column, int64_t n, const float *s)
{
    const seqmix_tensor *pool = &w->args->state;
    if (slot < 0) return;
    tile_store(pool, slot * pool->stride[0] + w->head * pool->stride[1] + column * pool->stride[3], pool->stride[2],
               pool->stride[3], w->args->k.shape[2], n, TILE, s);
}

/* Rows [begin, begin+n_rows) of one column tile. */
static void run_tile(const struct work *w, int64_t begin, int64_t n_rows, int64_t column, int32_t checkpoint, float *s)
{
    const seqmix_deltanet_args *a = w->args;
    const int64_t dim = a->k.shape[2], n = w->end - column < TILE ? w->end - column : TILE;
    const struct pair *last = NULL;
    vf sum[4][2], u[2][2];
    for (int64_t i = 0; i < n_rows; i += 2) {
        const struct pair *p = &w->buffers.pairs[i / 2];
        const int rows = n_rows - i < 2 ? 1 : 2;
        read_pass(s, dim, last, u, p, sum);
        solve_pair(w, p, i, column, sum, u);
        last = p;
        for (; checkpoint < w->seq.ckpt_end; checkpoint++) {
            const int64_t row = a->batch->ckpt_row[checkpoint] - (begin + i - w->seq.begin);
            float aside[DELTA_DIM * TILE];
            if (row > rows) break;
            update_pass(s, dim, p, (int)row, u, aside);
            store_columns(w, a->batch->ckpt_slot[checkpoint], column, n, aside);
        }
    }
    if (last != NULL) update_pass(s, dim, last, 2, u, s);
}

/* Asks for the rows of the segment after [begin, begin+n_rows), row by row beside the work on this one. */
static void prefetch_row(const struct work *w, int64_t t)
{
    const seqmix_deltanet_args *a = w->args;
    const int64_t dim = a->k.shape[2], columns = w->end - w->first, key_head = delta_key_head(a, w->head);
    if (t >= w->seq.end) return;
    row_prefetch(&a->q, t * a->q.stride[0] + key_head * a->q.stride[1], dim);
    row_prefetch(&a->k, t * a->k.stride[0] + key_head * a->k.stride[1], dim);
    row_prefetch(&a->v, t * a->v.stride[0] + w->head * a->v.stride[1] + w->first, columns);
    row_prefetch(&a->o, t * a->o.stride[0] + w->head * a->o.stride[1] + w->first, columns);
}

static void load_rows(const struct work *w, int64_t begin, int64_t n_rows)
{
    const seqmix_deltanet_args *a = w->args;
    const int64_t columns = w->end - w->first, width = w->buffers.width;
    for (int64_t i = 0; i < n_rows + n_rows % 2; i++) {
        float *row = w->buffers.v + i * width;
        const int64_t given = i < n_rows ? columns : 0;
        if (given > 0)
            row_load(&a->v, (begin + i) * a->v.stride[0] + w->head * a->v.stride[1] + w->first, columns, row);
        memset(row + given, 0, (size_t)(width - given) * sizeof *row);
    }
    for (int64_t i = 0; i < n_rows; i += 2) {
        prefetch_row(w, begin + i + TUNE_DELTA_ROWS);
        prefetch_row(w, begin + i + 1 + TUNE_DELTA_ROWS);
        prepare_pair(a, begin + i, n_rows - i < 2 ? 1 : 2, w->head, &w->buffers.pairs[i / 2]);
    }
}

static void store_rows(const struct work *w, int64_t begin, int64_t n_rows)
{
    const seqmix_tensor *o = &w->args->o;
    for (int64_t i = 0; i < n_rows; i++)
        row_store(o, (begin + i) * o->stride[0] + w->head * o->stride[1] + w->first, w->end - w->first,
                  w->buffers.o + i * w->buffers.width);
}

static struct buffers layout(const seqmix_deltanet_args *a, int64_t columns, struct seqmix_cursor *cursor)
{
    struct buffers b;
    b.width = (columns + TILE - 1) / TILE * TILE;
    b.v = seqmix_take(cursor, (size_t)(TUNE_DELTA_ROWS * b.width) * sizeof *b.v);
    b.o = seqmix_take(cursor, (size_t)(TUNE_DELTA_ROWS * b.width) * sizeof *b.o);
    b.pairs = seqmix_take(cursor, PAIRS * sizeof *b.pairs);
    b.state = seqmix_take(cursor, (size_t)(b.width * a->k.shape[2]) * sizeof *b.state);
    return b;
}

static void delta_task(void *arg, int64_t task, int32_t worker)
{
    const struct delta *delta = arg;
    const seqmix_deltanet_args *a = delta->args;
    const seqmix_tensor *pool = &a->state;
    const int64_t heads = a->v.shape[1], dim = a->k.shape[2], tasks = heads * delta->column_tasks;
    struct seqmix_cursor cursor = {delta->workspace + (size_t)worker * delta->worker_size, 0};
    struct work w = {.args = a, .head = task % tasks / delta->column_tasks};
    w.seq = seqmix_batch_seq(a->batch, a->v.shape[0], pool, (int32_t)(task / tasks));
    w.scale = delta_scale(a);
    w.buffers = layout(a, delta->task_columns, &cursor);
    w.first = task % delta->column_tasks * delta->task_columns;
    w.end = w.first + delta->task_columns < a->v.shape[2] ? w.first + delta->task_columns : a->v.shape[2];
    int32_t checkpoint = w.seq.ckpt_begin;

    for (int64_t column = w.first; column < w.end; column += TILE) {
        float *s = w.buffers.state + (column - w.first) * dim;
        const int64_t n = w.end - column < TILE ? w.end - column : TILE;
        if (w.seq.read_slot < 0)
            memset(s, 0, (size_t)(dim * TILE) * sizeof *s);
        else
            tile_load(pool, w.seq.read_slot * pool->stride[0] + w.head * pool->stride[1] + column * pool->stride[3],
                      pool->stride[2], pool->stride[3], dim, n, TILE, s);
    }
    for (int64_t begin = w.seq.begin; begin < w.seq.end; begin += TUNE_DELTA_ROWS) {
        const int64_t n_rows = w.seq.end - begin < TUNE_DELTA_ROWS ? w.seq.end - begin : TUNE_DELTA_ROWS;
        load_rows(&w, begin, n_rows);
        for (int64_t column = w.first; column < w.end; column += TILE)
            run_tile(&w, begin, n_rows, column, checkpoint, w.buffers.state + (column - w.first) * dim);
        store_rows(&w, begin, n_rows);
        while (checkpoint < w.seq.ckpt_end && a->batch->ckpt_row[checkpoint] <= begin + n_rows - w.seq.begin)
            checkpoint++;
    }
    for (int64_t column = w.first; column < w.end; column += TILE)
        store_columns(&w, w.seq.write_slot, column, w.end - column < TILE ? w.end - column : TILE,
                      w.buffers.state + (column - w.first) * dim);
}

/* Cuts the columns of a head where there are few heads: by shape alone. */
static void cut(const seqmix_deltanet_args *a, struct delta *delta)
{
    const int64_t columns = a->v.shape[2], tasks = a->v.shape[1] * a->batch->n_seqs;
    delta->args = a;
    delta->task_columns = columns;
    while (tasks * ((columns + delta->task_columns - 1) / delta->task_columns) < 16 && delta->task_columns > TILE)
        delta->task_columns = ((delta->task_columns + 1) / 2 + TILE - 1) / TILE * TILE;
    delta->column_tasks = (columns + delta->task_columns - 1) / delta->task_columns;
}

static size_t worker_size(const seqmix_deltanet_args *a)
{
    struct seqmix_cursor cursor = {NULL, 0};
    (void)layout(a, a->v.shape[2], &cursor);
    return cursor.used;
}

seqmix_status KERN(deltanet_chunk_forward_plan)(const struct seqmix_context *ctx, const seqmix_deltanet_args *args,
                                                struct seqmix_plan *plan)
{
    plan->kernel = KERN_NAME("deltanet_pairs");
    plan->workspace = worker_size(args) * (size_t)ctx->n_workers;
    plan->grain = 2;
    return SEQMIX_OK;
}

seqmix_status KERN(deltanet_chunk_forward)(struct seqmix_context *ctx, const seqmix_deltanet_args *args,
                                           void *workspace)
{
    struct delta delta = {.workspace = workspace, .worker_size = worker_size(args)};
    if (args->v.shape[2] == 0) return SEQMIX_OK;
    cut(args, &delta);
    return seqmix_parallel_for(ctx, args->batch->n_seqs * args->v.shape[1] * delta.column_tasks, delta_task, &delta);
}
