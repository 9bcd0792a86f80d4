/* SPDX-License-Identifier: MIT */
/*
 * y = x*W^T + bias + residual as dot products along the inputs. A tile is OUTPUTS x ROWS accumulators; every accumulator runs
 * over the inputs in one order, whatever its tile and form, so a row's bits depend on nothing but the row. Task: TASK outputs
 * for all rows. Two forms of the same sums:
 *
 *   direct   few rows: the weights are widened in registers as they stream by
 *   panel    more: DEPTH inputs of the task's weights are widened into L1, x lies packed in pieces of DEPTH inputs, and tiles
 *            of both add to accumulators that wait in L2 between the pieces
 *
 * x is f32 in either. Block-quantised weights want it in their own order and in two streams (block_lanes.h); a piece is then
 * DEPTH inputs of each, and a sum is that of two accumulators.
 */
#include "block_lanes.h"
#include "isa.h"
#include "parallel.h"
#include "rows.h"
#include "tune.h"
#include "workspace.h"

enum { OUTPUTS = 4, ROWS = 3, TILE = OUTPUTS * ROWS };
enum { STREAMS = 2 };
enum { TASK = TUNE_LINEAR_OUTPUTS, DEPTH = TUNE_LINEAR_DEPTH, SPAN = TUNE_LINEAR_ROWS };

/* Small loops over registers, which must not stay arrays. */
#define UNROLL _Pragma("GCC unroll 4")

_Static_assert(TASK % OUTPUTS == 0 && TASK % V_LANES == 0, "a task is whole tiles and whole vectors");
_Static_assert(SPAN % ROWS == 0 && DEPTH % SEQMIX_MAX_BLOCK == 0, "rows are whole tiles, pieces whole blocks");

/* A worker's part of the workspace in the panel form. */
struct scratch {
    float panel[STREAMS][TASK * DEPTH];
    float waiting[STREAMS][SPAN / ROWS * (TASK / OUTPUTS) * TILE * V_LANES];
    float sums[SPAN * TASK];
};

struct linear {
    const seqmix_linear_args *args;
    int64_t rows, inputs, outputs;
    int64_t streams; /* 1, or 2 with blocks */
    int64_t depth;   /* inputs of a stream, filled up to whole vectors or groups */
    const float *x;  /* direct: rows x_stride apart, of [stream][input]; panel: [piece][stream][row][input] */
    int64_t x_stride;
    float *ready_x;          /* x in the workspace, or NULL: it is used in place */
    struct scratch *scratch; /* [worker], or NULL in the direct form */
};

static const uint8_t *weight_row(const struct linear *l, int64_t output)
{
    const seqmix_tensor *w = &l->args->weight;
    return (const uint8_t *)w->data + seqmix_dtype_bytes(w->dtype, output * w->stride[0]);
}

/* ---------------------------------------------------------------- sums to y */

/* sums[row][TASK] of outputs first to first+n of n_rows rows. */
static void finish(const struct linear *l, int64_t row, int64_t n_rows, int64_t first, int64_t n, const float *sums)
{
    const seqmix_linear_args *a = l->args;
    float bias[TASK];
    vector_load(&a->bias, first * a->bias.stride[0], a->bias.stride[0], n, 0, bias);
    for (int64_t r = 0; r < n_rows; r++, sums += TASK)
        for (int64_t o = 0; o < n; o += V_LANES) {
            const int lanes = lanes_left(n, o);
            vf y = v_add(v_load(sums + o), v_load_n(bias + o, lanes));
            if (seqmix_present(&a->residual))
                y = v_add(y, row_lanes(&a->residual, (row + r) * a->residual.stride[0] + first + o, lanes));
            row_put_lanes(&a->y, (row + r) * a->y.stride[0] + first + o, y, lanes);
        }
}

/* ---------------------------------------------------------------- direct */

static inline __attribute__((always_inline)) vf weight_lanes(seqmix_dtype dtype, const uint8_t *row, int64_t i, int n)
{
    if (dtype == SEQMIX_F32) {
        const float *at = (const float *)(const void *)row + i;
        return n == V_LANES ? v_load(at) : v_load_n(at, n);
    }
    const uint16_t *at = (const uint16_t *)(const void *)row + i;
    if (dtype == SEQMIX_BF16) return n == V_LANES ? v_load_bf16(at) : v_load_bf16_n(at, n);
    return n == V_LANES ? v_load_f16(at) : v_load_f16_n(at, n);
}

