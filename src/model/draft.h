/* SPDX-License-Identifier: MIT */
/*
 * A GGUF file in the making: values as they will stand in the file, and tensors as places where their numbers lie. Nothing of
 * the tensors is read before the file is written, and then by rows.
 */
#ifndef SEQMIX_MODEL_DRAFT_H
#define SEQMIX_MODEL_DRAFT_H

#include "buffer.h"
#include "weights.h"

/*
 * Equal parts follow one another, each the same number of rows of F32, F16 or BF16. Row r of a part is its stored row rows[r],
 * element c of a row its stored element columns[c]; NULL: as they lie.
 */
typedef struct seqmix_draft_tensor {
    char name[256];
    int32_t rank;
    int64_t shape[SEQMIX_GGUF_MAX_RANK]; /* row-major */
    seqmix_dtype from;
    seqmix_widen how;
    const void **parts;
    int64_t n_parts;
    int64_t *rows, *columns;
    int32_t type;  /* what it becomes, as GGUF numbers types */
    size_t offset; /* of its data; seqmix_draft_write's */
} seqmix_draft_tensor;

typedef struct seqmix_draft {
    seqmix_bytes values;
    int64_t n_values;
    seqmix_draft_tensor **tensors;
    int64_t n_tensors;
    size_t room;
    uint32_t alignment;
    bool mapped; /* all parts lie in mapped files, whose pages may go once they were read */
    bool failed; /* memory ran out */
} seqmix_draft;

void seqmix_draft_free(seqmix_draft *d);

/* A value with its key. */
void seqmix_draft_number(seqmix_draft *d, const char *key, uint32_t type, uint64_t bits);
void seqmix_draft_u32(seqmix_draft *d, const char *key, int64_t value);
void seqmix_draft_f32(seqmix_draft *d, const char *key, float value);
void seqmix_draft_bool(seqmix_draft *d, const char *key, bool value);
void seqmix_draft_text(seqmix_draft *d, const char *key, const void *text, size_t n);
void seqmix_draft_word(seqmix_draft *d, const char *key, const char *word);
void seqmix_draft_i32s(seqmix_draft *d, const char *key, const int64_t *values, int64_t n);
/* As it stands in a file. */
void seqmix_draft_value(seqmix_draft *d, const seqmix_gguf_value *value);
/* An array whose n texts follow. */
void seqmix_draft_texts(seqmix_draft *d, const char *key, uint64_t n);
void seqmix_draft_next_text(seqmix_draft *d, const void *text, size_t n);

/* One tensor more, all zeros but for its parts; NULL without memory. It stays where it is. */
seqmix_draft_tensor *seqmix_draft_tensor_add(seqmix_draft *d, int64_t n_parts);
/* Elements of a row, and rows of all parts. */
int64_t seqmix_draft_row(const seqmix_draft_tensor *t);
int64_t seqmix_draft_rows(const seqmix_draft_tensor *t);
size_t seqmix_draft_bytes(const seqmix_draft_tensor *t); /* of what it becomes */

/* What stands in front of the data; sets the tensors' offsets. */
bool seqmix_draft_head(seqmix_draft *d, seqmix_bytes *head);

/*
 * Writes the file with `workers` threads, whose number changes no byte: under PATH.partial, which is moved when it is complete
 * and `check` (or NULL) accepts it; else removed.
 */
bool seqmix_draft_write(seqmix_draft *d, const char *path, int64_t workers,
                        bool (*check)(const char *path, seqmix_why why), seqmix_why why);

#endif
