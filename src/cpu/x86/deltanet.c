/* SPDX-License-Identifier: MIT */
/*
 * Gated delta rule over many rows of bf16 on AMX tiles (chunk.h, tile.h), scalar gates. With A_ij = b_i fades_ij (k_i.k_j)
 * below the diagonal, a cell's values solve
 *   (I + A) U = b (V - through (K S))           O = scale (through (Q S) + (fades_ij (q_i.k_j))_ij U)
 * T = (I + A)^-1 is formed in f32 lanes. T, the residual on the right, the scores and U are pairs of bf16; k and q enter as they
 * came, and L2 factors, b and decays multiply f32 sums (docs/NUMERICS.md, rule 6).
 * Task: some columns of some value heads of one key head of one sequence; they share the dot products of the key head.
 */
#include <math.h>

#include "../kern/deltanet_row.h"
#include "../kern/isa.h"
#include "../kern/state_tile.h"
#include "chunk.h"
#include "parallel.h"
#include "workspace.h"

#if defined(__clang__)
#    define UNROLL _Pragma("clang loop unroll(full)")
#else
#    define UNROLL _Pragma("GCC unroll 16")
#endif

enum { HEADS = 4 /* of a task: more gain nothing, and their states leave the cache */, STRIP = 32 };

struct delta {
    const seqmix_deltanet_args *args;
    struct cut cut; /* groups are key heads */
    char *workspace;
    size_t worker_size;
};

/* One task's view of its work; the buffers are the worker's part of the workspace. */
struct work {
    const seqmix_deltanet_args *args;
    struct seqmix_seq seq;
    int64_t key_head, first_head, n_heads; /* value heads, counted in the key head's */
    int64_t first, columns, width;         /* columns; in whole tiles */
    float scale;
    struct chunk_keys keys;
    float *keys_keys;                           /* [CELL][CELL] */
    float key_factor[CELL], query_factor[CELL]; /* L2 factors, or 1 */
    float beta[CELL];
    struct chunk_decays *decays;
    float *mix, *inverse;       /* [CELL][CELL] */
    uint16_t *solve, *scores;   /* left pairs of T and of the scores */
    uint16_t *residual, *right; /* right pairs: the residual or the weighed values; the values */
    float *values;              /* U, [CELL][width] */
    struct chunk_state states[HEADS], aside;
};

static int64_t value_head(const struct work *w, int64_t j)
{
    const int64_t key_heads = w->args->k.shape[1], value_heads = w->args->v.shape[1];
    j += w->first_head;
    return w->args->head_map == SEQMIX_HEADS_TILED ? j * key_heads + w->key_head
                                                   : w->key_head * (value_heads / key_heads) + j;
}

/* ---------------------------------------------------------------- what the key head's value heads share */

/* 1/|row| of packed rows. */
static void l2_factors(const struct chunk_keys *c, const uint16_t *left, float eps, float *factor)
{
    for (int64_t i = 0; i < c->rows; i++) {
        const uint16_t *row = left + i / TILE_SIDE * c->blocks * TILE + i % TILE_SIDE * TILE_DEPTH;
        vf sum = v_zero();
        for (int64_t b = 0; b < c->blocks; b++) {
            const vf x = v_load_bf16(row + b * TILE), y = v_load_bf16(row + b * TILE + V_LANES);
            sum = v_fma(y, y, v_fma(x, x, sum));
        }
        factor[i] = 1 / sqrtf(v_sum(sum) + eps);
    }
}

static void load_keys(struct work *w, int64_t begin, int64_t n)
{
    const seqmix_deltanet_args *a = w->args;
    struct chunk_keys *c = &w->keys;
    c->rows = whole(n, SQUARE);
    chunk_pack(&a->k, begin * a->k.stride[0] + w->key_head * a->k.stride[1], n, c, c->keys);
    chunk_pack(&a->q, begin * a->q.stride[0] + w->key_head * a->q.stride[1], n, c, c->queries);
    chunk_prefetch(&w->seq, &a->k, begin, n, w->key_head, 0, c->dim);
    chunk_prefetch(&w->seq, &a->q, begin, n, w->key_head, 0, c->dim);
    for (int64_t i = 0; i < CELL; i++)
        w->key_factor[i] = w->query_factor[i] = 1;
    if (a->qk_l2norm) {
        l2_factors(c, c->keys, a->eps, w->key_factor);
        l2_factors(c, c->queries, a->eps, w->query_factor);
    }
    chunk_turn_keys(c);
    chunk_dots(c, c->keys, w->keys_keys);
    chunk_dots(c, c->queries, c->queries_keys);
}

