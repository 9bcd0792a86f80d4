/* SPDX-License-Identifier: MIT */
/*
 * Mamba-2 SSD over many rows (equation: seqmix.h), two rows a pass. With S the state before the pair, decays c1, c2 and step
 * sizes d1, d2:
 *   y1 = c1*(S*C1) + (C1.B1)*d1*x1         y2 = c1*c2*(S*C2) + (C2.B1)*c2*d1*x1 + (C2.B2)*d2*x2
 *   S <- c1*c2*S + (c2*d1*x1) B1^T + (d2*x2) B2^T
 * The update of a pair is done in the pass that reads S for the next one. The head dim is on the lanes, B and C are broadcast,
 * so a head dim of 80 costs what it weighs; only products of decays <= 1 are formed. A cell of the grid is a pair.
 * Task: some of the P state rows of one head of one sequence.
 */
#include "isa.h"
#include "parallel.h"
#include "ssd_row.h"
#include "state_tile.h"
#include "tune.h"
#include "workspace.h"

enum { TILE = 2 * V_LANES, ROWS = TUNE_SSD_ROWS };

/* A pair of rows, ready for the passes. */
struct pair {
    const float *B[2], *C[2]; /* [N] */
    float delta[2], decay[2], c1_b1, c2_b1, c2_b2;
};

struct ssd {
    const seqmix_ssd_args *args;
    int64_t lane_tasks, task_lanes; /* tasks of one head, state rows of a task */
    char *workspace;
    size_t worker_size;
};

/* A worker's part of the workspace. */
struct buffers {
    struct pair *pairs; /* [ROWS/2] */
    float *B, *C;       /* [ROWS][N]: the segment's rows where they aren't f32 already; then one row of zeros */
    float *state;       /* [tile][N][TILE], carried between segments */
};

/* One task's view of its work. */
struct work {
    const seqmix_ssd_args *args;
    struct seqmix_seq seq;
    struct buffers buffers;
    int64_t head, first, end; /* state rows */
};

/* Asks for what row t of a later segment will need. */
static void prefetch_row(const struct work *w, int64_t t)
{
    const seqmix_ssd_args *a = w->args;
    const int64_t states = a->B.shape[2], group = w->head / (a->x.shape[1] / a->B.shape[1]), n = w->end - w->first;
    if (t >= w->seq.end) return;
    row_prefetch(&a->B, t * a->B.stride[0] + group * a->B.stride[1], states);
    row_prefetch(&a->C, t * a->C.stride[0] + group * a->C.stride[1], states);
    row_prefetch(&a->x, t * a->x.stride[0] + w->head * a->x.stride[1] + w->first, n);
    row_prefetch(&a->y, t * a->y.stride[0] + w->head * a->y.stride[1] + w->first, n);
    if (seqmix_present(&a->z)) row_prefetch(&a->z, t * a->z.stride[0] + w->head * a->z.stride[1] + w->first, n);
}

static void prepare_pair(const struct work *w, int64_t begin, int64_t i, int n_rows)
{
    const seqmix_ssd_args *a = w->args;
    const int64_t states = a->B.shape[2], group = w->head / (a->x.shape[1] / a->B.shape[1]);
    struct pair *p = &w->buffers.pairs[i / 2];
    for (int r = 0; r < 2; r++) {
        const int64_t t = begin + i + r;
        if (r >= n_rows) { /* a second row that changes nothing */
            p->B[r] = p->C[r] = w->buffers.B + ROWS * states;
            p->delta[r] = 0;
            p->decay[r] = 1;
            continue;
        }
        p->B[r] = row_f32(&a->B, t * a->B.stride[0] + group * a->B.stride[1], states, w->buffers.B + (i + r) * states);
        p->C[r] = row_f32(&a->C, t * a->C.stride[0] + group * a->C.stride[1], states, w->buffers.C + (i + r) * states);
        p->delta[r] = ssd_step_size(a, t, w->head, &p->decay[r]);
    }
    p->c1_b1 = row_dot(p->C[0], p->B[0], states);
    p->c2_b1 = row_dot(p->C[1], p->B[0], states);
    p->c2_b2 = row_dot(p->C[1], p->B[1], states);
}

