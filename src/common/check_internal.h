/* SPDX-License-Identifier: MIT */
/*
 * What the check_<family>.c files share: an op's tensors as a table of fields with named axes, judged by check.c.
 *
 * Order of a family's check: options; seqmix_check_form (presence, rank, dtype, shape, in the order of the table); relations
 * between sizes and limits; seqmix_check_memory (strides and, unless it is a query, data pointers and aliasing); batch.
 */
#ifndef SEQMIX_COMMON_CHECK_INTERNAL_H
#define SEQMIX_COMMON_CHECK_INTERNAL_H

#include <inttypes.h>

#include "check.h"
#include "status.h"

enum {
    SEQMIX_LIMIT_WIDTH = 16,    /* K */
    SEQMIX_LIMIT_HEAD_DIM = 256 /* DK, DV, N, P */
};

enum { SEQMIX_MAX_FIELDS = 10 };

/* Which dtypes a field may have. X is the dtype of the call's first SEQMIX_IS_X field. Only a SEQMIX_IS_WEIGHT field may be
 * block-quantised; it has the trait SEQMIX_ROWS and is never written. */
enum seqmix_dtype_rule {
    SEQMIX_IS_X,
    SEQMIX_IS_X_OR_F32,
    SEQMIX_IS_F32,
    SEQMIX_IS_ANY,
    SEQMIX_IS_WEIGHT,
    SEQMIX_IS_I32
};

/* Traits of a field. */
enum {
    SEQMIX_OPTIONAL = 1,
    SEQMIX_ROWS = 2,   /* its last axis has stride 1 */
    SEQMIX_WRITTEN = 4 /* an output or a state pool: no two elements share an address, and it overlaps no other field */
};

/* A named size. The first field in table order that has the axis binds it, unless `bound` says that it is given. */
struct seqmix_dim {
    const char *name;
    int64_t size;
    bool bound;
};

struct seqmix_field {
    const char *name;
    const seqmix_tensor *tensor;
    unsigned traits;
    enum seqmix_dtype_rule dtype;
    int min_rank, max_rank;
    int axes[SEQMIX_MAX_RANK]; /* index of each axis into the dims */
    unsigned may_be;           /* fields, as bits 1 << index, that a written one may coincide with exactly */
};

struct seqmix_form {
    const struct seqmix_field *fields;
    int n_fields;
    struct seqmix_dim *dims;
    const char *x_name; /* the field that bound X */
    seqmix_dtype x;
    size_t bytes[SEQMIX_MAX_FIELDS]; /* from a field's data to the end of its last element; 0 = it has no elements */
};

#define SEQMIX_FORM(fields, dims)                                                                                      \
    {                                                                                                                  \
        (fields), (int)(sizeof(fields) / sizeof((fields)[0])), (dims), NULL, 0,                                        \
        {                                                                                                              \
            0                                                                                                          \
        }                                                                                                              \
    }

seqmix_status seqmix_check_form(struct seqmix_context *ctx, struct seqmix_form *form);
seqmix_status seqmix_check_memory(struct seqmix_context *ctx, struct seqmix_form *form, unsigned how);

/* Single options; `name` is the args field. */
seqmix_status seqmix_check_enum(struct seqmix_context *ctx, const char *name, int32_t value, int32_t last);
/* An array of int32_t, which may be absent. */
seqmix_status seqmix_check_ints(struct seqmix_context *ctx, const char *name, const int32_t *array);
seqmix_status seqmix_check_zero(struct seqmix_context *ctx, const char *name, int32_t value);
seqmix_status seqmix_check_chunk(struct seqmix_context *ctx, int32_t chunk);
seqmix_status seqmix_check_eps(struct seqmix_context *ctx, float eps);

/* Sizes. `field` and `axis` say where the size was found. */
seqmix_status seqmix_check_limit(struct seqmix_context *ctx, const struct seqmix_dim *dim, int64_t limit);
seqmix_status seqmix_check_rows(struct seqmix_context *ctx, int64_t rows);
seqmix_status seqmix_check_divides(struct seqmix_context *ctx, const char *field, int axis, int64_t divisor,
                                   const struct seqmix_dim *whole);

/* Slots of a state pool, -1 when it is absent. */
static inline int64_t seqmix_slots(const seqmix_tensor *pool)
{
    return seqmix_present(pool) ? pool->shape[0] : -1;
}

#endif
