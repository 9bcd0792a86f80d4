/* SPDX-License-Identifier: MIT */
/*
 * The words of seqmix-check. An op belongs to a family, which lists its tensors by name (struct field) and builds calls from
 * (class, variant) pairs; everything else is written once, over that list: memory with guards, the oracle, the comparison,
 * the bit-for-bit properties, the planted faults. A case is named "op:dtype:class:variant" and is rebuilt from that name.
 */
#ifndef SEQMIX_TESTS_CHECK_HARNESS_H
#define SEQMIX_TESTS_CHECK_HARNESS_H

#include <stdbool.h>
#include <stdio.h>

#include "ctx.h"
#include "recorder.h"
#include "tensor.h"

enum { CHECK_MAX_FIELDS = 12, CHECK_MAX_SEQS = 160, CHECK_MAX_CKPTS = 64, CHECK_MAX_INTS = 4096 };
enum { CHECK_MAX_SLOTS = 400, CHECK_GUARD = 64, CHECK_POISON = 0xffa5 /* halves of an element never written: a NaN */ };

/* ---------------------------------------------------------------- random numbers */

struct rng {
    uint64_t state;
};

struct rng check_rng(uint64_t seed, const char *text); /* seeded by a number and a name */
uint64_t check_bits(struct rng *rng);
double check_uniform(struct rng *rng); /* (0, 1) */
double check_gauss(struct rng *rng);
int64_t check_below(struct rng *rng, int64_t n); /* [0, n) */
bool check_chance(struct rng *rng, double probability);
int64_t check_pick(struct rng *rng, const int64_t *set, int64_t n);
#define CHECK_PICK(rng, ...)                                                                                           \
    check_pick((rng), (const int64_t[]){__VA_ARGS__}, (int64_t)(sizeof(int64_t[]){__VA_ARGS__} / sizeof(int64_t)))

/* ---------------------------------------------------------------- ops and families */

/* Room for the args of any op. */
union check_args {
    uint32_t struct_size;
#define SEQMIX_OP(ID, op, family, step) seqmix_##family##_args op;
#include "ops.def"
};

enum role { ROLE_IN, ROLE_OUT, ROLE_POOL };
enum {
    FIELD_ROWS = 1,       /* axis 0 is rows */
    FIELD_SCALAR = 2,     /* per-head scalars: any stride on every axis */
    FIELD_ANY_ORDER = 4,  /* the axes after the first may lie in any order */
    FIELD_EXACT = 8,      /* compared bit for bit */
    FIELD_BROADCAST = 16, /* a stride of 0 is a natural way to give it */
    FIELD_PARAM = 32,     /* a parameter: no rows */
    FIELD_KEPT = 64       /* the oracle keeps its dtype: the op reads back what it stored there */
};

struct field {
    const char *name;
    size_t offset; /* of the tensor in the args */
    enum role role;
    unsigned flags;
    int vector_axes; /* trailing axes of one (row, head) vector of the accuracy metric */
};

