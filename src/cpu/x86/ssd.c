/* SPDX-License-Identifier: MIT */
/*
 * Mamba-2 SSD over many rows of bf16 on AMX tiles (chunk.h, tile.h). Keys are B, queries C, the values a row adds d_t x_t:
 *   y = through (C S) + (fades_ij (c_i.b_j) d_j)_ij X         S <- through S + B^T (fades d x)
 * B, C and x enter as they came; decays and step sizes multiply the scores and the weighed x in f32 before their one rounding.
 * States are [N][P] here: the head dim lies along the columns of a product.
 * Task: some of the P state rows of some heads of one group of one sequence; the heads share C B^T.
 */
#include "../kern/isa.h"
#include "../kern/ssd_row.h"
#include "../kern/state_tile.h"
#include "chunk.h"
#include "parallel.h"
#include "workspace.h"

enum { HEADS = 16 /* of a task, whose states fill half an L2 of 2 MiB at 128 x 80 */ };

struct ssd {
    const seqmix_ssd_args *args;
    struct cut cut;
    char *workspace;
    size_t worker_size;
};

/* One task's view of its work; the buffers are the worker's part of the workspace. */
struct work {
    const seqmix_ssd_args *args;
    struct seqmix_seq seq;
    int64_t group, first_head, n_heads;
    int64_t first, columns, width; /* state rows; in whole tiles */
    struct chunk_keys keys;
    float delta[CELL];
    struct chunk_decays *decays;
    float *mix;                 /* [CELL][CELL] */
    uint16_t *scores;           /* left */
    uint16_t *values, *weighed; /* right: x, and a pair of x weighed for a state */
    struct chunk_state states[HEADS], aside;
};

static void load_keys(struct work *w, int64_t begin, int64_t n)
{
    const seqmix_ssd_args *a = w->args;
    struct chunk_keys *c = &w->keys;
    c->rows = whole(n, SQUARE);
    chunk_pack(&a->B, begin * a->B.stride[0] + w->group * a->B.stride[1], n, c, c->keys);
    chunk_pack(&a->C, begin * a->C.stride[0] + w->group * a->C.stride[1], n, c, c->queries);
    chunk_prefetch(&w->seq, &a->B, begin, n, w->group, 0, c->dim);
    chunk_prefetch(&w->seq, &a->C, begin, n, w->group, 0, c->dim);
    chunk_turn_keys(c);
    chunk_dots(c, c->queries, c->queries_keys);
}

/* ---------------------------------------------------------------- one head's cell */

static void prepare_head(struct work *w, int64_t begin, int64_t n, int64_t h)
{
    struct chunk_decays *d = w->decays;
    float logs[CELL];
    ssd_step_sizes(w->args, begin, n, h, w->delta, logs);
    for (int64_t i = 0; i < n; i += V_LANES)
        v_store_n(d->decay + i, v_exp_neg(v_load_n(logs + i, lanes_left(n, i))), lanes_left(n, i));
    for (int64_t i = n; i < w->keys.rows; i++)
        w->delta[i] = 0;
    chunk_decays(d, n, w->keys.rows);
    for (int64_t i = 0; i < w->keys.rows; i++)
        for (int64_t b = 0; b < CELL_TILES; b++) {
            const int64_t at = i * CELL + b * V_LANES;
            const vf fade = v_mul(v_load(&d->fades[i][b * V_LANES]), v_load(w->delta + b * V_LANES));
            const vf score = v_mul(fade, v_load(w->keys.queries_keys + at));
            v_store(w->mix + at, v_select(lanes_below(i + 1, b), score, v_zero()));
        }
    chunk_pack_triangle(w->mix, w->keys.rows, w->scores);
}

/* Columns of x as f32, zeros from row `end` on. */
static vf input_lanes(const struct work *w, int64_t t, int64_t end, int64_t h, int64_t column)
{
    const seqmix_tensor *x = &w->args->x;
    if (t >= end) return v_zero();
    return row_lanes(x, t * x->stride[0] + h * x->stride[1] + w->first + column, lanes_left(w->columns, column));
}

/* The rows [begin, begin+n) of x times SCALE as a right operand, exact; or, where there are fades, weighed by them and the step
 * sizes, as a pair. */