/* sums[row][TASK] of OUTPUTS weight rows of a plain dtype; n_rows and dtype are constants where it is inlined. */
BLOCK_INLINE void dot_plain(seqmix_dtype dtype, const uint8_t *const w[OUTPUTS], const float *x, int64_t x_stride,
                            int n_rows, int64_t n, float *sums)
{
    vf acc[OUTPUTS][ROWS], xs[ROWS], column[OUTPUTS];
    UNROLL for (int o = 0; o < OUTPUTS; o++) UNROLL for (int r = 0; r < n_rows; r++) acc[o][r] = v_zero();
    for (int64_t i = 0; i < n; i += V_LANES) {
        const int lanes = lanes_left(n, i);
        UNROLL for (int r = 0; r < n_rows; r++) xs[r] =
            lanes == V_LANES ? v_load(x + r * x_stride + i) : v_load_n(x + r * x_stride + i, lanes);
        UNROLL for (int o = 0; o < OUTPUTS; o++)
        {
            const vf weight = weight_lanes(dtype, w[o], i, lanes);
            UNROLL for (int r = 0; r < n_rows; r++) acc[o][r] = v_fma(weight, xs[r], acc[o][r]);
        }
    }
    for (int r = 0; r < n_rows; r++) {
        for (int o = 0; o < OUTPUTS; o++)
            column[o] = acc[o][r];
        v_sum4(column, sums + r * TASK);
    }
}

/* A group's products, to the accumulators of its two streams. */
BLOCK_INLINE void add_group(const vf w[GROUP_VECTORS], const float *x, int64_t second, int64_t x_stride, int n_rows,
                            vf acc[ROWS][STREAMS])
{
    for (int v = 0; v < STREAM_VECTORS; v++)
        for (int r = 0; r < n_rows; r++) {
            const float *at = x + r * x_stride + v * V_LANES;
            acc[r][0] = v_fma(w[v], v_load(at), acc[r][0]);
            acc[r][1] = v_fma(w[v + STREAM_VECTORS], v_load(at + second), acc[r][1]);
        }
}

BLOCK_INLINE void dot_small(seqmix_dtype dtype, const uint8_t *w, const float *x, int64_t second, int64_t x_stride,
                            int n_rows, int64_t n, vf acc[ROWS][STREAMS])
{
    const int64_t size = SMALL_BLOCKS * (int64_t)seqmix_dtype_size(dtype);
    vf wide[GROUP_VECTORS];
    for (; n >= GROUP; n -= GROUP, w += size, x += GROUP / STREAMS) {
        widen_small_group(dtype, w, wide);
        add_group(wide, x, second, x_stride, n_rows, acc);
    }
    if (n == 0) return;
    uint8_t tail[SMALL_BLOCKS * 34] = {0};
    memcpy(tail, w, (size_t)seqmix_dtype_bytes(dtype, n));
    widen_small_group(dtype, tail, wide);
    add_group(wide, x, second, x_stride, n_rows, acc);
}

BLOCK_INLINE void dot_big(seqmix_dtype dtype, const uint8_t *w, const float *x, int64_t second, int64_t x_stride,
                          int n_rows, int64_t n, vf acc[ROWS][STREAMS])
{
    struct block_scales scales;
    vf wide[GROUP_VECTORS];
    for (; n > 0; n -= SEQMIX_MAX_BLOCK, w += seqmix_dtype_size(dtype)) {
        widen_scales(dtype, w, &scales);
        for (int g = 0; g < SEQMIX_MAX_BLOCK / GROUP; g++, x += GROUP / STREAMS) {
            widen_big_group(dtype, w, g, &scales, wide);
            add_group(wide, x, second, x_stride, n_rows, acc);
        }
    }
}

