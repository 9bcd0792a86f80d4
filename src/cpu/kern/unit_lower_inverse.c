/* SPDX-License-Identifier: MIT */
/*
 * inv = (I + L)^-1 by rows, X_i = e_i - sum_{k<i} L_ik X_k, four rows at a time: what the rows above the four contribute is one
 * small product over column tiles, then the four settle among themselves. f32 throughout. Task: one matrix. L and X are kept in
 * the worker's part of the workspace, padded to the tile, since a and inv may be one tensor.
 */
#include "isa.h"
#include "parallel.h"
#include "rows.h"
#include "workspace.h"

enum { BLOCK = 4, TILE = 2 * V_LANES };

struct inverse {
    const seqmix_inverse_args *args;
    char *workspace;
    size_t worker_size;
};

/* A worker's part of the workspace. */
struct buffers {
    float *L; /* [BLOCK][n] */
    float *X; /* [n rounded up to BLOCK][width] */
    int64_t n, width;
};

static struct buffers layout(const seqmix_inverse_args *a, struct seqmix_cursor *cursor)
{
    struct buffers b;
    b.n = a->a.shape[a->a.rank - 1];
    b.width = (b.n + TILE - 1) / TILE * TILE;
    b.L = seqmix_take(cursor, (size_t)(BLOCK * b.n) * sizeof(float));
    b.X = seqmix_take(cursor, (size_t)((b.n + BLOCK - 1) / BLOCK * BLOCK * b.width) * sizeof(float));
    return b;
}

/* Element offset of matrix `index` of the batch. */
static int64_t matrix_offset(const seqmix_tensor *t, int64_t index)
{
    int64_t offset = 0;
    for (int axis = t->rank - 3; axis >= 0; axis--) {
        offset += index % t->shape[axis] * t->stride[axis];
        index /= t->shape[axis];
    }
    return offset;
}

/* Rows [i, i+BLOCK) of L, strictly lower; rows past n are zero. */
static void load_block(const seqmix_tensor *a, int64_t base, int64_t i, const struct buffers *b)
{
    const int64_t row_stride = a->stride[a->rank - 2], column_stride = a->stride[a->rank - 1];
    for (int64_t r = 0; r < BLOCK; r++) {
        const int64_t used = i + r < b->n ? i + r : 0;
        float *row = b->L + r * b->n;
        vector_load(a, base + (i + r) * row_stride, column_stride, used, 0, row);
        for (int64_t k = used; k < b->n && k < i + BLOCK; k++)
            row[k] = 0;
    }
}

/* x - factor*above where above's row k has its nonzero columns: a NaN factor must not reach the zeros right of them. */
static inline void subtract(vf x[2], float factor, const vf *above, int64_t columns)
{
    for (int v = 0; v < 2; v++) {
        const int64_t left = columns - v * V_LANES;
        if (left > 0) x[v] = v_select(v_mask_first(left), v_fnma(v_set1(factor), above[v], x[v]), x[v]);
    }
}

/* X[i..i+BLOCK) for the columns of one tile. Row k of X is nonzero up to column k. */
static void solve_tile(int64_t i, int64_t column, const struct buffers *b)
{
    const int64_t full = column + TILE < i ? column + TILE : i; /* from this row on, rows fill the tile */
    vf x[BLOCK][2], above[2];
    for (int r = 0; r < BLOCK; r++) {
        float unit[TILE] = {0};
        if (i + r >= column && i + r < column + TILE) unit[i + r - column] = 1;
        x[r][0] = v_load(unit);
        x[r][1] = v_load(unit + V_LANES);
    }
    for (int64_t k = column; k < full; k++) {
        above[0] = v_load(b->X + k * b->width + column);
        above[1] = v_load(b->X + k * b->width + column + V_LANES);
        for (int r = 0; r < BLOCK; r++)
            subtract(x[r], b->L[r * b->n + k], above, k - column + 1);
    }
    for (int64_t k = full; k < i; k++) {
        above[0] = v_load(b->X + k * b->width + column);
        above[1] = v_load(b->X + k * b->width + column + V_LANES);
        for (int r = 0; r < BLOCK; r++) {
            const vf factor = v_set1(b->L[r * b->n + k]);
            x[r][0] = v_fnma(factor, above[0], x[r][0]);
            x[r][1] = v_fnma(factor, above[1], x[r][1]);
        }
    }
    for (int r = 0; r < BLOCK; r++) {
        for (int64_t k = i; k < i + r && k < b->n; k++)
            subtract(x[r], b->L[r * b->n + k], x[k - i], k - column + 1);
        v_store(b->X + (i + r) * b->width + column, x[r][0]);
        v_store(b->X + (i + r) * b->width + column + V_LANES, x[r][1]);
    }
}

static void store_rows(const seqmix_tensor *inv, int64_t base, const struct buffers *b)
{
    const int64_t row_stride = inv->stride[inv->rank - 2], column_stride = inv->stride[inv->rank - 1];
    for (int64_t i = 0; i < b->n; i++) {
        const int64_t solved =
            (i / BLOCK * BLOCK + BLOCK - 1) / TILE * TILE + TILE; /* columns past it were not formed */
        float *row = b->X + i * b->width;
        for (int64_t j = solved; j < b->width; j++)
            row[j] = 0;
        if (column_stride == 1)
            for (int64_t j = 0; j < b->n; j += V_LANES)
                row_put_lanes(inv, base + i * row_stride + j, v_load(row + j), lanes_left(b->n, j));
        else
            for (int64_t j = 0; j < b->n; j++)
                seqmix_store_f32(inv, base + i * row_stride + j * column_stride, row[j]);
    }
}

static void inverse_task(void *arg, int64_t task, int32_t worker)
{
    const struct inverse *inverse = arg;
    const seqmix_inverse_args *a = inverse->args;
    struct seqmix_cursor cursor = {inverse->workspace + (size_t)worker * inverse->worker_size, 0};
    const struct buffers b = layout(a, &cursor);
    const int64_t base = matrix_offset(&a->a, task);
    for (int64_t i = 0; i < b.n; i += BLOCK) {
        load_block(&a->a, base, i, &b);
        for (int64_t column = 0; column < i + BLOCK && column < b.width; column += TILE)
            solve_tile(i, column, &b);
    }
    store_rows(&a->inv, matrix_offset(&a->inv, task), &b);
}

static size_t worker_size(const seqmix_inverse_args *a)
{
    struct seqmix_cursor cursor = {NULL, 0};
    (void)layout(a, &cursor);
    return cursor.used;
}

seqmix_status KERN(unit_lower_inverse_plan)(const struct seqmix_context *ctx, const seqmix_inverse_args *args,
                                            struct seqmix_plan *plan)
{
    plan->kernel = KERN_NAME("unit_lower_inverse");
    plan->workspace = worker_size(args) * (size_t)ctx->n_workers;
    plan->grain = 1;
    return SEQMIX_OK;
}

seqmix_status KERN(unit_lower_inverse)(struct seqmix_context *ctx, const seqmix_inverse_args *args, void *workspace)
{
    struct inverse inverse = {args, workspace, worker_size(args)};
    int64_t count = 1;
    for (int axis = 0; axis < args->a.rank - 2; axis++)
        count *= args->a.shape[axis];
    return seqmix_parallel_for(ctx, count, inverse_task, &inverse);
}