static void pack_inputs(const struct work *w, int64_t begin, int64_t n, int64_t h, const float *fades, uint16_t *right)
{
    const int64_t plane = fades != NULL ? chunk_right_plane(w->width) : 0;
    for (int64_t i = 0; i < w->keys.rows; i += 2) {
        float factor[2] = {SCALE, SCALE};
        for (int64_t r = 0; r < 2 && fades != NULL; r++)
            factor[r] = i + r < n ? SCALE * fades[i + r] * w->delta[i + r] : 0;
        const vf a = v_set1(factor[0]), b = v_set1(factor[1]);
        for (int64_t column = 0; column < w->width; column += V_LANES)
            pack_right(right + chunk_right_row(i, column, w->width), plane,
                       v_mul(a, input_lanes(w, begin + i, begin + n, h, column)),
                       v_mul(b, input_lanes(w, begin + i + 1, begin + n, h, column)));
    }
}

static void write_outputs(const struct work *w, int64_t begin, int64_t n, int64_t h, const struct chunk_state *s)
{
    const vf unscale = v_set1(UNSCALE);
    float seen[SQUARE * SQUARE], mixed[SQUARE * SQUARE];
    for (int64_t top = 0; top < n; top += SQUARE)
        for (int64_t left = 0; left < w->width; left += SQUARE) {
            chunk_read_square(&w->keys, w->keys.queries, top, w->width, s, left, seen);
            chunk_mix_square(w->scores, top, w->width, w->values, 0, left, mixed, SQUARE);
            for (int64_t i = top; i < n && i < top + SQUARE; i++)
                for (int64_t column = left; column < left + SQUARE && column < w->width; column += V_LANES) {
                    const int64_t at = (i - top) * SQUARE + column - left;
                    const vf sum = v_fma(v_set1(w->decays->through[i]), v_load(seen + at), v_load(mixed + at));
                    ssd_finish(w->args, begin + i, h, w->first + column,
                               input_lanes(w, begin + i, begin + n, h, column), v_mul(unscale, sum),
                               lanes_left(w->columns, column));
                }
        }
}

/* ---------------------------------------------------------------- states and sequences */

static int64_t pool_offset(const struct work *w, int64_t slot, int64_t h)
{
    const seqmix_tensor *pool = &w->args->state;
    return slot * pool->stride[0] + h * pool->stride[1] + w->first * pool->stride[2];
}

static void load_state(const struct work *w, int64_t h, const struct chunk_state *s)
{
    const seqmix_tensor *pool = &w->args->state;
    memset(s->rows, 0, (size_t)(w->keys.blocks * TILE_DEPTH * w->width) * sizeof *s->rows);
    if (w->seq.read_slot >= 0)
        tile_load(pool, pool_offset(w, w->seq.read_slot, h), pool->stride[3], pool->stride[2], w->keys.dim, w->columns,
                  w->width, s->rows);
    chunk_pack_state(&w->keys, w->width, s);
}

static void store_state(const struct work *w, int64_t slot, int64_t h, const struct chunk_state *s)
{
    const seqmix_tensor *pool = &w->args->state;
    if (slot < 0) return;
    tile_store(pool, pool_offset(w, slot, h), pool->stride[3], pool->stride[2], w->keys.dim, w->columns, w->width,
               s->rows);
}

/* out = the state after `row` of the cell's rows. */
static void write_state(const struct work *w, int64_t begin, int64_t row, int64_t h, const struct chunk_state *s,
                        const struct chunk_state *out)
{
    pack_inputs(w, begin, row, h, w->decays->fades[row - 1], w->weighed);
    chunk_write(&w->keys, w->width, s, w->decays->through[row - 1], w->weighed, out);
}

