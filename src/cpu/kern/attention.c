/* SPDX-License-Identifier: MIT */
/*
 * Causal grouped-query attention over a paged cache (equation: seqmix.h). The rows' k and v are stored first, then a task takes
 * some rows of a sequence and the query heads of one key head, M queries in all, through the keys in blocks of
 * TUNE_ATTENTION_KEYS:
 *
 *     s = q.K of the block;  top' = max(top, s);  w = exp(s - top');  total = total*exp(top - top') + sum w;
 *     sum = sum*exp(top - top') + w.V of the block
 *
 * Blocks lie at fixed positions and every number of a query is formed in one order, whatever queries share its tile: a row's
 * bits depend on its position, its query and the cache alone. Keys and values are read where they lie, or from the worker's
 * memory when they must be widened to f32 or padded to whole lanes.
 */
#include "../vec/vec_math.h"
#include "batch.h"
#include "isa.h"
#include "parallel.h"
#include "rows.h"
#include "tune.h"
#include "workspace.h"

#include <math.h>

enum { KEYS = TUNE_ATTENTION_KEYS, MOST_KEYS = 6 /* of a tile of scores */, MOST_LANES = 8 /* of a tile of sums */ };

/* One worker's memory. */
struct memory {
    float *q, *sum;              /* [M][width] */
    float *scores;               /* [M][KEYS] */
    float *top, *total, *factor; /* [M] */
    float *wide;                 /* [KEYS][width] */
};

struct attention {
    const seqmix_attention_args *args;
    int64_t group, rows, blocks; /* query heads of a key head; rows of a task; tasks of a sequence and key head */
    int64_t width;               /* D in whole lanes */
    float scale;
    struct memory memory; /* worker 0's; another's lies `stride` floats further per worker */
    int64_t stride;
};

/* What a task works on. */
struct tile {
    const struct attention *attention;
    struct memory memory;
    const int32_t *pages;
    int64_t head;                        /* key head */
    int64_t first, n;                    /* rows */
    int64_t position;                    /* of row `first` */
    const float *rows[KEYS + MOST_KEYS]; /* the block's keys or values; past the last one it is repeated */
};

static const seqmix_tensor no_pool = {0};

static void load_padded(const seqmix_tensor *t, int64_t offset, int64_t n, int64_t width, float *out)
{
    row_load(t, offset, n, out);
    for (int64_t i = n; i < width; i++)
        out[i] = 0;
}

/* Element 0 of position j's row in a pool. */
static int64_t cached(const seqmix_tensor *pool, const int32_t *pages, int64_t j, int64_t head)
{
    return pages[j / pool->shape[1]] * pool->stride[0] + j % pool->shape[1] * pool->stride[1] + head * pool->stride[2];
}

/* Where the n rows of the pool from position `key` on lie. */
static void locate(const struct tile *tile, const seqmix_tensor *pool, int64_t key, int64_t n, int64_t at[KEYS])
{
    int64_t page = key / pool->shape[1], row = key % pool->shape[1];
    for (int64_t j = 0; j < n; j++) {
        at[j] = tile->pages[page] * pool->stride[0] + row * pool->stride[1] + tile->head * pool->stride[2];
        if (++row < pool->shape[1]) continue;
        row = 0;
        page++;
    }
}

/* Brings those rows nearer: between them lie other heads and other pages, which the hardware does not see coming. */
static void approach(const struct tile *tile, const seqmix_tensor *pool, int64_t key, int64_t n)
{
    int64_t at[KEYS];
    locate(tile, pool, key, n, at);
    for (int64_t j = 0; j < n; j++)
        row_prefetch(pool, at[j], pool->shape[3]);
}

/* Makes them the tile's rows. */
static void fetch(struct tile *tile, const seqmix_tensor *pool, int64_t key, int64_t n)
{
    const int64_t channels = pool->shape[3], width = tile->attention->width;
    const bool in_place = pool->data != NULL && pool->dtype == SEQMIX_F32 && channels == width;
    int64_t at[KEYS];
    locate(tile, pool, key, n, at);
    for (int64_t j = 0; j < n; j++) {
        float *wide = tile->memory.wide + j * width;
        if (!in_place) load_padded(pool, at[j], channels, width, wide);
        tile->rows[j] = in_place ? (const float *)pool->data + at[j] : wide;
    }
    for (int64_t j = n; j < n + MOST_KEYS; j++)
        tile->rows[j] = tile->rows[n - 1];
}

/* How many of the n keys from position `key` on query m sees. */
static int64_t visible(const struct tile *tile, int64_t m, int64_t key, int64_t n)
{
    const int64_t seen = tile->position + m / tile->attention->group + 1 - key;
    return seen < 0 ? 0 : seen < n ? seen : n;
}

