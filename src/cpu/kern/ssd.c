/* SPDX-License-Identifier: MIT */
/*
 * Mamba-2 SSD over many rows (equation: seqmix.h), two rows a pass. With S the state before the pair, decays c1, c2 and step
 * sizes d1, d2:
 *   y1 = c1*(S*C1) + (C1.B1)*d1*x1         y2 = c1*c2*(S*C2) + (C2.B1)*c2*d1*x1 + (C2.B2)*d2*x2
 *   S <- c1*c2*S + (c2*d1*x1) B1^T + (d2*x2) B2^T
 * The update of a pair is done in the pass that reads S for the next one. The head dim is on the lanes, B and C are broadcast,
 * so a head dim of 80 costs what it weighs; only products of decays <= 1 are formed. A cell of the grid is a pair.
 * Task: some of the P state rows of some heads of one group of one sequence. B and C of a segment and their products are
 * prepared once for all of its heads; the rows that come next are asked for while the passes run.
 */
#include "ahead.h"
#include "isa.h"
#include "parallel.h"
#include "ssd_row.h"
#include "state_tile.h"
#include "tune.h"
#include "workspace.h"

enum { NV = TUNE_SSD_VECTORS, TILE = NV * V_LANES, BLOCK_TILES = TUNE_SSD_TILES, BLOCK = BLOCK_TILES * TILE };
enum { ROWS = TUNE_SSD_ROWS, PAIRS = ROWS / 2 };

/* Places of a state's four numbers in a pair of rows. */
enum { B1, C1, B2, C2, N_PARTS };

/* A pair of rows of a group. */
struct pair {
    float row[SSD_DIM][N_PARTS];
    float c1_b1, c2_b1, c2_b2;
};

struct ssd {
    const seqmix_ssd_args *args;
    int64_t task_heads, head_tasks; /* heads of a task, tasks of a group */
    int64_t task_lanes, lane_tasks; /* state rows of a task, tasks of a head */
    char *workspace;
    size_t worker_size;
};

/* A worker's part of the workspace. */
struct buffers {
    struct pair *pairs;   /* [PAIRS] of the segment */
    float *delta, *decay; /* [ROWS] of a head: step sizes and decays */
    float *state;         /* [head][tile][N][TILE], carried between segments */
    int64_t width;        /* state rows of a task, rounded up to TILE */
};

/* One task's view of its work. */
struct work {
    const seqmix_ssd_args *args;
    struct seqmix_seq seq;
    struct buffers buffers;
    int64_t group, first_head, n_heads; /* heads, counted in all */
    int64_t first, end, n_blocks;       /* state rows */
};

/* The rows t, t+1 of the group; with n_rows = 1 the second row changes nothing. */
static void prepare_pair(const struct work *w, int64_t t, int n_rows, struct pair *p)
{
    const seqmix_ssd_args *a = w->args;
    const int64_t states = a->B.shape[2];
    float rows[N_PARTS][SSD_DIM];
    if (n_rows == 1) memset(rows[B2], 0, 2 * sizeof rows[0]);
    for (int r = 0; r < n_rows; r++) {
        row_load(&a->B, (t + r) * a->B.stride[0] + w->group * a->B.stride[1], states, rows[r == 0 ? B1 : B2]);
        row_load(&a->C, (t + r) * a->C.stride[0] + w->group * a->C.stride[1], states, rows[r == 0 ? C1 : C2]);
    }
    for (int64_t n = 0; n < states; n++)
        for (int part = 0; part < N_PARTS; part++)
            p->row[n][part] = rows[part][n];
    p->c1_b1 = row_dot(rows[C1], rows[B1], states);
    p->c2_b1 = row_dot(rows[C2], rows[B1], states);
    p->c2_b2 = row_dot(rows[C2], rows[B2], states);
}

