/* SPDX-License-Identifier: MIT */
/*
 * Mamba-2 SSD over many rows (equation: seqmix.h), in chunks of a few rows. With S the state before the chunk, decays c_i, step
 * sizes d_i and L_ij = c_{j+1}*...*c_i:
 *   y_i = c_0*...*c_i*(S*C_i) + sum_{j<=i} (C_i.B_j)*L_ij*d_j*x_j          S <- c_0*...*c_n*S + sum_j (L_nj*d_j*x_j) B_j^T
 * Short chunks: what the rows do among themselves grows with the chunk, and a chunk's state tile, B and C stay in L1. The head
 * dim is on the lanes, B and C are broadcast, so a head dim of 80 costs what it weighs; only products of decays <= 1 are formed.
 * Task: some of the P state rows of some heads of one group of one sequence. B, C and their products are prepared once for all
 * of its heads; the rows that come next are asked for while the products run.
 */
#include "ahead.h"
#include "chunk_tile.h"
#include "cut.h"
#include "isa.h"
#include "ssd_row.h"
#include "state_tile.h"
#include "workspace.h"

enum { STRIDE = 2 * CHUNK }; /* coefficients of a state: C of all rows, then B */

struct ssd {
    const seqmix_ssd_args *args;
    struct cut cut; /* columns are state rows */
    char *workspace;
    size_t worker_size;
};

/* A worker's part of the workspace. */
struct buffers {
    float *rows;   /* [STRIDE][N]: C and B of the chunk as they come */
    float *packed; /* [N][STRIDE] */
    float *state;  /* [head][tile][N][TILE], carried between chunks */
    int64_t width; /* state rows of a task, rounded up to TILE */
};

/* What a head adds to the chunk of its group. */
struct gates {
    float mix[CHUNK * CHUNK];    /* (C_i.B_j)*L_ij*d_j, 0 above the diagonal */
    float decays[CHUNK * CHUNK]; /* L_ij */
    float from_start[CHUNK], delta[CHUNK];
};

/* One task's view of its work. */
struct work {
    const seqmix_ssd_args *args;
    struct seqmix_seq seq;
    struct buffers buffers;
    int64_t group, first_head, n_heads; /* heads, counted in all */
    int64_t first, end, n_tiles;        /* state rows */
    float dots[CHUNK * CHUNK];          /* C_i.B_j of the chunk, j <= i */
};

/* The rows [begin, begin+n) of the group; rows past them are zeros. */
static void prepare_chunk(struct work *w, int64_t begin, int n)
{
    const seqmix_ssd_args *a = w->args;
    const int64_t states = a->B.shape[2];
    float *C = w->buffers.rows, *B = C + CHUNK * states;
    for (int i = 0; i < n; i++) {
        const int64_t t = begin + i;
        row_load(&a->C, t * a->C.stride[0] + w->group * a->C.stride[1], states, C + i * states);
        row_load(&a->B, t * a->B.stride[0] + w->group * a->B.stride[1], states, B + i * states);
    }
    memset(C + n * states, 0, (size_t)((CHUNK - n) * states) * sizeof *C);
    memset(B + n * states, 0, (size_t)((CHUNK - n) * states) * sizeof *B);
    chunk_pack(C, states, states, w->buffers.packed, STRIDE);
    chunk_pack(B, states, states, w->buffers.packed + CHUNK, STRIDE);
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++)
            w->dots[i * CHUNK + j] = row_dot(C + i * states, B + j * states, states);
}

static void prepare_head(const struct work *w, int64_t head, int64_t begin, int n, struct gates *g)
{
    float logs[CHUNK];
    ssd_step_sizes(w->args, begin, n, head, g->delta, logs);
    chunk_log_decays(logs, n, g->decays, g->from_start);
    memset(g->mix, 0, sizeof g->mix);
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++)
            g->mix[i * CHUNK + j] = w->dots[i * CHUNK + j] * g->decays[i * CHUNK + j] * g->delta[j];
}

/* out = the state after the chunk's first n rows, of inputs x; out may be s. */
static void update(const struct work *w, const struct gates *g, float (*x)[TILE], int n, const float *s, float *out)
{
    float u[CHUNK][TILE];
    for (int j = 0; j < n; j++) {
        const vf factor = v_set1(g->decays[(n - 1) * CHUNK + j] * g->delta[j]);
        for (int v = 0; v < NV; v++)
            v_store(u[j] + v * V_LANES, v_mul(factor, v_load(x[j] + v * V_LANES)));
    }
    tile_update(s, w->args->B.shape[2], &g->from_start[n - 1], 0, w->buffers.packed + CHUNK, STRIDE, u[0], n, out);
}