/* Rows [begin, begin+n) of one head, and the checkpoints from `checkpoint` on that lie there. */
static void run_head(struct work *w, int64_t begin, int64_t n, int64_t j, int32_t checkpoint)
{
    const seqmix_ssd_args *a = w->args;
    const seqmix_batch *batch = a->batch;
    const int64_t h = w->first_head + j;
    const struct chunk_state *s = &w->states[j];
    chunk_prefetch(&w->seq, &a->x, begin, n, h, w->first, w->columns);
    chunk_prefetch(&w->seq, &a->y, begin, n, h, w->first, w->columns);
    if (seqmix_present(&a->z)) chunk_prefetch(&w->seq, &a->z, begin, n, h, w->first, w->columns);
    prepare_head(w, begin, n, h);
    pack_inputs(w, begin, n, h, NULL, w->values);
    write_outputs(w, begin, n, h, s);
    for (; checkpoint < w->seq.ckpt_end; checkpoint++) {
        const int64_t row = batch->ckpt_row[checkpoint] - (begin - w->seq.begin);
        if (row >= n) break;
        write_state(w, begin, row, h, s, &w->aside);
        store_state(w, batch->ckpt_slot[checkpoint], h, &w->aside);
    }
    write_state(w, begin, n, h, s, s);
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
    w->decays = seqmix_take(cursor, sizeof *w->decays);
    w->mix = seqmix_take(cursor, square);
    w->scores = seqmix_take(cursor, 2 * TRIANGLE * half);
    w->values = seqmix_take(cursor, (size_t)chunk_right_plane(w->width) * half);
    w->weighed = seqmix_take(cursor, 2 * (size_t)chunk_right_plane(w->width) * half);
    for (int64_t j = 0; j < heads; j++) {
        w->states[j].rows = seqmix_take(cursor, state * sizeof(float));
        w->states[j].right = seqmix_take(cursor, 2 * state * half);
    }
    w->aside.rows = seqmix_take(cursor, state * sizeof(float));
}

static void ssd_task(void *arg, int64_t task, int32_t worker)
{
    const struct ssd *ssd = arg;
    const seqmix_ssd_args *a = ssd->args;
    const int64_t cell = chunk_rows(a->chunk);
    struct seqmix_cursor cursor = {ssd->workspace + (size_t)worker * ssd->worker_size, 0};
    struct work w = {.args = a};
    const struct cut_task t = cut_find(&ssd->cut, task);
    w.group = t.group;
    w.seq = seqmix_batch_seq(a->batch, a->x.shape[0], &a->state, (int32_t)t.seq);
    w.first_head = t.group * ssd->cut.share + t.first_head;
    w.n_heads = t.n_heads;
    w.first = t.first;
    w.columns = t.end - t.first;
    take_buffers(&w, a->B.shape[2], ssd->cut.heads, w.columns, &cursor);

    amx_begin();
    for (int64_t j = 0; j < w.n_heads; j++)
        load_state(&w, w.first_head + j, &w.states[j]);
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
        store_state(&w, w.seq.write_slot, w.first_head + j, &w.states[j]);
    amx_end();
}

static size_t worker_size(const seqmix_ssd_args *a)
{
    const int64_t share = a->x.shape[1] / a->B.shape[1];
    struct seqmix_cursor cursor = {NULL, 0};
    struct work w;
    take_buffers(&w, a->B.shape[2], share < HEADS ? share : HEADS, a->x.shape[2], &cursor);
    return cursor.used;
}

seqmix_status KERN(ssd_chunk_forward_plan)(const struct seqmix_context *ctx, const seqmix_ssd_args *args,
                                           struct seqmix_plan *plan)
{
    if (args->x.dtype != SEQMIX_BF16 || args->B.shape[1] == 0 || args->B.shape[2] == 0) return SEQMIX_ERR_UNSUPPORTED;
    plan->kernel = KERN_NAME("ssd_tiles");
    plan->workspace = worker_size(args) * (size_t)ctx->n_workers;
    plan->grain = chunk_rows(args->chunk);
    return SEQMIX_OK;
}

seqmix_status KERN(ssd_chunk_forward)(struct seqmix_context *ctx, const seqmix_ssd_args *args, void *workspace)
{
    struct ssd ssd = {.args = args, .workspace = workspace, .worker_size = worker_size(args)};
    if (args->x.shape[1] == 0 || args->x.shape[2] == 0) return SEQMIX_OK;
    ssd.cut = (struct cut){
        .groups = args->B.shape[1], .share = args->x.shape[1] / args->B.shape[1], .width = args->x.shape[2]};
    return seqmix_parallel_for(ctx, cut_up(&ssd.cut, ctx, args->batch->n_seqs, HEADS, SQUARE), ssd_task, &ssd);
}