/* The same of a dtype with blocks. */
BLOCK_INLINE void dot_blocks(seqmix_dtype dtype, const uint8_t *const w[OUTPUTS], const float *x, int64_t x_stride,
                             int n_rows, int64_t n, float *sums)
{
    const int64_t second = (n + GROUP - 1) / GROUP * GROUP / STREAMS;
    vf column[ROWS][OUTPUTS];
    for (int o = 0; o < OUTPUTS; o++) {
        vf acc[ROWS][STREAMS];
        for (int r = 0; r < n_rows; r++)
            acc[r][0] = acc[r][1] = v_zero();
        if (seqmix_dtype_block(dtype) == SMALL_BLOCK)
            dot_small(dtype, w[o], x, second, x_stride, n_rows, n, acc);
        else
            dot_big(dtype, w[o], x, second, x_stride, n_rows, n, acc);
        for (int r = 0; r < n_rows; r++)
            column[r][o] = v_add(acc[r][0], acc[r][1]);
    }
    for (int r = 0; r < n_rows; r++)
        v_sum4(column[r], sums + r * TASK);
}

BLOCK_INLINE void dot_rows(seqmix_dtype dtype, const uint8_t *const w[OUTPUTS], const float *x, int64_t x_stride,
                           int n_rows, int64_t n, float *sums)
{
    if (seqmix_dtype_block(dtype) == 1)
        dot_plain(dtype, w, x, x_stride, n_rows, n, sums);
    else
        dot_blocks(dtype, w, x, x_stride, n_rows, n, sums);
}

/* One function for each dtype and number of rows. */
#define DOT(name, dtype, n_rows)                                                                                       \
    static void name##_##n_rows(const uint8_t *const w[OUTPUTS], const float *x, int64_t x_stride, int64_t n,          \
                                float *sums)                                                                           \
    {                                                                                                                  \
        dot_rows(dtype, w, x, x_stride, n_rows, n, sums);                                                              \
    }
#define DOTS(name, dtype) DOT(name, dtype, 1) DOT(name, dtype, 2) DOT(name, dtype, 3)

DOTS(dot_f32, SEQMIX_F32)
DOTS(dot_bf16, SEQMIX_BF16)
DOTS(dot_f16, SEQMIX_F16)
DOTS(dot_q8_0, SEQMIX_Q8_0)
DOTS(dot_q4_0, SEQMIX_Q4_0)
DOTS(dot_q5_0, SEQMIX_Q5_0)
DOTS(dot_q5_1, SEQMIX_Q5_1)
DOTS(dot_iq4_nl, SEQMIX_IQ4_NL)
DOTS(dot_q4_k, SEQMIX_Q4_K)
DOTS(dot_q5_k, SEQMIX_Q5_K)
DOTS(dot_q6_k, SEQMIX_Q6_K)

typedef void (*dot_fn)(const uint8_t *const w[OUTPUTS], const float *x, int64_t x_stride, int64_t n, float *sums);

static const struct {
    seqmix_dtype dtype;
    dot_fn dot[ROWS];
} dots[] = {
    {SEQMIX_F32, {dot_f32_1, dot_f32_2, dot_f32_3}},
    {SEQMIX_BF16, {dot_bf16_1, dot_bf16_2, dot_bf16_3}},
    {SEQMIX_F16, {dot_f16_1, dot_f16_2, dot_f16_3}},
    {SEQMIX_Q8_0, {dot_q8_0_1, dot_q8_0_2, dot_q8_0_3}},
    {SEQMIX_Q4_0, {dot_q4_0_1, dot_q4_0_2, dot_q4_0_3}},
    {SEQMIX_Q5_0, {dot_q5_0_1, dot_q5_0_2, dot_q5_0_3}},
    {SEQMIX_Q5_1, {dot_q5_1_1, dot_q5_1_2, dot_q5_1_3}},
    {SEQMIX_Q4_K, {dot_q4_k_1, dot_q4_k_2, dot_q4_k_3}},
    {SEQMIX_Q5_K, {dot_q5_k_1, dot_q5_k_2, dot_q5_k_3}},
    {SEQMIX_Q6_K, {dot_q6_k_1, dot_q6_k_2, dot_q6_k_3}},
    {SEQMIX_IQ4_NL, {dot_iq4_nl_1, dot_iq4_nl_2, dot_iq4_nl_3}},
};

static const dot_fn *find_dots(seqmix_dtype dtype)
{
    for (size_t i = 0; i < sizeof dots / sizeof dots[0]; i++)
        if (dots[i].dtype == dtype) return dots[i].dot;
    return NULL;
}