/* x of the chunk for one tile as f32; lanes past the head's are 0. */
static void load_x(const struct work *w, int64_t head, int64_t begin, int n, int64_t first, float (*x)[TILE])
{
    const seqmix_tensor *t = &w->args->x;
    for (int i = 0; i < n; i++)
        for (int v = 0; v < NV; v++) {
            const int64_t at = first + v * V_LANES;
            const int lanes = at < w->end ? lanes_left(w->end, at) : 0;
            const int64_t row = (begin + i) * t->stride[0] + head * t->stride[1];
            v_store(x[i] + v * V_LANES, lanes > 0 ? row_lanes(t, row + at, lanes) : v_zero());
        }
}

static void store_lanes(const struct work *w, int64_t head, int64_t slot, int64_t first, const float *s)
{
    const seqmix_tensor *pool = &w->args->state;
    const int64_t n = w->end - first < TILE ? w->end - first : TILE;
    if (slot < 0) return;
    tile_store(pool, slot * pool->stride[0] + head * pool->stride[1] + first * pool->stride[2], pool->stride[3],
               pool->stride[2], w->args->B.shape[2], n, TILE, s);
}

/* Asks for x, y and z of some rows of a tile. */
static void prefetch_rows(const struct work *w, int64_t head, int64_t begin, int64_t n, int64_t first)
{
    const seqmix_ssd_args *a = w->args;
    const int64_t lanes = w->end - first < TILE ? w->end - first : TILE;
    for (int64_t t = begin; t < begin + n; t++) {
        row_prefetch(&a->x, t * a->x.stride[0] + head * a->x.stride[1] + first, lanes);
        row_prefetch(&a->y, t * a->y.stride[0] + head * a->y.stride[1] + first, lanes);
        if (seqmix_present(&a->z)) row_prefetch(&a->z, t * a->z.stride[0] + head * a->z.stride[1] + first, lanes);
    }
}

/* The same for a group of rows of the tile that comes after (head, first): the head's next, the next head's, or the next
 * chunk's first. */
static void prefetch_next(const struct work *w, int64_t head, int64_t begin, int64_t i, int64_t first)
{
    if (first + TILE < w->end) {
        first += TILE;
    } else {
        first = w->first;
        if (++head == w->first_head + w->n_heads) {
            head = w->first_head;
            begin += CHUNK;
        }
    }
    const int64_t left = w->seq.end - (begin + i);
    if (left > 0) prefetch_rows(w, head, begin + i, left < GROUP ? left : GROUP, first);
}

/* The rows [begin, begin+n) of one tile of a head. */
static void run_tile(const struct work *w, const struct gates *g, int64_t head, int64_t begin, int n, int64_t first,
                     int32_t checkpoint, struct ahead *ahead, float *s)
{
    const seqmix_ssd_args *a = w->args;
    const int64_t states = a->B.shape[2];
    float x[CHUNK][TILE];
    load_x(w, head, begin, n, first, x);
    for (int i = 0; i < n; i += GROUP) {
        vf y[GROUP][NV];
        const int end = i + GROUP < n ? i + GROUP : n;
        prefetch_next(w, head, begin, i, first);
        ahead_go_on(ahead);
        tile_read(s, states, w->buffers.packed + i, STRIDE, y);
        for (int r = i; r < end; r++)
            for (int v = 0; v < NV; v++)
                y[r - i][v] = v_mul(v_set1(g->from_start[r]), y[r - i][v]);
        tile_mix(g->mix + i * CHUNK, x[0], end, y);
        for (int r = i; r < end; r++)
            for (int v = 0; v < NV && first + v * V_LANES < w->end; v++)
                ssd_finish(a, begin + r, head, first + v * V_LANES, v_load(x[r] + v * V_LANES), y[r - i][v],
                           lanes_left(w->end, first + v * V_LANES));
    }
    for (; checkpoint < w->seq.ckpt_end; checkpoint++) {
        const int64_t row = a->batch->ckpt_row[checkpoint] - (begin - w->seq.begin);
        float aside[SSD_DIM * TILE];
        if (row >= n) break;
        update(w, g, x, (int)row, s, aside);
        store_lanes(w, head, a->batch->ckpt_slot[checkpoint], first, aside);
    }
    update(w, g, x, n, s, s);
    for (; checkpoint < w->seq.ckpt_end && a->batch->ckpt_row[checkpoint] == begin + n - w->seq.begin; checkpoint++)
        store_lanes(w, head, a->batch->ckpt_slot[checkpoint], first, s);
}

static void load_state(const struct work *w, int64_t head, float *state)
{
    const seqmix_tensor *pool = &w->args->state;
    const int64_t states = w->args->B.shape[2];
    for (int64_t first = w->first; first < w->end; first += TILE) {
        float *s = state + (first - w->first) * states;
        const int64_t n = w->end - first < TILE ? w->end - first : TILE;
        if (w->seq.read_slot < 0)
            memset(s, 0, (size_t)(states * TILE) * sizeof *s);
        else
            tile_load(pool, w->seq.read_slot * pool->stride[0] + head * pool->stride[1] + first * pool->stride[2],
                      pool->stride[3], pool->stride[2], states, n, TILE, s);
    }
}