/* sum = S*C1, S*C2, after applying the pending update of the pair before (last; NULL = none) with its decay. */
static void read_pass(float *s, int64_t states, const struct pair *last, float decay, vf u[2][NV], const struct pair *p,
                      vf sum[2][NV])
{
    const float *row = p->row[0];
    vf y1[NV], y2[NV];
    for (int v = 0; v < NV; v++)
        y1[v] = y2[v] = v_zero();
    if (last == NULL) {
        for (int64_t n = 0; n < states; n++, s += TILE, row += N_PARTS)
            for (int v = 0; v < NV; v++) {
                const vf state = v_load(s + v * V_LANES);
                y1[v] = v_fma(v_set1(row[C1]), state, y1[v]);
                y2[v] = v_fma(v_set1(row[C2]), state, y2[v]);
            }
    } else {
        const float *write = last->row[0];
        const vf c = v_set1(decay);
        vf u1[NV], u2[NV];
        for (int v = 0; v < NV; v++) {
            u1[v] = u[0][v];
            u2[v] = u[1][v];
        }
        for (int64_t n = 0; n < states; n++, s += TILE, row += N_PARTS, write += N_PARTS) {
            vf state[NV];
            for (int v = 0; v < NV; v++)
                state[v] = v_fma(v_set1(write[B1]), u1[v], v_mul(c, v_load(s + v * V_LANES)));
            for (int v = 0; v < NV; v++) {
                state[v] = v_fma(v_set1(write[B2]), u2[v], state[v]);
                v_store(s + v * V_LANES, state[v]);
            }
            for (int v = 0; v < NV; v++)
                y1[v] = v_fma(v_set1(row[C1]), state[v], y1[v]);
            for (int v = 0; v < NV; v++)
                y2[v] = v_fma(v_set1(row[C2]), state[v], y2[v]);
        }
    }
    memcpy(sum[0], y1, sizeof y1);
    memcpy(sum[1], y2, sizeof y2);
}

/* out = the state after the pair's rows of which the first has the factor `decay` and inputs u1; u2 NULL: that row alone. */
static void update_pass(const float *s, int64_t states, const struct pair *p, float decay, const vf *u1, const vf *u2,
                        float *out)
{
    const vf c = v_set1(decay);
    for (int64_t n = 0; n < states; n++)
        for (int v = 0; v < NV; v++) {
            vf row = v_mul(c, v_load(s + n * TILE + v * V_LANES));
            row = v_fma(v_set1(p->row[n][B1]), u1[v], row);
            if (u2 != NULL) row = v_fma(v_set1(p->row[n][B2]), u2[v], row);
            v_store(out + n * TILE + v * V_LANES, row);
        }
}

/* Outputs of row i of the segment and the next for the state rows [first, ...) of a tile; u[r] is what row r adds to the state
 * after the pair, alone what the first row adds by itself. */