static void direct_task(void *arg, int64_t task, int32_t worker)
{
    const struct linear *l = arg;
    const dot_fn *dot = find_dots(l->args->weight.dtype);
    const int64_t first = task * TASK, n = l->outputs - first < TASK ? l->outputs - first : TASK;
    (void)worker;
    for (int64_t row = 0; row < l->rows; row += ROWS) {
        const int64_t n_rows = l->rows - row < ROWS ? l->rows - row : ROWS;
        float sums[ROWS * TASK];
        for (int64_t o = 0; o < n; o += OUTPUTS) {
            const uint8_t *w[OUTPUTS];
            for (int i = 0; i < OUTPUTS; i++) /* beyond the last output its weights again; their sums are not used */
                w[i] = weight_row(l, first + (o + i < n ? o + i : n - 1));
            dot[n_rows - 1](w, l->x + row * l->x_stride, l->x_stride, l->inputs, sums + o);
        }
        finish(l, row, n_rows, first, n, sums);
    }
}

/* ---------------------------------------------------------------- panel */

/* Adds n inputs to a tile's waiting accumulators, or begins them; n_rows is a constant where it is inlined. */
BLOCK_INLINE void add_tile(const float *panel, const float *x, int n_rows, int64_t n, bool begin, float *waiting)
{
    vf acc[OUTPUTS][ROWS], xs[ROWS];
    UNROLL for (int o = 0; o < OUTPUTS; o++) UNROLL for (int r = 0; r < n_rows; r++) acc[o][r] =
        begin ? v_zero() : v_load(waiting + (o * ROWS + r) * V_LANES);
    for (int64_t i = 0; i < n; i += V_LANES) {
        UNROLL for (int r = 0; r < n_rows; r++) xs[r] = v_load(x + r * n + i);
        UNROLL for (int o = 0; o < OUTPUTS; o++)
        {
            const vf weight = v_load(panel + o * n + i);
            UNROLL for (int r = 0; r < n_rows; r++) acc[o][r] = v_fma(weight, xs[r], acc[o][r]);
        }
    }
    UNROLL for (int o = 0; o < OUTPUTS; o++) UNROLL for (int r = 0; r < n_rows; r++)
        v_store(waiting + (o * ROWS + r) * V_LANES, acc[o][r]);
}

static void add_tile_rows(const float *panel, const float *x, int64_t n_rows, int64_t n, bool begin, float *waiting)
{
    if (n_rows == 1)
        add_tile(panel, x, 1, n, begin, waiting);
    else if (n_rows == 2)
        add_tile(panel, x, 2, n, begin, waiting);
    else
        add_tile(panel, x, 3, n, begin, waiting);
}

#define WIDEN(name, dtype)                                                                                             \
    static void name(const uint8_t *at, int64_t n, float *first, float *second)                                        \
    {                                                                                                                  \
        widen_blocks(dtype, at, n, first, second);                                                                     \
    }
WIDEN(widen_q8_0, SEQMIX_Q8_0)
WIDEN(widen_q4_0, SEQMIX_Q4_0)
WIDEN(widen_q5_0, SEQMIX_Q5_0)
WIDEN(widen_q5_1, SEQMIX_Q5_1)
WIDEN(widen_iq4_nl, SEQMIX_IQ4_NL)
WIDEN(widen_q4_k, SEQMIX_Q4_K)
WIDEN(widen_q5_k, SEQMIX_Q5_K)
WIDEN(widen_q6_k, SEQMIX_Q6_K)

/* n inputs of a weight row from input i on, filled up with zeros to `width` of each stream. */
static void widen_weights(const struct linear *l, int64_t output, int64_t i, int64_t n, int64_t width, float *first,
                          float *second)
{
    const seqmix_tensor *w = &l->args->weight;
    const uint8_t *at = weight_row(l, output) + seqmix_dtype_bytes(w->dtype, i);
    switch (w->dtype) {
    case SEQMIX_Q8_0:
        widen_q8_0(at, n, first, second);
        break;
    case SEQMIX_Q4_0:
        widen_q4_0(at, n, first, second);
        break;
    case SEQMIX_Q5_0:
        widen_q5_0(at, n, first, second);
        break;
    case SEQMIX_Q5_1:
        widen_q5_1(at, n, first, second);
        break;
    case SEQMIX_IQ4_NL:
        widen_iq4_nl(at, n, first, second);
        break;
    case SEQMIX_Q4_K:
        widen_q4_k(at, n, first, second);
        break;
    case SEQMIX_Q5_K:
        widen_q5_k(at, n, first, second);
        break;
    case SEQMIX_Q6_K:
        widen_q6_k(at, n, first, second);
        break;
    default:
        row_load(w, output * w->stride[0] + i, n, first);
        for (; n < width; n++)
            first[n] = 0;
        break;
    }
}

