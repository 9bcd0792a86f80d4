/* SPDX-License-Identifier: MIT */
/*
 * One GGUF file into another with its matrices in fewer bits (see quantize.h). Values are copied as they are but for the file's
 * type; tensors keep their order. The new file is written beside its name and moved there at the end.
 */
#define _POSIX_C_SOURCE 200809L

#include "quantize.h"

#include <errno.h>
#include <math.h>
#include <unistd.h>

#include "buffer.h"
#include "half.h"

/* What general.file_type says of a file whose matrices are mostly of one type, and what takes a type's place where its blocks
 * do not divide a row. */
static const struct {
    const char *name;
    seqmix_dtype dtype, instead;
    uint32_t file_type;
} targets[] = {
    {"F16", SEQMIX_F16, 0, 1},
    {"BF16", SEQMIX_BF16, 0, 32},
    {"Q8_0", SEQMIX_Q8_0, SEQMIX_F16, 7},
    {"Q4_0", SEQMIX_Q4_0, SEQMIX_F16, 2},
    {"Q5_0", SEQMIX_Q5_0, SEQMIX_F16, 8},
    {"Q5_1", SEQMIX_Q5_1, SEQMIX_F16, 9},
    {"IQ4_NL", SEQMIX_IQ4_NL, SEQMIX_F16, 25},
    {"Q4_K", SEQMIX_Q4_K, SEQMIX_Q5_0, 14},
    {"Q5_K", SEQMIX_Q5_K, SEQMIX_Q5_1, 16},
    {"Q6_K", SEQMIX_Q6_K, SEQMIX_Q8_0, 18},
};
#define N_TARGETS (int)(sizeof targets / sizeof targets[0])

static int find_target(const char *name, seqmix_dtype dtype)
{
    for (int i = 0; i < N_TARGETS; i++)
        if (name != NULL ? strcmp(targets[i].name, name) == 0 : targets[i].dtype == dtype) return i;
    return -1;
}

/* A tensor of the new file. */
struct planned {
    const seqmix_gguf_tensor *from;
    int32_t type;
    size_t bytes, offset; /* of its data */
};

static int by_place(const void *a, const void *b)
{
    const struct planned *x = a, *y = b;
    const unsigned char *p = x->from->data, *q = y->from->data;
    if (p != q) return p < q ? -1 : 1;
    return strcmp(x->from->name, y->from->name);
}

static bool is_matrix(const seqmix_gguf_tensor *t)
{
    const char *dot = strrchr(t->name, '.');
    return t->rank >= 2 && dot != NULL && strcmp(dot, ".weight") == 0 && strstr(t->name, "_norm.") == NULL &&
           strstr(t->name, "ssm_conv1d") == NULL && strstr(t->name, "ffn_gate_inp") == NULL;
}

static bool is_plain(seqmix_dtype dtype)
{
    return dtype == SEQMIX_F32 || dtype == SEQMIX_F16 || dtype == SEQMIX_BF16;
}

/* The type that a tensor gets, and its size. */
static bool plan_tensor(int target, struct planned *p, seqmix_quantized *done, seqmix_why why)
{
    const seqmix_gguf_tensor *t = p->from;
    const int64_t row = t->shape[t->rank - 1];
    int64_t elements = 1;
    size_t size = 0;
    if (!is_plain(t->dtype))
        return seqmix_fail(why, "tensor '%s' is %s already: quantize from F32, F16 or BF16", t->name,
                           seqmix_gguf_type_name(t->type));
    seqmix_dtype dtype = is_matrix(t) ? targets[target].dtype : SEQMIX_F32;
    for (;;) {
        p->type = seqmix_gguf_dtype_type(dtype);
        (void)seqmix_gguf_type_block(p->type, &elements, &size);
        if (row % elements == 0) break;
        dtype = targets[find_target(NULL, dtype)].instead;
    }
    p->bytes = t->bytes / (t->dtype == SEQMIX_F32 ? 4 : 2) / (size_t)elements * size;
    done->tensors++;
    done->changed += p->type != t->type ? 1 : 0;
    done->fallbacks += is_matrix(t) && dtype != targets[target].dtype ? 1 : 0;
    done->bytes_before += t->bytes;
    done->bytes_after += p->bytes;
    return true;
}

/* ---------------------------------------------------------------- the head of the file */

