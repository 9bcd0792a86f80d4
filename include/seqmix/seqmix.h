/* SPDX-License-Identifier: MIT */
/*
 * seqmix: the sequence mixers of modern language models, as a C kernel library.
 *
 * Mamba-1 selective scan, Mamba-2 SSD, the gated delta rule (Gated DeltaNet, KDA), causal short convolution, the unit
 * lower triangular inverse and the gated RMSNorm; each mixer as a sequence form (many rows: prefill) and a step form
 * (few rows: decode, speculative verify). You bring the buffers, the states and the threads or the stream; the library
 * brings the arithmetic, allocates nothing after context creation and keeps no state of its own. This header is the
 * manual. It needs C99 or C++11 and nothing else.
 *
 * How to reach the library. One symbol is exported, seqmix_get_api; everything else below is a type or a static inline
 * wrapper over the function table it returns. Link with -lseqmix, or dlopen the library and fetch that symbol, or carry
 * libseqmix.a: the source of the program is the same. An example, complete but for the filling of the buffers
 * (tests/install/consumer.c is it as a program):
 *
 *     float qkv[100 * 3 * 64], beta[100], log_gate[100], state[64 * 64] = {0}, out[100 * 64];
 *     // 100 rows of one head of 64; q, k, v are column slices of one buffer
 *     seqmix_ctx_desc desc = {.struct_size = sizeof desc};
 *     seqmix_ctx *ctx;
 *     char why[256];
 *     if (seqmix_ctx_create(seqmix_get_api(SEQMIX_ABI_VERSION), &desc, &ctx, why, sizeof why) != SEQMIX_OK)
 *         return puts(why);
 *     seqmix_deltanet_args args = {
 *         .struct_size = sizeof args, .gate_kind = SEQMIX_GATE_LOG, .qk_l2norm = 1, .eps = 1e-6f,
 *         .q = {qkv,       SEQMIX_F32, 3, {100, 1, 64}, {192, 64, 1}},
 *         .k = {qkv + 64,  SEQMIX_F32, 3, {100, 1, 64}, {192, 64, 1}},
 *         .v = {qkv + 128, SEQMIX_F32, 3, {100, 1, 64}, {192, 64, 1}},
 *         .gate = {log_gate, SEQMIX_F32, 2, {100, 1}, {1, 1}},
 *         .beta = {beta,     SEQMIX_F32, 2, {100, 1}, {1, 1}},
 *         .state = {state,   SEQMIX_F32, 4, {1, 1, 64, 64}, {4096, 4096, 64, 1}},   // a pool of one slot
 *         .o = {out,         SEQMIX_F32, 3, {100, 1, 64}, {64, 64, 1}}};
 *     size_t bytes;
 *     if (seqmix_deltanet_chunk_forward_workspace(ctx, &args, &bytes) != SEQMIX_OK)
 *         return puts(seqmix_last_error(ctx));
 *     void *workspace = aligned_alloc(SEQMIX_WORKSPACE_ALIGN, (bytes / 256 + 1) * 256);
 *     if (seqmix_deltanet_chunk_forward(ctx, &args, workspace, bytes) != SEQMIX_OK)
 *         return puts(seqmix_last_error(ctx));
 *
 * The first half of the header is stable under the rules of docs/ABI.md. The second half, visible with
 * SEQMIX_EXPERIMENTAL defined before inclusion, may change in any release.
 *
 * Contents: status - tensors - rows, sequences, slots, checkpoints - context - rules common to all ops - the ops, each
 * with its args struct - queries - wrappers - the experimental half. Equations once more, with their chunk forms:
 * docs/OPS.md; accuracy: docs/NUMERICS.md; how other projects' conventions map to these fields: docs/INTEGRATING.md.
 */
#ifndef SEQMIX_SEQMIX_H
#define SEQMIX_SEQMIX_H

#include <stddef.h>
#include <stdint.h>

#include <seqmix/version.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#    define SEQMIX_CHECKED __attribute__((warn_unused_result))
#    define SEQMIX_API     __attribute__((visibility("default")))
#else
#    define SEQMIX_CHECKED
#    define SEQMIX_API
#endif

/* ============================================================================================= status
 *
 * Values are pinned: gaps stay, nothing is renumbered or reused. 10-15 are the caller's mistake, found before anything
 * is written; 20-21 say that this library or machine cannot; 30-31 resources; 40 the driver; 50 a bug (ours, or of the
 * caller's runner). seqmix_last_error holds the sentence, which names the op, the field and both numbers.
 */
typedef int32_t seqmix_status;
enum {
    SEQMIX_OK = 0,
    SEQMIX_ERR_INVALID_ARG = 10, /* an option, a count, a slot, a missing tensor */
    SEQMIX_ERR_SHAPE = 11,       /* rank or shape of a tensor */
    SEQMIX_ERR_STRIDE = 12,      /* stride negative, overlapping in an output, or beyond 64-bit offsets */
    SEQMIX_ERR_DTYPE = 13,
    SEQMIX_ERR_ALIAS = 14,          /* an output shares elements with another tensor, or two writers share a slot */
    SEQMIX_ERR_STRUCT_TOO_NEW = 15, /* a field this library does not know is not zero */
    SEQMIX_ERR_UNSUPPORTED = 20,    /* legal, but beyond a limit; the message has it */
    SEQMIX_ERR_UNAVAILABLE = 21,    /* backend not built, no device, or a slot that an older library lacks */
    SEQMIX_ERR_OUT_OF_MEMORY = 30,
    SEQMIX_ERR_WORKSPACE = 31, /* workspace too small or misaligned */
    SEQMIX_ERR_BACKEND = 40,   /* the driver said no; its text is in the message */
    SEQMIX_ERR_INTERNAL = 50
};

/* ============================================================================================ tensors
 *
 * A view of the caller's memory, passed by value inside args. 112 bytes, frozen for good. Strides count elements, not
 * bytes, and are 64-bit, as every offset is; a negative one is SEQMIX_ERR_STRIDE and 0 (broadcast) is allowed on inputs
 * only. An optional tensor is absent iff its rank is 0. `data` may be NULL where the shape has a 0, and always in a
 * query.
 *
 * The last axis of a row tensor has stride 1, except the per-head scalars (dt of SSD, gate [R,HV], beta), which may
 * have any. Column slices of one packed buffer are the normal case for q, k, v or x, B, C, z, and work without a copy.
 * Output strides must nest: sorted by size, each is at least the span of the axes below it, so that no two elements
 * share an address.
 */
typedef int32_t seqmix_dtype;
enum {
    SEQMIX_F32 = 1, /* 0 is no dtype, so that a forgotten one is an error */
    SEQMIX_BF16 = 2,
    SEQMIX_F16 = 3
};

#define SEQMIX_MAX_RANK 6

typedef struct seqmix_tensor {
    void *data;
    int32_t dtype; /* SEQMIX_F32, _BF16, _F16 */
    int32_t rank;  /* 0 = absent */
    int64_t shape[SEQMIX_MAX_RANK];
    int64_t stride[SEQMIX_MAX_RANK]; /* in elements */
} seqmix_tensor;

/* ================================================================ rows, sequences, slots, checkpoints
 *
 * Every op with state works on R packed rows. The batch says which rows form which sequence and where states live;
 * args->batch NULL means one sequence in slot 0 (for _step ops: R sequences of one row, sequence i in slot i).
 *
 * Memory. The arrays live where the data lives: host memory for a CPU context, device memory for a CUDA one. They are
 * read during the call (CPU) or by the enqueued work (CUDA).
 *
 * State pool. One tensor [n_slots, ...] with any slot stride, also beyond 2^31 elements. An absent pool means that
 * every slot is -1 and the slot arrays are not looked at. A sequence may read one slot and write another (copy-on-write
 * prefix caches); a read slot changes only if it is also written; two sequences may read one slot. Two writes to one
 * slot (checkpoints count), or a write to a slot that another sequence reads, is SEQMIX_ERR_ALIAS on the CPU,
 * unspecified results on CUDA. Read slot -1 means that the sequence starts from zeros, whatever the pool holds. Write
 * slot -1: the final state is not stored. A -1/-1 sequence is a padded batch entry. An empty sequence moves its state
 * from the read slot to the write slot unchanged (read -1: clears it).
 *
 * Rows after the last row_begin belong to no sequence; their outputs are not written.
 *
 * Checkpoints are side products at any row: the state after exactly ckpt_row rows of the sequence in this call, stored
 * in ckpt_slot. They change no bit of an output, of another checkpoint or of the final state. A checkpoint may target
 * its own sequence's read slot.
 * On the grid (below) it has the bits of a call that ends there. Prefix caching is checkpoints at the engine's block
 * boundaries; speculative verify is a _step call with up to 16 rows a sequence and a checkpoint after each row into its
 * own slot.
 *
 * Errors. On the CPU broken contents (slots outside [-1, n_slots), descending row_begin, ...) are errors, found before
 * anything is written. On CUDA contents cannot be reported: row_begin is clamped to [0, R], a descending entry makes an
 * empty sequence, rows past max_rows are not computed, a slot out of range counts as -1, a bad checkpoint stores
 * nothing. Nothing outside the tensors is touched. seqmix_batch_check applies the CPU's checks to a host copy.
 */
