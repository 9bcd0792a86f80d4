/* SPDX-License-Identifier: MIT */
/* From names to tensors (see weights.h). */
#define _DEFAULT_SOURCE /* madvise */

#include <math.h>
#include <sys/mman.h>
#include <unistd.h>

#include "half.h"
#include "weights.h"

_Static_assert((int)SEQMIX_ST_F32 == (int)SEQMIX_F32 && (int)SEQMIX_ST_BF16 == (int)SEQMIX_BF16 &&
                   (int)SEQMIX_ST_F16 == (int)SEQMIX_F16,
               "dtypes of files are numbered as those of tensors");

#define NAME_SIZE 192

/* A tensor of either format. */
typedef struct found {
    char name[NAME_SIZE];
    seqmix_dtype dtype; /* 0: none that the ops take */
    const char *type;
    int32_t rank;
    int64_t shape[SEQMIX_ST_MAX_RANK];
    const void *data;
    size_t bytes;
    float scale;      /* of the whole tensor, which some GGUF files hold beside it */
    const char *gguf; /* below the block */
} found;

/* ---- look-up ---- */

static void gguf_name(const seqmix_binder *b, const char *name, char out[NAME_SIZE])
{
    if (b->layer < 0)
        (void)snprintf(out, NAME_SIZE, "%s", name);
    else
        (void)snprintf(out, NAME_SIZE, "blk.%lld.%s", (long long)b->layer, name);
}

static void st_name(const seqmix_binder *b, const char *name, char out[NAME_SIZE])
{
    const seqmix_weights *w = b->weights;
    const char *dot = b->module[0] != '\0' ? "." : "";
    if (b->layer < 0)
        (void)snprintf(out, NAME_SIZE, "%s%s", strncmp(name, "lm_head.", 8) == 0 ? "" : w->prefix, name);
    else
        (void)snprintf(out, NAME_SIZE, "%slayers.%lld.%s%s%s", w->prefix, (long long)b->layer, b->module, dot, name);
}

/* NAME.scale beside NAME.weight: one number that the product is multiplied by. */
static float side_scale(const seqmix_gguf *g, const char *name)
{
    static const char tail[] = ".weight";
    char side[NAME_SIZE];
    float scale = 1.0F;
    size_t n = strlen(name), k = strlen(tail);
    if (n < k || n >= NAME_SIZE || strcmp(name + n - k, tail) != 0) return scale;
    (void)snprintf(side, sizeof side, "%.*s.scale", (int)(n - k), name);
    const seqmix_gguf_tensor *t = seqmix_gguf_find(g, side);
    if (t != NULL && t->dtype == SEQMIX_F32 && t->bytes == sizeof scale) memcpy(&scale, t->data, sizeof scale);
    return scale;
}

static bool look_up(const seqmix_binder *b, const char *st, const char *gguf, found *f)
{
    *f = (found){.name = "?", .scale = 1.0F, .gguf = gguf};
    if ((b->weights->is_gguf ? gguf : st) == NULL) return false;
    if (b->weights->is_gguf) {
        gguf_name(b, gguf, f->name);
        const seqmix_gguf_tensor *t = seqmix_gguf_find(&b->weights->gguf, f->name);
        if (t == NULL) return false;
        f->dtype = t->dtype;
        f->type = seqmix_gguf_type_name(t->type);
        f->rank = t->rank;
        memcpy(f->shape, t->shape, sizeof t->shape);
        f->data = t->data;
        f->bytes = t->bytes;
        f->scale = side_scale(&b->weights->gguf, f->name);
        return true;
    }
    st_name(b, st, f->name);
    const seqmix_st_tensor *t = seqmix_st_find(&b->weights->st, f->name);
    if (t == NULL) return false;
    f->dtype = t->dtype <= SEQMIX_ST_F16 ? t->dtype : 0;
    f->type = seqmix_st_dtype_name(t->dtype);
    f->rank = t->rank;
    memcpy(f->shape, t->shape, sizeof t->shape);
    f->data = t->data;
    f->bytes = t->bytes;
    return true;
}

bool seqmix_bind_has(const seqmix_binder *b, const char *st, const char *gguf)
{
    found f;
    return look_up(b, st, gguf, &f);
}

