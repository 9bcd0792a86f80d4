/* SPDX-License-Identifier: MIT */
/*
 * GGUF: parsing and checking of a whole file (see gguf.h). A cursor walks the bytes; nothing is read that it has not taken.
 * Counts are believed only after they are known to fit into what is left of the file, so time and memory are linear in its
 * size whatever it claims.
 *
 *     "GGUF", version u32, tensors u64, values u64
 *     values   key, type u32, value; an array is element type u32, count u64, elements; a string is length u64, bytes
 *     tensors  name, rank u32, sizes u64[rank] innermost first, type u32, offset u64 from the data
 *     data     from the next multiple of general.alignment (32 when absent)
 */
#define _POSIX_C_SOURCE 200809L

#include "gguf.h"

#include <inttypes.h>

#include "file.h"

enum { MAX_NAME = 255, MAX_DEPTH = 4, DEFAULT_ALIGNMENT = 32, MAX_ALIGNMENT = 1 << 24 };
enum { LEAST_VALUE = 8 + 1 + 4 + 1, LEAST_TENSOR = 8 + 1 + 4 + 8 + 4 + 8 }; /* bytes of the shortest entries */

typedef struct cursor {
    const char *label;
    const unsigned char *bytes;
    size_t at, size;
    seqmix_why why;
} cursor;

static bool take(cursor *c, size_t n, const char *what)
{
    if (n > c->size - c->at)
        return seqmix_fail(c->why, "%s: the file ends at byte %zu, inside %s at byte %zu", c->label, c->size, what,
                           c->at);
    c->at += n;
    return true;
}

static uint64_t little_endian(const unsigned char *bytes, int n)
{
    uint64_t value = 0;
    for (int i = n - 1; i >= 0; i--)
        value = value << 8 | bytes[i];
    return value;
}

static bool take_u32(cursor *c, uint32_t *out, const char *what)
{
    if (!take(c, 4, what)) return false;
    *out = (uint32_t)little_endian(c->bytes + c->at - 4, 4);
    return true;
}

static bool take_u64(cursor *c, uint64_t *out, const char *what)
{
    if (!take(c, 8, what)) return false;
    *out = little_endian(c->bytes + c->at - 8, 8);
    return true;
}

/* A name goes into messages and is compared as a C string: short, without control characters. It is appended to `names`. */
static bool take_name(cursor *c, char **names, const char **out, const char *what)
{
    uint64_t n;
    const size_t at = c->at;
    if (!take_u64(c, &n, what)) return false;
    if (n == 0 || n > MAX_NAME)
        return seqmix_fail(c->why, "%s: %s at byte %zu has %" PRIu64 " bytes, must be 1 to %d", c->label, what, at, n,
                           MAX_NAME);
    if (!take(c, (size_t)n, what)) return false;
    const unsigned char *name = c->bytes + c->at - n;
    for (size_t i = 0; i < n; i++)
        if (name[i] < ' ' || name[i] == 0x7f)
            return seqmix_fail(c->why, "%s: %s at byte %zu holds a control character", c->label, what, at);
    memcpy(*names, name, (size_t)n);
    (*names)[n] = '\0';
    *out = *names;
    *names += n + 1;
    return true;
}

/* ---------------------------------------------------------------- values */

/* Bytes of an element of fixed size; 0 for strings, arrays and what is no type. */
static size_t scalar_size(uint32_t type)
{
    switch (type) {
    case SEQMIX_GGUF_U8:
    case SEQMIX_GGUF_I8:
    case SEQMIX_GGUF_BOOL:
        return 1;
    case SEQMIX_GGUF_U16:
    case SEQMIX_GGUF_I16:
        return 2;
    case SEQMIX_GGUF_U32:
    case SEQMIX_GGUF_I32:
    case SEQMIX_GGUF_F32:
        return 4;
    case SEQMIX_GGUF_U64:
    case SEQMIX_GGUF_I64:
    case SEQMIX_GGUF_F64:
        return 8;
    default:
        return 0;
    }
}

static bool skip_elements(cursor *c, const char *key, uint32_t type, uint64_t n, int depth);

static bool skip_array(cursor *c, const char *key, int depth, uint32_t *element, uint64_t *n)
{
    if (depth == MAX_DEPTH)
        return seqmix_fail(c->why, "%s: value '%s' nests arrays more than %d deep", c->label, key, MAX_DEPTH);
    return take_u32(c, element, key) && take_u64(c, n, key) && skip_elements(c, key, *element, *n, depth + 1);
}