typedef struct seqmix_batch {
    uint32_t struct_size; /* sizeof(seqmix_batch) */
    int32_t n_seqs;       /* 0 = 1 (for _step without row_begin: R) */
    int32_t max_rows; /* host-known bound on one sequence's rows; 0 = R. _step: at most 16, and given with row_begin */
    int32_t n_checkpoints;
    const int32_t
        *row_begin; /* [n_seqs+1] ascending, first 0, last <= R; NULL = one sequence (for _step: one row each) */
    const int32_t *read_slot;  /* [n_seqs] slot of the incoming state; -1 = zeros; NULL = slot i for sequence i */
    const int32_t *write_slot; /* [n_seqs] slot of the outgoing state; -1 = not stored; NULL = read_slot */
    const int32_t *ckpt_seq;   /* [n_checkpoints] sequence; checkpoints are sorted by (seq, row) */
    const int32_t *ckpt_row;   /* [n_checkpoints] rows of that sequence consumed by then, 1..its length */
    const int32_t *ckpt_slot;  /* [n_checkpoints] receiving slot; -1 = none */
} seqmix_batch;

/* ============================================================================================ context
 *
 * A context holds a backend, the best kernel rung this machine allows, its workers or its stream, and the last error.
 * It is used by one thread at a time; any number of contexts run concurrently.
 *
 * Rungs. The CPU ladder is cpu-ref, cpu-generic, cpu-avx2, cpu-avx512, cpu-amx; CUDA's is cuda-simple, cuda-sm80,
 * cuda-sm90. Level ids have gaps. level_cap (0 = none) and the environment (SEQMIX_LEVEL=ref|generic|avx2|avx512|amx
 * for CPU contexts, SEQMIX_CUDA_LEVEL=simple|sm80|sm90 for CUDA ones) bound the choice, which falls to the best rung at
 * or below that was built and that the machine can run. A kernel that does not take a shape hands it to the rung below;
 * rung 0 takes every legal call. A CUDA context never falls back to host code. seqmix_op_query tells what would run.
 *
 * Workers. n_workers 0 or 1: serial. More, and no runner: a pool owned by the context; idle workers sleep. A forked
 * child may use the context too: its first call with more than one task starts new workers. `parallel`: the caller's
 * runner, see seqmix_parallel_fn. Results do not depend on n_workers, bit for bit.
 */
enum { SEQMIX_BACKEND_CPU = 0, SEQMIX_BACKEND_CUDA = 1 };

enum {
    SEQMIX_LEVEL_BEST = 0,
    SEQMIX_LEVEL_CPU_REF = 1,
    SEQMIX_LEVEL_CPU_GENERIC = 2,
    SEQMIX_LEVEL_CPU_AVX2 = 4,
    SEQMIX_LEVEL_CPU_AVX512 = 6,
    SEQMIX_LEVEL_CPU_AMX = 8,
    SEQMIX_LEVEL_CUDA_SIMPLE = 1,
    SEQMIX_LEVEL_CUDA_SM80 = 4,
    SEQMIX_LEVEL_CUDA_SM90 = 6
};

/* Bits of seqmix_ctx_desc.flags. SEQMIX_CTX_FAST: forms may be chosen by occupancy (context parallelism of one long
 * sequence), so the bits-per-cell promise below shrinks to: same call, same device, same library, same bits. */
enum { SEQMIX_CTX_FAST = 1 };

struct seqmix_api; /* the function table: abi.h */

/* The public part of a context. Contexts come from seqmix_ctx_create only. */
typedef struct seqmix_ctx {
    const struct seqmix_api *api;
} seqmix_ctx;

/* One task of an op: fn(arg, task, worker). */
typedef void (*seqmix_task_fn)(void *arg, int64_t task, int32_t worker);

/* The caller's runner: calls fn(arg, task, worker) exactly once for every task in [0, n_tasks), on any threads, in any
 * order, with worker in [0, n_workers) and no two running tasks sharing a worker; returns when all are done. Its threads
 * need 256 KiB of stack for a task. It may be called while another context's runner is active; a call on its own context
 * from inside it runs serially. A worker out of range, or another number of calls, ends the op with SEQMIX_ERR_INTERNAL. */
typedef void (*seqmix_parallel_fn)(void *user, seqmix_task_fn fn, void *arg, int64_t n_tasks);

typedef struct seqmix_ctx_desc {
    uint32_t struct_size; /* sizeof(seqmix_ctx_desc) */
    uint32_t flags;       /* SEQMIX_CTX_* */
    int32_t backend;      /* SEQMIX_BACKEND_* */
    int32_t device;       /* CUDA: ordinal, -1 = the current one. CPU: 0 or -1 */
    int32_t level_cap;    /* 0 = best rung */
    int32_t n_workers;    /* 0 = 1; at most 1024 */
    int32_t max_seqs;     /* most slot writers (sequences + checkpoints) in a CPU call; 0 = 4096 */
    int32_t zero0;        /* 0 */
    seqmix_parallel_fn parallel;
    void *parallel_user;
    void *stream; /* CUDA: a cudaStream_t / CUstream, NULL = the legacy default stream. CPU: NULL */
} seqmix_ctx_desc;

/* ============================================================================ rules common to all ops
 *
 * The doc block of an op gives what is its own; this is what all share. X is the dtype of a call's row tensors: f32,
 * bf16 or f16.
 *
 * Args structs. struct_size first, set to sizeof by the caller. A shorter struct (an older caller) is completed with
 * zeros, a longer one (a newer caller) accepted iff its unknown tail is zero; so zero always means what absence meant.
 * Zero-initialise them.
 *
 * Dtypes. All row tensors (and outputs) of one call are X. Parameters (weight, bias, skip, dt_bias) are f32 or X each;
 * A is f32; beta, dt and raw gates are X or f32 and are widened before any arithmetic; ready-made log gates and alphas
 * must be f32. Cumulative sums and states are f32 inside, whatever X is. A pool is f32, bf16 or f16, rounded to nearest
 * even when a state is stored; f16 does not saturate.
 *
 * Decays are at most 1 by definition: a positive log decay counts as 0, an alpha above 1 as 1 and below 0 as 0; -inf
 * log gates and alpha 0 are legal, mean "forget everything", and make no NaN.
 *
 * Aliasing. An output shares no element with an input or another output, except where the op says so, and a pool slot
 * both read and written. The test is on elements, not address ranges, so interleaved column slices pass; where it can't
 * decide cheaply it accepts.
 *
 * Sizes and limits. R <= 2^31-1 rows a call; DK, DV, N, P <= 256 and K <= 16 on every rung: beyond,
 * SEQMIX_ERR_UNSUPPORTED. No other limit on rung 0. Sizes of 0 are legal for R.
 *
 * Grid and bits. A sequence's grid starts at its first row in the call; its step is SEQMIX_QUERY_GRAIN rows. How a cell
 * is computed depends only on the rows in it, the static shape, the options and the rung: never on R, n_seqs, max_rows,
 * other sequences, n_workers, slot numbers or requested checkpoints. So, with an f32 pool, cutting a sequence at a
 * multiple of the grain gives the bits of one call, and a sequence alone the bits it has in company. _step rows are
 * computed one by one and have the bits of as many one-row calls. Runs are bit-identical; nothing is added atomically.
 *
 * Non-finite data is not an error. It stays inside its sequence and value head; it may reach any row from the start of
 * the grid cell that holds it, and the state from then on (_step and rung 0: later rows only). It never reaches another
 * sequence, head or slot.
 *
 * Memory and workspace. Ops never allocate. <op>_workspace tells the bytes for these shapes, dtypes, options, batch
 * counts and this context; it reads neither data nor arrays and does not decrease in R, n_seqs, max_rows and
 * n_checkpoints, so size once for the largest. Base alignment SEQMIX_WORKSPACE_ALIGN; contents undefined before and
 * after; more than asked is fine and changes nothing. _step ops need none: pass NULL, 0.
 *
 * CUDA. A call enqueues on the context's stream and returns: no allocation, no synchronisation, capturable in a graph,
 * which bakes in pointers, R, n_seqs, max_rows, n_checkpoints, scalars and the kernel choice; array and tensor contents
 * may change between replays.
 *
 * Returns. SEQMIX_OK, or an error of which 10-31 mean that nothing was written (CPU) or enqueued (CUDA).
 * Threads. One thread per context; the workers are the context's business.
 */
