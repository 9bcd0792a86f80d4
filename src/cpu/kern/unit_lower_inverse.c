/* SPDX-License-Identifier: MIT */
/*
 * inv = (I + L)^-1 by rows, X_i = e_i - sum_{k<i} L_ik X_k, four rows at a time: what the rows above the four contribute is one
 * small product over column tiles, then the four settle among themselves. f32 throughout. Task: one matrix. Rows of L are read,
 * and rows of X formed, in place where they are contiguous f32; otherwise in the worker's part of the workspace. Either way a
 * row of L is not needed once its row of X is formed, so a and inv may be one tensor.
 */
#include "isa.h"
#include "parallel.h"
#include "rows.h"
#include "tune.h"
#include "workspace.h"

enum { BLOCK = 4, TILE = 2 * V_LANES };

struct inverse {
    const seqmix_inverse_args *args;
    char *workspace;
    size_t worker_size;
    int64_t count;
    bool large; /* the next matrix is asked for while one is worked on */
};

/* One matrix, and what of the workspace stands in for it. */
struct matrix {
    int64_t n, width; /* width: n rounded up to tiles */
    float *spare_L;   /* [BLOCK][n + BLOCK] */
    float *spare_X;   /* [n rounded up to BLOCK][width] */
    const float *L[BLOCK];
    float *X;
    int64_t stride; /* of X */
};

