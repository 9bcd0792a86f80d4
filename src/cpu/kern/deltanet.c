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
 * Task: some columns of some value heads of one key head of one sequence. A segment's rows of q and k are prepared once for
 * all of its value heads and column tiles; the rows that come next are asked for while the passes run.
 */
#include "ahead.h"
#include "deltanet_pair.h"
#include "isa.h"
#include "parallel.h"
#include "state_tile.h"
#include "tune.h"
#include "workspace.h"

enum { NV = TUNE_DELTA_VECTORS, TILE = NV * V_LANES, BLOCK_TILES = TUNE_DELTA_TILES, BLOCK = BLOCK_TILES * TILE };
enum { ROWS = TUNE_DELTA_ROWS, PAIRS = ROWS / 2 };

struct delta {
    const seqmix_deltanet_args *args;
    int64_t task_heads, head_tasks;     /* value heads of a task, tasks of a key head */
    int64_t task_columns, column_tasks; /* columns of a task, tasks of a head */
    char *workspace;
    size_t worker_size;
};

/* A worker's part of the workspace. */
struct buffers {
    struct pair *pairs;        /* [PAIRS] of the segment */
    struct channels *channels; /* [PAIRS] of a value head; NULL where one decay serves all channels */
    struct gated_pair *gated;  /* [PAIRS] of a value head */
    float *state;              /* [value head][tile][DK][TILE], carried between segments */
    int64_t width;             /* columns of a task, rounded up to TILE */
};

/* One task's view of its work. */
struct work {
    const seqmix_deltanet_args *args;
    struct seqmix_seq seq;
    struct buffers buffers;
    int64_t key_head, first_head, n_heads; /* value heads, counted within the key head */
    int64_t first, end, n_blocks;          /* columns */
    float scale;
};

/* The value head of number i of the task. */
static int64_t value_head(const struct work *w, int64_t i)
{
    const seqmix_deltanet_args *a = w->args;
    const int64_t key_heads = a->k.shape[1], j = w->first_head + i;
    return a->head_map == SEQMIX_HEADS_TILED ? w->key_head + j * key_heads
                                             : w->key_head * (a->v.shape[1] / key_heads) + j;
}

/* Reads S with the pair's four vectors, after applying the pending update of the pair before (last; NULL = none). */
static void read_pass(float *s, int64_t dim, const struct gated_pair *last, vf u[2][NV], const float *read,
                      vf sum[N_READS][NV])
{
    vf acc[N_READS][NV];
    for (int i = 0; i < N_READS; i++)
        for (int v = 0; v < NV; v++)
            acc[i][v] = v_zero();
    if (last == NULL) {
        for (int64_t d = 0; d < dim; d++, s += TILE, read += N_READS)
            for (int i = 0; i < N_READS; i++)
                for (int v = 0; v < NV; v++)
                    acc[i][v] = v_fma(v_set1(read[i]), v_load(s + v * V_LANES), acc[i][v]);
    } else {
        const float *decay = last->both, *write = last->write;
        const int64_t step = last->step;
        vf u1[NV], u2[NV];
        for (int v = 0; v < NV; v++) {
            u1[v] = u[0][v];
            u2[v] = u[1][v];
        }
        for (int64_t d = 0; d < dim; d++, s += TILE, read += N_READS, write += N_READS, decay += step) {
            vf row[NV];
            for (int v = 0; v < NV; v++)
                row[v] = v_mul(v_set1(*decay), v_load(s + v * V_LANES));
            for (int v = 0; v < NV; v++)
                row[v] = v_fma(v_set1(write[K1]), u1[v], row[v]);
            for (int v = 0; v < NV; v++) {
                row[v] = v_fma(v_set1(write[K2]), u2[v], row[v]);
                v_store(s + v * V_LANES, row[v]);
            }
            for (int i = 0; i < N_READS; i++)
                for (int v = 0; v < NV; v++)
                    acc[i][v] = v_fma(v_set1(read[i]), row[v], acc[i][v]);
        }
    }
    memcpy(sum, acc, sizeof acc);
}

/* out = the state after the pair's rows, or after its first alone; u1 is what that row adds then. out may be s. */
static void update_pass(const float *s, int64_t dim, const struct gated_pair *p, bool both, const vf u1[NV],
                        const vf u2[NV], float *out)
{
    const float *decay = both ? p->both : p->c1, *k1 = both ? p->write : p->k1, *k2 = p->write + K2;
    for (int64_t d = 0; d < dim; d++, decay += p->step)
        for (int v = 0; v < NV; v++) {
            vf row = v_mul(v_set1(*decay), v_load(s + d * TILE + v * V_LANES));
            row = v_fma(v_set1(k1[d * N_READS]), u1[v], row);
            if (both) row = v_fma(v_set1(k2[d * N_READS]), u2[v], row);
            v_store(out + d * TILE + v * V_LANES, row);
        }
}

