/* SPDX-License-Identifier: MIT */
/*
 * Reader of safetensors files: 8 bytes of header length, a JSON header, the tensors' bytes. Everything in the header is
 * checked before it is believed: an opened file holds no tensor that reaches outside it, overlaps another, or whose shape
 * and dtype do not make up its bytes. Data stay where they are (mapped); only the header is copied.
 *
 * Needs cJSON and the C library (POSIX), no other part of seqmix.
 */
#ifndef SEQMIX_MODEL_SAFETENSORS_H
#define SEQMIX_MODEL_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "json.h"

/* The first three are numbered as seqmix_dtype numbers them. */
enum {
    SEQMIX_ST_F32 = 1,
    SEQMIX_ST_BF16 = 2,
    SEQMIX_ST_F16 = 3,
    SEQMIX_ST_F64 = 16,
    SEQMIX_ST_I64,
    SEQMIX_ST_U64,
    SEQMIX_ST_I32,
    SEQMIX_ST_U32,
    SEQMIX_ST_I16,
    SEQMIX_ST_U16,
    SEQMIX_ST_I8,
    SEQMIX_ST_U8,
    SEQMIX_ST_BOOL,
    SEQMIX_ST_F8_E4M3,
    SEQMIX_ST_F8_E5M2
};

#define SEQMIX_ST_MAX_RANK 8

typedef struct seqmix_st_tensor {
    const char *name;
    int32_t dtype; /* SEQMIX_ST_* */
    int32_t rank;
    int64_t shape[SEQMIX_ST_MAX_RANK];
    const void *data; /* aligned for its dtype; row-major */
    size_t bytes;
} seqmix_st_tensor;

typedef struct seqmix_st_entry {
    const char *key, *value;
} seqmix_st_entry;

struct seqmix_st_part;

/* One file, or all the shards of one checkpoint. */
typedef struct seqmix_safetensors {
    seqmix_st_tensor *tensors; /* sorted by name */
    int64_t n_tensors;
    seqmix_st_entry *metadata; /* the strings of __metadata__ */
    int64_t n_metadata;
    struct seqmix_st_part *parts;
    int64_t n_parts;
} seqmix_safetensors;

/*
 * Each returns false and a sentence in `why` on failure; then `st` is empty and needs no close.
 *
 * seqmix_st_parse: a whole file in memory, which must outlive `st` and be aligned to 8 bytes; `label` names it in messages.
 * seqmix_st_open: one file by path.
 * seqmix_st_open_model: DIR/model.safetensors, or else the shards that DIR/model.safetensors.index.json names.
 */
bool seqmix_st_parse(const void *bytes, size_t size, const char *label, seqmix_safetensors *st, seqmix_why why);
bool seqmix_st_open(const char *path, seqmix_safetensors *st, seqmix_why why);
bool seqmix_st_open_model(const char *dir, seqmix_safetensors *st, seqmix_why why);
void seqmix_st_close(seqmix_safetensors *st);

/* NULL when there is none of that name. */
const seqmix_st_tensor *seqmix_st_find(const seqmix_safetensors *st, const char *name);
const char *seqmix_st_metadata(const seqmix_safetensors *st, const char *key);

size_t seqmix_st_dtype_size(int32_t dtype);
const char *seqmix_st_dtype_name(int32_t dtype); /* "F32", ...; "?" for no dtype */

/* Reads the names of the shards out of an index (in memory); exposed for the fuzzer. */
bool seqmix_st_index_parse(const void *bytes, size_t size, const char *label, cJSON **weight_map, seqmix_why why);

#endif