/* ---- shapes ---- */

static void print_shape(const int64_t *shape, int32_t rank, char *out, size_t size)
{
    size_t n = (size_t)snprintf(out, size, "[");
    for (int32_t i = 0; i < rank && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, i > 0 ? ", %lld" : "%lld", (long long)shape[i]);
    if (n < size) (void)snprintf(out + n, size - n, "]");
}

/* Equal but for axes of length 1, as in a depthwise convolution's [D, 1, K]. */
static bool same_but_ones(const found *f, const int64_t *shape, int32_t rank)
{
    int32_t at = 0;
    for (int32_t i = 0; i < f->rank; i++) {
        while (at < rank && shape[at] == 1 && f->shape[i] != 1)
            at++;
        if (at < rank && f->shape[i] == shape[at])
            at++;
        else if (f->shape[i] != 1)
            return false;
    }
    while (at < rank && shape[at] == 1)
        at++;
    return at == rank;
}

/* GGUF stores some vectors in rows, as the norm of Mamba-2 by groups. */
static bool same_shape(const seqmix_binder *b, const found *f, const int64_t *shape, int32_t rank)
{
    if (!b->weights->is_gguf || rank != 1) return same_but_ones(f, shape, rank);
    int64_t n = 1;
    for (int32_t i = 0; i < f->rank; i++)
        n *= f->shape[i];
    return n == shape[0];
}

static seqmix_tensor fail(seqmix_binder *b)
{
    b->failed = true;
    return (seqmix_tensor){0};
}

/* Finds and checks; false with the sentence, once. */
static bool require(seqmix_binder *b, const char *st, const char *gguf, const int64_t *shape, int32_t rank, found *f)
{
    char wanted[96], is[256];
    if (b->failed) return false;
    bool there = look_up(b, st, gguf, f);
    print_shape(shape, rank, wanted, sizeof wanted);
    if (!there) {
        if (strcmp(f->name, "?") == 0) (void)snprintf(f->name, sizeof f->name, "%s", st != NULL ? st : gguf);
        b->failed = !seqmix_fail(b->why, "tensor '%s' is missing, wanted with shape %s", f->name, wanted);
    } else if (!same_shape(b, f, shape, rank)) {
        print_shape(f->shape, f->rank, is, sizeof is);
        b->failed = !seqmix_fail(b->why, "tensor '%s' has shape %s, wanted %s", f->name, is, wanted);
    } else if (f->dtype == 0) {
        b->failed = !seqmix_fail(b->why, "tensor '%s' has dtype %s, wanted %s", f->name, f->type,
                                 b->weights->is_gguf ? "one that the library computes with" : "F32, BF16 or F16");
    }
    int64_t n = 1;
    for (int32_t i = 0; i < rank; i++)
        n *= shape[i];
    if (!b->failed) b->elements += n;
    return !b->failed;
}

/* Who listens is told what was found. */
static void tell(seqmix_binder *b, const found *f, int32_t rank, const int64_t *shape, seqmix_bound more)
{
    char name[NAME_SIZE];
    if (b->tell == NULL || b->failed || b->weights->is_gguf) return;
    gguf_name(b, f->gguf, name);
    more.name = name;
    more.dtype = f->dtype;
    more.rank = rank;
    memcpy(more.shape, shape, (size_t)rank * sizeof *shape);
    more.data = f->data;
    b->failed = !b->tell(b->listener, &more, b->why);
}

/* ---- views ---- */

static bool is_plain(seqmix_dtype dtype)
{
    return dtype == SEQMIX_F32 || dtype == SEQMIX_BF16 || dtype == SEQMIX_F16;
}

size_t seqmix_dtype_bytes(seqmix_dtype dtype, int64_t n)
{
    int64_t elements = 1;
    size_t bytes = 1;
    (void)seqmix_gguf_type_block(seqmix_gguf_dtype_type(dtype), &elements, &bytes);
    return (size_t)(n / elements) * bytes;
}

static seqmix_tensor dense(const void *data, seqmix_dtype dtype, int32_t rank, const int64_t *shape)
{
    /* Tensors of the header are never written when they are inputs. */
    seqmix_tensor t = {.data = (void *)(uintptr_t)data, .dtype = dtype, .rank = rank};
    for (int32_t i = rank - 1; i >= 0; i--) {
        t.shape[i] = shape[i];
        t.stride[i] = i + 1 < rank ? t.stride[i + 1] * t.shape[i + 1] : 1;
    }
    return t;
}