/* u and the outputs of the rows t, t+1 for one tile; a second row that is missing gets u = 0. u[0] is what the first row adds
 * to the state after the pair, alone what it adds to the state after itself. */
static void solve_pair(const struct work *w, const struct gated_pair *p, int64_t t, int n_rows, int64_t head,
                       int64_t column, vf sum[N_READS][NV], vf u[2][NV], vf alone[NV])
{
    const seqmix_tensor *v = &w->args->v, *o = &w->args->o;
    const int64_t v_row = t * v->stride[0] + head * v->stride[1], o_row = t * o->stride[0] + head * o->stride[1];
    const vf scale = v_set1(w->scale), first = v_set1(p->first), second = v_set1(p->second);
    for (int part = 0; part < NV; part++, column += V_LANES) {
        const int lanes = column < w->end ? lanes_left(w->end, column) : 0;
        alone[part] = u[0][part] = u[1][part] = v_zero();
        if (lanes == 0) continue;
        const vf v1 = row_lanes(v, v_row + column, lanes);
        const vf u1 = v_mul(v_set1(p->beta[0]), v_fnma(first, sum[K1][part], v1));
        const vf o1 = v_fma(v_set1(p->q1_k1), u1, v_mul(first, sum[Q1][part]));
        alone[part] = u1;
        u[0][part] = v_mul(v_set1(p->later), u1);
        row_put_lanes(o, o_row + column, v_mul(scale, o1), lanes);
        if (n_rows == 1) continue;
        const vf v2 = row_lanes(v, v_row + v->stride[0] + column, lanes);
        vf seen = v_fma(v_set1(p->k2_k1), u1, v_mul(second, sum[K2][part]));
        seen = v_fma(v_set1(p->k2_k1_rest), u1, seen);
        const vf u2 = v_mul(v_set1(p->beta[1]), v_sub(v2, seen));
        vf o2 = v_fma(v_set1(p->q2_k1), u1, v_mul(second, sum[Q2][part]));
        o2 = v_fma(v_set1(p->q2_k2), u2, o2);
        u[1][part] = u2;
        row_put_lanes(o, o_row + o->stride[0] + column, v_mul(scale, o2), lanes);
    }
}

static void store_columns(const struct work *w, int64_t head, int64_t slot, int64_t column, const float *s)
{
    const seqmix_tensor *pool = &w->args->state;
    const int64_t n = w->end - column < TILE ? w->end - column : TILE;
    if (slot < 0) return;
    tile_store(pool, slot * pool->stride[0] + head * pool->stride[1] + column * pool->stride[3], pool->stride[2],
               pool->stride[3], w->args->k.shape[2], n, TILE, s);
}

/* Asks for v and o of the pair at row i of the segment, some columns from `column` on. */
static void prefetch_pair(const struct work *w, int64_t head, int64_t begin, int64_t n_rows, int64_t i, int64_t column)
{
    const seqmix_tensor *v = &w->args->v, *o = &w->args->o;
    const int64_t n = w->end - column < BLOCK ? w->end - column : BLOCK;
    for (int64_t t = begin + i; t < begin + n_rows && t < begin + i + 2; t++) {
        row_prefetch(v, t * v->stride[0] + head * v->stride[1] + column, n);
        row_prefetch(o, t * o->stride[0] + head * o->stride[1] + column, n);
    }
}

/* Stores the states after the rows of pair i that are checkpoints; returns the first checkpoint past them. */
static int32_t store_checkpoints(const struct work *w, int64_t head, const struct gated_pair *p, int64_t row,
                                 int n_rows, int64_t column, int32_t checkpoint, vf u[2][NV], const vf *alone,
                                 const float *s)
{
    const seqmix_batch *batch = w->args->batch;
    for (; checkpoint < w->seq.ckpt_end; checkpoint++) {
        const int64_t rows = batch->ckpt_row[checkpoint] - row;
        float aside[DELTA_DIM * TILE];
        if (rows > n_rows) break;
        update_pass(s, w->args->k.shape[2], p, rows == 2, rows == 2 ? u[0] : alone, u[1], aside);
        store_columns(w, head, batch->ckpt_slot[checkpoint], column, aside);
    }
    return checkpoint;
}

