/* SPDX-License-Identifier: MIT */
/*
 * y = x*W^T + bias + residual. A row's bits depend on nothing but the row, up to FEW rows or where the call is `invariant`; which
 * of the forms serves depends on the weights' dtype and the row count:
 *
 *   dots    weights without blocks, few rows: lanes along the inputs (weight_dots.h). A sum goes over a piece of inputs from zero,
 *           and the pieces are added in order
 *   direct  blocks, 1 row: lanes are outputs, weights are widened in registers as they stream by (weight_lanes.h)
 *   panel   more: DEPTH inputs of PANEL outputs are widened into L1, and tiles of ROWS rows of x, packed input by input, run
 *           over them; the direct form's sums
 *
 * The rows of weights that dots and direct read in turn lie STREAM bytes apart, so that memory sees long streams in different
 * pages: half again as fast as rows side by side.
 * Task: some outputs for all rows, in the panel form for a span of them.
 */
#include "isa.h"
#include "parallel.h"
#include "rows.h"
#include "stream.h"
#include "tune.h"
#include "weight_dots.h"
#include "workspace.h"

enum { ROWS = 4, FINE = 4, DEPTH = SEQMIX_MAX_BLOCK };
enum { SPAN = TUNE_LINEAR_ROWS, GROUP = TUNE_LINEAR_PANELS, WIDTH = GROUP * PANEL };
enum { FEW = 16, STREAMS = 8, PAGE = 4096, STREAM = TUNE_LINEAR_STREAM, AHEAD = TUNE_LINEAR_AHEAD };

#define UNROLL _Pragma("GCC unroll 6")

_Static_assert(DEPTH % UNIT == 0 && SPAN % ROWS == 0, "pieces are whole units, spans whole tiles");
_Static_assert((int)TUNE_LINEAR_SHORT <= DEPTH, "few inputs are one piece");
_Static_assert((int)WIDTH <= (int)TUNE_LINEAR_OUTPUTS, "no task has more outputs");

/* A worker's part of the workspace in the panel form. */
struct scratch {
    float panel[DEPTH * PANEL];
    float sums[SPAN * WIDTH];
};

struct linear {
    const seqmix_linear_args *args;
    int64_t rows, inputs, outputs;
    int64_t task_outputs, spans;
    const float *x; /* dots, direct: rows x_stride apart; panel: [piece][tile][DEPTH][ROWS] */
    int64_t x_stride, pieces;
    float *ready_x;          /* x in the workspace, or NULL: it is used in place */
    struct scratch *scratch; /* [worker], or NULL but in the panel form */
    bool dots, stream;       /* y past the caches */
};

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static const uint8_t *weight_at(const struct linear *l, int64_t output, int64_t input)
{
    const seqmix_tensor *w = &l->args->weight;
    return (const uint8_t *)w->data + seqmix_dtype_bytes(w->dtype, output * w->stride[0]) +
           seqmix_dtype_bytes(w->dtype, input);
}

/* How far apart two outputs' weights lie; 0 where there are not so many, as strides mean nothing then. */
static int64_t bytes_of_outputs(const struct linear *l, int64_t n)
{
    const seqmix_tensor *w = &l->args->weight;
    return n < l->outputs ? seqmix_dtype_bytes(w->dtype, n * w->stride[0]) : 0;
}

/* sums[n_rows][stride], to y's outputs first to first+n. */
static void finish(const struct linear *l, int64_t row, int64_t n_rows, int64_t first, int64_t n, const float *sums,
                   int64_t stride)
{
    const seqmix_linear_args *a = l->args;
    float bias[TUNE_LINEAR_OUTPUTS] = {0};
    vector_load(&a->bias, first * a->bias.stride[0], a->bias.stride[0], n, 0, bias);
    for (int64_t r = 0; r < n_rows; r++)
        for (int64_t o = 0; o < n; o += V_LANES) {
            const int lanes = lanes_left(n, o);
            vf y = v_add(v_load(sums + r * stride + o), v_load(bias + o));
            if (seqmix_present(&a->residual))
                y = v_add(y, row_lanes(&a->residual, (row + r) * a->residual.stride[0] + first + o, lanes));
            row_put_stream(&a->y, (row + r) * a->y.stride[0] + first + o, y, lanes, l->stream);
        }
    if (l->stream) v_stream_end();
}