static struct matrix layout(const seqmix_inverse_args *a, struct seqmix_cursor *cursor)
{
    struct matrix m = {.n = a->a.shape[a->a.rank - 1]};
    m.width = (m.n + TILE - 1) / TILE * TILE;
    m.spare_L = seqmix_take(cursor, (size_t)(BLOCK * (m.n + BLOCK)) * sizeof(float));
    m.spare_X = seqmix_take(cursor, (size_t)((m.n + BLOCK - 1) / BLOCK * BLOCK * m.width) * sizeof(float));
    return m;
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

/* Finds rows [i, i+BLOCK) of L; rows past n are zero. */
static void load_block(const seqmix_tensor *a, int64_t base, int64_t i, struct matrix *m)
{
    const int64_t row_stride = a->stride[a->rank - 2], column_stride = a->stride[a->rank - 1];
    for (int64_t r = 0; r < BLOCK; r++) {
        const int64_t offset = base + (i + r) * row_stride;
        float *spare = m->spare_L + r * (m->n + BLOCK);
        m->L[r] = spare;
        if (i + r >= m->n) {
            memset(spare, 0, (size_t)(m->n + BLOCK) * sizeof *spare);
        } else if (a->dtype == SEQMIX_F32 && column_stride == 1) {
            m->L[r] = (const float *)a->data + offset;
            row_prefetch(a, offset + 2 * BLOCK * row_stride, i + r + 2 * BLOCK); /* any address is fine */
        } else {
            vector_load(a, offset, column_stride, i + r, 0, spare);
        }
    }
}

/* Whether rows [i, i+BLOCK) of L are finite. */
static bool is_finite(int64_t i, const struct matrix *m)
{
    const int64_t whole = i / V_LANES * V_LANES;
    vf zero[BLOCK];
    for (int r = 0; r < BLOCK; r++)
        zero[r] = v_mul(v_zero(), v_load_n(m->L[r] + whole, (int)(i + r - whole)));
    for (int64_t k = 0; k < whole; k += V_LANES)
        for (int r = 0; r < BLOCK; r++)
            zero[r] = v_fma(v_load(m->L[r] + k), v_zero(), zero[r]);
    return v_sum(v_add(v_add(zero[0], zero[1]), v_add(zero[2], zero[3]))) == 0;
}

/* x - factor*above, which is row k of X and zero right of column k: there a factor that isn't finite must not reach. */
static inline __attribute__((always_inline)) void subtract(vf x[2], vf factor, const vf above[2], int64_t columns,
                                                           bool finite)
{
    for (int v = 0; v < 2; v++) {
        const vf less = v_fnma(factor, above[v], x[v]);
        x[v] = finite ? less : v_select(v_mask_first(columns > v * V_LANES ? columns - v * V_LANES : 0), less, x[v]);
    }
}

/* X[i..i+BLOCK) for the columns of one tile. Row k of X is nonzero up to column k. */
static inline __attribute__((always_inline)) void solve_tile(int64_t i, int64_t column, const struct matrix *m,
                                                             bool finite)
{
    static const float unit[2 * TILE] = {[TILE] = 1};
    const float *above_row = m->X + column * m->stride + column;
    vf x[BLOCK][2];
    for (int r = 0; r < BLOCK; r++) {
        const int64_t one = i + r - column; /* 0..; from TILE on there is none */
        const float *row = unit + (one < TILE ? TILE - one : 0);
        x[r][0] = v_load(row);
        x[r][1] = v_load(row + V_LANES);
    }
    for (int64_t k = column; k < i; k++, above_row += m->stride) {
        const vf above[2] = {v_load(above_row), v_load(above_row + V_LANES)};
        for (int r = 0; r < BLOCK; r++)
            subtract(x[r], v_set1(m->L[r][k]), above, k - column + 1, finite);
    }
    for (int r = 0; r < BLOCK; r++)
        for (int s = 0; s < r; s++)
            subtract(x[r], v_set1(m->L[r][i + s]), x[s], i + s - column + 1, finite);
    for (int r = 0; r < BLOCK; r++) {
        v_store(m->X + (i + r) * m->stride + column, x[r][0]);
        v_store(m->X + (i + r) * m->stride + column + V_LANES, x[r][1]);
    }
}

/* X[i..i+BLOCK); columns past the last tile are zero. */
static void solve_block(int64_t i, const struct matrix *m, bool finite)
{
    int64_t column = 0;
    for (; column < i + BLOCK && column < m->width; column += TILE)
        if (finite)
            solve_tile(i, column, m, true);
        else
            solve_tile(i, column, m, false);
    for (; column < m->width; column += V_LANES)
        for (int r = 0; r < BLOCK; r++)
            v_store(m->X + (i + r) * m->stride + column, v_zero());
}

/* Asks for rows [i, i+BLOCK) of matrix `index`, from where they come and to where they go. */
static void approach(const seqmix_inverse_args *a, int64_t index, int64_t i, int64_t n)
{
    const int64_t from = matrix_offset(&a->a, index), to = matrix_offset(&a->inv, index);
    for (int64_t r = i; r < i + BLOCK && r < n; r++) {
        row_prefetch(&a->a, from + r * a->a.stride[a->a.rank - 2], r);
        row_prefetch(&a->inv, to + r * a->inv.stride[a->inv.rank - 2], n);
    }
}

static void store_rows(const seqmix_tensor *inv, int64_t base, const struct matrix *m)
{
    for (int64_t i = 0; i < m->n; i++)
        vector_store(inv, base + i * inv->stride[inv->rank - 2], inv->stride[inv->rank - 1], m->n,
                     m->X + i * m->stride);
}

static void inverse_task(void *arg, int64_t task, int32_t worker)
{
    const struct inverse *inverse = arg;
    const seqmix_inverse_args *a = inverse->args;
    const seqmix_tensor *inv = &a->inv;
    struct seqmix_cursor cursor = {inverse->workspace + (size_t)worker * inverse->worker_size, 0};
    struct matrix m = layout(a, &cursor);
    const int64_t from = matrix_offset(&a->a, task), to = matrix_offset(inv, task);
    const bool in_place =
        inv->data != NULL && inv->dtype == SEQMIX_F32 && inv->stride[inv->rank - 1] == 1 && m.n == m.width;
    m.X = in_place ? (float *)inv->data + to : m.spare_X;
    m.stride = in_place ? inv->stride[inv->rank - 2] : m.width;
    for (int64_t i = 0; i < m.n; i += BLOCK) {
        if (inverse->large && task + 1 < inverse->count) approach(a, task + 1, i, m.n);
        load_block(&a->a, from, i, &m);
        solve_block(i, &m, is_finite(i, &m));
    }
    if (!in_place) store_rows(inv, to, &m);
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
    struct inverse inverse = {args, workspace, worker_size(args), 1, false};
    for (int axis = 0; axis < args->a.rank - 2; axis++)
        inverse.count *= args->a.shape[axis];
    inverse.large = seqmix_tensor_count(&args->inv) >= TUNE_STREAM_BYTES / (int64_t)sizeof(float) &&
                    args->a.stride[args->a.rank - 1] == 1 && args->inv.stride[args->inv.rank - 1] == 1;
    return seqmix_parallel_for(ctx, inverse.count, inverse_task, &inverse);
}
