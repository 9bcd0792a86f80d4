/* SPDX-License-Identifier: MIT */
/*
 * What the validate_*.c files share.
 *
 * A dump becomes a case: the arguments of one call, every input widened to f32 and contiguous, the pool in double, all in the
 * case's own memory; and the outputs the other engine gave, in double. A hypothesis about what went wrong is a change to a
 * copy of the case, which is then evaluated and compared like the case itself.
 */
#ifndef SEQMIX_CHECK_VALIDATE_CASE_H
#define SEQMIX_CHECK_VALIDATE_CASE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "kernels.h"

/* ---------------------------------------------------------------- tables (validate_fields.c) */

enum seqmix_val_role {
    SEQMIX_VAL_ROWS,    /* first axis R, dtype X */
    SEQMIX_VAL_SCALARS, /* first axis R; narrower than X or wider */
    SEQMIX_VAL_PARAM,
    SEQMIX_VAL_STATE,
    SEQMIX_VAL_OUTPUT
};

struct seqmix_val_field {
    const char *name;
    const char *axes, *axes_alt; /* "R HV DK"; a second legal shape or NULL */
    enum seqmix_val_role role;
    bool optional;
    size_t offset; /* of the tensor in the args struct */
    const char *note;
};

enum seqmix_val_kind { SEQMIX_VAL_INT, SEQMIX_VAL_FLOAT };

struct seqmix_val_option {
    const char *name;
    enum seqmix_val_kind kind;
    size_t offset;
    const char *words; /* "NONE LOG ALPHA": names of 0, 1, 2; NULL = a number */
};

enum seqmix_val_family_id {
    SEQMIX_VAL_conv,
    SEQMIX_VAL_scan,
    SEQMIX_VAL_ssd,
    SEQMIX_VAL_deltanet,
    SEQMIX_VAL_inverse,
    SEQMIX_VAL_norm,
    SEQMIX_VAL_linear,
    SEQMIX_VAL_embed,
    SEQMIX_VAL_FAMILIES
};

struct seqmix_val_family {
    const char *name;
    const struct seqmix_val_field *fields;   /* ends with a NULL name; the first is the one that tells R */
    const struct seqmix_val_option *options; /* ends with a NULL name */
    size_t args_size, batch_offset;          /* batch_offset 0: the op has no batch */
    const char *state_order;                 /* letters of the state's last two axes, "KV"; NULL: no state */
    const char *row_label, *head_label; /* how a vector of the output is named; head_label NULL: one vector a row */
};

struct seqmix_val_op {
    const char *name;
    int id; /* SEQMIX_OP_* */
    enum seqmix_val_family_id family;
    bool step;
};

extern const struct seqmix_val_family seqmix_val_families[SEQMIX_VAL_FAMILIES];
extern const struct seqmix_val_op seqmix_val_ops[]; /* ends with a NULL name */

const struct seqmix_val_op *seqmix_val_find_op(const char *name);
const struct seqmix_val_field *seqmix_val_find_field(const struct seqmix_val_family *family, const char *name);
const struct seqmix_val_field *seqmix_val_field_of(const struct seqmix_val_family *family, enum seqmix_val_role role);
int seqmix_val_axes(const char *axes);                           /* how many */
void seqmix_val_help(FILE *out, const struct seqmix_val_op *op); /* op NULL: every op */

/* ---------------------------------------------------------------- memory (validate_case.c) */

/* Blocks freed together. */
struct seqmix_val_memory {
    struct seqmix_val_block *blocks;
    bool exhausted;
};

/* Zeroed; never NULL for count 0; NULL, and `exhausted` from then on, when there is no memory. */
void *seqmix_val_take(struct seqmix_val_memory *memory, int64_t count, size_t size);
void seqmix_val_free(struct seqmix_val_memory *memory);

/* ---------------------------------------------------------------- the case */

union seqmix_val_args {
    seqmix_conv_args conv;
    seqmix_scan_args scan;
    seqmix_ssd_args ssd;
    seqmix_deltanet_args deltanet;
    seqmix_inverse_args inverse;
    seqmix_norm_args norm;
    seqmix_linear_args linear;
    seqmix_embed_args embed;
};

/* What no argument of the op can express: such a case is evaluated by validate_twist.c. */
enum {
    SEQMIX_VAL_UNCLAMPED = 1,         /* decays above 1 and negative ones are multiplied in as they are */
    SEQMIX_VAL_PREDICT_UNDECAYED = 2, /* the delta rule predicts from the state before its decay */
    SEQMIX_VAL_NO_PREDICTION = 4,     /* u = beta*v */
    SEQMIX_VAL_READ_BEFORE_WRITE = 8,
    SEQMIX_VAL_DECAY_AFTER_WRITE = 16,
    SEQMIX_VAL_NORM_MAX_EPS = 32, /* L2 norm: x / max(|x|, eps) */
    SEQMIX_VAL_INPUT_WITHOUT_DT = 64,
    SEQMIX_VAL_INPUT_ZOH = 128, /* B's factor is (exp(dt*A)-1)/A */
    SEQMIX_VAL_Z_SIGMOID = 256  /* y*sigmoid(z) */
};