/* scores[q][k] = q . rows[k]; the counts are constants where it is inlined. */
static inline __attribute__((always_inline)) void score_tile(const float *q, const float *const *rows, int64_t width,
                                                             float *scores, int n_queries, int n_keys)
{
    vf acc[4][MOST_KEYS];
    for (int i = 0; i < n_queries; i++)
        for (int k = 0; k < n_keys; k++)
            acc[i][k] = v_zero();
    for (int64_t d = 0; d < width; d += V_LANES) {
        vf keys[MOST_KEYS];
        for (int k = 0; k < n_keys; k++)
            keys[k] = v_load(rows[k] + d);
        for (int i = 0; i < n_queries; i++) {
            const vf query = v_load(q + i * width + d);
            for (int k = 0; k < n_keys; k++)
                acc[i][k] = v_fma(query, keys[k], acc[i][k]);
        }
    }
    for (int i = 0; i < n_queries; i++)
        for (int k = 0; k < n_keys; k++)
            scores[i * KEYS + k] = v_sum(acc[i][k]);
}

/* How many queries go through a tile together when `left` are left. */
static int together(int64_t left)
{
    return left >= 4 ? 4 : left >= 2 ? 2 : 1;
}

/* Scores of the queries from `first` on with all n keys; those that a query does not see are not used. */
static void score(struct tile *tile, int64_t first, int64_t n_queries, int64_t n)
{
    const int64_t width = tile->attention->width;
    for (int64_t m = first, step; m < n_queries; m += step) {
        const float *q = tile->memory.q + m * width;
        float *scores = tile->memory.scores + m * KEYS;
        step = together(n_queries - m);
        for (int64_t j = 0; j < n; j += step == 4 ? 3 : MOST_KEYS) {
            if (step == 4)
                score_tile(q, tile->rows + j, width, scores + j, 4, 3);
            else if (step == 2)
                score_tile(q, tile->rows + j, width, scores + j, 2, MOST_KEYS);
            else
                score_tile(q, tile->rows + j, width, scores + j, 1, MOST_KEYS);
        }
    }
}

/* The first n scores of query m become weights; top, total and factor follow. */
static void soften(struct memory *memory, int64_t m, int64_t n)
{
    float *scores = memory->scores + m * KEYS, lanes[V_LANES];
    const float old = memory->top[m], none = -INFINITY;
    vf greatest = v_set1(old), weights = v_zero();
    for (int64_t j = 0; j < n; j += V_LANES) /* a NaN is passed over here and makes its weight NaN below */
        greatest = v_max(v_select(v_mask_first(n - j), v_load(scores + j), v_set1(none)), greatest);
    v_store(lanes, greatest);
    float top = lanes[0];
    for (int i = 1; i < V_LANES; i++)
        top = lanes[i] > top ? lanes[i] : top;
    const float base = top > none ? top : 0; /* -inf - -inf would be NaN */
    for (int64_t j = 0; j < n; j += V_LANES) {
        const vmask seen = v_mask_first(n - j);
        const vf s = v_select(seen, v_load(scores + j), v_set1(none));
        const vf w = v_exp_neg(v_sub(s, v_set1(base)));
        v_store(scores + j, w);
        weights = v_add(weights, w);
    }
    v_store(lanes, v_exp_neg(v_set1(old - base)));
    memory->factor[m] = lanes[0];
    memory->top[m] = top;
    memory->total[m] = memory->total[m] * lanes[0] + v_sum(weights);
}

/* sum[q][0..n_lanes) = sum*factor + weights . rows at channel d, over n rows. */
static inline __attribute__((always_inline)) void sum_tile(const struct tile *tile, int64_t m, int64_t d, int64_t n,
                                                           int n_queries, int n_lanes)
{
    const int64_t width = tile->attention->width;
    const float *weights = tile->memory.scores + m * KEYS;
    vf acc[4][MOST_LANES];
    for (int i = 0; i < n_queries; i++)
        for (int l = 0; l < n_lanes; l++)
            acc[i][l] = v_zero();
    for (int64_t j = 0; j < n; j++) {
        vf values[MOST_LANES];
        for (int l = 0; l < n_lanes; l++)
            values[l] = v_load(tile->rows[j] + d + l * V_LANES);
        for (int i = 0; i < n_queries; i++) {
            const vf w = v_set1(weights[i * KEYS + j]);
            for (int l = 0; l < n_lanes; l++)
                acc[i][l] = v_fma(w, values[l], acc[i][l]);
        }
    }
    for (int i = 0; i < n_queries; i++)
        for (int l = 0; l < n_lanes; l++) {
            float *sum = tile->memory.sum + (m + i) * width + d + l * V_LANES;
            v_store(sum, v_fma(v_load(sum), v_set1(tile->memory.factor[m + i]), acc[i][l]));
        }
}