/* Every class of cases of every family. Names are in cases.c. */
enum check_class {
    CLASS_GAUSS,      /* shapes, options, layouts and batches all drawn at random */
    CLASS_ROWS,       /* every number of rows around the tile edges */
    CLASS_SIZES,      /* model-sized and odd dimensions */
    CLASS_OPTIONAL,   /* every combination of absent tensors */
    CLASS_KINDS,      /* every combination of options */
    CLASS_LAYOUT,     /* padded, packed, permuted and broadcast strides, offset pointers */
    CLASS_PARAMS,     /* every mix of parameter dtypes */
    CLASS_POOL,       /* state dtypes and stride orders */
    CLASS_BATCH,      /* packed and empty sequences, slots, checkpoints */
    CLASS_IN_PLACE,   /* the aliases that are allowed */
    CLASS_ZERO,       /* all zero */
    CLASS_ONE_HOT,    /* one nonzero element a row */
    CLASS_DENORMAL,   /* values near the bottom of f32 */
    CLASS_NEIGHBOURS, /* NaN in other sequences, heads and rows */
    CLASS_OVERFLOW,   /* beyond f16 */
    CLASS_EXTREME,    /* activations at |x| = 1e4 and around their switch points */
    CLASS_CLAMP,      /* positive log gates, positive dt*A, alpha outside [0,1], dt bounds */
    CLASS_NO_DECAY,
    CLASS_POSITIVE_MEAN, /* keys with a common positive mean */
    CLASS_HUGE_DECAY,    /* |A*dt| so large that every decay underflows */
    CLASS_HARD_ROW,      /* one hard decay among mild ones, at every position of a chunk */
    CLASS_LONG,          /* memory of 1e4 rows */
    CLASS_PARALLEL,      /* identical and nearly parallel keys, beta 1 */
    CLASS_PARALLEL2,     /* the same, beta up to 2 */
    CLASS_PARALLEL_LONG, /* 8192 rows of them */
    CLASS_PARALLEL2_LONG,
    CLASS_FIRST_PROPERTY,
    CLASS_SPLIT = CLASS_FIRST_PROPERTY, /* whole = cut at a multiple of the grain */
    CLASS_COMPANY,                      /* alone = in company */
    CLASS_RENUMBER,                     /* sequences permuted, slots renumbered */
    CLASS_WORKERS,                      /* 1, 2, 5 workers and a runner in reverse order */
    CLASS_CHECKPOINTS,                  /* on = off; on the grid = a call ending there */
    CLASS_STEPS,                        /* T rows = T one-row steps */
    CLASS_FORMS,                        /* the step form = the sequence form, within bounds */
    CLASS_CHUNKS,                       /* any chunk, within bounds */
    CLASS_RESIDUAL,                     /* (I + L)(inv t) = t */
    CLASS_COUNT
};

/* The last: 8192 identical keys with beta up to 2, where a chunk form repeats the one rounding of k.k in every row, which
 * adds up to 8192 * 2 * 2^-24 (docs/NUMERICS.md). */
enum check_bound { BOUND_ORDINARY, BOUND_HARD, BOUND_HARD2, BOUND_HARD2_LONG, BOUND_KINDS };
enum check_level { LEVEL_QUICK, LEVEL_DEFAULT, LEVEL_FULL, LEVEL_COUNT };

/* A class as one family uses it: how many variants exist (full) and how many of them the smaller levels take. */
struct class_use {
    enum check_class name;
    enum check_bound bound;
    int16_t variants[LEVEL_COUNT];
    int forms; /* FORM_* */
};
enum { FORM_ROWS = 1, FORM_STEP = 2, FORM_BOTH = 3 };

struct call;
struct draw;

/* What a family needs that keeps positions and pages of its sequences in call.ints, and no state pool. */
struct paging {
    void (*settle)(struct call *call, struct draw *draw); /* the batch is made, memory is not */
    void (*cut)(const struct call *whole, int64_t begin, int64_t end, struct call *view);
    void (*rebind)(struct call *call);
};

struct family {
    const char *name;
    size_t batch_offset; /* of args.batch; 0: rows know no sequences */
    size_t chunk_offset; /* of args.chunk; 0: no chunk form */
    size_t ints_offset;  /* of an int32_t * that call.ints backs, one a row; 0: none */
    size_t rows_offset;  /* of an int32_t that repeats R; 0: none */
    const struct paging *paging;
    const char *value;          /* the input the outputs are linear in (nearly): what denormals and overflows scale */
    const struct field *fields; /* the last one is the output */
    int n_fields;
    const struct class_use *classes;
    int n_classes;
    void (*build)(struct call *call, struct draw *draw);
};