struct seqmix_val_case {
    struct seqmix_val_memory memory;
    const struct seqmix_val_op *op;
    const struct seqmix_val_family *family;
    union seqmix_val_args args; /* contiguous f32 inputs; outputs and the pool's data are set by seqmix_val_evaluate */
    seqmix_batch batch;         /* normalised */
    int64_t rows;               /* of the input in hand: fewer than the dump's in a cut case */
    bool cut;                   /* rows were left out: the final state cannot be compared */
    double *pool;               /* the incoming state; NULL when the call has no pool */
    bool pool_given;            /* false: zeros, standing in for a state that the dump lacks */
    seqmix_tensor spare_gate, spare_A, spare_dt_bias; /* deltanet: given, though gate_kind does not use them */
    unsigned twist;
    const struct seqmix_val_dump *dump; /* what the case is compared with; NULL while it is being loaded */

    /* how the outputs are compared */
    int row_shift;          /* the dump's row r is the recurrence's row r - row_shift */
    bool final_transposed;  /* the dump's final state has its last two axes swapped */
    bool final_reversed;    /* ... its last axis reversed */
    bool final_early;       /* ... was taken before each sequence's last row */
    bool ignore_state;      /* the final state is not compared: it may be anything */
    bool result_transposed; /* unit_lower_inverse: the dump's matrices are transposed */
    /* The dump's slot i holds the recurrence's slot final_slot[i], or, from n_slots on, what slot final_slot[i] - n_slots held
     * before the call. NULL: slot i. */
    int32_t *final_slot;
};

/* A deep copy, or one of the first `rows` rows only. False: no memory. */
bool seqmix_val_copy(const struct seqmix_val_case *from, int64_t rows, struct seqmix_val_case *to);

seqmix_tensor *seqmix_val_tensor(struct seqmix_val_case *c, const struct seqmix_val_field *field);
seqmix_tensor *seqmix_val_output(struct seqmix_val_case *c);
/* The pool's tensor; NULL when the op has no state, absent (rank 0) when the call has none. */
seqmix_tensor *seqmix_val_state(struct seqmix_val_case *c);
/* Swaps the last two axes, which are `a` x `b`, of `count` matrices. False: no memory. */
bool seqmix_val_swap(double *matrices, int64_t count, int64_t a, int64_t b);
/* A present tensor of a new shape, zeroed. */
bool seqmix_val_new_tensor(struct seqmix_val_memory *memory, seqmix_tensor *t, int rank, const int64_t *shape);
/* Which sequence each row belongs to; -1 = none. NULL: no memory. */
int32_t *seqmix_val_row_owner(struct seqmix_val_case *c);

/* ---------------------------------------------------------------- the dump (validate_load.c) */

/* The other engine's numbers for one output. */
struct seqmix_val_given {
    bool present;
    seqmix_dtype dtype;
    bool transposed; /* state_out: its shape says that its last two axes are swapped (they were swapped back) */
    int64_t count;
    double *data;
};

enum { SEQMIX_VAL_NOTES = 24, SEQMIX_VAL_TEXT = 320 };

struct seqmix_val_dump {
    struct seqmix_val_case base;
    seqmix_dtype x;        /* coarsest dtype of the row tensors */
    bool declared_swap;    /* state_order names the swapped order of the state's last two axes */
    bool initial_by_shape; /* the incoming state's shape says that its last two axes are swapped */
    struct seqmix_val_given out, state_out;
    int n_notes;
    char late[SEQMIX_VAL_TEXT]; /* why the output cannot be judged, to be said if nothing is wrong with the inputs */
    char notes[SEQMIX_VAL_NOTES][SEQMIX_VAL_TEXT];
};

struct seqmix_val_setting {
    const char *key, *value;
};

/* False with a sentence in `why`. `op` NULL: the metadata's. `dump` is to be freed in either case. */
bool seqmix_val_load(const char *path, const char *op, const struct seqmix_val_setting *settings, int n_settings,
                     struct seqmix_val_dump *dump, char why[SEQMIX_VAL_TEXT]);
void seqmix_val_dump_free(struct seqmix_val_dump *dump);