static bool skip_elements(cursor *c, const char *key, uint32_t type, uint64_t n, int depth)
{
    const size_t size = scalar_size(type), left = c->size - c->at;
    const size_t least = size != 0 ? size : type == SEQMIX_GGUF_STRING ? 8 : 12;
    if (size == 0 && type != SEQMIX_GGUF_STRING && type != SEQMIX_GGUF_ARRAY)
        return seqmix_fail(c->why, "%s: value '%s' has type %" PRIu32 ", which is no type", c->label, key, type);
    if (n > left / least)
        return seqmix_fail(c->why, "%s: value '%s' claims %" PRIu64 " elements, %zu bytes are left", c->label, key, n,
                           left);
    if (type == SEQMIX_GGUF_BOOL)
        for (uint64_t i = 0; i < n; i++)
            if (c->bytes[c->at + i] > 1)
                return seqmix_fail(c->why, "%s: value '%s' holds a bool of %u", c->label, key, c->bytes[c->at + i]);
    if (size != 0) return take(c, (size_t)n * size, key);
    for (uint64_t i = 0; i < n; i++) {
        uint32_t element;
        uint64_t length;
        if (type == SEQMIX_GGUF_ARRAY) {
            if (!skip_array(c, key, depth, &element, &length)) return false;
            continue;
        }
        if (!take_u64(c, &length, key)) return false;
        if (length > c->size - c->at)
            return seqmix_fail(c->why, "%s: value '%s' holds a string of %" PRIu64 " bytes, %zu are left", c->label,
                               key, length, c->size - c->at);
        c->at += (size_t)length;
    }
    return true;
}

static bool take_value(cursor *c, char **names, seqmix_gguf_value *v)
{
    if (!take_name(c, names, &v->key, "a key") || !take_u32(c, &v->type, v->key)) return false;
    v->element = v->type;
    v->n = 1;
    if (v->type == SEQMIX_GGUF_ARRAY) {
        /* the elements begin behind the array's own type and count */
        const size_t begin = c->at + 12;
        if (!skip_array(c, v->key, 0, &v->element, &v->n)) return false;
        v->data = c->bytes + begin;
    } else {
        v->data = c->bytes + c->at;
        if (!skip_elements(c, v->key, v->type, 1, 0)) return false;
    }
    v->bytes = (size_t)(c->bytes + c->at - v->data);
    return true;
}

static int by_key(const void *a, const void *b)
{
    const seqmix_gguf_value *x = a, *y = b;
    return strcmp(x->key, y->key);
}

static bool take_values(cursor *c, char **names, uint64_t n, seqmix_gguf *g)
{
    for (uint64_t i = 0; i < n; i++) {
        if (!take_value(c, names, &g->values[i])) return false;
        g->n_values++;
    }
    if (n > 0) qsort(g->values, (size_t)n, sizeof *g->values, by_key);
    for (uint64_t i = 1; i < n; i++)
        if (strcmp(g->values[i - 1].key, g->values[i].key) == 0)
            return seqmix_fail(c->why, "%s: value '%s' occurs twice", c->label, g->values[i].key);
    return true;
}

/* ---------------------------------------------------------------- tensors */

static bool take_shape(cursor *c, seqmix_gguf_tensor *t)
{
    uint32_t rank;
    uint64_t size;
    if (!take_u32(c, &rank, t->name)) return false;
    if (rank == 0 || rank > SEQMIX_GGUF_MAX_RANK)
        return seqmix_fail(c->why, "%s: tensor '%s' has %" PRIu32 " axes, must be 1 to %d", c->label, t->name, rank,
                           SEQMIX_GGUF_MAX_RANK);
    t->rank = (int32_t)rank;
    for (int axis = t->rank - 1; axis >= 0; axis--) {
        if (!take_u64(c, &size, t->name)) return false;
        if (size == 0 || size > INT64_MAX)
            return seqmix_fail(c->why, "%s: tensor '%s' shape[%d] is %" PRIu64 ", must be 1 to 2^63-1", c->label,
                               t->name, axis, size);
        t->shape[axis] = (int64_t)size;
    }
    return true;
}