struct check_op {
    int32_t id;
    const char *name, *family_name;
    const struct family *family; /* NULL: an op without generator */
    bool step;
    size_t args_size;
    seqmix_status (*call)(seqmix_ctx *ctx, const union check_args *args, void *workspace, size_t bytes);
    seqmix_status (*workspace)(seqmix_ctx *ctx, const union check_args *args, size_t *bytes);
    seqmix_status (*table_plan)(const struct seqmix_kernels *table, struct seqmix_context *ctx, union check_args *args,
                                struct seqmix_plan *plan);
    seqmix_status (*table_run)(const struct seqmix_kernels *table, struct seqmix_context *ctx, union check_args *args,
                               void *workspace);
    bool (*same_slot)(const struct seqmix_kernels *a, const struct seqmix_kernels *b);
};

extern struct check_op check_ops[];
extern const int check_n_ops;
void check_ops_init(void); /* once, before anything else: finds the generators */
const struct check_op *check_find_op(const char *name);
const struct check_op *check_sibling(const struct check_op *op); /* the other form of the op, or NULL */

extern const struct family check_conv, check_scan, check_ssd, check_deltanet, check_inverse, check_norm, check_linear,
    check_embed, check_rope, check_attention, check_route, check_act, check_moe, check_argmax;

/* ---------------------------------------------------------------- memory */

void *check_alloc(size_t bytes); /* aligned to SEQMIX_WORKSPACE_ALIGN; exits when there is none */
void check_free(void *memory);
const void *check_block(const void *at); /* the start of the allocation that `at` is in, or NULL */
void check_free_all(void);

/* ---------------------------------------------------------------- calls: args that own their memory */

/* One allocation with guard bands inside. After a call every byte outside `mask` must equal `shot`. */
struct slab {
    unsigned char *bytes, *shot, *mask;
    size_t size;
};

/* One sequence of a call, resolved independently of the library. */
struct span {
    int64_t begin, end;
    int32_t read, write;
};

enum { GIVE_BATCH = 1, GIVE_ROW_BEGIN = 2, GIVE_READ = 4, GIVE_WRITE = 8 };

struct call {
    const struct check_op *op;
    union check_args args;
    seqmix_dtype x; /* dtype of the row tensors */
    enum check_bound bound;
    seqmix_batch batch;
    unsigned given; /* GIVE_* */
    int32_t row_begin[CHECK_MAX_SEQS + 1], read[CHECK_MAX_SEQS], write[CHECK_MAX_SEQS];
    int32_t ckpt_seq[CHECK_MAX_CKPTS], ckpt_row[CHECK_MAX_CKPTS], ckpt_slot[CHECK_MAX_CKPTS];
    int32_t ints[CHECK_MAX_INTS];
    int alias[CHECK_MAX_FIELDS];   /* field whose memory an output uses, or -1 */
    int slab_of[CHECK_MAX_FIELDS]; /* -1: absent */
    struct slab slab[CHECK_MAX_FIELDS];
    int n_slabs; /* owned; 0 in a view */
};

seqmix_tensor *check_field(struct call *call, int field);
const seqmix_tensor *check_field_const(const struct call *call, int field);
int check_field_index(const struct family *family, const char *name);
seqmix_tensor *check_named(struct call *call, const char *name);
int64_t check_rows(const struct call *call);                /* R */
int check_spans(const struct call *call, struct span *out); /* sequences; their number */
int check_pool(const struct call *call);                    /* index of a present state pool, or -1 */
void check_rebind(struct call *call);                       /* args.batch and its arrays, after a copy */
void check_clone(const struct call *from, struct call *to); /* deep copy, same layout */
void check_view(struct call *whole, int64_t begin, int64_t end, struct call *view); /* rows, one sequence, no memory */
void check_slots(struct call *view, int32_t read, int32_t write);                   /* of a view's sequence */
void check_release(struct call *call);
struct slab *check_new_slab(struct call *call, size_t bytes); /* filled with a NaN pattern */
void check_written_slots(const struct call *call, unsigned char *written);
bool check_memory_same(const struct call *a, const struct call *b); /* of a clone and its origin */