/* ---------------------------------------------------------------- weights */

#define WIDEN(name, dtype)                                                                                             \
    static void widen_##name(const uint8_t *const row[V_LANES], int64_t n, int64_t ahead, float *panel)                \
    {                                                                                                                  \
        struct sink s = {.panel = panel};                                                                              \
        weight_lanes(dtype, row, 0, n, ahead, &s);                                                                     \
    }
#define DOTS(name, dtype, weights, rows)                                                                               \
    static void dots_##name##_##rows(const uint8_t *const *row, int64_t n, int64_t ahead, const float *x,              \
                                     int64_t stride, vf *total)                                                        \
    {                                                                                                                  \
        plain_dots(dtype, row, weights, n, ahead, x, stride, rows, total, FEW);                                        \
    }
#define PLAIN(name, dtype)                                                                                             \
    DOTS(name, dtype, 8, 1)                                                                                            \
    DOTS(name, dtype, 4, 2)                                                                                            \
    DOTS(name, dtype, 4, 3)                                                                                            \
    WIDEN(name, dtype)
#define BLOCKED(name, dtype)                                                                                           \
    static void direct_##name(const uint8_t *const row[V_LANES], const float *x, int64_t n, float *sums)               \
    {                                                                                                                  \
        vf total = v_zero();                                                                                           \
        for (int64_t i = 0; i < n; i += DEPTH) {                                                                       \
            struct sink s = {.x = x + i, .total = v_zero()};                                                           \
            weight_lanes(dtype, row, seqmix_dtype_bytes(dtype, i), least(n - i, DEPTH), AHEAD, &s);                    \
            total = v_add(total, s.total);                                                                             \
        }                                                                                                              \
        v_store(sums, total);                                                                                          \
    }                                                                                                                  \
    WIDEN(name, dtype)
PLAIN(f32, SEQMIX_F32)
PLAIN(bf16, SEQMIX_BF16)
PLAIN(f16, SEQMIX_F16)
BLOCKED(q8_0, SEQMIX_Q8_0)
BLOCKED(q4_0, SEQMIX_Q4_0)
BLOCKED(q5_0, SEQMIX_Q5_0)
BLOCKED(q5_1, SEQMIX_Q5_1)
BLOCKED(iq4_nl, SEQMIX_IQ4_NL)
BLOCKED(q4_k, SEQMIX_Q4_K)
BLOCKED(q5_k, SEQMIX_Q5_K)
BLOCKED(q6_k, SEQMIX_Q6_K)

typedef void (*dots_fn)(const uint8_t *const *row, int64_t n, int64_t ahead, const float *x, int64_t stride, vf *total);

struct form {
    seqmix_dtype dtype;
    void (*widen)(const uint8_t *const row[V_LANES], int64_t n, int64_t ahead, float *panel);
    void (*direct)(const uint8_t *const row[V_LANES], const float *x, int64_t n, float *sums); /* blocks only, */
    dots_fn dots[DOT_ROWS]; /* and these none; as many rows of x */
};

static const struct form *find_form(seqmix_dtype dtype)
{
#define PLAIN_FORM(name)                                                                                               \
    widen_##name, NULL,                                                                                                \
    {                                                                                                                  \
        dots_##name##_1, dots_##name##_2, dots_##name##_3                                                              \
    }
#define BLOCKED_FORM(name)                                                                                             \
    widen_##name, direct_##name,                                                                                       \
    {                                                                                                                  \
        NULL                                                                                                           \
    }
    static const struct form forms[] = {
        {SEQMIX_F32, PLAIN_FORM(f32)},     {SEQMIX_BF16, PLAIN_FORM(bf16)},       {SEQMIX_F16, PLAIN_FORM(f16)},
        {SEQMIX_Q8_0, BLOCKED_FORM(q8_0)}, {SEQMIX_Q4_0, BLOCKED_FORM(q4_0)},     {SEQMIX_Q5_0, BLOCKED_FORM(q5_0)},
        {SEQMIX_Q5_1, BLOCKED_FORM(q5_1)}, {SEQMIX_Q4_K, BLOCKED_FORM(q4_k)},     {SEQMIX_Q5_K, BLOCKED_FORM(q5_k)},
        {SEQMIX_Q6_K, BLOCKED_FORM(q6_k)}, {SEQMIX_IQ4_NL, BLOCKED_FORM(iq4_nl)},
    };
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
        if (forms[i].dtype == dtype) return &forms[i];
    return NULL;
}