/* A complete tensor of n elements, where the ops read it. */
static seqmix_tensor place(seqmix_binder *b, seqmix_tensor t)
{
    int64_t n = 1;
    for (int32_t i = 0; i < t.rank; i++)
        n *= t.shape[i];
    const size_t bytes = seqmix_dtype_bytes(t.dtype, n);
    void *at = b->on_device != NULL ? seqmix_arena_take(b->on_device, bytes) : NULL;
    if (at == NULL) return t;
    if (seqmix_mem_copy(b->device, at, t.data, bytes) != SEQMIX_OK) {
        (void)seqmix_fail(b->why, "weights: %s", seqmix_last_error(b->device));
        return fail(b);
    }
    t.data = at;
    return t;
}

seqmix_tensor seqmix_rows_of(seqmix_tensor matrix, int64_t from, int64_t n)
{
    int32_t axis = matrix.rank - 2;
    size_t offset = seqmix_dtype_bytes(matrix.dtype, from * matrix.stride[axis]);
    if (matrix.data != NULL) matrix.data = (char *)matrix.data + offset;
    matrix.shape[axis] = n;
    return matrix;
}

/* ---- widening ---- */

/* Not always aligned: a GGUF file aligns tensors, but may say to what. */
static uint16_t half_at(const unsigned char *at)
{
    uint16_t half;
    memcpy(&half, at, sizeof half);
    return half;
}

void seqmix_widen_row(seqmix_dtype dtype, const void *data, int64_t n, seqmix_widen how, float *out)
{
    const unsigned char *at = data;
    if (dtype == SEQMIX_F32) {
        if (n > 0) memcpy(out, data, (size_t)n * sizeof *out);
    } else if (dtype == SEQMIX_BF16) {
        for (int64_t i = 0; i < n; i++)
            out[i] = seqmix_float_of_bf16(half_at(at + 2 * i));
    } else {
        for (int64_t i = 0; i < n; i++)
            out[i] = seqmix_float_of_f16(half_at(at + 2 * i));
    }
    for (int64_t i = 0; i < n && how == SEQMIX_WIDEN_NEG_EXP; i++)
        out[i] = -expf(out[i]);
    for (int64_t i = 0; i < n && how == SEQMIX_WIDEN_PLUS_ONE; i++)
        out[i] = 1.0F + out[i];
}

/* Blocks of quantised weights are the library's business: a table whose rows are embedded one after the other. */
static bool widen_blocks(seqmix_binder *b, const found *f, int64_t rows, int64_t columns, float *out)
{
    for (int32_t row = 0; row < rows; row++) {
        seqmix_embed_args args = {.struct_size = sizeof args,
                                  .n_tokens = 1,
                                  .tokens = &row,
                                  .table = dense(f->data, f->dtype, 2, (int64_t[]){rows, columns}),
                                  .y = seqmix_view2(out + row * columns, 1, columns, 0, columns)};
        if (seqmix_embed_rows(b->ctx, &args, NULL, 0) != SEQMIX_OK)
            return seqmix_fail(b->why, "tensor '%s': %s", f->name, seqmix_last_error(b->ctx));
    }
    return true;
}

static bool widen(seqmix_binder *b, const found *f, int64_t rows, int64_t columns, seqmix_widen how, float *out)
{
    if (!is_plain(f->dtype) && !widen_blocks(b, f, rows, columns, out)) return false;
    if (b->weights->is_gguf) how = SEQMIX_WIDEN_PLAIN;
    if (is_plain(f->dtype)) seqmix_widen_row(f->dtype, f->data, rows * columns, how, out);
    for (int64_t i = 0; f->scale != 1.0F && i < rows * columns; i++)
        out[i] *= f->scale;
    return true;
}