/* ---------------------------------------------------------------- (I + A)^-1 */

/* The inverse of a 16 x 16 block of I + A on the diagonal. */
static void invert_block(const float *mix, float *inverse)
{
    vf row[V_LANES];
    UNROLL
    for (int i = 0; i < V_LANES; i++) {
        row[i] = v_select(v_mask_first(i), v_zero(), v_select(v_mask_first(i + 1), v_set1(1), v_zero()));
        UNROLL
        for (int j = 0; j < i; j++)
            row[i] = v_fnma(v_set1(mix[i * CELL + j]), row[j], row[i]);
        v_store(inverse + i * CELL, row[i]);
    }
}

/* sums -= a*b for 16 x 16 blocks. */
static inline __attribute__((always_inline)) void subtract_product(vf sums[V_LANES], const float *a, const float *b)
{
    for (int k = 0; k < V_LANES; k++) {
        const vf row = v_load(b + k * CELL);
        UNROLL
        for (int i = 0; i < V_LANES; i++)
            sums[i] = v_fnma(v_set1(a[i * CELL + k]), row, sums[i]);
    }
}

/* Block (i, j) of the inverse: -T_ii * sum over j <= k < i of A_ik T_kj. */
static void invert_below(const float *mix, float *inverse, int64_t i, int64_t j)
{
    vf sums[V_LANES];
    const int64_t down = TILE_SIDE * CELL, across = TILE_SIDE;
    float *out = inverse + i * down + j * across;
    UNROLL
    for (int r = 0; r < V_LANES; r++)
        sums[r] = v_zero();
    for (int64_t k = j; k < i; k++)
        subtract_product(sums, mix + i * down + k * across, inverse + k * down + j * across);
    UNROLL
    for (int r = 0; r < V_LANES; r++) {
        v_store(out + r * CELL, v_sub(v_zero(), sums[r]));
        sums[r] = v_zero();
    }
    subtract_product(sums, inverse + i * (down + across), out);
    UNROLL
    for (int r = 0; r < V_LANES; r++)
        v_store(out + r * CELL, sums[r]);
}

static void invert(const struct work *w)
{
    const int64_t blocks = w->keys.rows / TILE_SIDE, diagonal = TILE_SIDE * (CELL + 1);
    for (int64_t i = 0; i < blocks; i++) {
        invert_block(w->mix + i * diagonal, w->inverse + i * diagonal);
        for (int64_t r = 0; r < TILE_SIDE; r++) /* nothing above the diagonal */
            for (int64_t j = i + 1; j < CELL_TILES; j++)
                v_store(w->inverse + (i * TILE_SIDE + r) * CELL + j * TILE_SIDE, v_zero());
        for (int64_t j = i - 1; j >= 0; j--)
            invert_below(w->mix, w->inverse, i, j);
    }
    chunk_pack_triangle(w->inverse, w->keys.rows, w->solve);
}

/* ---------------------------------------------------------------- one head's cell */

/* Gates, fades, T and the scores of value head h. */
static void prepare_head(struct work *w, int64_t begin, int64_t n, int64_t h)
{
    struct chunk_decays *d = w->decays;
    float logs[CELL];
    delta_row_gates(w->args, begin, n, h, d->decay, logs, w->beta);
    chunk_decays(d, n, w->keys.rows);
    for (int64_t i = 0; i < w->keys.rows; i++) {
        if (i >= n) w->beta[i] = 0;
        const vf key = v_set1(w->beta[i] * w->key_factor[i]), query = v_set1(w->query_factor[i]);
        for (int64_t b = 0; b < CELL_TILES; b++) {
            const int64_t at = i * CELL + b * V_LANES;
            const vf fade = v_mul(v_load(&d->fades[i][b * V_LANES]), v_load(w->key_factor + b * V_LANES));
            const vf mix = v_mul(v_mul(key, fade), v_load(w->keys_keys + at));
            const vf score = v_mul(v_mul(query, fade), v_load(w->keys.queries_keys + at));
            v_store(w->mix + at, v_select(lanes_below(i, b), mix, v_zero()));
            v_store(w->inverse + at, v_select(lanes_below(i + 1, b), score, v_zero()));
        }
    }
    chunk_pack_triangle(w->inverse, w->keys.rows, w->scores);
    invert(w);
}