/* sum = S*C1, S*C2, after applying the pending update of the pair before (last; NULL = none). */
static void read_pass(float *s, int64_t states, const struct pair *last, vf u[2][2], const struct pair *p, vf sum[2][2])
{
    const float *C1 = p->C[0], *C2 = p->C[1];
    vf a0 = v_zero(), a1 = v_zero(), b0 = v_zero(), b1 = v_zero();
    if (last == NULL) {
        for (int64_t n = 0; n < states; n++) {
            const vf s0 = v_load(s + n * TILE), s1 = v_load(s + n * TILE + V_LANES);
            const vf x = v_set1(C1[n]), y = v_set1(C2[n]);
            a0 = v_fma(x, s0, a0);
            a1 = v_fma(x, s1, a1);
            b0 = v_fma(y, s0, b0);
            b1 = v_fma(y, s1, b1);
        }
    } else {
        const float *B1 = last->B[0], *B2 = last->B[1];
        const vf c = v_set1(last->decay[0] * last->decay[1]), u00 = u[0][0], u01 = u[0][1], u10 = u[1][0],
                 u11 = u[1][1];
        for (int64_t n = 0; n < states; n++) {
            const vf e = v_set1(B1[n]), f = v_set1(B2[n]), x = v_set1(C1[n]), y = v_set1(C2[n]);
            const vf s0 = v_fma(f, u10, v_fma(e, u00, v_mul(c, v_load(s + n * TILE))));
            const vf s1 = v_fma(f, u11, v_fma(e, u01, v_mul(c, v_load(s + n * TILE + V_LANES))));
            v_store(s + n * TILE, s0);
            v_store(s + n * TILE + V_LANES, s1);
            a0 = v_fma(x, s0, a0);
            a1 = v_fma(x, s1, a1);
            b0 = v_fma(y, s0, b0);
            b1 = v_fma(y, s1, b1);
        }
    }
    sum[0][0] = a0;
    sum[0][1] = a1;
    sum[1][0] = b0;
    sum[1][1] = b1;
}

/* out = the state after the pair's rows of which the first has the factor `decay` and inputs u[0]; u1 NULL: that row alone. */
static void update_pass(const float *s, int64_t states, const struct pair *p, float decay, const vf *u0, const vf *u1,
                        float *out)
{
    const vf c = v_set1(decay);
    for (int64_t n = 0; n < states; n++)
        for (int v = 0; v < 2; v++) {
            vf row = v_fma(v_set1(p->B[0][n]), u0[v], v_mul(c, v_load(s + n * TILE + v * V_LANES)));
            if (u1 != NULL) row = v_fma(v_set1(p->B[1][n]), u1[v], row);
            v_store(out + n * TILE + v * V_LANES, row);
        }
}

/* Outputs of both rows for the state rows [first, first+n); u[r] is what row r adds to the state after the
 * pair, alone what the first row adds by itself. */
static void finish_pair(const struct work *w, const struct pair *p, int64_t t, int n_rows, int64_t first, int64_t n,
                        vf sum[2][2], vf u[2][2], vf alone[2])
{
    const seqmix_ssd_args *a = w->args;
    const int64_t x_row = t * a->x.stride[0] + w->head * a->x.stride[1] + first;
    for (int half = 0; half < 2; half++) {
        const int64_t at = half * V_LANES;
        const int lanes = at < n ? lanes_left(n, at) : 0;
        alone[half] = u[0][half] = u[1][half] = v_zero();
        if (lanes == 0) continue;
        const vf x1 = row_lanes(&a->x, x_row + at, lanes);
        alone[half] = v_mul(v_set1(p->delta[0]), x1);
        u[0][half] = v_mul(v_set1(p->decay[1]), alone[half]);
        const vf y1 = v_fma(v_set1(p->c1_b1), alone[half], v_mul(v_set1(p->decay[0]), sum[0][half]));
        ssd_finish(a, t, w->head, first + at, x1, y1, lanes);
        if (n_rows == 1) continue;
        const vf x2 = row_lanes(&a->x, x_row + a->x.stride[0] + at, lanes);
        u[1][half] = v_mul(v_set1(p->delta[1]), x2);
        vf y2 = v_mul(v_set1(p->decay[0] * p->decay[1]), sum[1][half]);
        y2 = v_fma(v_set1(p->c2_b2), u[1][half], v_fma(v_set1(p->c2_b1), u[0][half], y2));
        ssd_finish(a, t + 1, w->head, first + at, x2, y2, lanes);
    }
}

static void store_lanes(const struct work *w, int64_t slot, int64_t first, int64_t n, const float *s)
{
    const seqmix_tensor *pool = &w->args->state;
    if (slot < 0) return;
    tile_store(pool, slot * pool->stride[0] + w->head * pool->stride[1] + first * pool->stride[2], pool->stride[3],
               pool->stride[2], w->args->B.shape[2], n, TILE, s);
}

/* Rows [begin, begin+n_rows) of one tile of state rows. */
static void run_tile(const struct work *w, int64_t begin, int64_t n_rows, int64_t first, int32_t checkpoint, float *s)
{
    const seqmix_ssd_args *a = w->args;
    const int64_t states = a->B.shape[2], n = w->end - first < TILE ? w->end - first : TILE;
    const struct pair *last = NULL;
    vf sum[2][2], u[2][2], alone[2];
    for (int64_t i = 0; i < n_rows; i += 2) {
        const struct pair *p = &w->buffers.pairs[i / 2];
        const int rows = n_rows - i < 2 ? 1 : 2;
        read_pass(s, states, last, u, p, sum);
        finish_pair(w, p, begin + i, rows, first, n, sum, u, alone);
        last = p;
        for (; checkpoint < w->seq.ckpt_end; checkpoint++) {
            const int64_t row = a->batch->ckpt_row[checkpoint] - (begin + i - w->seq.begin);
            float aside[SSD_DIM * TILE];
            if (row > rows) break;
            if (row == 1)
                update_pass(s, states, p, p->decay[0], alone, NULL, aside);
            else
                update_pass(s, states, p, p->decay[0] * p->decay[1], u[0], u[1], aside);
            store_lanes(w, a->batch->ckpt_slot[checkpoint], first, n, aside);
        }
    }
    if (last != NULL) update_pass(s, states, last, last->decay[0] * last->decay[1], u[0], u[1], s);
}