/* False, with a sentence in `why`; and a remark for the report. */
bool seqmix_val_refuse(char why[SEQMIX_VAL_TEXT], const char *format, ...) __attribute__((format(printf, 2, 3)));
void seqmix_val_note(struct seqmix_val_dump *dump, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---------------------------------------------------------------- evaluation (validate_oracle.c, validate_twist.c) */

struct seqmix_val_result {
    double *out;   /* the op's output */
    double *state; /* the pool afterwards; NULL when there is none */
};

/* Runs the library's checks on the case. */
bool seqmix_val_check(struct seqmix_val_case *c, char why[SEQMIX_VAL_TEXT]);

/* The recurrence on a checked case; results live in its memory. */
bool seqmix_val_evaluate(struct seqmix_val_case *c, struct seqmix_val_result *result, char why[SEQMIX_VAL_TEXT]);

/* The scan, SSD and delta rule recurrences with c->twist; `out` and `state` as above, `state` updated in place. */
void seqmix_val_twisted(struct seqmix_val_case *c, double *out, double *state);

/* ---------------------------------------------------------------- comparison (validate_compare.c) */

struct seqmix_val_error {
    const char *name; /* "y", "state_out"; NULL: not compared */
    seqmix_dtype dtype;
    int64_t rows, heads, length; /* vectors of `length` elements */
    int64_t compared;            /* elements */
    double bound;
    double rms;   /* over the tensor, relative to the recurrence's RMS */
    double worst; /* the largest over vectors, relative to the larger of the vector's RMS and the tensor's */
    int64_t worst_row, worst_head;
    double max_abs, max_got, max_expected;
    int64_t max_row, max_head, max_at;
    int64_t nonfinite_got, nonfinite_expected, nonfinite_differ;
    int64_t bad_row, bad_head,
        bad_vectors; /* first vector over its bound, or finite where it should not be; -1 = none */
    bool pass;
};

struct seqmix_val_verdict {
    struct seqmix_val_error error[2]; /* output, final state */
    bool pass;
    bool state_excused; /* the final states were left out on purpose: nobody knows what they would be */
    double ratio;       /* largest error over its bound; infinite when finiteness differs */
};

/* Compares a result with the dump. `bound` 0: by dtype. */
bool seqmix_val_judge(const struct seqmix_val_dump *dump, struct seqmix_val_case *c,
                      const struct seqmix_val_result *result, double bound, struct seqmix_val_verdict *verdict);
double seqmix_val_bound(seqmix_dtype dtype);

/* ---------------------------------------------------------------- causes (validate_causes*.c) */

/* What a cause changes; two that change the same thing are not tried together. */
enum {
    SEQMIX_VAL_TOUCH_INITIAL = 1 << 0,
    SEQMIX_VAL_TOUCH_FINAL = 1 << 1,
    SEQMIX_VAL_TOUCH_ROWS = 1 << 2,
    SEQMIX_VAL_TOUCH_SEQUENCES = 1 << 3,
    SEQMIX_VAL_TOUCH_GATE = 1 << 4, /* the gate, or dt */
    SEQMIX_VAL_TOUCH_A = 1 << 5,
    SEQMIX_VAL_TOUCH_HEADS = 1 << 6,
    SEQMIX_VAL_TOUCH_SCALE = 1 << 7,
    SEQMIX_VAL_TOUCH_NORM = 1 << 8,
    SEQMIX_VAL_TOUCH_BETA = 1 << 9,
    SEQMIX_VAL_TOUCH_SKIP = 1 << 10,
    SEQMIX_VAL_TOUCH_Z = 1 << 11,
    SEQMIX_VAL_TOUCH_KEYS = 1 << 12,
    SEQMIX_VAL_TOUCH_ORDER = 1 << 13, /* of decay, prediction, write and read */
    SEQMIX_VAL_TOUCH_WEIGHT = 1 << 14,
    SEQMIX_VAL_TOUCH_BIAS = 1 << 15,
    SEQMIX_VAL_TOUCH_ACTIVATION = 1 << 16,
    SEQMIX_VAL_TOUCH_RESULT = 1 << 17
};

struct seqmix_val_cause {
    const char *name;
    unsigned families; /* bits 1 << seqmix_val_family_id */
    unsigned touches;
    bool (*apply)(struct seqmix_val_case *c); /* false: makes no sense for this case */
    const char *sentence;
};

/* Each ends with a NULL name. */
extern const struct seqmix_val_cause seqmix_val_causes_common[], seqmix_val_causes_dt[], seqmix_val_causes_delta[],
    seqmix_val_causes_rows[];

/* Every element of a tensor through a function. */
void seqmix_val_map(seqmix_tensor *t, float (*function)(float));

/* One hypothesis, or two together, and the errors if it were so. */
struct seqmix_val_finding {
    const struct seqmix_val_cause *cause[2]; /* cause[1] NULL: alone */
    struct seqmix_val_verdict verdict;
};

enum { SEQMIX_VAL_FINDINGS = 128 };

struct seqmix_val_findings {
    struct seqmix_val_finding found[SEQMIX_VAL_FINDINGS]; /* smallest error first */
    int n;
    int n_explaining; /* how many of the first ones explain the dump */
    int64_t rows;     /* rows of the dump they were tried on */
    int n_tried;
    int n_pairs; /* pairs tried, when none explains the dump alone */
};

/* `rows` 0: as many as keep it quick. */
bool seqmix_val_find_causes(struct seqmix_val_dump *dump, const struct seqmix_val_verdict *verdict, int64_t rows,
                            double bound, struct seqmix_val_findings *findings);

/* ---------------------------------------------------------------- reports (validate_report.c) */

void seqmix_val_print(FILE *out, const char *path, const struct seqmix_val_dump *dump,
                      const struct seqmix_val_verdict *verdict, const struct seqmix_val_findings *findings);
bool seqmix_val_print_json(FILE *out, const char *path, const struct seqmix_val_dump *dump,
                           const struct seqmix_val_verdict *verdict, const struct seqmix_val_findings *findings);

#endif
