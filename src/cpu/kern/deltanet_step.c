/* SPDX-License-Identifier: MIT */
/*
 * Gated delta rule over the few rows of a step, bound by reading and writing the state once. Values are on the lanes. S is
 * read once a row for both products, since
 *   u = b*(v - S^T(c.k)),   o = scale*(S^T(c.q) + (q.k)*u),   S <- c.S + k u^T
 * Task: one value head of one sequence. Where values are contiguous in an f32 pool, S goes from slot to slot without a stop,
 * whole rows in the order of memory; any other pool is staged, and turned around, a tile of columns at a time.
 */
#include "deltanet_row.h"
#include "isa.h"
#include "parallel.h"
#include "state_tile.h"
#include "tune.h"

enum { TILE = 4 * V_LANES, KEYS = 4, ROWS = SEQMIX_STEP_ROWS, LINE = 64 / sizeof(float) };

/* The rows of one head of one sequence. */
struct rows {
    int n;
    float beta[ROWS], q_k[ROWS];
    float decay[ROWS][DELTA_DIM], k[ROWS][DELTA_DIM];
    float read_k[ROWS][DELTA_DIM], read_q[ROWS][DELTA_DIM]; /* c.k, c.q */
};

static void load_rows(const seqmix_deltanet_args *a, const struct seqmix_seq *seq, int64_t h, struct rows *rows)
{
    const int64_t dim = a->k.shape[2], key_head = delta_key_head(a, h);
    float q[DELTA_DIM];
    rows->n = (int)(seq->end - seq->begin);
    for (int r = 0; r < rows->n; r++) {
        const int64_t t = seq->begin + r;
        delta_key(a, &a->q, t, key_head, q);
        delta_key(a, &a->k, t, key_head, rows->k[r]);
        delta_decays(a, t, h, rows->decay[r]);
        rows->beta[r] = delta_beta(a, t, h);
        rows->q_k[r] = row_dot(q, rows->k[r], dim);
        for (int64_t d = 0; d < dim; d++) {
            rows->read_k[r][d] = rows->decay[r][d] * rows->k[r][d];
            rows->read_q[r][d] = rows->decay[r][d] * q[d];
        }
    }
}

/* Some columns of a head's state: where they are read, and where they go. Rows lie `stride` elements apart. */
struct columns {
    int64_t first, n;
    const float *from;
    float *to;
    int64_t from_stride, to_stride;
    bool staged; /* in a tile of ours */
};

static inline vf part_load(const float *p, int n)
{
    return n == V_LANES ? v_load(p) : v_load_n(p, n);
}

static inline void part_store(float *p, vf a, int n)
{
    if (n == V_LANES)
        v_store(p, a);
    else
        v_store_n(p, a, n);
}

/* Adds n_keys rows of the state to both sums. */
static inline __attribute__((always_inline)) void read_keys(const float *s, int64_t stride, int64_t n, const float *ck,
                                                            const float *cq, int n_keys, float *seen, float *asked)
{
    for (int64_t e = 0; e < n; e += V_LANES) {
        const int lanes = lanes_left(n, e);
        vf a = v_load(seen + e), b = v_load(asked + e);
        int i = 0;
        for (; i + 2 <= n_keys; i += 2) { /* by twos, since each sum waits for its last addition */
            const vf even = part_load(s + i * stride + e, lanes), odd = part_load(s + (i + 1) * stride + e, lanes);
            a = v_add(a, v_fma(v_set1(ck[i + 1]), odd, v_mul(v_set1(ck[i]), even)));
            b = v_add(b, v_fma(v_set1(cq[i + 1]), odd, v_mul(v_set1(cq[i]), even)));
        }
        if (i < n_keys) {
            const vf row = part_load(s + i * stride + e, lanes);
            a = v_fma(v_set1(ck[i]), row, a);
            b = v_fma(v_set1(cq[i]), row, b);
        }
        v_store(seen + e, a);
        v_store(asked + e, b);
    }
}

/* seen = S^T(c.k), asked = S^T(c.q). */
static void read_state(const struct rows *rows, int r, int64_t dim, const struct columns *c, float *seen, float *asked)
{
    const float *ck = rows->read_k[r], *cq = rows->read_q[r];
    int64_t d = 0;
    for (int64_t e = 0; e < c->n; e += V_LANES) {
        v_store(seen + e, v_zero());
        v_store(asked + e, v_zero());
    }
    for (; d + KEYS <= dim; d += KEYS) {
        const float *s = c->from + d * c->from_stride;
        for (int i = 0; i < KEYS && !c->staged; i++)
            for (int64_t e = 0; e < c->n; e += LINE)
                v_prefetch(s + (TUNE_STEP_AHEAD + i) * c->from_stride + e);
        read_keys(s, c->from_stride, c->n, ck + d, cq + d, KEYS, seen, asked);
    }
    read_keys(c->from + d * c->from_stride, c->from_stride, c->n, ck + d, cq + d, (int)(dim - d), seen, asked);
}

/* S <- c.S + k u^T */
static void update_state(const struct rows *rows, int r, int64_t dim, const struct columns *c, const float *u)
{
    for (int64_t d = 0; d < dim; d++) {
        const vf decay = v_set1(rows->decay[r][d]), key = v_set1(rows->k[r][d]);
        const float *from = c->from + d * c->from_stride;
        float *to = c->to + d * c->to_stride;
        for (int64_t e = 0; e < c->n; e += V_LANES) {
            const int lanes = lanes_left(c->n, e);
            part_store(to + e, v_fma(key, v_load(u + e), v_mul(decay, part_load(from + e, lanes))), lanes);
        }
    }
}