/* Marks what the call may write and remembers the rest; afterwards names the first foreign byte that changed. */
void check_snapshot(struct call *call);
bool check_untouched(const struct call *call, char *why, size_t why_len);

/* One index of axis 0, bit for bit. */
void check_copy_row(const seqmix_tensor *from, int64_t i, const seqmix_tensor *to, int64_t j);
bool check_same_row(const seqmix_tensor *a, int64_t i, const seqmix_tensor *b, int64_t j);

/* Elements. Offsets of a multi-index; values in double. */
int64_t check_offset(const seqmix_tensor *t, const int64_t *index);
bool check_next(const seqmix_tensor *t, int64_t *index, int first, int end); /* odometer over axes [first, end) */
double check_get(const seqmix_tensor *t, int64_t offset);
void check_put(const seqmix_tensor *t, int64_t offset, double value);
double check_round(seqmix_dtype dtype, double value); /* as stored in dtype */
double check_half_ulp(seqmix_dtype dtype, double value);
bool check_is_poison(const seqmix_tensor *t, int64_t offset); /* never written */

/* ---------------------------------------------------------------- building calls */

enum {
    LAYOUT_PAD = 1,      /* gaps between rows, offset pointers */
    LAYOUT_PACK = 2,     /* row inputs of one dtype are column slices of one buffer */
    LAYOUT_PACK_OUT = 4, /* the output as well */
    LAYOUT_PERMUTE = 8,  /* scalars with their axes reversed */
    LAYOUT_BROADCAST = 16
};
enum { BATCH_KINDS = 9, CHECK_FEW = 16 /* below it, dot products get a common mean */ };

/* What a case is made of, drawn before the family sees it; the family may overrule. */
struct draw {
    struct rng rng;
    enum check_class name;
    int64_t variant;
    int64_t rows;
    unsigned layout;
    unsigned absent; /* bits a family spends on its optional tensors */
    int batch_kind;
    bool pool;
    seqmix_dtype pool_dtype;
    int pool_order;
};

void check_declare(struct call *call, const char *name, seqmix_dtype dtype, int rank, const int64_t *shape);
#define CHECK_DECLARE(call, name, dtype, ...)                                                                          \
    check_declare((call), (name), (dtype), (int)(sizeof(int64_t[]){__VA_ARGS__} / sizeof(int64_t)),                    \
                  (const int64_t[]){__VA_ARGS__})
/* After the declarations: the batch, the pool's number of slots, then memory for all. */
void check_place(struct call *call, struct draw *draw);

seqmix_dtype check_param_dtype(struct draw *draw, int bit, seqmix_dtype x); /* f32 or x */
bool check_absent(struct draw *draw, int bit);

/* Fills; every one leaves gaps poisoned. */
void check_fill_gauss(struct call *call, struct draw *draw, const char *name, double mean, double deviation);
void check_fill_uniform(struct call *call, struct draw *draw, const char *name, double low, double high);
void check_fill(struct call *call, const char *name, double value);
void check_fill_one_hot(struct call *call, struct draw *draw, const char *name, double value);
void check_fill_pool(struct call *call, struct draw *draw, double deviation); /* the slots that are read */
void check_fill_extreme(struct call *call, struct draw *draw,
                        const char *name); /* where activations switch or overflow */
void check_set_row(struct call *call, const char *name, int64_t row, double value);
void check_scale_row(struct call *call, const char *name, int64_t row, double factor);
int64_t check_digit(struct draw *draw, int64_t *rest, int64_t base); /* of the variant in CLASS_KINDS, else at random */

/* The values of the classes that mean the same for every family: zero, one-hot, denormal, overflow, neighbours. */
void check_fill_class(struct call *call, struct draw *draw);

const char *check_class_name(enum check_class name);
const struct class_use *check_use(const struct check_op *op, enum check_class name); /* NULL: not for this op */
int64_t check_variant(const struct class_use *use, enum check_level level,
                      int64_t i); /* i-th of the level's selection */
