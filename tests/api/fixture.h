/* SPDX-License-Identifier: MIT */
/*
 * A small legal call of every op, to be bent by the suites: tensors in one arena with gaps between them, every optional
 * tensor given, two sequences of 2 and 4 rows, a pool of 4 slots, one checkpoint. Lives on the public header alone.
 */
#ifndef SEQMIX_TESTS_API_FIXTURE_H
#define SEQMIX_TESTS_API_FIXTURE_H

#define SEQMIX_EXPERIMENTAL
#include <seqmix/seqmix.h>
#include <stdbool.h>

enum family { CONV, SCAN, SSD, DELTANET, INVERSE, NORM, LINEAR, EMBED, N_FAMILIES };

/* Traits of a field. */
enum {
    F_OPTIONAL = 1,
    F_ROWS = 2,    /* last axis must have stride 1 */
    F_WRITTEN = 4, /* output or pool */
    F_X = 8,       /* dtype must be the call's */
    F_X_OR_F32 = 16,
    F_F32 = 32
};

struct field {
    const char *name;
    size_t offset; /* in the args struct */
    unsigned traits;
    const char *axes; /* one letter per axis, the same letter for the same size; NULL ends a family's list */
};

struct op {
    const char *name;
    int32_t id;
    enum family family;
    bool step;
};

enum { N_OPS = 12, N_STATE_OPS = 8, ARENA = 1 << 13, MAX_FIELDS = 10 };
extern const struct op ops[N_OPS]; /* those with state first */
extern const struct field fields[N_FAMILIES][MAX_FIELDS + 1];

union any_args {
    uint32_t struct_size;
    seqmix_conv_args conv;
    seqmix_scan_args scan;
    seqmix_ssd_args ssd;
    seqmix_deltanet_args deltanet;
    seqmix_inverse_args inverse;
    seqmix_norm_args norm;
    seqmix_linear_args linear;
    seqmix_embed_args embed;
};

struct call {
    const struct op *op;
    union any_args args;
    seqmix_batch batch;
    int32_t row_begin[3], read_slot[2], write_slot[2], ckpt_seq[2], ckpt_row[2], ckpt_slot[2];
    int32_t tokens[6];
    size_t used; /* of the arena */
    _Alignas(64) unsigned char arena[ARENA];
};

/* The context of the suite's tests; fails the test when there is none. */
seqmix_ctx *make_context(const seqmix_ctx_desc *desc);

void call_init(struct call *call, const struct op *op);
const struct field *call_fields(const struct call *call);
seqmix_tensor *call_tensor(struct call *call, const struct field *field);
seqmix_tensor *call_named(struct call *call, const char *name); /* NULL when the family has no such field */

/* Sets every axis with that letter and makes all strides dense again; data pointers stay. */
void call_resize(struct call *call, char axis, int64_t size);
void make_dense(seqmix_tensor *tensor);

/* The wrapper of call->op. */
seqmix_status call_size(seqmix_ctx *ctx, struct call *call, size_t *bytes);
seqmix_status call_op(seqmix_ctx *ctx, struct call *call, void *workspace, size_t bytes);

/* Query, then the call with as much workspace as it asked for. */
seqmix_status call_run(seqmix_ctx *ctx, struct call *call);

/* Asserts that the call is refused with that status and a message "<op>: ...text..." (": text" being all of it), by the query too if `query`, that no
 * byte of the arena changed, and that the context still works. */
void expect_refusal(seqmix_ctx *ctx, struct call *call, bool query, seqmix_status status, const char *text);

/* Asserts that query and call succeed. */
void expect_success(seqmix_ctx *ctx, struct call *call);

#endif