/* ---------------------------------------------------------------- dots */

/* Adds to total[STREAMS][FEW] the products of n inputs with n_rows rows of x. */
static void add_dots(const struct form *form, const uint8_t *const row[STREAMS], int64_t n, const float *x,
                     int64_t x_stride, int64_t n_rows, vf *total)
{
    for (int64_t r = 0, rows; r < n_rows; r += rows) {
        rows = n_rows - r == 4 ? 2 : least(n_rows - r, DOT_ROWS);
        for (int s = 0, n_weights = rows == 1 ? 8 : 4; s < STREAMS; s += n_weights)
            form->dots[rows - 1](row + s, n, r == 0 ? AHEAD : 0, x + r * x_stride, x_stride, total + s * FEW + r);
    }
}

static void sum_streams(const struct linear *l, const uint8_t *const weights[STREAMS], int64_t row, int64_t n_rows,
                        vf total[STREAMS][FEW])
{
    const struct form *form = find_form(l->args->weight.dtype);
    const int64_t size = seqmix_dtype_bytes(form->dtype, 1);
    memset(total, 0, STREAMS * FEW * sizeof **total);
    for (int64_t first = 0; first < l->inputs; first += DEPTH) {
        const int64_t n = least(l->inputs - first, DEPTH), whole = n / V_LANES * V_LANES, left = n - whole;
        const float *x = l->x + row * l->x_stride + first;
        const uint8_t *at[STREAMS];
        uint8_t filled[STREAMS][V_LANES * sizeof(float)] = {{0}};
        for (int s = 0; s < STREAMS; s++)
            at[s] = weights[s] + first * size;
        add_dots(form, at, whole, x, l->x_stride, n_rows, total[0]);
        if (left == 0) continue;
        for (int s = 0; s < STREAMS; s++) {
            memcpy(filled[s], at[s] + whole * size, (size_t)(left * size));
            at[s] = filled[s];
        }
        add_dots(form, at, V_LANES, x + whole, l->x_stride, n_rows, total[0]);
    }
}

static void dots_task(void *arg, int64_t task, int32_t worker)
{
    const struct linear *l = arg;
    const int64_t first = task * l->task_outputs, n = least(l->outputs - first, l->task_outputs);
    const int64_t length = (n + STREAMS - 1) / STREAMS; /* of a stream, in outputs */
    float sums[FEW][TUNE_LINEAR_OUTPUTS];
    (void)worker;
    for (int64_t row = 0; row < l->rows; row += FEW) {
        const int64_t n_rows = least(l->rows - row, FEW);
        for (int64_t i = 0; i < length; i++) {
            const uint8_t *weights[STREAMS];
            vf total[STREAMS][FEW];
            for (int64_t s = 0; s < STREAMS; s++) /* beyond the last output it again */
                weights[s] = weight_at(l, first + least(s * length + i, n - 1), 0);
            sum_streams(l, weights, row, n_rows, total);
            for (int64_t s = 0; s < STREAMS; s++)
                for (int64_t r = 0; r < n_rows; r++)
                    sums[r][least(s * length + i, n - 1)] = v_sum(total[s][r]);
        }
        finish(l, row, n_rows, first, n, sums[0], TUNE_LINEAR_OUTPUTS);
    }
}

/* ---------------------------------------------------------------- direct */