/* Rows [begin, begin+n_rows) of a few column tiles of a value head: while one tile's inputs are solved for, the next is read. */
static void run_block(const struct work *w, int64_t head, int64_t begin, int64_t n_rows, int64_t column,
                      int32_t checkpoint, struct ahead *ahead, float *state)
{
    const int64_t dim = w->args->k.shape[2], left = (w->end - column + TILE - 1) / TILE;
    const int n_tiles = left < BLOCK_TILES ? (int)left : BLOCK_TILES;
    const struct gated_pair *last = NULL;
    vf sum[N_READS][NV], u[BLOCK_TILES][2][NV], alone[NV];
    prefetch_pair(w, head, begin, n_rows, 0, column);
    for (int64_t i = 0; i < n_rows; i += 2) {
        const struct gated_pair *p = &w->buffers.gated[i / 2];
        const int rows = n_rows - i < 2 ? 1 : 2;
        int32_t passed = checkpoint;
        prefetch_pair(w, head, begin, n_rows, i + 2, column);
        ahead_go_on(ahead);
        for (int tile = 0; tile < n_tiles; tile++) {
            float *s = state + tile * dim * TILE;
            read_pass(s, dim, last, u[tile], p->read, sum);
            solve_pair(w, p, begin + i, rows, head, column + tile * TILE, sum, u[tile], alone);
            passed = store_checkpoints(w, head, p, begin + i - w->seq.begin, rows, column + tile * TILE, checkpoint,
                                       u[tile], alone, s);
        }
        checkpoint = passed;
        last = p;
    }
    for (int tile = 0; last != NULL && tile < n_tiles; tile++)
        update_pass(state + tile * dim * TILE, dim, last, true, u[tile][0], u[tile][1], state + tile * dim * TILE);
}

/* The segment's pairs as the value head sees them. */
static void prepare_head(const struct work *w, int64_t head, int64_t begin, int64_t n_rows)
{
    const seqmix_deltanet_args *a = w->args;
    const struct buffers *b = &w->buffers;
    float decay[ROWS], beta[ROWS];
    delta_row_gates(a, begin, n_rows, head, decay, beta);
    if (n_rows % 2 != 0) { /* a second row that changes nothing */
        decay[n_rows] = 1;
        beta[n_rows] = 0;
    }
    for (int64_t i = 0; i < n_rows; i += 2) {
        struct pair *p = &b->pairs[i / 2];
        const int rows = n_rows - i < 2 ? 1 : 2;
        if (b->channels != NULL) {
            prepare_pair(a, begin + i, rows, w->key_head, p);
            decay_channels(a, begin + i, rows, head, p, &b->channels[i / 2]);
        }
        gate_pair(p, b->channels != NULL ? &b->channels[i / 2] : NULL, decay + i, beta + i, &b->gated[i / 2]);
    }
}

static void load_state(const struct work *w, int64_t head, float *state)
{
    const seqmix_tensor *pool = &w->args->state;
    const int64_t dim = w->args->k.shape[2];
    for (int64_t column = w->first; column < w->end; column += TILE) {
        float *s = state + (column - w->first) * dim;
        const int64_t n = w->end - column < TILE ? w->end - column : TILE;
        if (w->seq.read_slot < 0)
            memset(s, 0, (size_t)(dim * TILE) * sizeof *s);
        else
            tile_load(pool, w->seq.read_slot * pool->stride[0] + head * pool->stride[1] + column * pool->stride[3],
                      pool->stride[2], pool->stride[3], dim, n, TILE, s);
    }
}

static struct buffers layout(const seqmix_deltanet_args *a, int64_t heads, int64_t columns,
                             struct seqmix_cursor *cursor)
{
    struct buffers b = {.width = (columns + TILE - 1) / TILE * TILE};
    b.pairs = seqmix_take(cursor, PAIRS * sizeof *b.pairs);
    b.gated = seqmix_take(cursor, PAIRS * sizeof *b.gated);
    if (a->gate.rank == 3) b.channels = seqmix_take(cursor, PAIRS * sizeof *b.channels);
    b.state = seqmix_take(cursor, (size_t)(heads * b.width * a->k.shape[2]) * sizeof *b.state);
    return b;
}