static struct buffers layout(const seqmix_ssd_args *a, int64_t lanes, struct seqmix_cursor *cursor)
{
    const size_t states = (size_t)a->B.shape[2];
    struct buffers b;
    b.pairs = seqmix_take(cursor, ROWS / 2 * sizeof *b.pairs);
    b.B = seqmix_take(cursor, (ROWS + 1) * states * sizeof(float));
    b.C = seqmix_take(cursor, ROWS * states * sizeof(float));
    b.state = seqmix_take(cursor, (size_t)((lanes + TILE - 1) / TILE * TILE) * states * sizeof(float));
    return b;
}

static void ssd_task(void *arg, int64_t task, int32_t worker)
{
    const struct ssd *ssd = arg;
    const seqmix_ssd_args *a = ssd->args;
    const seqmix_tensor *pool = &a->state;
    const int64_t heads = a->x.shape[1], states = a->B.shape[2], tasks = heads * ssd->lane_tasks;
    struct seqmix_cursor cursor = {ssd->workspace + (size_t)worker * ssd->worker_size, 0};
    struct work w = {.args = a, .head = task % tasks / ssd->lane_tasks};
    w.seq = seqmix_batch_seq(a->batch, a->x.shape[0], pool, (int32_t)(task / tasks));
    w.buffers = layout(a, ssd->task_lanes, &cursor);
    w.first = task % ssd->lane_tasks * ssd->task_lanes;
    w.end = w.first + ssd->task_lanes < a->x.shape[2] ? w.first + ssd->task_lanes : a->x.shape[2];
    memset(w.buffers.B + ROWS * states, 0, (size_t)states * sizeof(float));
    int32_t checkpoint = w.seq.ckpt_begin;

    for (int64_t first = w.first; first < w.end; first += TILE) {
        float *s = w.buffers.state + (first - w.first) * states;
        const int64_t n = w.end - first < TILE ? w.end - first : TILE;
        if (w.seq.read_slot < 0)
            memset(s, 0, (size_t)(states * TILE) * sizeof *s);
        else
            tile_load(pool, w.seq.read_slot * pool->stride[0] + w.head * pool->stride[1] + first * pool->stride[2],
                      pool->stride[3], pool->stride[2], states, n, TILE, s);
    }
    for (int64_t begin = w.seq.begin; begin < w.seq.end; begin += ROWS) {
        const int64_t n_rows = w.seq.end - begin < ROWS ? w.seq.end - begin : ROWS;
        for (int64_t i = 0; i < n_rows; i += 2) {
            prefetch_row(&w, begin + i + ROWS);
            prefetch_row(&w, begin + i + 1 + ROWS);
            prepare_pair(&w, begin, i, n_rows - i < 2 ? 1 : 2);
        }
        for (int64_t first = w.first; first < w.end; first += TILE)
            run_tile(&w, begin, n_rows, first, checkpoint, w.buffers.state + (first - w.first) * states);
        while (checkpoint < w.seq.ckpt_end && a->batch->ckpt_row[checkpoint] <= begin + n_rows - w.seq.begin)
            checkpoint++;
    }
    for (int64_t first = w.first; first < w.end; first += TILE)
        store_lanes(&w, w.seq.write_slot, first, w.end - first < TILE ? w.end - first : TILE,
                    w.buffers.state + (first - w.first) * states);
}

/* Cuts the state rows of a head where there are few heads: by shape alone. */
static void cut(const seqmix_ssd_args *a, struct ssd *ssd)
{
    const int64_t lanes = a->x.shape[2], tasks = a->x.shape[1] * a->batch->n_seqs;
    ssd->args = a;
    ssd->task_lanes = lanes;
    while (tasks * ((lanes + ssd->task_lanes - 1) / ssd->task_lanes) < 16 && ssd->task_lanes > TILE)
        ssd->task_lanes = ((ssd->task_lanes + 1) / 2 + TILE - 1) / TILE * TILE;
    ssd->lane_tasks = (lanes + ssd->task_lanes - 1) / ssd->task_lanes;
}

static size_t worker_size(const seqmix_ssd_args *a)
{
    struct seqmix_cursor cursor = {NULL, 0};
    (void)layout(a, a->x.shape[2], &cursor);
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
    return seqmix_parallel_for(ctx, args->batch->n_seqs * args->x.shape[1] * ssd.lane_tasks, ssd_task, &ssd);
}