static void finish_pair(const struct work *w, const struct pair *p, int64_t head, int64_t begin, int64_t i, int n_rows,
                        int64_t first, vf sum[2][NV], vf u[2][NV], vf alone[NV])
{
    const seqmix_ssd_args *a = w->args;
    const float *delta = w->buffers.delta + i, *decay = w->buffers.decay + i;
    const int64_t t = begin + i, x_row = t * a->x.stride[0] + head * a->x.stride[1];
    for (int part = 0; part < NV; part++, first += V_LANES) {
        const int lanes = first < w->end ? lanes_left(w->end, first) : 0;
        alone[part] = u[0][part] = u[1][part] = v_zero();
        if (lanes == 0) continue;
        const vf x1 = row_lanes(&a->x, x_row + first, lanes);
        alone[part] = v_mul(v_set1(delta[0]), x1);
        u[0][part] = n_rows == 1 ? alone[part] : v_mul(v_set1(decay[1]), alone[part]);
        const vf y1 = v_fma(v_set1(p->c1_b1), alone[part], v_mul(v_set1(decay[0]), sum[0][part]));
        ssd_finish(a, t, head, first, x1, y1, lanes);
        if (n_rows == 1) continue;
        const vf x2 = row_lanes(&a->x, x_row + a->x.stride[0] + first, lanes);
        u[1][part] = v_mul(v_set1(delta[1]), x2);
        vf y2 = v_mul(v_set1(decay[0] * decay[1]), sum[1][part]);
        y2 = v_fma(v_set1(p->c2_b2), u[1][part], v_fma(v_set1(p->c2_b1), u[0][part], y2));
        ssd_finish(a, t + 1, head, first, x2, y2, lanes);
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

/* Asks for x, y and z of the pair at row i of the segment, some state rows from `first` on. */
static void prefetch_pair(const struct work *w, int64_t head, int64_t begin, int64_t n_rows, int64_t i, int64_t first)
{
    const seqmix_ssd_args *a = w->args;
    const int64_t n = w->end - first < BLOCK ? w->end - first : BLOCK;
    for (int64_t t = begin + i; t < begin + n_rows && t < begin + i + 2; t++) {
        row_prefetch(&a->x, t * a->x.stride[0] + head * a->x.stride[1] + first, n);
        row_prefetch(&a->y, t * a->y.stride[0] + head * a->y.stride[1] + first, n);
        if (seqmix_present(&a->z)) row_prefetch(&a->z, t * a->z.stride[0] + head * a->z.stride[1] + first, n);
    }
}

/* Stores the states after rows of the pair that are checkpoints; `row` rows of the sequence came before it. Returns the first
 * checkpoint past the pair. */
static int32_t store_checkpoints(const struct work *w, int64_t head, const struct pair *p, const float *decay,
                                 int64_t row, int n_rows, int64_t first, int32_t checkpoint, vf u[2][NV],
                                 const vf *alone, const float *s)
{
    const seqmix_batch *batch = w->args->batch;
    for (; checkpoint < w->seq.ckpt_end; checkpoint++) {
        const int64_t rows = batch->ckpt_row[checkpoint] - row;
        float aside[SSD_DIM * TILE];
        if (rows > n_rows) break;
        if (rows == 1)
            update_pass(s, w->args->B.shape[2], p, decay[0], alone, NULL, aside);
        else
            update_pass(s, w->args->B.shape[2], p, decay[0] * decay[1], u[0], u[1], aside);
        store_lanes(w, head, batch->ckpt_slot[checkpoint], first, aside);
    }
    return checkpoint;
}

/* Rows [begin, begin+n_rows) of a few tiles of a head: while one tile's outputs are finished, the next is read. */
static void run_block(const struct work *w, int64_t head, int64_t begin, int64_t n_rows, int64_t first,
                      int32_t checkpoint, struct ahead *ahead, float *state)
{
    const int64_t states = w->args->B.shape[2], left = (w->end - first + TILE - 1) / TILE;
    const int n_tiles = left < BLOCK_TILES ? (int)left : BLOCK_TILES;
    const struct pair *last = NULL;
    float last_decay = 1;
    vf sum[2][NV], u[BLOCK_TILES][2][NV], alone[NV];
    prefetch_pair(w, head, begin, n_rows, 0, first);
    for (int64_t i = 0; i < n_rows; i += 2) {
        const struct pair *p = &w->buffers.pairs[i / 2];
        const float *decay = w->buffers.decay + i;
        const int rows = n_rows - i < 2 ? 1 : 2;
        int32_t passed = checkpoint;
        prefetch_pair(w, head, begin, n_rows, i + 2, first);
        ahead_go_on(ahead);
        for (int tile = 0; tile < n_tiles; tile++) {
            const int64_t at = first + tile * TILE;
            float *s = state + tile * states * TILE;
            read_pass(s, states, last, last_decay, u[tile], p, sum);
            finish_pair(w, p, head, begin, i, rows, at, sum, u[tile], alone);
            passed =
                store_checkpoints(w, head, p, decay, begin + i - w->seq.begin, rows, at, checkpoint, u[tile], alone, s);
        }
        checkpoint = passed;
        last = p;
        last_decay = rows == 1 ? decay[0] : decay[0] * decay[1];
    }
    for (int tile = 0; last != NULL && tile < n_tiles; tile++) {
        float *s = state + tile * states * TILE;
        update_pass(s, states, last, last_decay, u[tile][0], u[tile][1], s);
    }
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
    struct buffers b = {.width = (lanes + TILE - 1) / TILE * TILE};
    b.pairs = seqmix_take(cursor, PAIRS * sizeof *b.pairs);
    b.delta = seqmix_take(cursor, ROWS * sizeof *b.delta);
    b.decay = seqmix_take(cursor, ROWS * sizeof *b.decay);
    b.state = seqmix_take(cursor, (size_t)(heads * b.width * a->B.shape[2]) * sizeof *b.state);
    return b;
}

/* The task's sequence, heads and state rows. */
static struct work find_work(const struct ssd *ssd, int64_t task, int32_t worker)
{
    const seqmix_ssd_args *a = ssd->args;
    const int64_t groups = a->B.shape[1], ratio = a->x.shape[1] / groups;
    const int64_t lane_task = task % ssd->lane_tasks, head_task = task / ssd->lane_tasks % ssd->head_tasks;
    const int64_t group = task / ssd->lane_tasks / ssd->head_tasks % groups;
    const int64_t seq = task / ssd->lane_tasks / ssd->head_tasks / groups, head = head_task * ssd->task_heads;
    struct seqmix_cursor cursor = {ssd->workspace + (size_t)worker * ssd->worker_size, 0};
    struct work w = {.args = a, .group = group, .first_head = group * ratio + head};
    w.seq = seqmix_batch_seq(a->batch, a->x.shape[0], &a->state, (int32_t)seq);
    w.buffers = layout(a, ssd->task_heads, ssd->task_lanes, &cursor);
    w.n_heads = ratio - head < ssd->task_heads ? ratio - head : ssd->task_heads;
    w.first = lane_task * ssd->task_lanes;
    w.end = w.first + ssd->task_lanes < a->x.shape[2] ? w.first + ssd->task_lanes : a->x.shape[2];
    w.n_blocks = (w.end - w.first + BLOCK - 1) / BLOCK;
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
    for (int64_t begin = w.seq.begin; begin < w.seq.end; begin += ROWS) {
        const int64_t n_rows = w.seq.end - begin < ROWS ? w.seq.end - begin : ROWS, next = begin + n_rows;
        ahead_start(&ahead, next, w.seq.end - next < ROWS ? w.seq.end - next : ROWS, w.n_heads * w.n_blocks * PAIRS);
        ahead_add(&ahead, &a->B, w.group * a->B.stride[1], states);
        ahead_add(&ahead, &a->C, w.group * a->C.stride[1], states);
        for (int64_t i = 0; i < n_rows; i += 2)
            prepare_pair(&w, begin + i, n_rows - i < 2 ? 1 : 2, &w.buffers.pairs[i / 2]);
        for (int64_t i = 0; i < w.n_heads; i++) {
            ssd_step_sizes(a, begin, n_rows, w.first_head + i, w.buffers.delta, w.buffers.decay);
            for (int64_t first = w.first; first < w.end; first += BLOCK)
                run_block(&w, w.first_head + i, begin, n_rows, first, checkpoint, &ahead,
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

/* Cuts heads apart and then state rows where there are few groups: by shape alone. */
static void cut(const seqmix_ssd_args *a, struct ssd *ssd)
{
    const int64_t lanes = a->x.shape[2], ratio = a->x.shape[1] / a->B.shape[1],
                  heads = a->x.shape[1] * a->batch->n_seqs;
    ssd->args = a;
    ssd->task_heads = ratio < TUNE_SSD_HEADS ? ratio : TUNE_SSD_HEADS;
    if (heads / ssd->task_heads < TUNE_TASKS) ssd->task_heads = 1;
    ssd->task_lanes = lanes;
    while (heads * ((lanes + ssd->task_lanes - 1) / ssd->task_lanes) < TUNE_TASKS && ssd->task_lanes > TILE)
        ssd->task_lanes = ((ssd->task_lanes + 1) / 2 + TILE - 1) / TILE * TILE;
    ssd->lane_tasks = (lanes + ssd->task_lanes - 1) / ssd->task_lanes;
    ssd->head_tasks = (ratio + ssd->task_heads - 1) / ssd->task_heads;
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
    plan->kernel = KERN_NAME("ssd_pairs");
    plan->workspace = worker_size(args) * (size_t)ctx->n_workers;
    plan->grain = 2;
    return SEQMIX_OK;
}

seqmix_status KERN(ssd_chunk_forward)(struct seqmix_context *ctx, const seqmix_ssd_args *args, void *workspace)
{
    struct ssd ssd = {.workspace = workspace, .worker_size = worker_size(args)};
    if (args->x.shape[2] == 0) return SEQMIX_OK;
    cut(args, &ssd);
    return seqmix_parallel_for(ctx, args->batch->n_seqs * args->B.shape[1] * ssd.head_tasks * ssd.lane_tasks, ssd_task,
                               &ssd);
}
