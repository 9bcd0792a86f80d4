/* SPDX-License-Identifier: MIT */
/*
 * Reader of GGUF files (versions 2 and 3, little-endian): metadata, then descriptions of tensors, then their bytes. Everything
 * is checked before it is believed: an opened file holds no tensor that reaches outside it, and every value lies inside it.
 * Tensors may share bytes. Data stay where they are (mapped); only names and tables are copied.
 *
 * Needs the C library (POSIX), json.h for seqmix_why and the numbers of seqmix.h, nothing of the library's code.
 */
#ifndef SEQMIX_MODEL_GGUF_H
#define SEQMIX_MODEL_GGUF_H

#ifndef SEQMIX_EXPERIMENTAL
#    define SEQMIX_EXPERIMENTAL
#endif
#include <seqmix/seqmix.h>

#include "json.h"

/* Types of metadata values, as the file numbers them. */
enum {
    SEQMIX_GGUF_U8 = 0,
    SEQMIX_GGUF_I8 = 1,
    SEQMIX_GGUF_U16 = 2,
    SEQMIX_GGUF_I16 = 3,
    SEQMIX_GGUF_U32 = 4,
    SEQMIX_GGUF_I32 = 5,
    SEQMIX_GGUF_F32 = 6,
    SEQMIX_GGUF_BOOL = 7,
    SEQMIX_GGUF_STRING = 8,
    SEQMIX_GGUF_ARRAY = 9,
    SEQMIX_GGUF_U64 = 10,
    SEQMIX_GGUF_I64 = 11,
    SEQMIX_GGUF_F64 = 12
};

#define SEQMIX_GGUF_MAX_RANK 4

typedef struct seqmix_gguf_tensor {
    const char *name;
    int32_t type;                        /* as the file numbers it: seqmix_gguf_type_name, _type_block */
    seqmix_dtype dtype;                  /* the library's number of it, 0 where it has none */
    int32_t rank;                        /* 1 to 4 */
    int64_t shape[SEQMIX_GGUF_MAX_RANK]; /* row-major: the file's own order turned round, shape[rank-1] is its ne[0] */
    const void *data;
    size_t bytes;
} seqmix_gguf_tensor;

/* Bytes in the file, not terminated. */
typedef struct seqmix_gguf_text {
    const char *bytes;
    size_t n;
} seqmix_gguf_text;

typedef struct seqmix_gguf_value {
    const char *key;
    uint32_t type;             /* SEQMIX_GGUF_U8, ... */
    uint32_t element;          /* of an array: the type of its elements; else `type` */
    uint64_t n;                /* elements of an array; else 1 */
    const unsigned char *data; /* the first element, or the value */
    size_t bytes;              /* from `data` to its end */
} seqmix_gguf_value;

typedef struct seqmix_gguf {
    seqmix_gguf_tensor *tensors; /* sorted by name */
    int64_t n_tensors;
    seqmix_gguf_value *values; /* sorted by key */
    int64_t n_values;
    uint32_t version;
    uint32_t alignment;
    const void *mapped; /* owned; NULL when the caller owns the bytes */
    size_t mapped_bytes;
    char *names; /* owned: all names and keys */
} seqmix_gguf;

/*
 * Each returns false and a sentence in `why` on failure; then `g` is empty and needs no close.
 *
 * seqmix_gguf_parse: a whole file in memory, which must outlive `g` and be aligned to 8 bytes; `label` names it in messages.
 * seqmix_gguf_open: by path.
 */
bool seqmix_gguf_parse(const void *bytes, size_t size, const char *label, seqmix_gguf *g, seqmix_why why);
bool seqmix_gguf_open(const char *path, seqmix_gguf *g, seqmix_why why);
void seqmix_gguf_close(seqmix_gguf *g);

/* NULL when there is none of that name. */
const seqmix_gguf_tensor *seqmix_gguf_find(const seqmix_gguf *g, const char *name);
const seqmix_gguf_value *seqmix_gguf_value_of(const seqmix_gguf *g, const char *key);

/*
 * Typed metadata. False and a sentence when the key is absent, of another kind, or out of range. An integer may be stored in
 * any width, a number also as an integer.
 *
 * seqmix_gguf_ints: n integers from an array of exactly n, or one integer n times (what a value per layer may be).
 * seqmix_gguf_bools: the same with bools.
 */
bool seqmix_gguf_int(const seqmix_gguf *g, const char *key, int64_t low, int64_t high, int64_t *out, seqmix_why why);
bool seqmix_gguf_number(const seqmix_gguf *g, const char *key, double *out, seqmix_why why);
bool seqmix_gguf_bool(const seqmix_gguf *g, const char *key, bool *out, seqmix_why why);
bool seqmix_gguf_string(const seqmix_gguf *g, const char *key, seqmix_gguf_text *out, seqmix_why why);
bool seqmix_gguf_ints(const seqmix_gguf *g, const char *key, int64_t n, int64_t low, int64_t high, int64_t *out,
                      seqmix_why why);
bool seqmix_gguf_bools(const seqmix_gguf *g, const char *key, int64_t n, bool *out, seqmix_why why);
bool seqmix_gguf_text_is(seqmix_gguf_text text, const char *word);

/* An array of the wanted kind, to be walked or read by index. SEQMIX_GGUF_I32 stands for every integer type here, _F32 for
 * every number, _STRING and _BOOL for themselves. */
bool seqmix_gguf_array(const seqmix_gguf *g, const char *key, uint32_t kind, const seqmix_gguf_value **out,
                       seqmix_why why);
/* Element i < n of an array of numbers or bools (i = 0: the value of a scalar). int_at gives 0 for what is no integer, and
 * INT64_MAX for one beyond int64_t. */
int64_t seqmix_gguf_int_at(const seqmix_gguf_value *value, uint64_t i);
double seqmix_gguf_number_at(const seqmix_gguf_value *value, uint64_t i);
/* Strings of an array one after the other: *at is 0 before the first call; false behind the last. */
bool seqmix_gguf_next_string(const seqmix_gguf_value *value, size_t *at, seqmix_gguf_text *out);

/* A tensor type by its number in the file: its name ("Q8_0"; NULL for no type), and how many elements make up a block of how
 * many bytes (1 element for plain types; false for no type). */
const char *seqmix_gguf_type_name(int32_t type);
bool seqmix_gguf_type_block(int32_t type, int64_t *elements, size_t *bytes);
seqmix_dtype seqmix_gguf_type_dtype(int32_t type);  /* 0: the library has none */
int32_t seqmix_gguf_dtype_type(seqmix_dtype dtype); /* the other way; -1: GGUF has none */

#endif