static bool measure(cursor *c, seqmix_gguf_tensor *t)
{
    int64_t block = 1, blocks;
    size_t bytes = 0;
    const int64_t row = t->shape[t->rank - 1];
    if (!seqmix_gguf_type_block(t->type, &block, &bytes))
        return seqmix_fail(c->why, "%s: tensor '%s' has type %" PRId32 ", which is no type known here", c->label,
                           t->name, t->type);
    if (row % block != 0)
        return seqmix_fail(
            c->why, "%s: tensor '%s' has rows of %" PRId64 ", no multiple of the %" PRId64 " elements of a %s block",
            c->label, t->name, row, block, seqmix_gguf_type_name(t->type));
    blocks = row / block;
    for (int axis = 0; axis < t->rank - 1; axis++) {
        if (blocks > INT64_MAX / t->shape[axis])
            return seqmix_fail(c->why, "%s: tensor '%s' has a shape whose size overflows", c->label, t->name);
        blocks *= t->shape[axis];
    }
    /* elements too must be countable: a block of many elements may take fewer bytes than it has elements */
    if (blocks > INT64_MAX / (block > (int64_t)bytes ? block : (int64_t)bytes))
        return seqmix_fail(c->why, "%s: tensor '%s' has a shape whose size overflows", c->label, t->name);
    t->bytes = (size_t)blocks * bytes;
    return true;
}

/* The offset stays in `data` until the data's place is known. */
static bool take_tensor(cursor *c, char **names, seqmix_gguf_tensor *t, uint64_t *offset)
{
    uint32_t type;
    if (!take_name(c, names, &t->name, "a tensor's name") || !take_shape(c, t) || !take_u32(c, &type, t->name) ||
        !take_u64(c, offset, t->name))
        return false;
    t->type = type <= INT32_MAX ? (int32_t)type : -1;
    t->dtype = seqmix_gguf_type_dtype(t->type);
    return measure(c, t);
}