static struct buffers layout(const seqmix_ssd_args *a, int64_t heads, int64_t lanes, struct seqmix_cursor *cursor)
{
    const size_t states =
        a->B.shape[2] > 0 ? (size_t)a->B.shape[2] : 1; /* no part of no size: its pointer would be NULL */
    struct buffers b = {.width = (lanes + TILE - 1) / TILE * TILE};
    b.rows = seqmix_take(cursor, STRIDE * states * sizeof *b.rows);
    b.packed = seqmix_take(cursor, STRIDE * states * sizeof *b.packed);
    b.state = seqmix_take(cursor, (size_t)(heads * b.width) * states * sizeof *b.state);
    return b;
}

/* The task's sequence, heads and state rows. */
static struct work find_work(const struct ssd *ssd, int64_t task, int32_t worker)
{
    const seqmix_ssd_args *a = ssd->args;
    const struct cut_task t = cut_find(&ssd->cut, task);
    struct seqmix_cursor cursor = {ssd->workspace + (size_t)worker * ssd->worker_size, 0};
    struct work w = {.args = a, .group = t.group, .first_head = t.group * ssd->cut.share + t.first_head};
    w.seq = seqmix_batch_seq(a->batch, a->x.shape[0], &a->state, (int32_t)t.seq);
    w.buffers = layout(a, ssd->cut.heads, ssd->cut.columns, &cursor);
    w.n_heads = t.n_heads;
    w.first = t.first;
    w.end = t.end;
    w.n_tiles = (w.end - w.first + TILE - 1) / TILE;
    return w;
}

static void ssd_task(void *arg, int64_t task, int32_t worker)
{
    struct work w = find_work(arg, task, worker);
    const seqmix_ssd_args *a = w.args;
    const int64_t states = a->B.shape[2], state_size = w.buffers.width * states;
    int32_t checkpoint = w.seq.ckpt_begin;
    struct ahead ahead;

    for (int64_t i = 0; i < w.n_heads; i++)
        load_state(&w, w.first_head + i, w.buffers.state + i * state_size);
    for (int64_t begin = w.seq.begin; begin < w.seq.end; begin += CHUNK) {
        const int64_t left = w.seq.end - begin, next = begin + (left < CHUNK ? left : CHUNK), after = w.seq.end - next;
        const int n = (int)(next - begin);
        ahead_start(&ahead, next, after < CHUNK ? after : CHUNK, w.n_heads * w.n_tiles * (CHUNK / GROUP));
        ahead_add(&ahead, &a->B, w.group * a->B.stride[1], states);
        ahead_add(&ahead, &a->C, w.group * a->C.stride[1], states);
        prepare_chunk(&w, begin, n);
        for (int64_t i = 0; i < w.n_heads; i++) {
            struct gates gates;
            prepare_head(&w, w.first_head + i, begin, n, &gates);
            for (int64_t first = w.first; first < w.end; first += TILE)
                run_tile(&w, &gates, w.first_head + i, begin, n, first, checkpoint, &ahead,
                         w.buffers.state + i * state_size + (first - w.first) * states);
        }
        while (checkpoint < w.seq.ckpt_end && a->batch->ckpt_row[checkpoint] <= next - w.seq.begin)
            checkpoint++;
    }
    for (int64_t i = 0; i < w.n_heads; i++)
        for (int64_t first = w.first; first < w.end; first += TILE)
            store_lanes(&w, w.first_head + i, w.seq.write_slot, first,
                        w.buffers.state + i * state_size + (first - w.first) * states);
}

static size_t worker_size(const seqmix_ssd_args *a)
{
    struct seqmix_cursor cursor = {NULL, 0};
    (void)layout(a, TUNE_SSD_HEADS, a->x.shape[2], &cursor);
    return cursor.used;
}

seqmix_status KERN(ssd_chunk_forward_plan)(const struct seqmix_context *ctx, const seqmix_ssd_args *args,
                                           struct seqmix_plan *plan)
{
    plan->kernel = KERN_NAME("ssd_chunks");
    plan->workspace = worker_size(args) * (size_t)ctx->n_workers;
    plan->grain = CHUNK;
    return SEQMIX_OK;
}

seqmix_status KERN(ssd_chunk_forward)(struct seqmix_context *ctx, const seqmix_ssd_args *args, void *workspace)
{
    struct ssd ssd = {.args = args, .workspace = workspace, .worker_size = worker_size(args)};
    if (args->x.shape[1] == 0 || args->x.shape[2] == 0) return SEQMIX_OK;
    ssd.cut = (struct cut){
        .groups = args->B.shape[1], .share = args->x.shape[1] / args->B.shape[1], .width = args->x.shape[2]};
    return seqmix_parallel_for(ctx, cut_up(&ssd.cut, ctx, args->batch->n_seqs, TUNE_SSD_HEADS, TILE), ssd_task, &ssd);
}