/* Appends to `out` until memory runs out, which *ok remembers. */
static void add(seqmix_bytes *out, const void *bytes, size_t n, bool *ok)
{
    *ok = *ok && seqmix_bytes_add(out, bytes, n);
}

static void add_number(seqmix_bytes *out, uint64_t value, int n, bool *ok)
{
    unsigned char bytes[8];
    for (int i = 0; i < n; i++)
        bytes[i] = (unsigned char)(value >> 8 * i);
    add(out, bytes, (size_t)n, ok);
}

static void add_text(seqmix_bytes *out, const char *text, bool *ok)
{
    add_number(out, strlen(text), 8, ok);
    add(out, text, strlen(text), ok);
}

static void add_padding(seqmix_bytes *out, size_t alignment, bool *ok)
{
    while (*ok && out->n % alignment != 0)
        add_number(out, 0, 1, ok);
}

static const char *const replaced[] = {"general.file_type", "general.quantization_version"};

static bool is_replaced(const char *key)
{
    return strcmp(key, replaced[0]) == 0 || strcmp(key, replaced[1]) == 0;
}

static void add_values(seqmix_bytes *out, const seqmix_gguf *g, int target, bool *ok)
{
    for (int64_t i = 0; i < g->n_values; i++) {
        const seqmix_gguf_value *v = &g->values[i];
        if (is_replaced(v->key)) continue;
        add_text(out, v->key, ok);
        add_number(out, v->type, 4, ok);
        if (v->type == SEQMIX_GGUF_ARRAY) {
            add_number(out, v->element, 4, ok);
            add_number(out, v->n, 8, ok);
        }
        add(out, v->data, v->bytes, ok);
    }
    const uint32_t numbers[] = {targets[target].file_type, 2};
    for (int i = 0; i < 2; i++) {
        add_text(out, replaced[i], ok);
        add_number(out, SEQMIX_GGUF_U32, 4, ok);
        add_number(out, numbers[i], 4, ok);
    }
}

static bool make_head(const seqmix_gguf *g, struct planned *tensors, int target, seqmix_bytes *out)
{
    int64_t n_values = 2;
    size_t offset = 0;
    bool ok = true;
    for (int64_t i = 0; i < g->n_values; i++)
        n_values += is_replaced(g->values[i].key) ? 0 : 1;
    add(out, "GGUF", 4, &ok);
    add_number(out, 3, 4, &ok);
    add_number(out, (uint64_t)g->n_tensors, 8, &ok);
    add_number(out, (uint64_t)n_values, 8, &ok);
    add_values(out, g, target, &ok);
    for (int64_t i = 0; i < g->n_tensors; i++) {
        struct planned *p = &tensors[i];
        p->offset = offset;
        offset += (p->bytes + g->alignment - 1) / g->alignment * g->alignment;
        add_text(out, p->from->name, &ok);
        add_number(out, (uint64_t)p->from->rank, 4, &ok);
        for (int axis = p->from->rank - 1; axis >= 0; axis--)
            add_number(out, (uint64_t)p->from->shape[axis], 8, &ok);
        add_number(out, (uint64_t)p->type, 4, &ok);
        add_number(out, p->offset, 8, &ok);
    }
    add_padding(out, g->alignment, &ok);
    return ok;
}

/* ---------------------------------------------------------------- the data */

static bool widen_row(const seqmix_gguf_tensor *t, int64_t at, int64_t n, float *out, seqmix_why why)
{
    const unsigned char *bytes = (const unsigned char *)t->data + (size_t)at * (t->dtype == SEQMIX_F32 ? 4 : 2);
    for (int64_t i = 0; i < n; i++) {
        if (t->dtype == SEQMIX_F32) {
            memcpy(out + i, bytes + 4 * i, sizeof *out);
        } else {
            const uint16_t half = (uint16_t)(bytes[2 * i] | bytes[2 * i + 1] << 8);
            out[i] = t->dtype == SEQMIX_F16 ? seqmix_float_of_f16(half) : seqmix_float_of_bf16(half);
        }
        if (!(fabsf(out[i]) <= 3.402823466e38f))
            return seqmix_fail(why, "tensor '%s' holds a value that is not finite", t->name);
    }
    return true;
}