static void direct_task(void *arg, int64_t task, int32_t worker)
{
    const struct linear *l = arg;
    const struct form *form = find_form(l->args->weight.dtype);
    const int64_t first = task * l->task_outputs, n = least(l->outputs - first, l->task_outputs);
    const int64_t length = (n + V_LANES - 1) / V_LANES; /* outputs of a lane */
    float sums[TUNE_LINEAR_OUTPUTS], lanes[V_LANES];
    (void)worker;
    for (int64_t i = 0; i < length; i++) {
        const uint8_t *weights[V_LANES];
        for (int64_t lane = 0; lane < V_LANES; lane++) /* beyond the last output it again */
            weights[lane] = weight_at(l, first + least(lane * length + i, n - 1), 0);
        form->direct(weights, l->x, l->inputs, lanes);
        for (int64_t lane = 0; lane < V_LANES; lane++)
            sums[least(lane * length + i, n - 1)] = lanes[lane];
    }
    finish(l, 0, 1, first, n, sums, TUNE_LINEAR_OUTPUTS);
}

/* ---------------------------------------------------------------- panel */

/* Adds a piece's n inputs to the sums of n_rows rows, run by run; n_rows is a constant where it is inlined. */
LANES_INLINE void add_run(const float *panel, const float *x, int n_rows, int64_t n, vf piece[ROWS][PANEL_VECTORS])
{
    vf sum[ROWS][PANEL_VECTORS], w[PANEL_VECTORS];
    UNROLL for (int r = 0; r < n_rows; r++) UNROLL for (int v = 0; v < PANEL_VECTORS; v++) sum[r][v] = v_zero();
    _Pragma("GCC unroll 8") for (int64_t i = 0; i < n; i++)
    {
        UNROLL for (int v = 0; v < PANEL_VECTORS; v++) w[v] = v_load(panel + i * PANEL + v * V_LANES);
        UNROLL for (int r = 0; r < n_rows; r++)
        {
            const vf value = v_set1(x[i * ROWS + r]);
            UNROLL for (int v = 0; v < PANEL_VECTORS; v++) sum[r][v] = v_fma(w[v], value, sum[r][v]);
        }
    }
    UNROLL for (int r = 0; r < n_rows; r++) UNROLL for (int v = 0; v < PANEL_VECTORS; v++) piece[r][v] =
        v_add(piece[r][v], sum[r][v]);
}

/* Asks for a run's worth of x ahead: tiles lie one after the other. */
LANES_INLINE void ask_x(const float *x, int run)
{
    const uintptr_t ahead = (uintptr_t)x + TUNE_LINEAR_X_AHEAD, bytes = (uintptr_t)run * ROWS * sizeof *x;
    UNROLL for (uintptr_t at = 0; at < bytes; at += 64) v_prefetch((const void *)(ahead + at));
}

/* Run by run. */
LANES_INLINE void add_runs(const float *panel, const float *x, int n_rows, int64_t n, int run,
                           vf piece[ROWS][PANEL_VECTORS])
{
    int64_t i = 0;
    for (; i + run <= n; i += run) {
        ask_x(x + i * ROWS, run);
        add_run(panel + i * PANEL, x + i * ROWS, n_rows, run, piece);
    }
    if (i < n) add_run(panel + i * PANEL, x + i * ROWS, n_rows, n - i, piece);
}

/* n inputs in runs of RUN; or, `fine`, sums of RUN inputs in runs of FINE: with few inputs in all, long runs would lose more than
 * rung 0 does. */
LANES_INLINE void add_tile(const float *panel, const float *x, int n_rows, int64_t n, bool fine, float *sums)
{
    const int64_t step = fine ? RUN : n;
    for (int64_t i = 0; i < n; i += step) {
        vf piece[ROWS][PANEL_VECTORS];
        UNROLL for (int r = 0; r < n_rows; r++) UNROLL for (int v = 0; v < PANEL_VECTORS; v++) piece[r][v] = v_zero();
        add_runs(panel + i * PANEL, x + i * ROWS, n_rows, least(n - i, step), fine ? FINE : RUN, piece);
        UNROLL for (int r = 0; r < n_rows; r++) UNROLL for (int v = 0; v < PANEL_VECTORS; v++)
        {
            float *to = sums + r * WIDTH + v * V_LANES;
            v_store(to, v_add(v_load(to), piece[r][v]));
        }
    }
}

