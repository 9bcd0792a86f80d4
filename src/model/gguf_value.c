/* SPDX-License-Identifier: MIT */
/* GGUF: typed look-ups in the metadata of a parsed file, and the table of tensor types (see gguf.h). */
#include "gguf.h"

#include <inttypes.h>

/* ---------------------------------------------------------------- tensor types */

static const struct {
    const char *name;
    int32_t type;
    int64_t elements;
    size_t bytes;
    seqmix_dtype dtype;
} types[] = {
    {"F32", 0, 1, 4, SEQMIX_F32},
    {"F16", 1, 1, 2, SEQMIX_F16},
    {"BF16", 30, 1, 2, SEQMIX_BF16},
    {"Q4_0", 2, 32, 18, SEQMIX_Q4_0},
    {"Q5_0", 6, 32, 22, SEQMIX_Q5_0},
    {"Q5_1", 7, 32, 24, SEQMIX_Q5_1},
    {"Q8_0", 8, 32, 34, SEQMIX_Q8_0},
    {"Q4_K", 12, 256, 144, SEQMIX_Q4_K},
    {"Q5_K", 13, 256, 176, SEQMIX_Q5_K},
    {"Q6_K", 14, 256, 210, SEQMIX_Q6_K},
    {"IQ4_NL", 20, 32, 18, SEQMIX_IQ4_NL},
    /* files hold these too; the library has no products for them */
    {"Q4_1", 3, 32, 20, 0},
    {"Q2_K", 10, 256, 84, 0},
    {"Q3_K", 11, 256, 110, 0},
    {"IQ2_XXS", 16, 256, 66, 0},
    {"IQ2_XS", 17, 256, 74, 0},
    {"IQ3_XXS", 18, 256, 98, 0},
    {"IQ1_S", 19, 256, 50, 0},
    {"IQ3_S", 21, 256, 110, 0},
    {"IQ2_S", 22, 256, 82, 0},
    {"IQ4_XS", 23, 256, 136, 0},
    {"I8", 24, 1, 1, 0},
    {"I16", 25, 1, 2, 0},
    {"I32", 26, 1, 4, 0},
    {"I64", 27, 1, 8, 0},
    {"F64", 28, 1, 8, 0},
    {"IQ1_M", 29, 256, 56, 0},
    {"TQ1_0", 34, 256, 54, 0},
    {"TQ2_0", 35, 256, 66, 0},
    {"MXFP4", 39, 32, 17, 0},
    {"NVFP4", 40, 64, 36, 0},
    {"Q1_0", 41, 128, 18, 0},
};
#define N_TYPES (int)(sizeof types / sizeof types[0])

static int find_type(int32_t type)
{
    for (int i = 0; i < N_TYPES; i++)
        if (types[i].type == type) return i;
    return -1;
}

const char *seqmix_gguf_type_name(int32_t type)
{
    const int i = find_type(type);
    return i >= 0 ? types[i].name : NULL;
}

bool seqmix_gguf_type_block(int32_t type, int64_t *elements, size_t *bytes)
{
    const int i = find_type(type);
    if (i < 0) return false;
    *elements = types[i].elements;
    *bytes = types[i].bytes;
    return true;
}

seqmix_dtype seqmix_gguf_type_dtype(int32_t type)
{
    const int i = find_type(type);
    return i >= 0 ? types[i].dtype : 0;
}

int32_t seqmix_gguf_dtype_type(seqmix_dtype dtype)
{
    for (int i = 0; i < N_TYPES; i++)
        if (dtype != 0 && types[i].dtype == dtype) return types[i].type;
    return -1;
}

/* ---------------------------------------------------------------- elements */

static uint64_t unsigned_at(const unsigned char *bytes, int n)
{
    uint64_t value = 0;
    for (int i = n - 1; i >= 0; i--)
        value = value << 8 | bytes[i];
    return value;
}

int64_t seqmix_gguf_int_at(const seqmix_gguf_value *v, uint64_t i)
{
    const unsigned char *at = v->data;
    switch (v->element) {
    case SEQMIX_GGUF_U8:
    case SEQMIX_GGUF_BOOL:
        return at[i];
    case SEQMIX_GGUF_I8:
        return (int8_t)at[i];
    case SEQMIX_GGUF_U16:
        return (int64_t)unsigned_at(at + 2 * i, 2);
    case SEQMIX_GGUF_I16:
        return (int16_t)unsigned_at(at + 2 * i, 2);
    case SEQMIX_GGUF_U32:
        return (int64_t)unsigned_at(at + 4 * i, 4);
    case SEQMIX_GGUF_I32:
        return (int32_t)unsigned_at(at + 4 * i, 4);
    case SEQMIX_GGUF_I64:
        return (int64_t)unsigned_at(at + 8 * i, 8);
    case SEQMIX_GGUF_U64: {
        const uint64_t value = unsigned_at(at + 8 * i, 8);
        return value <= INT64_MAX ? (int64_t)value : INT64_MAX;
    }
    default:
        return 0;
    }
}

double seqmix_gguf_number_at(const seqmix_gguf_value *v, uint64_t i)
{
    if (v->element == SEQMIX_GGUF_F32) {
        const uint32_t bits = (uint32_t)unsigned_at(v->data + 4 * i, 4);
        float value;
        memcpy(&value, &bits, sizeof value);
        return (double)value;
    }
    if (v->element == SEQMIX_GGUF_F64) {
        const uint64_t bits = unsigned_at(v->data + 8 * i, 8);
        double value;
        memcpy(&value, &bits, sizeof value);
        return value;
    }
    return (double)seqmix_gguf_int_at(v, i);
}

