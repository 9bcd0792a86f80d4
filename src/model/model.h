/* SPDX-License-Identifier: MIT */
/*
 * A model: its config, its weights, and the family that knows how to run them. A family is a table of four functions; the
 * session asks nothing else of it.
 */
#ifndef SEQMIX_MODEL_MODEL_H
#define SEQMIX_MODEL_MODEL_H

#include "caller.h"
#include "config.h"
#include "weights.h"

typedef struct seqmix_model seqmix_model;

/* One forward pass over R consecutive rows of one sequence. */
typedef struct seqmix_pass {
    seqmix_caller *caller;
    seqmix_arena buffers;  /* activations; counted when measuring */
    const int32_t *tokens; /* [rows] */
    int64_t rows;
    int64_t logits_from; /* rows before this one need no logits; rows = none does */
    float *logits;       /* [rows - logits_from, vocab] */
    char *state;         /* two slots of state_bytes each */
    size_t state_bytes;
    int32_t read_slot, write_slot;
} seqmix_pass;

typedef struct seqmix_family {
    seqmix_family_id id;
    const char *const *embedding_names; /* NULL-ended, without prefix */
    /* Looks up and checks every tensor; parameters that are widened go to the arena. Runs twice: counting, then filling. */
    bool (*bind)(seqmix_model *model, seqmix_arena *arena, seqmix_why why);
    size_t (*state_bytes)(const seqmix_config *config); /* of one slot */
    seqmix_status (*forward)(const seqmix_model *model, seqmix_pass *pass);
    void (*describe)(const seqmix_config *config, cJSON *into); /* the family's own sizes */
} seqmix_family;

extern const seqmix_family seqmix_family_mamba;

struct seqmix_model {
    seqmix_config config;
    const seqmix_family *family;
    seqmix_weights weights;
    seqmix_tensor embedding, final_norm, head;
    void *layers; /* [config.layers] of the family's own struct; one malloc */
    size_t parameter_bytes;
    char *parameters; /* what was widened; NULL until prepared */
};

/* Reads config and headers and checks every tensor; reads no weight. NULL and a sentence on failure. */
seqmix_model *seqmix_model_open(const char *dir, seqmix_why why);
/* Widens the small parameters, once. */
bool seqmix_model_prepare(seqmix_model *model, seqmix_why why);
void seqmix_model_close(seqmix_model *model);

#endif