/* The block's values into the sums of n_queries queries that see the same n of them. */
static void add_values(const struct tile *tile, int64_t m, int n_queries, int64_t n)
{
    const int64_t width = tile->attention->width;
    const int many = n_queries == 4 ? 2 : n_queries == 2 ? 4 : MOST_LANES;
    int64_t d = 0;
    for (; d + many * V_LANES <= width; d += many * V_LANES) {
        if (n_queries == 4)
            sum_tile(tile, m, d, n, 4, 2);
        else if (n_queries == 2)
            sum_tile(tile, m, d, n, 2, 4);
        else
            sum_tile(tile, m, d, n, 1, MOST_LANES);
    }
    for (; d < width; d += V_LANES) {
        if (n_queries == 4)
            sum_tile(tile, m, d, n, 4, 1);
        else if (n_queries == 2)
            sum_tile(tile, m, d, n, 2, 1);
        else
            sum_tile(tile, m, d, n, 1, 1);
    }
}

/* One block of keys, of which the last one is at `end` - 1 or before, for all queries that see any of it. */
static void attend(struct tile *tile, int64_t key, int64_t end)
{
    const seqmix_attention_args *a = tile->attention->args;
    const int64_t n_queries = tile->n * tile->attention->group, left = end - key, n = left < KEYS ? left : KEYS;
    int64_t first = 0;
    while (visible(tile, first, key, n) == 0)
        first += tile->attention->group;
    fetch(tile, &a->k_pages, key, n);
    approach(tile, &a->v_pages, key, n);
    score(tile, first, n_queries, n);
    for (int64_t m = first; m < n_queries; m++)
        soften(&tile->memory, m, visible(tile, m, key, n));
    fetch(tile, &a->v_pages, key, n);
    approach(tile, &a->k_pages, key + n, left - n < KEYS ? left - n : KEYS);
    for (int64_t m = first, step; m < n_queries; m += step) {
        step = together(n_queries - m);
        const int64_t seen = visible(tile, m, key, n);
        if (visible(tile, m + step - 1, key, n) != seen) step = 1;
        add_values(tile, m, (int)step, seen);
    }
}

/* q scaled, nothing seen yet. */
static void open_queries(struct tile *tile)
{
    const struct attention *attention = tile->attention;
    const seqmix_tensor *q = &attention->args->q;
    const int64_t width = attention->width, group = attention->group, n_queries = tile->n * group;
    const vf scale = v_set1(attention->scale);
    for (int64_t m = 0; m < n_queries; m++) {
        float *at = tile->memory.q + m * width;
        const int64_t row = tile->first + m / group, head = tile->head * group + m % group;
        load_padded(q, row * q->stride[0] + head * q->stride[1], q->shape[2], width, at);
        for (int64_t d = 0; d < width; d += V_LANES)
            v_store(at + d, v_mul(v_load(at + d), scale));
        tile->memory.top[m] = -INFINITY;
        tile->memory.total[m] = 0;
    }
    memset(tile->memory.sum, 0, (size_t)(n_queries * width) * sizeof(float));
}

static void close_queries(const struct tile *tile)
{
    const struct attention *attention = tile->attention;
    const seqmix_tensor *y = &attention->args->y, *gate = &attention->args->gate;
    const int64_t group = attention->group;
    for (int64_t m = 0; m < tile->n * group; m++) {
        const int64_t row = tile->first + m / group, head = tile->head * group + m % group;
        const vf inverse = v_set1(1 / tile->memory.total[m]);
        for (int64_t d = 0; d < y->shape[2]; d += V_LANES) {
            const int lanes = lanes_left(y->shape[2], d);
            vf value = v_mul(v_load(tile->memory.sum + m * attention->width + d), inverse);
            if (seqmix_present(gate))
                value =
                    v_mul(value, v_sigmoid(row_lanes(gate, row * gate->stride[0] + head * gate->stride[1] + d, lanes)));
            row_put_lanes(y, row * y->stride[0] + head * y->stride[1] + d, value, lanes);
        }
    }
}

/* The rows of task block b of sequence s; the longest come first. False where there are none. */
static bool find_rows(const struct attention *attention, int64_t s, int64_t b, struct tile *tile)
{
    const seqmix_attention_args *a = attention->args;
    const struct seqmix_seq seq = seqmix_batch_seq(a->batch, a->q.shape[0], &no_pool, (int32_t)s);
    const int64_t at = (attention->blocks - 1 - b) * attention->rows, left = seq.end - seq.begin - at;
    tile->attention = attention;
    tile->pages = a->page_table + s * a->max_pages;
    tile->first = seq.begin + at;
    tile->n = left < attention->rows ? left : attention->rows;
    tile->position = a->start[s] + at;
    return left > 0;
}