/* Piece i: as many inputs of every stream as DEPTH allows. */
struct piece {
    int64_t first, n; /* inputs */
    int64_t width;    /* of each stream */
};

static struct piece piece_at(const struct linear *l, int64_t at)
{
    struct piece p = {.first = at * l->streams, .width = l->depth - at < DEPTH ? l->depth - at : DEPTH};
    p.n = l->inputs - p.first < p.width * l->streams ? l->inputs - p.first : p.width * l->streams;
    return p;
}

/* Asks for the share r of n_rows of the weights that the next piece, or the next task, widens: between them lie the products
 * of a whole piece, in which the hardware sees nothing coming. */
static void ask_ahead(const struct linear *l, int64_t at, int64_t first, int64_t r, int64_t n_rows)
{
    const bool same = at + DEPTH < l->depth;
    const int64_t line = 64, outputs = same ? first : first + TASK;
    const struct piece p = piece_at(l, same ? at + DEPTH : 0);
    const int64_t skip = seqmix_dtype_bytes(l->args->weight.dtype, p.first);
    const int64_t lines = (seqmix_dtype_bytes(l->args->weight.dtype, p.n) + line - 1) / line;
    for (int64_t i = r * TASK * lines / n_rows; i < (r + ROWS) * TASK * lines / n_rows; i++)
        if (i < TASK * lines && outputs + i / lines < l->outputs)
            v_prefetch(weight_row(l, outputs + i / lines) + skip + i % lines * line);
}

static void panel_piece(const struct linear *l, int64_t at, int64_t row, int64_t n_rows, int64_t first, int64_t n,
                        struct scratch *s)
{
    const struct piece p = piece_at(l, at);
    const int64_t quads = (n + OUTPUTS - 1) / OUTPUTS;
    for (int64_t o = 0; o < quads * OUTPUTS; o++)
        widen_weights(l, first + (o < n ? o : n - 1), p.first, p.n, p.width, s->panel[0] + o * p.width,
                      s->panel[1] + o * p.width);
    for (int64_t stream = 0; stream < l->streams; stream++) {
        const float *x = l->x + p.first * l->rows + (stream * l->rows + row) * p.width;
        for (int64_t r = 0; r < n_rows; r += ROWS) {
            if (stream == 0) ask_ahead(l, at, first, r, n_rows);
            for (int64_t q = 0; q < quads; q++)
                add_tile_rows(s->panel[stream] + q * OUTPUTS * p.width, x + r * p.width, n_rows - r, p.width, at == 0,
                              s->waiting[stream] + (r / ROWS * (TASK / OUTPUTS) + q) * TILE * V_LANES);
        }
    }
}

/* SPAN rows from `row` on for the task's outputs. */
static void panel_rows(const struct linear *l, int64_t row, int64_t n_rows, int64_t first, int64_t n, struct scratch *s)
{
    int64_t at = 0;
    do { /* once even without inputs */
        panel_piece(l, at, row, n_rows, first, n, s);
        at += DEPTH;
    } while (at < l->depth);
    for (int64_t r = 0; r < n_rows; r++)
        for (int64_t q = 0; q * OUTPUTS < n; q++) {
            const int64_t tile = (r / ROWS * (TASK / OUTPUTS) + q) * TILE + r % ROWS;
            vf column[OUTPUTS];
            for (int o = 0; o < OUTPUTS; o++) {
                column[o] = v_load(s->waiting[0] + (tile + o * ROWS) * V_LANES);
                if (l->streams > 1) column[o] = v_add(column[o], v_load(s->waiting[1] + (tile + o * ROWS) * V_LANES));
            }
            v_sum4(column, s->sums + r * TASK + q * OUTPUTS);
        }
    finish(l, row, n_rows, first, n, s->sums);
}