/* 16 columns of v, or zeros behind the cell's rows. */
static vf value_lanes(const struct work *w, int64_t t, int64_t end, int64_t h, int64_t column)
{
    const seqmix_tensor *v = &w->args->v;
    if (t >= end) return v_zero();
    const uint16_t *row = (const uint16_t *)v->data + t * v->stride[0] + h * v->stride[1] + w->first + column;
    return v_load_bf16_n(row, lanes_left(w->columns, column));
}

/* b (V - through (K S)), a right pair. */
static void form_residual(const struct work *w, int64_t begin, int64_t n, int64_t h, const struct chunk_state *s)
{
    const vf scale = v_set1(SCALE);
    float square[SQUARE * SQUARE];
    for (int64_t top = 0; top < w->keys.rows; top += SQUARE)
        for (int64_t left = 0; left < w->width; left += SQUARE) {
            chunk_read_square(&w->keys, w->keys.keys, top, w->width, s, left, square);
            for (int64_t i = top; i < top + SQUARE; i += 2)
                for (int64_t column = left; column < left + SQUARE && column < w->width; column += V_LANES) {
                    vf row[2];
                    for (int64_t r = 0; r < 2; r++) {
                        const vf seen = v_load(square + (i + r - top) * SQUARE + column - left);
                        const vf v = v_mul(scale, value_lanes(w, begin + i + r, begin + n, h, column));
                        const vf factor = v_set1(w->decays->through[i + r] * w->key_factor[i + r]);
                        row[r] = v_mul(v_set1(w->beta[i + r]), v_fnma(factor, seen, v));
                    }
                    pack_right(w->residual + chunk_right_row(i, column, w->width), chunk_right_plane(w->width), row[0],
                               row[1]);
                }
        }
}

/* U = T * residual, and its right pair. */
static void solve(const struct work *w)
{
    for (int64_t top = 0; top < w->keys.rows; top += SQUARE)
        for (int64_t column = 0; column < w->width; column += V_LANES) {
            float *values = w->values + top * w->width + column;
            if (column % SQUARE == 0)
                chunk_mix_square(w->solve, top, w->width, w->residual, chunk_right_plane(w->width), column, values,
                                 w->width);
            for (int64_t i = 0; i < SQUARE; i += 2)
                pack_right(w->right + chunk_right_row(top + i, column, w->width), chunk_right_plane(w->width),
                           v_load(values + i * w->width), v_load(values + (i + 1) * w->width));
        }
}

static void write_outputs(const struct work *w, int64_t begin, int64_t n, int64_t h, const struct chunk_state *s)
{
    const seqmix_tensor *o = &w->args->o;
    const vf scale = v_set1(w->scale * UNSCALE);
    float seen[SQUARE * SQUARE], mixed[SQUARE * SQUARE];
    for (int64_t top = 0; top < n; top += SQUARE)
        for (int64_t left = 0; left < w->width; left += SQUARE) {
            chunk_read_square(&w->keys, w->keys.queries, top, w->width, s, left, seen);
            chunk_mix_square(w->scores, top, w->width, w->right, chunk_right_plane(w->width), left, mixed, SQUARE);
            for (int64_t i = top; i < n && i < top + SQUARE; i++) {
                const vf factor = v_set1(w->decays->through[i] * w->query_factor[i]);
                const int64_t row = (begin + i) * o->stride[0] + h * o->stride[1] + w->first;
                for (int64_t column = left; column < left + SQUARE && column < w->width; column += V_LANES) {
                    const int64_t at = (i - top) * SQUARE + column - left;
                    const vf sum = v_fma(factor, v_load(seen + at), v_load(mixed + at));
                    row_put_lanes(o, row + column, v_mul(scale, sum), lanes_left(w->columns, column));
                }
            }
        }
}

