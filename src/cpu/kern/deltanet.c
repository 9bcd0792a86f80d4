/* SPDX-License-Identifier: MIT */
/*
 * Gated delta rule over many rows (equation: seqmix.h), in chunks of a few rows. With S the state before the chunk, decays c_i
 * (of a row, or of its key channels) and L_ij = c_{j+1}*...*c_i:
 *   u_i = b_i*(v_i - S^T(c_0*...*c_i.k_i)) - sum_{j<i} A_ij*u_j      A_ij = b_i*(k_i.(L_ij.k_j))
 *   o_i = S^T(c_0*...*c_i.q_i) + sum_{j<=i} (q_i.(L_ij.k_j))*u_j     S <- c_0*...*c_n.S + sum_j (L_nj.k_j) u_j^T
 * Short chunks: what the rows do among themselves grows with the chunk, a chunk's state tile, q and k stay in L1, and u comes
 * from plain substitution. Values are on the lanes, keys are broadcast; only products of decays <= 1 are formed.
 * Task: some columns of some value heads of one key head of one sequence. With one decay a row, q, k and their products are
 * prepared once for all of these; the rows that come next are asked for while the products run.
 */
#include "ahead.h"
#include "cut.h"
#include "deltanet_chunk.h"
#include "isa.h"
#include "state_tile.h"
#include "workspace.h"

struct delta {
    const seqmix_deltanet_args *args;
    struct cut cut; /* groups are key heads */
    char *workspace;
    size_t worker_size;
};

/* A worker's part of the workspace. */
struct buffers {
    struct delta_chunk chunk;
    float *state;  /* [value head][tile][DK][TILE], carried between chunks */
    int64_t width; /* columns of a task, rounded up to TILE */
};

