/* SPDX-License-Identifier: MIT */
/*
 * The named tensors of a checkpoint, of safetensors files or a GGUF file, as the ops take them. A binder looks them up, each
 * by the name it has in either format, checks its shape, and hands out a view. Matrices stay where the file is mapped, in
 * their stored dtype; small parameters are widened to f32, and what the ops cannot take as it lies is laid out anew, into an
 * arena, once. Binding runs twice: without memory behind the arena it checks and counts, then it fills. For a device every
 * tensor is copied there when it is complete.
 */
#ifndef SEQMIX_MODEL_WEIGHTS_H
#define SEQMIX_MODEL_WEIGHTS_H

#include "arena.h"
#include "gguf.h"
#include "safetensors.h"
#include "view.h"

typedef struct seqmix_weights {
    bool is_gguf;
    seqmix_safetensors st;
    seqmix_gguf gguf;
    char prefix[40];       /* safetensors: of every name but the head's */
    const char *embedding; /* and the embedding's own name */
} seqmix_weights;

/* A directory of safetensors, or a file: *.gguf. Of a directory, finds the embedding and thereby the prefix. */
bool seqmix_weights_open(const char *path, seqmix_weights *w, seqmix_why why);
void seqmix_weights_close(seqmix_weights *w);
int64_t seqmix_weights_files(const seqmix_weights *w);
/* Every tensor in turn, for tables: false behind the last. */
bool seqmix_weights_each(const seqmix_weights *w, int64_t i, const char **name, const char **type, size_t *bytes);

/* What a value of a safetensors file becomes; GGUF files hold what came out of that. */
typedef enum seqmix_widen { SEQMIX_WIDEN_PLAIN, SEQMIX_WIDEN_NEG_EXP, SEQMIX_WIDEN_PLUS_ONE } seqmix_widen;

/* Rows that lie in `groups` equal groups of `parts` runs each. */
typedef struct seqmix_regroup {
    int64_t groups, parts, rows[4]; /* rows of each run in one group */
} seqmix_regroup;

/* A tensor of safetensors files that is bound, for whoever makes a GGUF file of them. */
typedef struct seqmix_bound {
    const char *name; /* which it has there */
    seqmix_dtype dtype;
    int32_t rank;
    int64_t shape[3]; /* which the model wants; in safetensors there may be axes of length 1 besides */
    const void *data;
    int64_t expert; /* of a stack of matrices: which of them `data` is; -1: it is everything */
    seqmix_widen how;
    const seqmix_regroup *groups; /* or NULL */
} seqmix_bound;

typedef struct seqmix_binder {
    const seqmix_weights *weights;
    seqmix_arena *arena;
    seqmix_ctx *ctx;         /* widens blocks of quantised weights, in host memory; needed for filling only */
    seqmix_arena *on_device; /* where complete tensors are copied to, by `device`; NULL: they stay */
    seqmix_ctx *device;
    bool (*tell)(void *listener, const seqmix_bound *t, seqmix_why why); /* or NULL; in the order of binding */
    void *listener;
    const char *module; /* safetensors: between the layer and the name; "" for none */
    int64_t layer;      /* -1: outside of layers */
    bool failed;        /* then `why` says what, and later calls do nothing */
    seqmix_why why;
    size_t bytes;     /* of tensors used as they are stored */
    int64_t elements; /* of all that were bound */
} seqmix_binder;

/* Each name is a pair: of safetensors, below the layer and the module, and of GGUF, below the block. A NULL is a name that
 * this format does not have. */
bool seqmix_bind_has(const seqmix_binder *b, const char *st, const char *gguf);
/* As stored; any dtype that products take. */
seqmix_tensor seqmix_bind_matrix(seqmix_binder *b, const char *st, const char *gguf, int64_t rows, int64_t columns);
/* In f32. */
seqmix_tensor seqmix_bind_vector(seqmix_binder *b, const char *st, const char *gguf, int64_t n, seqmix_widen how);
seqmix_tensor seqmix_bind_wide(seqmix_binder *b, const char *st, const char *gguf, int64_t rows, int64_t columns,
                               seqmix_widen how);
/* As stored when the ops take it with the rows' own dtype; in f32 when its dtype is one of blocks. */
seqmix_tensor seqmix_bind_delicate(seqmix_binder *b, const char *st, const char *gguf, int64_t rows, int64_t columns);
/* Two matrices of one size, the second behind the first, in f32. */
seqmix_tensor seqmix_bind_pair(seqmix_binder *b, const char *const st[2], const char *const gguf[2], int64_t rows,
                               int64_t columns);
/* A vector that a safetensors file must have iff `wanted`, and a GGUF file may have; else absent. */
seqmix_tensor seqmix_bind_bias(seqmix_binder *b, const char *st, const char *gguf, int64_t n, bool wanted);
/* The same times the scale beside the matrix; `gguf` is their common stem, as "ffn_up". */
seqmix_tensor seqmix_bind_scaled_bias(seqmix_binder *b, const char *st, const char *gguf, int64_t n, bool wanted);

/* Its rows laid out so that run 0 of all groups comes first, then run 1 of all. As stored, or in f32. */
seqmix_tensor seqmix_bind_regrouped(seqmix_binder *b, const char *st, const char *gguf, const seqmix_regroup *how,
                                    int64_t columns, bool widen);

/* [experts, rows, columns]: one tensor, or, in safetensors, one for each expert ("%lld" in `st` stands for its number), which
 * are laid out as one. `st_whole` names the former. */
seqmix_tensor seqmix_bind_experts(seqmix_binder *b, const char *st_whole, const char *st, const char *gguf,
                                  int64_t experts, int64_t rows, int64_t columns);

/* Rows [from, from + n) of a matrix, or of each expert's. */
seqmix_tensor seqmix_rows_of(seqmix_tensor matrix, int64_t from, int64_t n);
/* n elements of f32, bf16 or f16 from any address. */
void seqmix_widen_row(seqmix_dtype dtype, const void *data, int64_t n, seqmix_widen how, float *out);
/* What has been copied need not stay in memory besides: the pages of the file are read again should anyone ask. */
void seqmix_let_go(const void *data, size_t bytes);
/* Bytes of n elements of a dtype; n is a whole number of blocks. */
size_t seqmix_dtype_bytes(seqmix_dtype dtype, int64_t n);

#endif