#define SEQMIX_WORKSPACE_ALIGN 256

/* The ops' names for seqmix_op_query. */
enum {
    SEQMIX_OP_SHORT_CONV_ROWS = 1,
    SEQMIX_OP_SHORT_CONV_STEP = 2,
    SEQMIX_OP_SELECTIVE_SCAN_ROWS = 3,
    SEQMIX_OP_SELECTIVE_SCAN_STEP = 4,
    SEQMIX_OP_SSD_CHUNK_FORWARD = 5,
    SEQMIX_OP_SSD_STEP = 6,
    SEQMIX_OP_DELTANET_CHUNK_FORWARD = 7,
    SEQMIX_OP_DELTANET_STEP = 8,
    SEQMIX_OP_UNIT_LOWER_INVERSE = 9,
    SEQMIX_OP_GATED_RMS_NORM_ROWS = 10,
    SEQMIX_OP_LINEAR = 100,         /* experimental */
    SEQMIX_OP_EMBED_ROWS = 101,     /* experimental */
    SEQMIX_OP_ROPE_ROWS = 102,      /* experimental */
    SEQMIX_OP_ATTENTION_ROWS = 103, /* experimental */
    SEQMIX_OP_MOE_ROUTE = 104,      /* experimental */
    SEQMIX_OP_ACT_ROWS = 105,       /* experimental */
    SEQMIX_OP_MOE_EXPERTS = 106,    /* experimental */
    SEQMIX_OP_ARGMAX = 107          /* experimental */
};

/* ------------------------------------------------------- short_conv_rows, short_conv_step (since 0.1)
 *
 * Causal depthwise convolution over K rows, with state.
 *
 *     y[t,c] = act(bias[c] + sum_{j=0}^{K-1} weight[c,j] * x[t-K+1+j, c])
 *
 * Rows before a sequence's first come from its state, column K-2 being the row just before. New state: the last K-1
 * rows of (state ++ x), also when fewer than K-1 rows arrive.
 * Source: arXiv:2312.00752, section 3.4: the short convolution of Mamba-1, Mamba-2 and Gated DeltaNet.
 *
 *     field    shape           dtype     absent?
 *     x        [R,D]           X
 *     weight   [D,K]           f32 | X             K 1..16; weight[c,K-1] meets the current row
 *     bias     [D]             f32 | X   = 0
 *     state    [slots,D,K-1]   f32 | X   yes       oldest first; any stride order
 *     y        [R,D]           X
 *
 * Options: activation NONE or SILU.
 * Strides: common. Aliasing: short_conv_step allows y = x (same data and strides). Sizes and limits: K <= 16.
 * Numerics: f32 sum in the order of j; the state is stored as it came, exactly when its dtype is X.
 * Determinism: grain 1. Workspace: rung 0 none. CUDA notes, returns, threads: common.
 */
enum { SEQMIX_ACT_NONE = 0, SEQMIX_ACT_SILU = 1 };

typedef struct seqmix_conv_args {
    uint32_t struct_size;
    int32_t activation; /* SEQMIX_ACT_* */
    const seqmix_batch *batch;
    seqmix_tensor x, weight, bias, state, y;
} seqmix_conv_args;

/* ----------------------------------------------- selective_scan_rows, selective_scan_step (since 0.1)
 *
 * Mamba-1 selective scan.
 *
 *     d      = softplus(dt[t,c] + dt_bias[c])                 (without softplus if dt_softplus is 0)
 *     h[c,n] <- exp(d * A[c,n]) * h[c,n] + d * B[t,g,n] * x[t,c]
 *     y[t,c] = sum_n C[t,g,n] * h[c,n] + skip[c] * x[t,c],    then * silu(z[t,c])
 *
 * Channel c belongs to group g = c / (D/G). softplus(u) = u for u > 20, else log1p(exp(u)).
 * Source: arXiv:2312.00752, section 3.2, algorithm 2.
 *
 *     field    shape         dtype     absent?
 *     x        [R,D]         X
 *     dt       [R,D]         f32 | X
 *     A        [D,N]         f32                 negative: -exp(A_log)
 *     B, C     [R,G,N]       X                   G divides D
 *     skip     [D]           f32 | X   no term   the D of the paper
 *     dt_bias  [D]           f32 | X   = 0
 *     z        [R,D]         X         no gate
 *     state    [slots,D,N]   any       yes       any stride order
 *     y        [R,D]         X
 *
 * Options: dt_softplus 0 | 1.
 * Strides, aliasing: common. Sizes and limits: N <= 256.
 * Numerics: f32 inside; d * A > 0 counts as 0. Determinism: grain 1 on every CPU rung, 4 on cuda-sm80.
 * Workspace: rung 0 none. CUDA notes, returns, threads: common.
 */
typedef struct seqmix_scan_args {
    uint32_t struct_size;
    int32_t dt_softplus; /* 0 | 1 */
    const seqmix_batch *batch;
    seqmix_tensor x, dt, A, B, C, skip, dt_bias, z, state, y;
} seqmix_scan_args;

/* ------------------------------------------------------------ ssd_chunk_forward, ssd_step (since 0.1)
 *
 * Mamba-2 state space duality.
 *
 *     d        = clamp(softplus(dt[t,h] + dt_bias[h]), dt_min, dt_max)
 *     S[p,n]  <- exp(d * A[h]) * S[p,n] + d * x[t,h,p] * B[t,g,n]
 *     y[t,h,p] = sum_n S[p,n] * C[t,g,n] + skip * x[t,h,p],    then * silu(z[t,h,p])
 *
 * Head h uses group g = h / (H/G).
 * Source: arXiv:2405.21060, sections 3 and 6 (chunk form: docs/OPS.md).
 *
 *     field    shape           dtype     absent?
 *     x        [R,H,P]         X
 *     dt       [R,H]           f32 | X             any strides
 *     A        [H]             f32                 negative: -exp(A_log)
 *     B, C     [R,G,N]         X                   G divides H
 *     skip     [H] | [H,P]     f32 | X   no term
 *     dt_bias  [H]             f32 | X   = 0
 *     z        [R,H,P]         X         no gate
 *     state    [slots,H,P,N]   any       yes       any stride order, so [N,P] storage too
 *     y        [R,H,P]         X
 *
 * Options: dt_softplus 0 | 1. dt_min, dt_max: bounds on d, each by itself, 0 = none; both given: dt_min <= dt_max.
 * chunk: rows of a cell, 0 = the rung's own, else 16, 32, 64, 128 or 256.
 * Strides, aliasing: common. Sizes and limits: P, N <= 256; head dim 80 is no special case.
 * Numerics: chunk rungs sum log decays inside a chunk as pairs of f32 and exponentiate differences only. Determinism:
 * the grain is 1 on rung 0, 16 on cpu-generic, cpu-avx2 and cpu-avx512, 64 on cpu-amx (16 or 32 if `chunk` asks), on
 * cuda-sm80 64 for bf16 and 32 else (or `chunk` where that is less).
 * Workspace: by query; ssd_step none. CUDA notes, returns, threads: common.
 */