void check_build(struct call *call, const struct check_op *op, seqmix_dtype x, const struct class_use *use,
                 int64_t variant, uint64_t seed);

/* ---------------------------------------------------------------- running and judging */

/* A rung under test with the contexts that run it. */
struct rung {
    const struct seqmix_kernels *table, *below; /* below: whose slots count as inherited; NULL: none */
    seqmix_ctx *serial, *two, *five, *reversed;
};

struct verdict {
    bool ok, judged; /* judged: errors below are valid */
    bool excused;    /* over a bound, and no farther off than the oracle is with disturbed inputs */
    double a, b;     /* worst tensor error / bound and worst vector error / (4 bound) of any output, as errors */
    double bound;
    char field[16];
    int64_t row, head; /* of the worst vector */
    char why[320];
};

const char *check_bound_name(enum check_bound kind);
double check_bound(seqmix_dtype x, enum check_bound kind);
void check_fail(struct verdict *verdict, const char *format, ...) __attribute__((format(printf, 2, 3)));

bool check_rung_open(struct rung *rung, const struct seqmix_kernels *table, const struct seqmix_kernels *below,
                     char *why, size_t why_len);
void check_rung_close(struct rung *rung);

/* Runs a call through the public entry, with workspace guards; false and a sentence when it does not return OK. */
bool check_run(seqmix_ctx *ctx, struct call *call, struct verdict *verdict);
/* The same where tensors live on a device, with `bytes` of workspace. */
bool check_run_on_device(seqmix_ctx *ctx, struct call *call, size_t bytes, struct verdict *verdict);
/* How calls run on a device. `replay`: recorded while everything in memory is -1 or NaN, run like that, then run on the call's
 * contents. `broken`: run first on arrays full of any numbers, whose outcome is not looked at, then on arrays that say what the
 * call's say by numbers out of range. What is judged is the last run. `fast`: contexts with SEQMIX_CTX_FAST whose forms are
 * always taken; bits are not compared then. */
extern struct check_ways {
    bool replay, broken, fast;
} check_ways;
int64_t check_grain(seqmix_ctx *ctx, const struct call *call);
/* The call on a bare table (oracles). The result owns f64 outputs and a f64 pool when `wide`. */
bool check_run_oracle(const struct seqmix_kernels *table, const struct call *call, bool wide, struct call *out,
                      struct verdict *verdict);
/* The same call with every number it reads off by half an ulp of f32, either way as draw > 0 has it, equal ones the same way. */
void check_disturb(const struct call *call, uint64_t draw, struct call *out);
/* Compares a finished call with the oracle's under math.md's metric; `before`: the call not yet run, NULL: nothing is excused. */
void check_compare(const struct call *got, const struct call *before, const struct call *want, int64_t grain,
                   struct verdict *verdict);
/* Both against the oracle: `got` may err `times` as much as `peer`, plus half an ulp of its storage. What is over that may err
 * `times` as much as `peer` and the oracle's own answer to disturbed inputs together; `before`: the call not yet run. */
void check_against_peer(const struct call *got, const struct call *before, const struct call *peer,
                        const struct call *want, double times, const char *peer_name, struct verdict *verdict);

/* Judges one case; signals included. */
void check_case(const struct rung *rung, const struct check_op *op, seqmix_dtype x, const struct class_use *use,
                int64_t variant, uint64_t seed, struct verdict *verdict);
void check_numbers(const struct rung *rung, struct call *call, struct verdict *verdict);
void check_property(const struct rung *rung, struct call *call, enum check_class name, struct rng *rng,
                    struct verdict *verdict);

struct check_options {
    enum check_level level;
    uint64_t seed;
    int32_t backend;          /* SEQMIX_BACKEND_* */
    const char *backend_name; /* as on the command line, NULL = not there */
    const char *rung, *filter, *id, *shapes;
    bool json, list;
};

int check_walk(const struct check_options *options);
int check_coverage(const struct check_options *options);
int check_selftest(const struct check_options *options);

#endif