static int by_name(const void *a, const void *b)
{
    const seqmix_gguf_tensor *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static bool place_tensors(cursor *c, const uint64_t *offsets, seqmix_gguf *g)
{
    const size_t mask = g->alignment - 1, gap = (g->alignment - (c->at & mask)) & mask;
    const size_t start = gap <= c->size - c->at ? c->at + gap : c->size, size = c->size - start;
    for (int64_t i = 0; i < g->n_tensors; i++) {
        seqmix_gguf_tensor *t = &g->tensors[i];
        if ((offsets[i] & mask) != 0)
            return seqmix_fail(c->why,
                               "%s: tensor '%s' is at offset %" PRIu64 ", no multiple of the alignment %" PRIu32,
                               c->label, t->name, offsets[i], g->alignment);
        if (offsets[i] > size || t->bytes > size - offsets[i])
            return seqmix_fail(
                c->why, "%s: tensor '%s' takes %zu bytes from offset %" PRIu64 ", the file has %zu bytes of data",
                c->label, t->name, t->bytes, offsets[i], size);
        t->data = c->bytes + start + offsets[i];
    }
    if (g->n_tensors > 0) qsort(g->tensors, (size_t)g->n_tensors, sizeof *g->tensors, by_name);
    for (int64_t i = 1; i < g->n_tensors; i++)
        if (strcmp(g->tensors[i - 1].name, g->tensors[i].name) == 0)
            return seqmix_fail(c->why, "%s: tensor '%s' occurs twice", c->label, g->tensors[i].name);
    return true;
}

/* ---------------------------------------------------------------- the file */

static bool take_header(cursor *c, seqmix_gguf *g, uint64_t *n_tensors, uint64_t *n_values)
{
    uint32_t magic = 0;
    if (c->size < 24) return seqmix_fail(c->why, "%s: %zu bytes is too short for a GGUF file", c->label, c->size);
    if ((uintptr_t)c->bytes % 8 != 0)
        return seqmix_fail(c->why, "%s: the bytes in memory are not aligned to 8", c->label);
    if (!take_u32(c, &magic, "the header") || !take_u32(c, &g->version, "the header") ||
        !take_u64(c, n_tensors, "the header") || !take_u64(c, n_values, "the header"))
        return false;
    if (magic != 0x46554747u) return seqmix_fail(c->why, "%s: not a GGUF file", c->label);
    if (g->version == 0x02000000u || g->version == 0x03000000u)
        return seqmix_fail(c->why, "%s: a big-endian GGUF file", c->label);
    if (g->version != 2 && g->version != 3)
        return seqmix_fail(c->why, "%s: GGUF version %" PRIu32 ", must be 2 or 3", c->label, g->version);
    const size_t left = c->size - c->at;
    if (*n_values > left / LEAST_VALUE || *n_tensors > (left - *n_values * LEAST_VALUE) / LEAST_TENSOR)
        return seqmix_fail(c->why, "%s: %" PRIu64 " values and %" PRIu64 " tensors do not fit into %zu bytes", c->label,
                           *n_values, *n_tensors, c->size);
    return true;
}

static bool read_alignment(const cursor *c, seqmix_gguf *g)
{
    int64_t alignment = DEFAULT_ALIGNMENT;
    if (seqmix_gguf_value_of(g, "general.alignment") != NULL &&
        (!seqmix_gguf_int(g, "general.alignment", 1, MAX_ALIGNMENT, &alignment, c->why) ||
         (alignment & (alignment - 1)) != 0 || alignment < 8))
        return seqmix_fail(c->why, "%s: general.alignment is no power of two from 8 to %d", c->label, MAX_ALIGNMENT);
    g->alignment = (uint32_t)alignment;
    return true;
}

static bool read_file(cursor *c, seqmix_gguf *g)
{
    uint64_t n_tensors = 0, n_values = 0, *offsets;
    if (!take_header(c, g, &n_tensors, &n_values)) return false;
    /* A name takes fewer bytes here than with its length in the file. */
    g->names = malloc(c->size);
    g->values = malloc((size_t)n_values * sizeof *g->values + 1);
    g->tensors = malloc((size_t)n_tensors * sizeof *g->tensors + 1);
    offsets = malloc((size_t)n_tensors * sizeof *offsets + 1);
    bool ok = g->names != NULL && g->values != NULL && g->tensors != NULL && offsets != NULL;
    if (!ok)
        (void)seqmix_fail(c->why, "%s: no memory for %" PRIu64 " values and %" PRIu64 " tensors", c->label, n_values,
                          n_tensors);
    char *names = g->names;
    ok = ok && take_values(c, &names, n_values, g) && read_alignment(c, g);
    for (uint64_t i = 0; ok && i < n_tensors; i++) {
        g->tensors[i] = (seqmix_gguf_tensor){0};
        ok = take_tensor(c, &names, &g->tensors[i], &offsets[i]);
        if (ok) g->n_tensors++;
    }
    ok = ok && place_tensors(c, offsets, g);
    free(offsets);
    return ok;
}

bool seqmix_gguf_parse(const void *bytes, size_t size, const char *label, seqmix_gguf *g, seqmix_why why)
{
    *g = (seqmix_gguf){0};
    cursor c = {label, bytes, 0, size, why};
    if (read_file(&c, g)) return true;
    seqmix_gguf_close(g);
    return false;
}

bool seqmix_gguf_open(const char *path, seqmix_gguf *g, seqmix_why why)
{
    seqmix_file file;
    const char *slash = strrchr(path, '/');
    *g = (seqmix_gguf){0};
    if (!seqmix_file_map(path, &file, why)) return false;
    if (!seqmix_gguf_parse(file.bytes, file.size, slash != NULL ? slash + 1 : path, g, why)) {
        seqmix_file_unmap(&file);
        return false;
    }
    g->mapped = file.bytes;
    g->mapped_bytes = file.size;
    return true;
}

void seqmix_gguf_close(seqmix_gguf *g)
{
    seqmix_file file = {g->mapped, g->mapped_bytes};
    seqmix_file_unmap(&file);
    free(g->tensors);
    free(g->values);
    free(g->names);
    *g = (seqmix_gguf){0};
}

const seqmix_gguf_tensor *seqmix_gguf_find(const seqmix_gguf *g, const char *name)
{
    const seqmix_gguf_tensor key = {.name = name};
    if (g->n_tensors == 0) return NULL;
    return bsearch(&key, g->tensors, (size_t)g->n_tensors, sizeof key, by_name);
}

const seqmix_gguf_value *seqmix_gguf_value_of(const seqmix_gguf *g, const char *key)
{
    const seqmix_gguf_value wanted = {.key = key};
    if (g->n_values == 0) return NULL;
    return bsearch(&wanted, g->values, (size_t)g->n_values, sizeof wanted, by_key);
}