typedef struct seqmix_ssd_args {
    uint32_t struct_size;
    int32_t dt_softplus;  /* 0 | 1 */
    int32_t chunk;        /* 0 | 16 | 32 | 64 | 128 | 256 */
    float dt_min, dt_max; /* 0 = no bound */
    int32_t zero0;        /* 0 */
    const seqmix_batch *batch;
    seqmix_tensor x, dt, A, B, C, skip, dt_bias, z, state, y;
} seqmix_ssd_args;

/* -------------------------------------------------- deltanet_chunk_forward, deltanet_step (since 0.1)
 *
 * Gated delta rule; with a gate per channel it is KDA, without a gate DeltaNet. Decay first, then predict, correct,
 * write, read:
 *
 *     S[d,e]  <- exp(g) * S[d,e]                               g per head, or per channel d
 *     u[e]     = b * (v[t,h,e] - sum_d S[d,e] * k[d])
 *     S[d,e]  <- S[d,e] + k[d] * u[e]
 *     o[t,h,e] = scale * sum_d S[d,e] * q[d]
 *
 * q, k are those of key head h/(HV/HK) (GROUPED) or h % HK (TILED), L2-normalised if qk_l2norm: x / sqrt(sum x^2 +
 * eps).
 * Source: arXiv:2412.06464, section 3; chunk form arXiv:2406.06484, section 3 (docs/OPS.md); KDA arXiv:2510.26692.
 *
 *     gate_kind         the log decay g of a row                        needs
 *     NONE              0                                               no gate, A, dt_bias
 *     LOG               gate                                            gate in f32
 *     ALPHA             log(gate), gate the linear factor in [0,1]      gate in f32
 *     SOFTPLUS          A * softplus(gate + dt_bias)                    gate, A
 *     BOUNDED_SIGMOID   gate_lower_bound * sigmoid(-A*(gate+dt_bias))   gate, A, gate_lower_bound < 0
 *
 *     beta_kind: VALUE b = beta; SIGMOID b = sigmoid(beta); SIGMOID2 b = 2*sigmoid(beta)
 *
 *     field    shape                   dtype     absent?
 *     q, k     [R,HK,DK]               X                   HK divides HV
 *     v        [R,HV,DV]               X
 *     gate     [R,HV] | [R,HV,DK]      f32 | X   NONE      any strides when [R,HV]
 *     beta     [R,HV]                  f32 | X             any strides
 *     A        [HV]                    f32       yes       = -exp(A_log)
 *     dt_bias  [HV] | [HV,DK]          f32 | X   = 0
 *     state    [slots,HV,DK,DV]        any       yes       any stride order, so both [K,V] and [V,K] storage
 *     o        [R,HV,DV]               X
 *
 * Options: scale 0 = 1/sqrt(DK). eps > 0 if qk_l2norm. chunk as for SSD.
 * Strides, aliasing: common. Sizes and limits: DK, DV <= 256. The recurrence diverges by itself where b*|k|^2 > 2.
 * Numerics: residual, triangular inverse and state are never rounded below f32-class products (docs/NUMERICS.md), also
 * for identical keys and b near 2. Determinism: the grain as for SSD; 32 on cuda-sm80 (16 if `chunk` asks).
 * Workspace: by query; deltanet_step none.
 * CUDA notes, returns, threads: common.
 */
enum {
    SEQMIX_GATE_NONE = 0,
    SEQMIX_GATE_LOG = 1,
    SEQMIX_GATE_ALPHA = 2,
    SEQMIX_GATE_SOFTPLUS = 3,
    SEQMIX_GATE_BOUNDED_SIGMOID = 4
};
enum { SEQMIX_BETA_VALUE = 0, SEQMIX_BETA_SIGMOID = 1, SEQMIX_BETA_SIGMOID2 = 2 };
enum { SEQMIX_HEADS_GROUPED = 0, SEQMIX_HEADS_TILED = 1 };

typedef struct seqmix_deltanet_args {
    uint32_t struct_size;
    int32_t gate_kind;      /* SEQMIX_GATE_* */
    int32_t beta_kind;      /* SEQMIX_BETA_* */
    int32_t qk_l2norm;      /* 0 | 1 */
    int32_t head_map;       /* SEQMIX_HEADS_* */
    int32_t chunk;          /* 0 | 16 | 32 | 64 | 128 | 256 */
    float eps;              /* on the sum of squares; > 0 if qk_l2norm */
    float scale;            /* 0 = 1/sqrt(DK) */
    float gate_lower_bound; /* < 0 for BOUNDED_SIGMOID */
    int32_t zero0;          /* 0 */
    const seqmix_batch *batch;
    seqmix_tensor q, k, v, gate, beta, A, dt_bias, state, o;
} seqmix_deltanet_args;

/* --------------------------------------------------------------------- unit_lower_inverse (since 0.1)
 *
 * inv = (I + L)^-1 for every matrix of a batch; L is the strict lower part of a, the diagonal counts as 1, the rest is
 * not read.
 * Source: the WY representation of arXiv:2406.06484, section 3.
 *
 *     field   shape           dtype
 *     a       [batch...,n,n]  X       rank 2..6, n >= 1, any strides
 *     inv     [batch...,n,n]  X       fully written, zeros above the diagonal; any nested strides
 *
 * Aliasing: inv = a (same data and strides) is allowed. Sizes and limits: none on rung 0.
 * Numerics: f32 elimination throughout, stable for near-parallel keys, where products in 16 bit or long Neumann series
 * are not.
 * Determinism: bits of one matrix don't depend on the batch. Workspace: by query. CUDA notes, returns, threads: common.
 */
typedef struct seqmix_inverse_args {
    uint32_t struct_size;
    int32_t zero0; /* 0 */
    seqmix_tensor a, inv;
} seqmix_inverse_args;

/* -------------------------------------------------------------------- gated_rms_norm_rows (since 0.1)
 *
 * RMSNorm over groups of each row, with the mixers' gate; without z a plain RMSNorm.
 *
 *     n(u)[i] = u[i] / sqrt(mean over the group of u^2 + eps) * w[i],    w = weight, or 1 + weight if weight_plus_one
 *     y = n(x) * act(z)     if norm_before_gate (Qwen3-Next, Qwen3.5, Mamba-Codestral)
 *     y = n(x * act(z))     else (Mamba-2, Nemotron-H)
 *
 * Source: arXiv:1910.07467; gated form arXiv:2405.21060, section 7.
 *
 *     field    shape            dtype     absent?
 *     x        [R,D]            X
 *     z        [R,D]            X         no gate
 *     weight   [D] | [group]    f32 | X   = 1       [group]: the same for every group
 *     y        [R,D]            X
 *
 * Options: group 0 = D, else divides D; gate_act SILU or SIGMOID; eps > 0.
 * Aliasing: y = x or y = z (same data and strides) is allowed. Heads: view [R,H,P] rows as [R,H*P] with group P, or
 * [R*H,P].
 * Numerics: f32 sums. Determinism: grain 1. Workspace: rung 0 none. CUDA notes, returns, threads: common.
 */
enum { SEQMIX_NORM_GATE_SILU = 0, SEQMIX_NORM_GATE_SIGMOID = 1 };

typedef struct seqmix_norm_args {
    uint32_t struct_size;
    int32_t group;            /* 0 = D */
    int32_t norm_before_gate; /* 0 | 1 */
    int32_t gate_act;         /* SEQMIX_NORM_GATE_* */
    int32_t weight_plus_one;  /* 0 | 1 */
    float eps;                /* > 0 */
    seqmix_tensor x, z, weight, y;
} seqmix_norm_args;

#ifdef SEQMIX_EXPERIMENTAL
/* ======================================================================= the experimental half: types
 *
 * What the model driver needs besides the mixers. Versioned by an exact number (abi.h): a library with another one
 * answers SEQMIX_ERR_UNAVAILABLE.
 *
 * SEQMIX_I32 is the dtype of indices that an op writes or passes on (ids of moe_route, index of argmax); no other field
 * takes it.
 */
enum { SEQMIX_I32 = 58 };