/* One row of the call: reads, u and o, update. */
static void step_row(const seqmix_deltanet_args *a, int64_t t, int64_t h, const struct rows *rows, int r,
                     const struct columns *c)
{
    const int64_t dim = a->k.shape[2], v_row = t * a->v.stride[0] + h * a->v.stride[1] + c->first;
    const int64_t o_row = t * a->o.stride[0] + h * a->o.stride[1] + c->first;
    const vf scale = v_set1(delta_scale(a)), beta = v_set1(rows->beta[r]), q_k = v_set1(rows->q_k[r]);
    float seen[DELTA_DIM], asked[DELTA_DIM], u[DELTA_DIM];
    read_state(rows, r, dim, c, seen, asked);
    for (int64_t e = 0; e < c->n; e += V_LANES) {
        const int lanes = lanes_left(c->n, e);
        const vf missing = v_mul(beta, v_sub(row_lanes(&a->v, v_row + e, lanes), v_load(seen + e)));
        v_store(u + e, missing);
        row_put_lanes(&a->o, o_row + e, v_mul(scale, v_fma(q_k, missing, v_load(asked + e))), lanes);
    }
    update_state(rows, r, dim, c, u);
}

static void store_columns(const seqmix_deltanet_args *a, int64_t slot, int64_t h, const struct columns *c)
{
    const seqmix_tensor *pool = &a->state;
    const int64_t offset = slot * pool->stride[0] + h * pool->stride[1] + c->first * pool->stride[3];
    if (slot < 0) return;
    if (c->staged) {
        tile_store(pool, offset, pool->stride[2], pool->stride[3], a->k.shape[2], c->n, TILE, c->to);
        return;
    }
    for (int64_t d = 0; d < a->k.shape[2]; d++)
        vector_store(pool, offset + d * pool->stride[2], pool->stride[3], c->n, c->to + d * c->to_stride);
}

/* All rows of the call over some columns, and their checkpoints. */
static void step_columns(const seqmix_deltanet_args *a, const struct seqmix_seq *seq, int64_t h,
                         const struct rows *rows, struct columns *c)
{
    int32_t checkpoint = seq->ckpt_begin;
    for (int r = 0; r < rows->n; r++) {
        step_row(a, seq->begin + r, h, rows, r, c);
        c->from = c->to;
        c->from_stride = c->to_stride;
        for (; checkpoint < seq->ckpt_end && a->batch->ckpt_row[checkpoint] == r + 1; checkpoint++)
            store_columns(a, a->batch->ckpt_slot[checkpoint], h, c);
    }
}

static void step_staged(const seqmix_deltanet_args *a, const struct seqmix_seq *seq, int64_t h, const struct rows *rows)
{
    const seqmix_tensor *pool = &a->state;
    const int64_t dim = a->k.shape[2], columns = a->v.shape[2];
    float s[DELTA_DIM * TILE];
    for (int64_t column = 0; column < columns; column += TILE) {
        const int64_t n = columns - column < TILE ? columns - column : TILE;
        struct columns c = {column, n, s, s, TILE, TILE, true};
        if (seq->read_slot < 0)
            memset(s, 0, (size_t)(dim * TILE) * sizeof *s);
        else
            tile_load(pool, seq->read_slot * pool->stride[0] + h * pool->stride[1] + column * pool->stride[3],
                      pool->stride[2], pool->stride[3], dim, n, TILE, s);
        step_columns(a, seq, h, rows, &c);
        store_columns(a, seq->write_slot, h, &c);
    }
}

static void step_task(void *arg, int64_t task, int32_t worker)
{
    const seqmix_deltanet_args *a = arg;
    const seqmix_tensor *pool = &a->state;
    const int64_t heads = a->v.shape[1], h = task % heads;
    const struct seqmix_seq seq = seqmix_batch_seq(a->batch, a->v.shape[0], pool, (int32_t)(task / heads));
    struct rows rows;
    (void)worker;
    load_rows(a, &seq, h, &rows);
    if (pool->data != NULL && pool->dtype == SEQMIX_F32 && pool->stride[3] == 1 && rows.n > 0 && seq.read_slot >= 0 &&
        seq.write_slot >= 0) {
        float *head = (float *)pool->data + h * pool->stride[1];
        struct columns c = {0,
                            a->v.shape[2],
                            head + seq.read_slot * pool->stride[0],
                            head + seq.write_slot * pool->stride[0],
                            pool->stride[2],
                            pool->stride[2],
                            false};
        step_columns(a, &seq, h, &rows, &c);
    } else {
        step_staged(a, &seq, h, &rows);
    }
}

seqmix_status KERN(deltanet_step_plan)(const struct seqmix_context *ctx, const seqmix_deltanet_args *args,
                                       struct seqmix_plan *plan)
{
    (void)ctx, (void)args;
    plan->kernel = KERN_NAME("deltanet_step");
    plan->grain = 1;
    return SEQMIX_OK;
}

seqmix_status KERN(deltanet_step)(struct seqmix_context *ctx, const seqmix_deltanet_args *args, void *workspace)
{
    seqmix_deltanet_args copy = *args;
    (void)workspace;
    return seqmix_parallel_for(ctx, args->batch->n_seqs * args->v.shape[1], step_task, &copy);
}