/* One task's view of its work. */
struct work {
    const seqmix_deltanet_args *args;
    struct seqmix_seq seq;
    struct buffers buffers;
    int64_t key_head, first_head, n_heads; /* value heads, counted within the key head */
    int64_t first, end, n_tiles;           /* columns */
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

static void store_columns(const struct work *w, int64_t head, int64_t slot, int64_t column, const float *s)
{
    const seqmix_tensor *pool = &w->args->state;
    const int64_t n = w->end - column < TILE ? w->end - column : TILE;
    if (slot < 0) return;
    tile_store(pool, slot * pool->stride[0] + head * pool->stride[1] + column * pool->stride[3], pool->stride[2],
               pool->stride[3], w->args->k.shape[2], n, TILE, s);
}

/* Asks for v and o of a group of rows of the tile that comes after (number i of the task's heads, column): the head's next, the
 * next head's, or the next chunk's first. */
static void prefetch_next(const struct work *w, int64_t i, int64_t row, int64_t column)
{
    const seqmix_tensor *v = &w->args->v, *o = &w->args->o;
    if (column + TILE < w->end) {
        column += TILE;
    } else {
        column = w->first;
        if (++i == w->n_heads) {
            i = 0;
            row += CHUNK;
        }
    }
    const int64_t head = value_head(w, i), n = w->end - column < TILE ? w->end - column : TILE;
    for (int64_t t = row; t < row + GROUP && t < w->seq.end; t++) {
        row_prefetch(v, t * v->stride[0] + head * v->stride[1] + column, n);
        row_prefetch(o, t * o->stride[0] + head * o->stride[1] + column, n);
    }
}

/* b_i*(v_i - what S predicts) of the rows [row, row+n) in a group, into u. */
static void residual(const struct work *w, const float *beta, const float *from_start, int64_t head, int64_t row, int n,
                     int64_t column, vf sum[GROUP][NV], float *u)
{
    const seqmix_tensor *v = &w->args->v;
    for (int i = 0; i < n; i++)
        for (int part = 0; part < NV; part++) {
            const int64_t at = column + part * V_LANES;
            const int lanes = at < w->end ? lanes_left(w->end, at) : 0;
            const int64_t offset = (row + i) * v->stride[0] + head * v->stride[1] + at;
            const vf value = lanes > 0 ? row_lanes(v, offset, lanes) : v_zero();
            const vf rest = v_fnma(v_set1(from_start[i]), sum[i][part], value);
            v_store(u + i * TILE + part * V_LANES, v_mul(v_set1(beta[i]), rest));
        }
}

/* Rows [begin, begin+n) of one column tile of number i of the task's value heads. */
static void run_tile(const struct work *w, const struct delta_gates *g, int64_t i, int64_t begin, int n, int64_t column,
                     int32_t checkpoint, struct ahead *ahead, float *s)
{
    const seqmix_batch *batch = w->args->batch;
    const seqmix_tensor *o = &w->args->o;
    const struct delta_chunk *chunk = &w->buffers.chunk;
    const int64_t dim = w->args->k.shape[2], head = value_head(w, i);
    const vf scale = v_set1(w->scale);
    float u[CHUNK][TILE], aside[DELTA_DIM * TILE];
    vf sum[GROUP][NV];
    for (int r = 0; r < n; r += GROUP) {
        prefetch_next(w, i, begin + r, column);
        ahead_go_on(ahead);
        tile_read(s, dim, chunk->read + r, DELTA_STRIDE, sum);
        residual(w, g->beta + r, g->from_start + r, head, begin + r, n - r < GROUP ? n - r : GROUP, column, sum, u[r]);
    }
    tile_substitute(g->solve, n, u[0]);
    for (int r = 0; r < n; r += GROUP) {
        const int end = r + GROUP < n ? r + GROUP : n;
        tile_read(s, dim, chunk->read + CHUNK + r, DELTA_STRIDE, sum);
        for (int row = r; row < end; row++)
            for (int part = 0; part < NV; part++)
                sum[row - r][part] = v_mul(v_set1(g->from_start[row]), sum[row - r][part]);
        tile_mix(g->mix + r * CHUNK, u[0], end, sum);
        for (int row = r; row < end; row++)
            for (int part = 0; part < NV && column + part * V_LANES < w->end; part++)
                row_put_lanes(o, (begin + row) * o->stride[0] + head * o->stride[1] + column + part * V_LANES,
                              v_mul(scale, sum[row - r][part]), lanes_left(w->end, column + part * V_LANES));
    }
    for (; checkpoint < w->seq.ckpt_end; checkpoint++) {
        const int64_t row = batch->ckpt_row[checkpoint] - (begin - w->seq.begin);
        if (row >= n) break;
        delta_update(chunk, g, dim, (int)row, u[0], s, aside);
        store_columns(w, head, batch->ckpt_slot[checkpoint], column, aside);
    }
    delta_update(chunk, g, dim, n, u[0], s, s);
    for (; checkpoint < w->seq.ckpt_end && batch->ckpt_row[checkpoint] == begin + n - w->seq.begin; checkpoint++)
        store_columns(w, head, batch->ckpt_slot[checkpoint], column, s);
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
    delta_chunk_layout(a, &b.chunk, cursor);
    b.state = seqmix_take(cursor, (size_t)(heads * b.width * a->k.shape[2]) * sizeof *b.state);
    return b;
}

/* The task's sequence, heads and columns. */
static struct work find_work(const struct delta *delta, int64_t task, int32_t worker)
{
    const seqmix_deltanet_args *a = delta->args;
    const struct cut_task t = cut_find(&delta->cut, task);
    struct seqmix_cursor cursor = {delta->workspace + (size_t)worker * delta->worker_size, 0};
    struct work w = {.args = a, .key_head = t.group, .scale = delta_scale(a)};
    w.seq = seqmix_batch_seq(a->batch, a->v.shape[0], &a->state, (int32_t)t.seq);
    w.buffers = layout(a, delta->cut.heads, delta->cut.columns, &cursor);
    w.first_head = t.first_head;
    w.n_heads = t.n_heads;
    w.first = t.first;
    w.end = t.end;
    w.n_tiles = (w.end - w.first + TILE - 1) / TILE;
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
    for (int64_t begin = w.seq.begin; begin < w.seq.end; begin += CHUNK) {
        const int64_t left = w.seq.end - begin, next = begin + (left < CHUNK ? left : CHUNK), after = w.seq.end - next;
        const int n = (int)(next - begin);
        ahead_start(&ahead, next, after < CHUNK ? after : CHUNK, w.n_heads * w.n_tiles * (CHUNK / GROUP));
        ahead_add(&ahead, &a->q, w.key_head * a->q.stride[1], dim);
        ahead_add(&ahead, &a->k, w.key_head * a->k.stride[1], dim);
        delta_chunk_prepare(a, begin, n, w.key_head, &w.buffers.chunk);
        for (int64_t i = 0; i < w.n_heads; i++) {
            struct delta_gates gates;
            delta_chunk_gates(a, begin, n, value_head(&w, i), &w.buffers.chunk, &gates);
            for (int64_t column = w.first; column < w.end; column += TILE)
                run_tile(&w, &gates, i, begin, n, column, checkpoint, &ahead,
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

static size_t worker_size(const seqmix_deltanet_args *a)
{
    struct seqmix_cursor cursor = {NULL, 0};
    (void)layout(a, TUNE_DELTA_HEADS, a->v.shape[2], &cursor);
    return cursor.used;
}

seqmix_status KERN(deltanet_chunk_forward_plan)(const struct seqmix_context *ctx, const seqmix_deltanet_args *args,
                                                struct seqmix_plan *plan)
{
    plan->kernel = KERN_NAME("deltanet_chunks");
    plan->workspace = worker_size(args) * (size_t)ctx->n_workers;
    plan->grain = CHUNK;
    return SEQMIX_OK;
}

seqmix_status KERN(deltanet_chunk_forward)(struct seqmix_context *ctx, const seqmix_deltanet_args *args,
                                           void *workspace)
{
    struct delta delta = {.args = args, .workspace = workspace, .worker_size = worker_size(args)};
    if (args->v.shape[1] == 0 || args->v.shape[2] == 0) return SEQMIX_OK;
    delta.cut = (struct cut){
        .groups = args->k.shape[1], .share = args->v.shape[1] / args->k.shape[1], .width = args->v.shape[2]};
    return seqmix_parallel_for(ctx, cut_up(&delta.cut, ctx, args->batch->n_seqs, TUNE_DELTA_HEADS, TILE), delta_task,
                               &delta);
}