/* Block-quantised weights: a run of elements along the last axis shares scales, stored with them in one block. The bytes
 * are those of the tensor types of that name in GGUF files, whose numbers plus 32 these are. Legal where a table below
 * says so. Strides still count elements: the last axis has stride 1, and its size, every other stride and thereby every
 * row are whole blocks. `data` needs no alignment.
 *
 *     dtype             elements   bytes    an element is, d and m being f16, s and t small integers of a sub-block
 *     SEQMIX_Q8_0         32         34     d*q          q 8 bits, signed
 *     SEQMIX_Q4_0         32         18     d*(q-8)      q 4 bits
 *     SEQMIX_Q5_0         32         22     d*(q-16)     q 5 bits
 *     SEQMIX_Q5_1         32         24     d*q+m        q 5 bits
 *     SEQMIX_IQ4_NL       32         18     d*table[q]   q 4 bits
 *     SEQMIX_Q4_K        256        144     d*s*q-m*t    q 4 bits; s, t 6 bits, of 32 elements
 *     SEQMIX_Q5_K        256        176     d*s*q-m*t    q 5 bits; the same
 *     SEQMIX_Q6_K        256        210     d*s*(q-32)   q 6 bits; s 8 bits, signed, of 16 elements
 */
enum {
    SEQMIX_Q4_0 = 34,
    SEQMIX_Q5_0 = 38,
    SEQMIX_Q5_1 = 39,
    SEQMIX_Q8_0 = 40,
    SEQMIX_Q4_K = 44,
    SEQMIX_Q5_K = 45,
    SEQMIX_Q6_K = 46,
    SEQMIX_IQ4_NL = 52
};

/* --------------------------------------------------------------------------------------------- linear
 *
 * y[r,o] = sum_i x[r,i] * weight[o,i] + bias[o] + residual[r,o]
 *
 *     field      shape   dtype           absent?
 *     x          [R,I]   X
 *     weight     [O,I]   any, or blocks            last axis of stride 1; independent of X
 *     bias       [O]     f32 | X         = 0
 *     residual   [R,O]   y's             = 0       y = residual is allowed
 *     y          [R,O]   f32 | X
 *
 * Products and sums are f32; a block-quantised weight is first widened to the f32 value that it stands for, exactly.
 * Up to 16 rows, a row's bits don't depend on the other rows of the call; with `invariant` at any row count, so that a
 * prompt cut anywhere gives the same bits. Workspace: on CUDA up to 32 MiB above 16 rows (cuBLASLt's).
 */
typedef struct seqmix_linear_args {
    uint32_t struct_size;
    int32_t invariant; /* 0 | 1: one order of arithmetic for every row count */
    seqmix_tensor x, weight, bias, residual, y;
} seqmix_linear_args;

/* ----------------------------------------------------------------------------------------- embed_rows
 *
 * y[r,:] = table[tokens[r],:], converted. table [V,D] and y [n_tokens,D] are f32, bf16 or f16 each; the table may also
 * be of block-quantised weights. A token outside [0,V) is SEQMIX_ERR_INVALID_ARG on the CPU.
 */
typedef struct seqmix_embed_args {
    uint32_t struct_size;
    int32_t n_tokens;
    const int32_t *tokens; /* [n_tokens] */
    seqmix_tensor table, y;
} seqmix_embed_args;

/* ------------------------------------------------------------------------------------------ rope_rows
 *
 * Rotary position embedding: pairs of the first n = n_dims channels of every head turn by an angle of their own.
 *
 *     angle(i)  = positions[r] * freq_scale * theta^(-2*i/n)                        i = 0 .. n/2-1
 *     y[r,h,a]  = x[r,h,a] * cos(angle) - x[r,h,b] * sin(angle)
 *     y[r,h,b]  = x[r,h,b] * cos(angle) + x[r,h,a] * sin(angle)
 *
 * (a, b) = (i, i + n/2) for NEOX, (2*i, 2*i + 1) for INTERLEAVED. Channels from n on are copied.
 * Source: arXiv:2104.09864, section 3.2.
 *
 *     field   shape       dtype
 *     x       [R,H,D]     X        D <= 256
 *     y       [R,H,D]     X        y = x (same data and strides) is allowed
 *
 * positions: int32 [R], 0 or more; the array lives where the data lives. Options: n_dims even, 2..D, 0 = D; theta > 0;
 * freq_scale 0 = 1, else > 0.
 * Numerics: an angle is off by less than 1e-6 radians at any position up to 2^20, whatever its size: it is held as a
 * fraction of a turn in 64 bits, not as radians in f32 (those would be off by 8e-3 at position 262143). Determinism:
 * grain 1. Workspace: none.
 */
enum { SEQMIX_ROPE_NEOX = 0, SEQMIX_ROPE_INTERLEAVED = 1 };

typedef struct seqmix_rope_args {
    uint32_t struct_size;
    int32_t pairing;          /* SEQMIX_ROPE_* */
    int32_t n_dims;           /* 0 = D */
    float theta;              /* the base, 1e4 .. 1e7 in today's models */
    float freq_scale;         /* 0 = 1 */
    int32_t zero0;            /* 0 */
    const int32_t *positions; /* [R] */
    seqmix_tensor x, y;
} seqmix_rope_args;

/* ------------------------------------------------------------------------------------- attention_rows
 *
 * Causal grouped-query attention over a KV cache in pages. The rows' k and v are first stored in the cache, then row r,
 * at position p = start[s] + r - row_begin[s] of its sequence s, attends to the cached positions 0..p:
 *
 *     w[j]       = exp(scale * sum_d q[r,h,d] * K[j,g,d])                j = 0..p, g = h / (HQ/HKV)
 *     y[r,h,d]   = sum_j w[j] * V[j,g,d] / sum_j w[j],                   then * sigmoid(gate[r,h,d])
 *
 * Position j of sequence s lies in row j % page_rows of page page_table[s*max_pages + j / page_rows]. Entries past a
 * sequence's last position are not looked at.
 * Source: arXiv:1706.03762, section 3.2; arXiv:2305.13245; pages arXiv:2309.06180; blockwise softmax arXiv:2205.14135.
 *
 *     field     shape                        dtype     absent?
 *     q         [R,HQ,D]                     X                   HKV divides HQ, D <= 256
 *     k, v      [R,HKV,D]                    X
 *     gate      [R,HQ,D]                     X         no gate
 *     k_pages   [n_pages,page_rows,HKV,D]    any                 last axis of stride 1, the others any
 *     v_pages   [n_pages,page_rows,HKV,D]    any                 likewise
 *     y         [R,HQ,D]                     X
 *
 * batch: n_seqs, max_rows and row_begin as everywhere; slots and checkpoints have no meaning here: n_checkpoints is 0,
 * the slot arrays are not looked at. page_table [n_seqs][max_pages] and start [n_seqs] live where the data lives. A
 * negative start, a sequence longer than its table, a page out of [0, n_pages) is an error on the CPU before anything
 * is written. Sequences may share pages that the call only reads; a page that receives rows must belong to one sequence
 * (not checked).
 *
 * Options: scale 0 = 1/sqrt(D). Aliasing: common. Sizes and limits: D <= 256.
 * Numerics: the cache is read as stored, new rows too; products, the softmax and its sums are f32, over blocks of keys
 * that lie at fixed positions. Determinism: grain 1, in a stronger sense than elsewhere: a row has the same bits
 * however its prefill was cut, whatever the pages, and with any other rows in the call. Workspace: by query.
 */
typedef struct seqmix_attention_args {
    uint32_t struct_size;
    int32_t max_pages; /* entries of the page table per sequence, >= 1 */
    float scale;       /* 0 = 1/sqrt(D) */
    int32_t zero0;     /* 0 */
    const seqmix_batch *batch;
    const int32_t *page_table; /* [n_seqs][max_pages] */
    const int32_t *start;      /* [n_seqs] position of the sequence's first row */
    seqmix_tensor q, k, v, gate, k_pages, v_pages, y;
} seqmix_attention_args;