static seqmix_tensor wide(seqmix_binder *b, const found *f, int32_t rank, const int64_t *shape, seqmix_widen how)
{
    int64_t rows = rank == 2 ? shape[0] : 1, columns = shape[rank - 1];
    tell(b, f, rank, shape, (seqmix_bound){.expert = -1, .how = how});
    float *out = seqmix_arena_take(b->arena, (size_t)(rows * columns) * sizeof *out);
    if (out != NULL && !widen(b, f, rows, columns, how, out)) return fail(b);
    return place(b, dense(out, SEQMIX_F32, rank, shape));
}

/* As stored; with a scale beside it, in f32, because products have no place for one. */
static seqmix_tensor stored(seqmix_binder *b, const char *st, const char *gguf, int32_t rank, const int64_t *shape)
{
    found f;
    if (!require(b, st, gguf, shape, rank, &f)) return fail(b);
    if (rank == 2 && f.scale != 1.0F) return wide(b, &f, rank, shape, SEQMIX_WIDEN_PLAIN);
    tell(b, &f, rank, shape, (seqmix_bound){.expert = -1});
    b->bytes += f.bytes;
    return place(b, dense(f.data, f.dtype, rank, shape));
}

seqmix_tensor seqmix_bind_matrix(seqmix_binder *b, const char *st, const char *gguf, int64_t rows, int64_t columns)
{
    return stored(b, st, gguf, 2, (int64_t[]){rows, columns});
}

seqmix_tensor seqmix_bind_vector(seqmix_binder *b, const char *st, const char *gguf, int64_t n, seqmix_widen how)
{
    found f;
    const int64_t shape[1] = {n};
    return require(b, st, gguf, shape, 1, &f) ? wide(b, &f, 1, shape, how) : fail(b);
}

seqmix_tensor seqmix_bind_wide(seqmix_binder *b, const char *st, const char *gguf, int64_t rows, int64_t columns,
                               seqmix_widen how)
{
    found f;
    const int64_t shape[2] = {rows, columns};
    return require(b, st, gguf, shape, 2, &f) ? wide(b, &f, 2, shape, how) : fail(b);
}

seqmix_tensor seqmix_bind_delicate(seqmix_binder *b, const char *st, const char *gguf, int64_t rows, int64_t columns)
{
    found f;
    const bool blocks = look_up(b, st, gguf, &f) && f.dtype != 0 && !is_plain(f.dtype);
    return blocks ? seqmix_bind_wide(b, st, gguf, rows, columns, SEQMIX_WIDEN_PLAIN)
                  : seqmix_bind_matrix(b, st, gguf, rows, columns);
}

seqmix_tensor seqmix_bind_pair(seqmix_binder *b, const char *const st[2], const char *const gguf[2], int64_t rows,
                               int64_t columns)
{
    found f[2];
    const int64_t one[2] = {rows, columns}, both[2] = {2 * rows, columns};
    if (!require(b, st[0], gguf[0], one, 2, &f[0]) || !require(b, st[1], gguf[1], one, 2, &f[1])) return fail(b);
    for (int i = 0; i < 2; i++)
        tell(b, &f[i], 2, one, (seqmix_bound){.expert = -1});
    float *out = seqmix_arena_take(b->arena, (size_t)(2 * rows * columns) * sizeof *out);
    for (int i = 0; out != NULL && i < 2; i++)
        if (!widen(b, &f[i], rows, columns, SEQMIX_WIDEN_PLAIN, out + i * rows * columns)) return fail(b);
    return place(b, dense(out, SEQMIX_F32, 2, both));
}

seqmix_tensor seqmix_bind_bias(seqmix_binder *b, const char *st, const char *gguf, int64_t n, bool wanted)
{
    if (b->weights->is_gguf ? !seqmix_bind_has(b, st, gguf) : !wanted) return (seqmix_tensor){0};
    return seqmix_bind_vector(b, st, gguf, n, SEQMIX_WIDEN_PLAIN);
}

seqmix_tensor seqmix_bind_scaled_bias(seqmix_binder *b, const char *st, const char *gguf, int64_t n, bool wanted)
{
    char bias[64], matrix[64];
    found f, beside;
    const int64_t shape[1] = {n};
    (void)snprintf(bias, sizeof bias, "%s.bias", gguf);
    (void)snprintf(matrix, sizeof matrix, "%s.weight", gguf);
    if (!b->weights->is_gguf || !look_up(b, NULL, matrix, &beside)) return seqmix_bind_bias(b, st, bias, n, wanted);
    if (!seqmix_bind_has(b, st, bias)) return (seqmix_tensor){0};
    if (!require(b, st, bias, shape, 1, &f)) return fail(b);
    f.scale *= beside.scale;
    return wide(b, &f, 1, shape, SEQMIX_WIDEN_PLAIN);
}