static struct memory memory_of(const struct attention *attention, int32_t worker)
{
    const int64_t at = worker * attention->stride;
    const struct memory *base = &attention->memory;
    return (struct memory){base->q + at,     base->sum + at,    base->scores + at, base->top + at,
                           base->total + at, base->factor + at, base->wide + at};
}

static void attention_task(void *arg, int64_t task, int32_t worker)
{
    const struct attention *attention = arg;
    const int64_t heads = attention->args->k.shape[1];
    struct tile tile;
    if (!find_rows(attention, task / heads / attention->blocks, task / heads % attention->blocks, &tile)) return;
    tile.head = task % heads;
    tile.memory = memory_of(attention, worker);
    open_queries(&tile);
    const int64_t end = tile.position + tile.n;
    for (int64_t key = 0; key < end; key += KEYS)
        attend(&tile, key, end);
    close_queries(&tile);
}

/* n elements from one tensor to another, by way of f32 unless the dtypes agree. */
static void copy_row(const seqmix_tensor *from, int64_t at, const seqmix_tensor *to, int64_t to_at, int64_t n)
{
    for (int64_t d = 0; d < n; d += V_LANES) {
        const int lanes = lanes_left(n, d);
        row_put_lanes(to, to_at + d, row_lanes(from, at + d, lanes), lanes);
    }
}

static void store_task(void *arg, int64_t task, int32_t worker)
{
    const struct attention *attention = arg;
    const seqmix_attention_args *a = attention->args;
    struct tile tile;
    (void)worker;
    if (!find_rows(attention, task / attention->blocks, task % attention->blocks, &tile)) return;
    for (int64_t i = 0; i < tile.n; i++)
        for (int64_t h = 0; h < a->k.shape[1]; h++) {
            const int64_t row = tile.first + i, p = tile.position + i, n = a->k.shape[2];
            copy_row(&a->k, row * a->k.stride[0] + h * a->k.stride[1], &a->k_pages,
                     cached(&a->k_pages, tile.pages, p, h), n);
            copy_row(&a->v, row * a->v.stride[0] + h * a->v.stride[1], &a->v_pages,
                     cached(&a->v_pages, tile.pages, p, h), n);
        }
}

static void layout(const struct seqmix_context *ctx, const seqmix_attention_args *a, struct attention *attention,
                   struct seqmix_cursor *cursor)
{
    const int64_t heads = a->k.shape[1], longest = a->batch->max_rows;
    attention->args = a;
    attention->group = a->q.shape[1] > 0 ? a->q.shape[1] / heads : 1;
    attention->rows = attention->group < TUNE_ATTENTION_QUERIES ? TUNE_ATTENTION_QUERIES / attention->group : 1;
    attention->blocks = (longest + attention->rows - 1) / attention->rows;
    attention->width = (a->q.shape[2] + V_LANES - 1) / V_LANES * V_LANES;
    attention->scale = a->scale != 0 ? a->scale : 1 / sqrtf((float)a->q.shape[2]);

    const int64_t m = attention->rows * attention->group, padded = (m + V_LANES - 1) / V_LANES * V_LANES;
    const int64_t sizes[7] = {m * attention->width,   m * attention->width, m * KEYS, padded, padded, padded,
                              KEYS * attention->width};
    int64_t at[7], used = 0;
    for (int i = 0; i < 7; i++) {
        at[i] = used;
        used += (sizes[i] + 15) / 16 * 16;
    }
    attention->stride = used;
    float *base = seqmix_take(cursor, (size_t)(used * ctx->n_workers) * sizeof(float));
    if (base == NULL) return;
    attention->memory = (struct memory){base + at[0], base + at[1], base + at[2], base + at[3],
                                        base + at[4], base + at[5], base + at[6]};
}

seqmix_status KERN(attention_rows_plan)(const struct seqmix_context *ctx, const seqmix_attention_args *args,
                                        struct seqmix_plan *plan)
{
    struct attention attention;
    struct seqmix_cursor cursor = {NULL, 0};
    layout(ctx, args, &attention, &cursor);
    plan->kernel = KERN_NAME("attention");
    plan->workspace = cursor.used;
    plan->grain = 1;
    return SEQMIX_OK;
}

seqmix_status KERN(attention_rows)(struct seqmix_context *ctx, const seqmix_attention_args *args, void *workspace)
{
    struct attention attention;
    struct seqmix_cursor cursor = {workspace, 0};
    layout(ctx, args, &attention, &cursor);
    const int64_t tasks = args->batch->n_seqs * attention.blocks;
    const seqmix_status status = seqmix_parallel_for(ctx, tasks, store_task, &attention);
    if (status != SEQMIX_OK || args->q.shape[1] == 0) return status;
    return seqmix_parallel_for(ctx, tasks * args->k.shape[1], attention_task, &attention);
}