/* ------------------------------------------------------------------------------------------ moe_route
 *
 * Chooses top_k experts a row and their weights.
 *
 *     SOFTMAX   p = softmax(logits[r,:]);  chosen: the largest p
 *     SIGMOID   p = sigmoid(logits[r,:]);  chosen: the largest p + bias
 *     weights[r,k] = p[ids[r,k]],  divided by their sum over k if renormalise,  then * scale
 *
 * With n_group > 1 the experts form n_group groups of E/n_group; a group's score is the sum of its two largest choices
 * (SIGMOID) or its largest (SOFTMAX), and only experts of the topk_group best groups may be chosen.
 * ids come in descending order of choice; of equal choices the lower index wins, of equal groups too. A NaN loses
 * against every number.
 * Source: arXiv:1701.06538; bias and groups arXiv:2412.19437, section 2.1.2.
 *
 *     field     shape     dtype     absent?
 *     logits    [R,E]     f32
 *     bias      [E]       f32       = 0         SIGMOID only
 *     ids       [R,K]     i32                   written
 *     weights   [R,K]     f32
 *
 * K = top_k. Options: kind; renormalise 0 | 1; scale 0 = 1; n_group 0 = 1, divides E; topk_group 0 = n_group, else
 * 1..n_group; K <= topk_group * E/n_group.
 * Sizes and limits: E <= 1024, n_group <= 64. Numerics: f32; sigmoids below 1e-38 have no ratio left to renormalise.
 * Determinism: grain 1. Workspace: none.
 */
enum { SEQMIX_ROUTE_SOFTMAX = 0, SEQMIX_ROUTE_SIGMOID = 1 };

typedef struct seqmix_route_args {
    uint32_t struct_size;
    int32_t kind;        /* SEQMIX_ROUTE_* */
    int32_t renormalise; /* 0 | 1 */
    int32_t n_group;     /* 0 = 1 */
    int32_t topk_group;  /* 0 = n_group */
    float scale;         /* 0 = 1 */
    seqmix_tensor logits, bias, ids, weights;
} seqmix_route_args;

/* ------------------------------------------------------------------------------------------- act_rows
 *
 *     SILU_MUL      y = silu(a) * b          RELU2         y = max(a, 0)^2
 *     SIGMOID_MUL   y = sigmoid(a) * b       SILU          y = silu(a)
 *
 *     field   shape             dtype     absent?
 *     a       [R,D] | [R,1]     X                   [R,1]: one number for the row (SIGMOID_MUL, SILU_MUL)
 *     b       [R,D]             X         RELU2, SILU
 *     y       [R,D]             X                   y = a or y = b is allowed
 *
 * Column slices of one buffer, as a fused gate-up product leaves them, work without a copy.
 * Numerics: f32. Determinism: grain 1. Workspace: none.
 */
enum {
    SEQMIX_ACT_ROWS_SILU_MUL = 0,
    SEQMIX_ACT_ROWS_RELU2 = 1,
    SEQMIX_ACT_ROWS_SILU = 2,
    SEQMIX_ACT_ROWS_SIGMOID_MUL = 3
};

typedef struct seqmix_act_args {
    uint32_t struct_size;
    int32_t kind; /* SEQMIX_ACT_ROWS_* */
    seqmix_tensor a, b, y;
} seqmix_act_args;

/* ---------------------------------------------------------------------------------------- moe_experts
 *
 * The chosen experts' two-layer perceptrons, weighted and summed.
 *
 *     y[r,:] (+)= sum_k weights[r,k] * down[e] * act(up[e] * x[r,:]),                           e = ids[r,k]
 *
 * act as in act_rows: SILU_MUL is silu(gate[e] * x) * (up[e] * x), RELU2 and SILU take no gate.
 *
 *     field     shape       dtype      absent?
 *     x         [R,D]       X
 *     ids       [R,K]       i32                  as moe_route writes them
 *     weights   [R,K]       f32
 *     gate      [E,F,D]     as linear  RELU2, SILU
 *     up        [E,F,D]     as linear            each expert's matrix is a weight of linear: the same dtypes
 *     down      [E,O,F]     as linear
 *     y         [R,O]       f32 | X
 *
 * An id outside [0,E), or twice in a row, is SEQMIX_ERR_INVALID_ARG on the CPU. K <= 1024. Options: activation SILU_MUL,
 * RELU2 or SILU; accumulate 0 | 1: y += instead of y =; invariant as in linear. Numerics: activations between the products are f32; a row's
 * experts are summed in ascending order of expert, in f32. Determinism: the products are linear's; up to 16 rows, a
 * row's bits don't depend on the other rows of the call. Workspace: by query.
 */
typedef struct seqmix_moe_args {
    uint32_t struct_size;
    int32_t activation; /* SEQMIX_ACT_ROWS_SILU_MUL, _RELU2, _SILU */
    int32_t accumulate; /* 0 | 1 */
    int32_t invariant;  /* 0 | 1, as in linear */
    seqmix_tensor x, ids, weights, gate, up, down, y;
} seqmix_moe_args;

/* --------------------------------------------------------------------------------------------- argmax
 *
 * index[r] = the least i with the greatest x[r,i]; a NaN never wins; -1 where a row holds nothing but NaN.
 * x [R,V] is f32, bf16 or f16, index [R] is i32. Determinism: exact. Workspace: none.
 */
typedef struct seqmix_argmax_args {
    uint32_t struct_size;
    int32_t zero0; /* 0 */
    seqmix_tensor x, index;
} seqmix_argmax_args;
#endif

#include <seqmix/abi.h>

/* ======================================================================= the library and its contexts */

/* The library's only exported symbol: the function table, or NULL for another ABI major. Every minor, older or
 * newer, gets the same table; its struct_size tells how much of it there is, and the wrappers answer
 * SEQMIX_ERR_UNAVAILABLE for a slot it lacks. */
SEQMIX_API const struct seqmix_api *seqmix_get_api(uint32_t abi_version);

/* For dlsym. */
typedef const struct seqmix_api *(*seqmix_get_api_fn)(uint32_t abi_version);

/* Creates a context. On failure *out is NULL and `why` (may be NULL) holds the sentence. An api of NULL, as another
 * ABI major gives, is SEQMIX_ERR_UNAVAILABLE. The only call that allocates. */
static inline SEQMIX_CHECKED seqmix_status seqmix_ctx_create(const struct seqmix_api *api, const seqmix_ctx_desc *desc,
                                                             seqmix_ctx **out, char *why, size_t why_len)
{
    *out = NULL;
    if (why != NULL && why_len > 0) why[0] = '\0';
    return api != NULL ? api->ctx_create(desc, out, why, why_len) : SEQMIX_ERR_UNAVAILABLE;
}

/* Destroys a context; NULL is fine. Its last call must have returned; on CUDA, enqueued work may still be running. */
static inline void seqmix_ctx_destroy(seqmix_ctx *ctx)
{
    if (ctx != NULL) ctx->api->ctx_destroy(ctx);
}

/* CUDA: later calls go to this stream. CPU: SEQMIX_ERR_INVALID_ARG unless NULL. */
static inline SEQMIX_CHECKED seqmix_status seqmix_ctx_set_stream(seqmix_ctx *ctx, void *stream)
{
    return ctx->api->ctx_set_stream(ctx, stream);
}

/* The sentence of the context's last failed call, "" after a successful one. Valid until the context's next call. */
static inline const char *seqmix_last_error(const seqmix_ctx *ctx)
{
    return ctx->api->last_error(ctx);
}

/* The identifier of a code, "SEQMIX_ERR_SHAPE". Never NULL, also for codes that this library doesn't know. */
static inline const char *seqmix_status_name(const struct seqmix_api *api, seqmix_status status)
{
    return api->status_name(status);
}

/* What seqmix_op_query can tell about a call. Data pointers and batch arrays of args are not looked at. */
enum {
    SEQMIX_QUERY_KERNEL = 1, /* const char *: static name of the kernel that would run, "rung/kernel" */
    SEQMIX_QUERY_GRAIN = 2,  /* int64_t: rows of a grid cell */
    SEQMIX_QUERY_LEVEL = 3   /* int32_t: SEQMIX_LEVEL_* of the rung that owns that kernel */
};

/* Answers `what` about the call op(args) into *value, whose type depends on `what`. */
static inline SEQMIX_CHECKED seqmix_status seqmix_op_query(seqmix_ctx *ctx, int32_t op, const void *args, int32_t what,
                                                           void *value)
{
    return ctx->api->op_query(ctx, op, args, what, value);
}

/* Checks a host copy of a batch for a call over `rows` rows and a pool of `slots` slots (negative: no pool), as the
 * CPU does: for CUDA users, whose arrays the library can't look at. `why` (may be NULL) gets the sentence. */