typedef void (*tile_fn)(const float *panel, const float *x, int64_t n, float *sums);

#define TILE(n_rows)                                                                                                   \
    static void tile_##n_rows(const float *panel, const float *x, int64_t n, float *sums)                              \
    {                                                                                                                  \
        add_tile(panel, x, n_rows, n, false, sums);                                                                    \
    }                                                                                                                  \
    static void fine_tile_##n_rows(const float *panel, const float *x, int64_t n, float *sums)                         \
    {                                                                                                                  \
        add_tile(panel, x, n_rows, n, true, sums);                                                                     \
    }
TILE(1)
TILE(2)
TILE(3)
TILE(4)

/* Adds a piece's n inputs. */
static void add_piece(const struct linear *l, const float *panel, const float *x, int64_t n_rows, int64_t n,
                      float *sums)
{
    static const tile_fn tiles[2][ROWS] = {{tile_1, tile_2, tile_3, tile_4},
                                           {fine_tile_1, fine_tile_2, fine_tile_3, fine_tile_4}};
    for (int64_t r = 0; r < n_rows; r += ROWS)
        tiles[l->inputs <= TUNE_LINEAR_SHORT][least(n_rows - r, ROWS) - 1](panel, x + r * DEPTH, n, sums + r * WIDTH);
}

/* Widens the inputs from `input` on of the panel at `output`; the next task's or piece's weights are asked for. */
static void widen_panel(const struct linear *l, int64_t output, int64_t input, int64_t ahead, float *panel)
{
    const struct form *form = find_form(l->args->weight.dtype);
    const uint8_t *row[PANEL];
    for (int i = 0; i < PANEL; i++) /* beyond the last output its weights again; their sums are not used */
        row[i] = weight_at(l, least(output + i, l->outputs - 1), input);
    for (int v = 0; v < PANEL_VECTORS; v++)
        form->widen(row + v * V_LANES, least(l->inputs - input, DEPTH), ahead, panel + v * V_LANES);
}

/* Piece by piece of x, which stays in L2, all panels of the task. */
static void panel_task(void *arg, int64_t task, int32_t worker)
{
    const struct linear *l = arg;
    const int64_t first = task / l->spans * l->task_outputs, n = least(l->outputs - first, l->task_outputs);
    const int64_t row = task % l->spans * SPAN, n_rows = least(l->rows - row, SPAN);
    const int64_t ahead = bytes_of_outputs(l, PANEL), tile_rows = (l->rows + ROWS - 1) / ROWS * ROWS;
    struct scratch *s = &l->scratch[worker];
    memset(s->sums, 0, (size_t)(n_rows * WIDTH) * sizeof *s->sums);
    for (int64_t piece = 0; piece < l->pieces; piece++)
        for (int64_t o = 0; o < n; o += PANEL) {
            widen_panel(l, first + o, piece * DEPTH, ahead, s->panel);
            add_piece(l, s->panel, l->x + (piece * tile_rows + row) * DEPTH, n_rows,
                      least(l->inputs - piece * DEPTH, DEPTH), s->sums + o);
        }
    finish(l, row, n_rows, first, n, s->sums, WIDTH);
}

/* ---------------------------------------------------------------- x, and the op */

static void ready_task(void *arg, int64_t row, int32_t worker)
{
    const struct linear *l = arg;
    const seqmix_tensor *x = &l->args->x;
    (void)worker;
    for (int64_t piece = 0; piece < l->pieces; piece++) {
        const int64_t first = piece * DEPTH, n = least(l->inputs - first, DEPTH);
        float *to = l->ready_x + row * l->x_stride + first;
        row_load(x, row * x->stride[0] + first, n, to);
        memset(to + n, 0, (size_t)(DEPTH - n) * sizeof *to);
    }
}