/* ---- laid out anew ---- */

void seqmix_let_go(const void *data, size_t bytes)
{
    long size = sysconf(_SC_PAGESIZE);
    uintptr_t page = size > 0 ? (uintptr_t)size : 4096, at = (uintptr_t)data;
    uintptr_t from = (at + page - 1) / page * page, end = (at + bytes) / page * page;
    if (end > from) (void)madvise((void *)from, end - from, MADV_DONTNEED);
}

seqmix_tensor seqmix_bind_regrouped(seqmix_binder *b, const char *st, const char *gguf, const seqmix_regroup *how,
                                    int64_t columns, bool widened)
{
    found f;
    int64_t group_rows = 0;
    for (int64_t p = 0; p < how->parts; p++)
        group_rows += how->rows[p];
    const int64_t shape[2] = {how->groups * group_rows, columns};
    if (!require(b, st, gguf, shape, 2, &f)) return fail(b);
    tell(b, &f, 2, shape, (seqmix_bound){.expert = -1, .groups = how});
    const seqmix_dtype dtype = widened ? SEQMIX_F32 : f.dtype;
    const size_t from_row = seqmix_dtype_bytes(f.dtype, columns), to_row = seqmix_dtype_bytes(dtype, columns);
    char *out = seqmix_arena_take(b->arena, (size_t)shape[0] * to_row), *at = out;
    int64_t before = 0; /* rows of a group in front of this part */
    for (int64_t p = 0; out != NULL && p < how->parts; before += how->rows[p++]) {
        for (int64_t g = 0; g < how->groups; g++) {
            found run = f;
            run.data = (const char *)f.data + (size_t)(g * group_rows + before) * from_row;
            if (!widened)
                memcpy(at, run.data, (size_t)how->rows[p] * from_row);
            else if (!widen(b, &run, how->rows[p], columns, SEQMIX_WIDEN_PLAIN, (float *)(void *)at))
                return fail(b);
            at += (size_t)how->rows[p] * to_row;
        }
    }
    if (out != NULL) seqmix_let_go(f.data, f.bytes);
    return place(b, dense(out, dtype, 2, shape));
}

static seqmix_tensor stack(seqmix_binder *b, const char *st, const char *gguf, const int64_t shape[3])
{
    found f;
    seqmix_dtype dtype = 0;
    char *out = NULL;
    for (int64_t e = 0; e < shape[0]; e++) {
        char name[NAME_SIZE];
        const char *mark = strstr(st, "%lld");
        (void)snprintf(name, sizeof name, "%.*s%lld%s", (int)(mark - st), st, (long long)e, mark + 4);
        if (!require(b, name, gguf, shape + 1, 2, &f)) return fail(b);
        if (e == 0) {
            dtype = f.dtype;
            out = seqmix_arena_take(b->arena, (size_t)shape[0] * f.bytes);
        } else if (f.dtype != dtype) {
            (void)seqmix_fail(b->why, "tensor '%s' has dtype %s, another than that of the first expert", f.name,
                              f.type);
            return fail(b);
        }
        tell(b, &f, 3, shape, (seqmix_bound){.expert = e});
        if (out == NULL) continue;
        memcpy(out + (size_t)e * f.bytes, f.data, f.bytes);
        seqmix_let_go(f.data, f.bytes);
    }
    return place(b, dense(out, dtype, 3, shape));
}

seqmix_tensor seqmix_bind_experts(seqmix_binder *b, const char *st_whole, const char *st, const char *gguf,
                                  int64_t experts, int64_t rows, int64_t columns)
{
    const int64_t shape[3] = {experts, rows, columns};
    if (b->failed) return fail(b);
    if (b->weights->is_gguf || seqmix_bind_has(b, st_whole, gguf)) return stored(b, st_whole, gguf, 3, shape);
    return stack(b, st, gguf, shape);
}