/* The task's sequence, heads and columns. */
static struct work find_work(const struct delta *delta, int64_t task, int32_t worker)
{
    const seqmix_deltanet_args *a = delta->args;
    const int64_t key_heads = a->k.shape[1], ratio = a->v.shape[1] / key_heads;
    const int64_t column_task = task % delta->column_tasks, head_task = task / delta->column_tasks % delta->head_tasks;
    const int64_t key_head = task / delta->column_tasks / delta->head_tasks % key_heads;
    const int64_t seq = task / delta->column_tasks / delta->head_tasks / key_heads;
    struct seqmix_cursor cursor = {delta->workspace + (size_t)worker * delta->worker_size, 0};
    struct work w = {.args = a, .key_head = key_head, .scale = delta_scale(a)};
    w.seq = seqmix_batch_seq(a->batch, a->v.shape[0], &a->state, (int32_t)seq);
    w.buffers = layout(a, delta->task_heads, delta->task_columns, &cursor);
    w.first_head = head_task * delta->task_heads;
    w.n_heads = ratio - w.first_head < delta->task_heads ? ratio - w.first_head : delta->task_heads;
    w.first = column_task * delta->task_columns;
    w.end = w.first + delta->task_columns < a->v.shape[2] ? w.first + delta->task_columns : a->v.shape[2];
    w.n_blocks = (w.end - w.first + BLOCK - 1) / BLOCK;
    return w;
}

static void delta_task(void *arg, int64_t task, int32_t worker)
{
    struct work w = find_work(arg, task, worker);
    const seqmix_deltanet_args *a = w.args;
    const int64_t dim = a->k.shape[2], state_size = w.buffers.width * dim;
    int32_t checkpoint = w.seq.ckpt_begin;
    struct ahead ahead;

    for (int64_t i = 0; i < w.n_heads; i++)
        load_state(&w, value_head(&w, i), w.buffers.state + i * state_size);
    for (int64_t begin = w.seq.begin; begin < w.seq.end; begin += ROWS) {
        const int64_t n_rows = w.seq.end - begin < ROWS ? w.seq.end - begin : ROWS, next = begin + n_rows;
        ahead_start(&ahead, next, w.seq.end - next < ROWS ? w.seq.end - next : ROWS, w.n_heads * w.n_blocks * PAIRS);
        ahead_add(&ahead, &a->q, w.key_head * a->q.stride[1], dim);
        ahead_add(&ahead, &a->k, w.key_head * a->k.stride[1], dim);
        for (int64_t i = 0; w.buffers.channels == NULL && i < n_rows; i += 2)
            prepare_pair(a, begin + i, n_rows - i < 2 ? 1 : 2, w.key_head, &w.buffers.pairs[i / 2]);
        for (int64_t i = 0; i < w.n_heads; i++) {
            const int64_t head = value_head(&w, i);
            prepare_head(&w, head, begin, n_rows);
            for (int64_t column = w.first; column < w.end; column += BLOCK)
                run_block(&w, head, begin, n_rows, column, checkpoint, &ahead,
                          w.buffers.state + i * state_size + (column - w.first) * dim);
        }
        while (checkpoint < w.seq.ckpt_end && a->batch->ckpt_row[checkpoint] <= next - w.seq.begin)
            checkpoint++;
    }
    for (int64_t i = 0; i < w.n_heads; i++)
        for (int64_t column = w.first; column < w.end; column += TILE)
            store_columns(&w, value_head(&w, i), w.seq.write_slot, column,
                          w.buffers.state + i * state_size + (column - w.first) * dim);
}

/* Cuts value heads apart and then columns where there are few key heads: by shape alone. */
static void cut(const seqmix_deltanet_args *a, struct delta *delta)
{
    const int64_t columns = a->v.shape[2], key_heads = a->k.shape[1] * a->batch->n_seqs;
    const int64_t ratio = a->v.shape[1] / a->k.shape[1], heads = key_heads * ratio;
    delta->args = a;
    delta->task_heads = ratio < TUNE_DELTA_HEADS ? ratio : TUNE_DELTA_HEADS;
    if (heads / delta->task_heads < TUNE_TASKS) delta->task_heads = 1;
    delta->task_columns = columns;
    while (heads * ((columns + delta->task_columns - 1) / delta->task_columns) < TUNE_TASKS &&
           delta->task_columns > TILE)
        delta->task_columns = ((delta->task_columns + 1) / 2 + TILE - 1) / TILE * TILE;
    delta->column_tasks = (columns + delta->task_columns - 1) / delta->task_columns;
    delta->head_tasks = (ratio + delta->task_heads - 1) / delta->task_heads;
}

static size_t worker_size(const seqmix_deltanet_args *a)
{
    struct seqmix_cursor cursor = {NULL, 0};
    (void)layout(a, TUNE_DELTA_HEADS, a->v.shape[2], &cursor);
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
    return seqmix_parallel_for(ctx, args->batch->n_seqs * args->k.shape[1] * delta.head_tasks * delta.column_tasks,
                               delta_task, &delta);
}