/* The values weighed for the state after `row` rows, in the residual's place. */
static void weigh(const struct work *w, int64_t row)
{
    const float *fades = w->decays->fades[row - 1];
    for (int64_t i = 0; i < w->keys.rows; i += 2) {
        const vf a = v_set1(i < row ? fades[i] * w->key_factor[i] : 0);
        const vf b = v_set1(i + 1 < row ? fades[i + 1] * w->key_factor[i + 1] : 0);
        for (int64_t column = 0; column < w->width; column += V_LANES) {
            const float *values = w->values + i * w->width + column;
            pack_right(w->residual + chunk_right_row(i, column, w->width), chunk_right_plane(w->width),
                       i < row ? v_mul(a, v_load(values)) : v_zero(),
                       i + 1 < row ? v_mul(b, v_load(values + w->width)) : v_zero());
        }
    }
}

/* ---------------------------------------------------------------- states and sequences */

static int64_t pool_offset(const struct work *w, int64_t slot, int64_t h)
{
    const seqmix_tensor *pool = &w->args->state;
    return slot * pool->stride[0] + h * pool->stride[1] + w->first * pool->stride[3];
}

static void load_state(const struct work *w, int64_t h, const struct chunk_state *s)
{
    const seqmix_tensor *pool = &w->args->state;
    memset(s->rows, 0, (size_t)(w->keys.blocks * TILE_DEPTH * w->width) * sizeof *s->rows);
    if (w->seq.read_slot >= 0)
        tile_load(pool, pool_offset(w, w->seq.read_slot, h), pool->stride[2], pool->stride[3], w->keys.dim, w->columns,
                  w->width, s->rows);
    chunk_pack_state(&w->keys, w->width, s);
}

static void store_state(const struct work *w, int64_t slot, int64_t h, const struct chunk_state *s)
{
    const seqmix_tensor *pool = &w->args->state;
    if (slot < 0) return;
    tile_store(pool, pool_offset(w, slot, h), pool->stride[2], pool->stride[3], w->keys.dim, w->columns, w->width,
               s->rows);
}

/* Rows [begin, begin+n) of one head, and the checkpoints from `checkpoint` on that lie there. */
static void run_head(struct work *w, int64_t begin, int64_t n, int64_t j, int32_t checkpoint)
{
    const seqmix_batch *batch = w->args->batch;
    const int64_t h = value_head(w, j);
    const struct chunk_state *s = &w->states[j];
    chunk_prefetch(&w->seq, &w->args->v, begin, n, h, w->first, w->columns);
    chunk_prefetch(&w->seq, &w->args->o, begin, n, h, w->first, w->columns);
    prepare_head(w, begin, n, h);
    form_residual(w, begin, n, h, s);
    solve(w);
    write_outputs(w, begin, n, h, s);
    for (; checkpoint < w->seq.ckpt_end; checkpoint++) {
        const int64_t row = batch->ckpt_row[checkpoint] - (begin - w->seq.begin);
        if (row >= n) break;
        weigh(w, row);
        chunk_write(&w->keys, w->width, s, w->decays->through[row - 1], w->residual, &w->aside);
        store_state(w, batch->ckpt_slot[checkpoint], h, &w->aside);
    }
    weigh(w, n);
    chunk_write(&w->keys, w->width, s, w->decays->through[n - 1], w->residual, s);
    for (; checkpoint < w->seq.ckpt_end && batch->ckpt_row[checkpoint] == begin + n - w->seq.begin; checkpoint++)
        store_state(w, batch->ckpt_slot[checkpoint], h, s);
}

static void take_buffers(struct work *w, int64_t dim, int64_t heads, int64_t columns, struct seqmix_cursor *cursor)
{
    const size_t square = CELL * CELL * sizeof(float), half = sizeof(uint16_t);
    struct chunk_keys *c = &w->keys;
    c->dim = dim;
    c->blocks = whole(dim, TILE_DEPTH) / TILE_DEPTH;
    w->width = whole(columns, TILE_SIDE);
    const size_t operand = (size_t)(CELL_TILES * c->blocks * TILE) * half;
    const size_t state = (size_t)(c->blocks * TILE_DEPTH * w->width);
    c->keys = seqmix_take(cursor, operand);
    c->queries = seqmix_take(cursor, operand);
    c->down = seqmix_take(cursor, operand);
    c->across = seqmix_take(cursor, operand);
    c->queries_keys = seqmix_take(cursor, square);
    w->keys_keys = seqmix_take(cursor, square);
    w->mix = seqmix_take(cursor, square);
    w->inverse = seqmix_take(cursor, square);
    w->decays = seqmix_take(cursor, sizeof *w->decays);
    w->solve = seqmix_take(cursor, square);
    w->scores = seqmix_take(cursor, square);
    w->residual = seqmix_take(cursor, (size_t)chunk_right_plane(w->width) * 2 * half);
    w->right = seqmix_take(cursor, (size_t)chunk_right_plane(w->width) * 2 * half);
    w->values = seqmix_take(cursor, (size_t)(CELL * w->width) * sizeof(float));
    for (int64_t j = 0; j < heads; j++) {
        w->states[j].rows = seqmix_take(cursor, state * sizeof(float));
        w->states[j].right = seqmix_take(cursor, 2 * state * half);
    }
    w->aside.rows = seqmix_take(cursor, state * sizeof(float));
}

