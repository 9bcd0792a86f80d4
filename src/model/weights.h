/* SPDX-License-Identifier: MIT */
/*
 * The named tensors of a checkpoint as the ops take them. Matrices stay where the file is mapped, in their stored dtype;
 * small parameters are widened to f32 into an arena, once.
 */
#ifndef SEQMIX_MODEL_WEIGHTS_H
#define SEQMIX_MODEL_WEIGHTS_H

#include "arena.h"
#include "safetensors.h"
#include "view.h"

typedef struct seqmix_weights {
    seqmix_safetensors st;
    char prefix[32]; /* of every name but the head's */
} seqmix_weights;

/* Which tensor is meant, in words of the checkpoint, and the shape it must have (axes of 1 do not count). */
typedef struct seqmix_weight_key {
    const char *name; /* without the prefix */
    int64_t layer;    /* -1, or the layer: "layers.<layer>." goes in front of the name */
    int32_t rank;
    int64_t shape[2];
} seqmix_weight_key;

typedef enum seqmix_widen { SEQMIX_WIDEN_PLAIN, SEQMIX_WIDEN_NEG_EXP } seqmix_widen;

/* Finds the prefix with which one of the NULL-ended `names` (the embedding's) exists. */
bool seqmix_weights_open(const char *dir, const char *const *names, seqmix_weights *w, seqmix_why why);
void seqmix_weights_close(seqmix_weights *w);

bool seqmix_weights_has(const seqmix_weights *w, const seqmix_weight_key *key);
/* The stored matrix; f32, bf16 or f16. */
bool seqmix_weights_view(const seqmix_weights *w, const seqmix_weight_key *key, seqmix_tensor *out, seqmix_why why);
/* An f32 copy, x or -exp(x), in the arena; without memory behind the arena only the checks and the count. */
bool seqmix_weights_f32(const seqmix_weights *w, const seqmix_weight_key *key, seqmix_widen how, seqmix_arena *arena,
                        seqmix_tensor *out, seqmix_why why);

size_t seqmix_weights_bytes(const seqmix_weights *w);
int64_t seqmix_weights_count(const seqmix_weights *w); /* elements */

#endif