bool seqmix_gguf_next_string(const seqmix_gguf_value *v, size_t *at, seqmix_gguf_text *out)
{
    if (*at >= v->bytes) return false;
    const size_t n = (size_t)unsigned_at(v->data + *at, 8);
    *out = (seqmix_gguf_text){(const char *)v->data + *at + 8, n};
    *at += 8 + n;
    return true;
}

/* ---------------------------------------------------------------- look-ups */

static bool is_integer(uint32_t type)
{
    return type <= SEQMIX_GGUF_I32 || type == SEQMIX_GGUF_U64 || type == SEQMIX_GGUF_I64;
}

static bool is_kind(uint32_t type, uint32_t kind)
{
    if (kind == SEQMIX_GGUF_I32) return is_integer(type);
    if (kind == SEQMIX_GGUF_F32) return is_integer(type) || type == SEQMIX_GGUF_F32 || type == SEQMIX_GGUF_F64;
    return type == kind;
}

static const char *kind_name(uint32_t kind)
{
    switch (kind) {
    case SEQMIX_GGUF_I32:
        return "integer";
    case SEQMIX_GGUF_F32:
        return "number";
    case SEQMIX_GGUF_BOOL:
        return "bool";
    default:
        return "string";
    }
}

/* The value of a key, a scalar or (if n is not 0) also an array of n, of the wanted kind. */
static const seqmix_gguf_value *get(const seqmix_gguf *g, const char *key, uint32_t kind, int64_t n, seqmix_why why)
{
    const seqmix_gguf_value *v = seqmix_gguf_value_of(g, key);
    if (v == NULL) {
        (void)seqmix_fail(why, "%s is missing", key);
        return NULL;
    }
    if (!is_kind(v->element, kind) || (v->type == SEQMIX_GGUF_ARRAY && n == 0)) {
        (void)seqmix_fail(why, "%s is no %s", key, kind_name(kind));
        return NULL;
    }
    if (v->type == SEQMIX_GGUF_ARRAY && v->n != (uint64_t)n) {
        (void)seqmix_fail(why, "%s has %" PRIu64 " elements, must have %" PRId64, key, v->n, n);
        return NULL;
    }
    return v;
}

static bool check_range(const char *key, int64_t value, int64_t low, int64_t high, seqmix_why why)
{
    if (value >= low && value <= high) return true;
    return seqmix_fail(why, "%s=%" PRId64 " is not in [%" PRId64 ", %" PRId64 "]", key, value, low, high);
}

bool seqmix_gguf_int(const seqmix_gguf *g, const char *key, int64_t low, int64_t high, int64_t *out, seqmix_why why)
{
    const seqmix_gguf_value *v = get(g, key, SEQMIX_GGUF_I32, 0, why);
    if (v == NULL || !check_range(key, seqmix_gguf_int_at(v, 0), low, high, why)) return false;
    *out = seqmix_gguf_int_at(v, 0);
    return true;
}

bool seqmix_gguf_number(const seqmix_gguf *g, const char *key, double *out, seqmix_why why)
{
    const seqmix_gguf_value *v = get(g, key, SEQMIX_GGUF_F32, 0, why);
    if (v != NULL) *out = seqmix_gguf_number_at(v, 0);
    return v != NULL;
}

bool seqmix_gguf_bool(const seqmix_gguf *g, const char *key, bool *out, seqmix_why why)
{
    const seqmix_gguf_value *v = get(g, key, SEQMIX_GGUF_BOOL, 0, why);
    if (v != NULL) *out = v->data[0] != 0;
    return v != NULL;
}

bool seqmix_gguf_string(const seqmix_gguf *g, const char *key, seqmix_gguf_text *out, seqmix_why why)
{
    const seqmix_gguf_value *v = get(g, key, SEQMIX_GGUF_STRING, 0, why);
    size_t at = 0;
    return v != NULL && seqmix_gguf_next_string(v, &at, out);
}

bool seqmix_gguf_ints(const seqmix_gguf *g, const char *key, int64_t n, int64_t low, int64_t high, int64_t *out,
                      seqmix_why why)
{
    const seqmix_gguf_value *v = get(g, key, SEQMIX_GGUF_I32, n, why);
    if (v == NULL) return false;
    for (int64_t i = 0; i < n; i++) {
        out[i] = seqmix_gguf_int_at(v, v->type == SEQMIX_GGUF_ARRAY ? (uint64_t)i : 0);
        if (!check_range(key, out[i], low, high, why)) return false;
    }
    return true;
}

bool seqmix_gguf_bools(const seqmix_gguf *g, const char *key, int64_t n, bool *out, seqmix_why why)
{
    const seqmix_gguf_value *v = get(g, key, SEQMIX_GGUF_BOOL, n, why);
    for (int64_t i = 0; v != NULL && i < n; i++)
        out[i] = v->data[v->type == SEQMIX_GGUF_ARRAY ? i : 0] != 0;
    return v != NULL;
}

bool seqmix_gguf_text_is(seqmix_gguf_text text, const char *word)
{
    return text.n == strlen(word) && memcmp(text.bytes, word, text.n) == 0;
}

bool seqmix_gguf_array(const seqmix_gguf *g, const char *key, uint32_t kind, const seqmix_gguf_value **out,
                       seqmix_why why)
{
    const seqmix_gguf_value *v = seqmix_gguf_value_of(g, key);
    *out = NULL;
    if (v == NULL) return seqmix_fail(why, "%s is missing", key);
    if (v->type != SEQMIX_GGUF_ARRAY || !is_kind(v->element, kind))
        return seqmix_fail(why, "%s is no array of %ss", key, kind_name(kind));
    *out = v;
    return true;
}