static bool write_all(FILE *file, const void *bytes, size_t n, const char *path, seqmix_why why)
{
    return n == 0 || fwrite(bytes, 1, n, file) == n || seqmix_fail(why, "%s: %s", path, strerror(errno));
}

static bool write_tensor(FILE *file, const struct planned *p, uint32_t alignment, const char *path, seqmix_why why)
{
    const seqmix_gguf_tensor *t = p->from;
    const int64_t row = t->shape[t->rank - 1];
    int64_t rows = 1;
    for (int axis = 0; axis < t->rank - 1; axis++)
        rows *= t->shape[axis];
    const size_t row_bytes = p->bytes / (size_t)rows;
    float *wide = malloc((size_t)row * sizeof *wide);
    unsigned char *packed = calloc(1, row_bytes > alignment ? row_bytes : alignment);
    bool ok = (wide != NULL && packed != NULL) || seqmix_fail(why, "no memory for a row of '%s'", t->name);
    for (int64_t r = 0; ok && r < rows; r++)
        ok = widen_row(t, r * row, row, wide, why) &&
             (seqmix_quantize_row(seqmix_gguf_type_dtype(p->type), wide, row, packed) ||
              seqmix_fail(why, "no packing of %s", seqmix_gguf_type_name(p->type))) &&
             write_all(file, packed, row_bytes, path, why);
    if (ok) {
        memset(packed, 0, alignment);
        ok = write_all(file, packed, (alignment - p->bytes % alignment) % alignment, path, why);
    }
    free(wide);
    free(packed);
    return ok;
}

/* The whole file under another name, then moved. */
static bool write_file(const char *path, const seqmix_gguf *g, const struct planned *tensors, const seqmix_bytes *head,
                       seqmix_why why)
{
    char beside[4096];
    const int n = snprintf(beside, sizeof beside, "%s.partial", path);
    if (n < 0 || (size_t)n >= sizeof beside) return seqmix_fail(why, "the name of the new file is too long");
    FILE *file = fopen(beside, "wb");
    if (file == NULL) return seqmix_fail(why, "%s: %s", beside, strerror(errno));
    bool ok = write_all(file, head->data, head->n, beside, why);
    for (int64_t i = 0; ok && i < g->n_tensors; i++)
        ok = write_tensor(file, &tensors[i], g->alignment, beside, why);
    if (fclose(file) != 0 && ok) ok = seqmix_fail(why, "%s: %s", beside, strerror(errno));
    if (ok && rename(beside, path) != 0) ok = seqmix_fail(why, "%s: %s", path, strerror(errno));
    if (!ok) (void)unlink(beside);
    return ok;
}

static int by_value_place(const void *a, const void *b)
{
    const seqmix_gguf_value *x = a, *y = b;
    return x->data < y->data ? -1 : x->data > y->data ? 1 : 0;
}

bool seqmix_quantize_file(const char *type, const char *in, const char *out, seqmix_quantized *done, seqmix_why why)
{
    const int target = find_target(type, 0);
    seqmix_gguf g;
    seqmix_bytes head = {0};
    *done = (seqmix_quantized){0};
    if (target < 0) {
        char names[128] = "";
        size_t n = 0;
        for (int i = 0; i < N_TARGETS; i++)
            n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", i > 0 ? ", " : "", targets[i].name);
        return seqmix_fail(why, "'%.24s' is none of %s", type, names);
    }
    if (!seqmix_gguf_open(in, &g, why)) return false;
    struct planned *tensors = malloc((size_t)g.n_tensors * sizeof *tensors + 1);
    bool ok = tensors != NULL || seqmix_fail(why, "no memory for %lld tensors", (long long)g.n_tensors);
    for (int64_t i = 0; ok && i < g.n_tensors; i++) {
        tensors[i] = (struct planned){.from = &g.tensors[i]};
        ok = plan_tensor(target, &tensors[i], done, why);
    }
    if (ok) {
        if (g.n_tensors > 0) qsort(tensors, (size_t)g.n_tensors, sizeof *tensors, by_place);
        if (g.n_values > 0) qsort(g.values, (size_t)g.n_values, sizeof *g.values, by_value_place);
        ok = make_head(&g, tensors, target, &head) || seqmix_fail(why, "no memory for the head of the file");
    }
    ok = ok && write_file(out, &g, tensors, &head, why);
    free(head.data);
    free(tensors);
    seqmix_gguf_close(&g);
    return ok;
}