static void delta_task(void *arg, int64_t task, int32_t worker)
{
    const struct delta *delta = arg;
    const seqmix_deltanet_args *a = delta->args;
    const int64_t cell = chunk_rows(a->chunk);
    struct seqmix_cursor cursor = {delta->workspace + (size_t)worker * delta->worker_size, 0};
    struct work w = {.args = a, .scale = delta_scale(a)};
    const struct cut_task t = cut_find(&delta->cut, task);
    w.key_head = t.group;
    w.seq = seqmix_batch_seq(a->batch, a->v.shape[0], &a->state, (int32_t)t.seq);
    w.first_head = t.first_head;
    w.n_heads = t.n_heads;
    w.first = t.first;
    w.columns = t.end - t.first;
    take_buffers(&w, a->k.shape[2], delta->cut.heads, w.columns, &cursor);

    amx_begin();
    for (int64_t j = 0; j < w.n_heads; j++)
        load_state(&w, value_head(&w, j), &w.states[j]);
    int32_t checkpoint = w.seq.ckpt_begin;
    for (int64_t begin = w.seq.begin; begin < w.seq.end; begin += cell) {
        const int64_t n = w.seq.end - begin < cell ? w.seq.end - begin : cell;
        load_keys(&w, begin, n);
        for (int64_t j = 0; j < w.n_heads; j++)
            run_head(&w, begin, n, j, checkpoint);
        while (checkpoint < w.seq.ckpt_end && a->batch->ckpt_row[checkpoint] <= begin + n - w.seq.begin)
            checkpoint++;
    }
    for (int64_t j = 0; j < w.n_heads; j++)
        store_state(&w, w.seq.write_slot, value_head(&w, j), &w.states[j]);
    amx_end();
}

static size_t worker_size(const seqmix_deltanet_args *a)
{
    const int64_t share = a->v.shape[1] / a->k.shape[1];
    struct seqmix_cursor cursor = {NULL, 0};
    struct work w;
    take_buffers(&w, a->k.shape[2], share < HEADS ? share : HEADS, a->v.shape[2], &cursor);
    return cursor.used;
}

seqmix_status KERN(deltanet_chunk_forward_plan)(const struct seqmix_context *ctx, const seqmix_deltanet_args *args,
                                                struct seqmix_plan *plan)
{
    const bool per_channel = args->gate_kind != SEQMIX_GATE_NONE && args->gate.rank == 3;
    if (args->v.dtype != SEQMIX_BF16 || per_channel || args->k.shape[1] == 0 || args->k.shape[2] == 0)
        return SEQMIX_ERR_UNSUPPORTED;
    plan->kernel = KERN_NAME("deltanet_tiles");
    plan->workspace = worker_size(args) * (size_t)ctx->n_workers;
    plan->grain = chunk_rows(args->chunk);
    return SEQMIX_OK;
}

seqmix_status KERN(deltanet_chunk_forward)(struct seqmix_context *ctx, const seqmix_deltanet_args *args,
                                           void *workspace)
{
    struct delta delta = {.args = args, .workspace = workspace, .worker_size = worker_size(args)};
    if (args->v.shape[1] == 0 || args->v.shape[2] == 0) return SEQMIX_OK;
    delta.cut = (struct cut){
        .groups = args->k.shape[1], .share = args->v.shape[1] / args->k.shape[1], .width = args->v.shape[2]};
    return seqmix_parallel_for(ctx, cut_up(&delta.cut, ctx, args->batch->n_seqs, HEADS, SQUARE), delta_task, &delta);
}