static inline SEQMIX_CHECKED seqmix_status seqmix_batch_check(const struct seqmix_api *api, const seqmix_batch *batch,
                                                              int64_t rows, int64_t slots, char *why, size_t why_len)
{
    return api->batch_check(batch, rows, slots, why, why_len);
}

/* ============================================================================================ the ops
 *
 * Per op the call and the query for its workspace; the contracts are with the args structs above.
 */

static inline SEQMIX_CHECKED seqmix_status seqmix_short_conv_rows_workspace(seqmix_ctx *ctx,
                                                                            const seqmix_conv_args *args, size_t *bytes)
{
    const struct seqmix_api *api = ctx->api;
    return SEQMIX_API_HAS(api, short_conv_rows_workspace) ? api->short_conv_rows_workspace(ctx, args, bytes)
                                                          : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_short_conv_rows(seqmix_ctx *ctx, const seqmix_conv_args *args,
                                                                  void *workspace, size_t workspace_bytes)
{
    const struct seqmix_api *api = ctx->api;
    return SEQMIX_API_HAS(api, short_conv_rows) ? api->short_conv_rows(ctx, args, workspace, workspace_bytes)
                                                : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_short_conv_step_workspace(seqmix_ctx *ctx,
                                                                            const seqmix_conv_args *args, size_t *bytes)
{
    const struct seqmix_api *api = ctx->api;
    return SEQMIX_API_HAS(api, short_conv_step_workspace) ? api->short_conv_step_workspace(ctx, args, bytes)
                                                          : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_short_conv_step(seqmix_ctx *ctx, const seqmix_conv_args *args,
                                                                  void *workspace, size_t workspace_bytes)
{
    const struct seqmix_api *api = ctx->api;
    return SEQMIX_API_HAS(api, short_conv_step) ? api->short_conv_step(ctx, args, workspace, workspace_bytes)
                                                : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_selective_scan_rows_workspace(seqmix_ctx *ctx,
                                                                                const seqmix_scan_args *args,
                                                                                size_t *bytes)
{
    const struct seqmix_api *api = ctx->api;
    return SEQMIX_API_HAS(api, selective_scan_rows_workspace) ? api->selective_scan_rows_workspace(ctx, args, bytes)
                                                              : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_selective_scan_rows(seqmix_ctx *ctx, const seqmix_scan_args *args,
                                                                      void *workspace, size_t workspace_bytes)
{
    const struct seqmix_api *api = ctx->api;
    return SEQMIX_API_HAS(api, selective_scan_rows) ? api->selective_scan_rows(ctx, args, workspace, workspace_bytes)
                                                    : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_selective_scan_step_workspace(seqmix_ctx *ctx,
                                                                                const seqmix_scan_args *args,
                                                                                size_t *bytes)
{
    const struct seqmix_api *api = ctx->api;
    return SEQMIX_API_HAS(api, selective_scan_step_workspace) ? api->selective_scan_step_workspace(ctx, args, bytes)
                                                              : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_selective_scan_step(seqmix_ctx *ctx, const seqmix_scan_args *args,
                                                                      void *workspace, size_t workspace_bytes)
{
    const struct seqmix_api *api = ctx->api;
    return SEQMIX_API_HAS(api, selective_scan_step) ? api->selective_scan_step(ctx, args, workspace, workspace_bytes)
                                                    : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_ssd_chunk_forward_workspace(seqmix_ctx *ctx,
                                                                              const seqmix_ssd_args *args,
                                                                              size_t *bytes)
{
    const struct seqmix_api *api = ctx->api;
    return SEQMIX_API_HAS(api, ssd_chunk_forward_workspace) ? api->ssd_chunk_forward_workspace(ctx, args, bytes)
                                                            : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_ssd_chunk_forward(seqmix_ctx *ctx, const seqmix_ssd_args *args,
                                                                    void *workspace, size_t workspace_bytes)
{
    const struct seqmix_api *api = ctx->api;
    return SEQMIX_API_HAS(api, ssd_chunk_forward) ? api->ssd_chunk_forward(ctx, args, workspace, workspace_bytes)
                                                  : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_ssd_step_workspace(seqmix_ctx *ctx, const seqmix_ssd_args *args,
                                                                     size_t *bytes)
{
    const struct seqmix_api *api = ctx->api;
    return SEQMIX_API_HAS(api, ssd_step_workspace) ? api->ssd_step_workspace(ctx, args, bytes) : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_ssd_step(seqmix_ctx *ctx, const seqmix_ssd_args *args,
                                                           void *workspace, size_t workspace_bytes)
{
    const struct seqmix_api *api = ctx->api;
    return SEQMIX_API_HAS(api, ssd_step) ? api->ssd_step(ctx, args, workspace, workspace_bytes)
                                         : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_deltanet_chunk_forward_workspace(seqmix_ctx *ctx,
                                                                                   const seqmix_deltanet_args *args,
                                                                                   size_t *bytes)
{
    const struct seqmix_api *api = ctx->api;
    return SEQMIX_API_HAS(api, deltanet_chunk_forward_workspace)
               ? api->deltanet_chunk_forward_workspace(ctx, args, bytes)
               : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_deltanet_chunk_forward(seqmix_ctx *ctx,
                                                                         const seqmix_deltanet_args *args,
                                                                         void *workspace, size_t workspace_bytes)
{
    const struct seqmix_api *api = ctx->api;
    return SEQMIX_API_HAS(api, deltanet_chunk_forward)
               ? api->deltanet_chunk_forward(ctx, args, workspace, workspace_bytes)
               : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_deltanet_step_workspace(seqmix_ctx *ctx,
                                                                          const seqmix_deltanet_args *args,
                                                                          size_t *bytes)
{
    const struct seqmix_api *api = ctx->api;
    return SEQMIX_API_HAS(api, deltanet_step_workspace) ? api->deltanet_step_workspace(ctx, args, bytes)
                                                        : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_deltanet_step(seqmix_ctx *ctx, const seqmix_deltanet_args *args,
                                                                void *workspace, size_t workspace_bytes)
{
    const struct seqmix_api *api = ctx->api;
    return SEQMIX_API_HAS(api, deltanet_step) ? api->deltanet_step(ctx, args, workspace, workspace_bytes)
                                              : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_unit_lower_inverse_workspace(seqmix_ctx *ctx,
                                                                               const seqmix_inverse_args *args,
                                                                               size_t *bytes)
{
    const struct seqmix_api *api = ctx->api;
    return SEQMIX_API_HAS(api, unit_lower_inverse_workspace) ? api->unit_lower_inverse_workspace(ctx, args, bytes)
                                                             : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_unit_lower_inverse(seqmix_ctx *ctx, const seqmix_inverse_args *args,
                                                                     void *workspace, size_t workspace_bytes)
{
    const struct seqmix_api *api = ctx->api;
    return SEQMIX_API_HAS(api, unit_lower_inverse) ? api->unit_lower_inverse(ctx, args, workspace, workspace_bytes)
                                                   : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_gated_rms_norm_rows_workspace(seqmix_ctx *ctx,
                                                                                const seqmix_norm_args *args,
                                                                                size_t *bytes)
{
    const struct seqmix_api *api = ctx->api;
    return SEQMIX_API_HAS(api, gated_rms_norm_rows_workspace) ? api->gated_rms_norm_rows_workspace(ctx, args, bytes)
                                                              : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_gated_rms_norm_rows(seqmix_ctx *ctx, const seqmix_norm_args *args,
                                                                      void *workspace, size_t workspace_bytes)
{
    const struct seqmix_api *api = ctx->api;
    return SEQMIX_API_HAS(api, gated_rms_norm_rows) ? api->gated_rms_norm_rows(ctx, args, workspace, workspace_bytes)
                                                    : SEQMIX_ERR_UNAVAILABLE;
}

/* ======================================================================= the experimental half: calls */

#ifdef SEQMIX_EXPERIMENTAL
/* The experimental table, or NULL when the library's version differs. */
static inline const struct seqmix_api_experimental *seqmix_experimental(const struct seqmix_api *api)
{
    return SEQMIX_API_HAS(api, experimental)
               ? (const struct seqmix_api_experimental *)api->experimental(SEQMIX_EXPERIMENTAL_VERSION)
               : NULL;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_linear_workspace(seqmix_ctx *ctx, const seqmix_linear_args *args,
                                                                   size_t *bytes)
{
    const struct seqmix_api_experimental *api = seqmix_experimental(ctx->api);
    return api != NULL ? api->linear_workspace(ctx, args, bytes) : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_linear(seqmix_ctx *ctx, const seqmix_linear_args *args,
                                                         void *workspace, size_t workspace_bytes)
{
    const struct seqmix_api_experimental *api = seqmix_experimental(ctx->api);
    return api != NULL ? api->linear(ctx, args, workspace, workspace_bytes) : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_embed_rows_workspace(seqmix_ctx *ctx, const seqmix_embed_args *args,
                                                                       size_t *bytes)
{
    const struct seqmix_api_experimental *api = seqmix_experimental(ctx->api);
    return api != NULL ? api->embed_rows_workspace(ctx, args, bytes) : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_embed_rows(seqmix_ctx *ctx, const seqmix_embed_args *args,
                                                             void *workspace, size_t workspace_bytes)
{
    const struct seqmix_api_experimental *api = seqmix_experimental(ctx->api);
    return api != NULL ? api->embed_rows(ctx, args, workspace, workspace_bytes) : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_rope_rows_workspace(seqmix_ctx *ctx, const seqmix_rope_args *args,
                                                                      size_t *bytes)
{
    const struct seqmix_api_experimental *api = seqmix_experimental(ctx->api);
    return api != NULL ? api->rope_rows_workspace(ctx, args, bytes) : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_rope_rows(seqmix_ctx *ctx, const seqmix_rope_args *args,
                                                            void *workspace, size_t workspace_bytes)
{
    const struct seqmix_api_experimental *api = seqmix_experimental(ctx->api);
    return api != NULL ? api->rope_rows(ctx, args, workspace, workspace_bytes) : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_attention_rows_workspace(seqmix_ctx *ctx,
                                                                           const seqmix_attention_args *args,
                                                                           size_t *bytes)
{
    const struct seqmix_api_experimental *api = seqmix_experimental(ctx->api);
    return api != NULL ? api->attention_rows_workspace(ctx, args, bytes) : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_attention_rows(seqmix_ctx *ctx, const seqmix_attention_args *args,
                                                                 void *workspace, size_t workspace_bytes)
{
    const struct seqmix_api_experimental *api = seqmix_experimental(ctx->api);
    return api != NULL ? api->attention_rows(ctx, args, workspace, workspace_bytes) : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_moe_route_workspace(seqmix_ctx *ctx, const seqmix_route_args *args,
                                                                      size_t *bytes)
{
    const struct seqmix_api_experimental *api = seqmix_experimental(ctx->api);
    return api != NULL ? api->moe_route_workspace(ctx, args, bytes) : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_moe_route(seqmix_ctx *ctx, const seqmix_route_args *args,
                                                            void *workspace, size_t workspace_bytes)
{
    const struct seqmix_api_experimental *api = seqmix_experimental(ctx->api);
    return api != NULL ? api->moe_route(ctx, args, workspace, workspace_bytes) : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_act_rows_workspace(seqmix_ctx *ctx, const seqmix_act_args *args,
                                                                     size_t *bytes)
{
    const struct seqmix_api_experimental *api = seqmix_experimental(ctx->api);
    return api != NULL ? api->act_rows_workspace(ctx, args, bytes) : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_act_rows(seqmix_ctx *ctx, const seqmix_act_args *args,
                                                           void *workspace, size_t workspace_bytes)
{
    const struct seqmix_api_experimental *api = seqmix_experimental(ctx->api);
    return api != NULL ? api->act_rows(ctx, args, workspace, workspace_bytes) : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_moe_experts_workspace(seqmix_ctx *ctx, const seqmix_moe_args *args,
                                                                        size_t *bytes)
{
    const struct seqmix_api_experimental *api = seqmix_experimental(ctx->api);
    return api != NULL ? api->moe_experts_workspace(ctx, args, bytes) : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_moe_experts(seqmix_ctx *ctx, const seqmix_moe_args *args,
                                                              void *workspace, size_t workspace_bytes)
{
    const struct seqmix_api_experimental *api = seqmix_experimental(ctx->api);
    return api != NULL ? api->moe_experts(ctx, args, workspace, workspace_bytes) : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_argmax_workspace(seqmix_ctx *ctx, const seqmix_argmax_args *args,
                                                                   size_t *bytes)
{
    const struct seqmix_api_experimental *api = seqmix_experimental(ctx->api);
    return api != NULL ? api->argmax_workspace(ctx, args, bytes) : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_argmax(seqmix_ctx *ctx, const seqmix_argmax_args *args,
                                                         void *workspace, size_t workspace_bytes)
{
    const struct seqmix_api_experimental *api = seqmix_experimental(ctx->api);
    return api != NULL ? api->argmax(ctx, args, workspace, workspace_bytes) : SEQMIX_ERR_UNAVAILABLE;
}

/* short_conv_step, then deltanet_step or ssd_step on the rows it wrote: the packed row of a decoding layer in one call. The
 * mixer's q, k, v (x, B, C) are column slices of conv->y, which may be conv->x. Both calls are checked before either writes;
 * the bits are those of the two calls, and no workspace is needed. A message names the half it is about. */
static inline SEQMIX_CHECKED seqmix_status seqmix_deltanet_conv_step(seqmix_ctx *ctx, const seqmix_conv_args *conv,
                                                                     const seqmix_deltanet_args *mixer)
{
    const struct seqmix_api_experimental *api = seqmix_experimental(ctx->api);
    return api != NULL ? api->deltanet_conv_step(ctx, conv, mixer) : SEQMIX_ERR_UNAVAILABLE;
}

static inline SEQMIX_CHECKED seqmix_status seqmix_ssd_conv_step(seqmix_ctx *ctx, const seqmix_conv_args *conv,
                                                                const seqmix_ssd_args *mixer)
{
    const struct seqmix_api_experimental *api = seqmix_experimental(ctx->api);
    return api != NULL ? api->ssd_conv_step(ctx, conv, mixer) : SEQMIX_ERR_UNAVAILABLE;
}

/* Memory where the context's tensors live, aligned to SEQMIX_WORKSPACE_ALIGN; freed by seqmix_mem_free. */
static inline SEQMIX_CHECKED seqmix_status seqmix_mem_alloc(seqmix_ctx *ctx, size_t bytes, void **out)
{
    const struct seqmix_api_experimental *api = seqmix_experimental(ctx->api);
    *out = NULL;
    return api != NULL ? api->mem_alloc(ctx, bytes, out) : SEQMIX_ERR_UNAVAILABLE;
}

static inline void seqmix_mem_free(seqmix_ctx *ctx, void *memory)
{
    const struct seqmix_api_experimental *api = seqmix_experimental(ctx->api);
    if (api != NULL) api->mem_free(ctx, memory);
}

/* Copies between host memory and the context's, in stream order; the host may reuse `from` and read `to` after it. */
static inline SEQMIX_CHECKED seqmix_status seqmix_mem_copy(seqmix_ctx *ctx, void *to, const void *from, size_t bytes)
{
    const struct seqmix_api_experimental *api = seqmix_experimental(ctx->api);
    return api != NULL ? api->mem_copy(ctx, to, from, bytes) : SEQMIX_ERR_UNAVAILABLE;
}

/* Waits for everything enqueued on the context's stream, and reports its errors. */
static inline SEQMIX_CHECKED seqmix_status seqmix_sync(seqmix_ctx *ctx)
{
    const struct seqmix_api_experimental *api = seqmix_experimental(ctx->api);
    return api != NULL ? api->sync(ctx) : SEQMIX_ERR_UNAVAILABLE;
}

/* Milliseconds between the previous call of this function (or the context's creation) and this one, on the
 * context's own clock: events on CUDA, a monotonic clock on the CPU. */
static inline SEQMIX_CHECKED seqmix_status seqmix_elapsed(seqmix_ctx *ctx, double *milliseconds)
{
    const struct seqmix_api_experimental *api = seqmix_experimental(ctx->api);
    return api != NULL ? api->elapsed(ctx, milliseconds) : SEQMIX_ERR_UNAVAILABLE;
}
#endif /* SEQMIX_EXPERIMENTAL */

#ifdef __cplusplus
}
#endif
#endif