static void panel_task(void *arg, int64_t task, int32_t worker)
{
    const struct linear *l = arg;
    const int64_t first = task * TASK, n = l->outputs - first < TASK ? l->outputs - first : TASK;
    for (int64_t row = 0; row < l->rows; row += SPAN)
        panel_rows(l, row, l->rows - row < SPAN ? l->rows - row : SPAN, first, n, &l->scratch[worker]);
}

/* ---------------------------------------------------------------- x, and the op */

/* A piece of a row's inputs, in the weights' order and filled up with zeros, to the streams. */
static void ready_piece(const struct linear *l, int64_t row, struct piece p, float *first, float *second)
{
    const seqmix_tensor *x = &l->args->x;
    float wide[STREAMS * DEPTH];
    if (l->streams > 1) {
        block_order(l->args->weight.dtype, row_f32(x, row * x->stride[0] + p.first, p.n, wide), p.n, first, second);
        return;
    }
    row_load(x, row * x->stride[0] + p.first, p.n, first);
    for (; p.n < p.width; p.n++)
        first[p.n] = 0;
}

static void ready_task(void *arg, int64_t row, int32_t worker)
{
    const struct linear *l = arg;
    (void)worker;
    for (int64_t at = 0; at < l->depth; at += DEPTH) {
        const struct piece p = piece_at(l, at);
        const int64_t panel = p.first * l->rows + row * p.width, direct = row * l->x_stride + at;
        float *first = l->ready_x + (l->scratch != NULL ? panel : direct);
        ready_piece(l, row, p, first, first + (l->scratch != NULL ? l->rows * p.width : l->depth));
    }
}

/* What both the plan and the op know of the call; the buffers lie in `cursor`. */
static void prepare(const struct seqmix_context *ctx, const seqmix_linear_args *a, struct seqmix_cursor *cursor,
                    struct linear *l)
{
    const bool blocks = seqmix_dtype_block(a->weight.dtype) > 1;
    const int64_t streams = blocks ? STREAMS : 1, whole = blocks ? GROUP / STREAMS : V_LANES;
    const int64_t few = blocks ? TUNE_LINEAR_DIRECT_BLOCKS : TUNE_LINEAR_DIRECT;
    *l = (struct linear){.args = a, .rows = a->x.shape[0], .inputs = a->x.shape[1], .outputs = a->weight.shape[0]};
    l->streams = streams;
    l->depth = (l->inputs + whole * streams - 1) / (whole * streams) * whole;
    l->x = a->x.data;
    l->x_stride = a->x.stride[0];
    const bool panel = l->rows > few;
    if (panel || blocks || a->x.dtype != SEQMIX_F32) {
        l->x_stride = l->depth * streams;
        l->ready_x = seqmix_take(cursor, (size_t)l->rows * (size_t)l->x_stride * sizeof(float));
        l->x = l->ready_x;
    }
    if (panel) l->scratch = seqmix_take(cursor, (size_t)ctx->n_workers * sizeof *l->scratch);
}

seqmix_status KERN(linear_plan)(const struct seqmix_context *ctx, const seqmix_linear_args *args,
                                struct seqmix_plan *plan)
{
    if (args->x.shape[1] == 0) return SEQMIX_ERR_UNSUPPORTED; /* no products, and no pointers to add to: rung 0 */
    struct linear l;
    struct seqmix_cursor cursor = {NULL, 0};
    prepare(ctx, args, &cursor, &l);
    plan->kernel = KERN_NAME("linear");
    plan->workspace = cursor.used;
    plan->grain = 1;
    return SEQMIX_OK;
}

seqmix_status KERN(linear)(struct seqmix_context *ctx, const seqmix_linear_args *args, void *workspace)
{
    struct linear l;
    struct seqmix_cursor cursor = {workspace, 0};
    prepare(ctx, args, &cursor, &l);
    if (l.rows == 0) return SEQMIX_OK;
    if (l.ready_x != NULL) {
        const seqmix_status status = seqmix_parallel_for(ctx, l.rows, ready_task, &l);
        if (status != SEQMIX_OK) return status;
    }
    return seqmix_parallel_for(ctx, (l.outputs + TASK - 1) / TASK, l.scratch != NULL ? panel_task : direct_task, &l);
}