/* ROWS rows, input by input; zeros where there are no more. */
static void pack_task(void *arg, int64_t tile, int32_t worker)
{
    const struct linear *l = arg;
    const seqmix_tensor *x = &l->args->x;
    const int64_t tiles_of_piece = (l->rows + ROWS - 1) / ROWS;
    float rows[ROWS][DEPTH] = {{0}};
    (void)worker;
    for (int64_t piece = 0; piece < l->pieces; piece++) {
        const int64_t first = piece * DEPTH, n = least(l->inputs - first, DEPTH);
        float *to = l->ready_x + (piece * tiles_of_piece + tile) * ROWS * DEPTH;
        for (int64_t r = 0; r < least(l->rows - tile * ROWS, ROWS); r++)
            row_load(x, (tile * ROWS + r) * x->stride[0] + first, n, rows[r]);
        for (int64_t i = 0; i < n; i++)
            for (int r = 0; r < ROWS; r++)
                to[i * ROWS + r] = rows[r][i];
    }
}

/* Outputs of a task: streams, or of the panel form up to GROUP panels; at least about TASKS tasks. */
static int64_t outputs_of_task(const struct linear *l, bool panel)
{
    const int64_t tasks = (TUNE_LINEAR_TASKS + l->spans - 1) / l->spans, share = (l->outputs + tasks - 1) / tasks;
    const int64_t row_bytes = bytes_of_outputs(l, 1);
    const int64_t streams = l->dots ? STREAMS : V_LANES;
    if (panel) return least((share + PANEL - 1) / PANEL, GROUP) * PANEL;
    int64_t length = least((share + streams - 1) / streams, STREAM / (row_bytes + 1) + 1);
    if (length * row_bytes % PAGE == 0) length++;
    return least(length * streams, TUNE_LINEAR_OUTPUTS);
}

/* What both the plan and the op know of the call; the buffers lie in `cursor`. */
static void prepare(const struct seqmix_context *ctx, const seqmix_linear_args *a, struct seqmix_cursor *cursor,
                    struct linear *l)
{
    *l = (struct linear){.args = a, .rows = a->x.shape[0], .inputs = a->x.shape[1], .outputs = a->weight.shape[0]};
    const bool blocks = seqmix_dtype_block(a->weight.dtype) > 1, few_inputs = l->inputs <= TUNE_LINEAR_SHORT;
    l->dots = !blocks && (l->rows <= FEW || a->invariant != 0);
    const bool panel = !l->dots && (!blocks || few_inputs || l->rows > 1);
    l->spans = panel ? (l->rows + SPAN - 1) / SPAN : 1;
    l->task_outputs = outputs_of_task(l, panel);
    l->pieces = (l->inputs + DEPTH - 1) / DEPTH;
    l->x = a->x.data;
    l->x_stride = a->x.stride[0];
    if (panel || a->x.dtype != SEQMIX_F32 || (l->dots && l->inputs % V_LANES != 0)) {
        l->x_stride = l->pieces * DEPTH;
        const int64_t ready_rows = panel ? (l->rows + ROWS - 1) / ROWS * ROWS : l->rows;
        l->ready_x = seqmix_take(cursor, (size_t)ready_rows * (size_t)l->x_stride * sizeof(float));
        l->x = l->ready_x;
    }
    l->stream = panel && streams(&a->y, &a->x);
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
    if (l.rows == 0 || l.outputs == 0) return SEQMIX_OK;
    const bool panel = l.scratch != NULL;
    if (l.ready_x != NULL) {
        const seqmix_status status =
            seqmix_parallel_for(ctx, panel ? (l.rows + ROWS - 1) / ROWS : l.rows, panel ? pack_task : ready_task, &l);
        if (status != SEQMIX_OK) return status;
    }
    const int64_t tasks = (l.outputs + l.task_outputs - 1) / l.task_outputs * l.spans;
    return seqmix_parallel_for(ctx, tasks, panel ? panel_task : l.dots ? dots_task : direct_task, &l);
}
