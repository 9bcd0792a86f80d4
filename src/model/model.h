/* SPDX-License-Identifier: MIT */
/*
 * A model: its config, its weights, and the blocks that they make up (blocks.h). What differs from family to family is where
 * the tensors' names come from; model.c has it as one table.
 */
#ifndef SEQMIX_MODEL_MODEL_H
#define SEQMIX_MODEL_MODEL_H

#include "blocks.h"

typedef struct seqmix_model {
    seqmix_config config;
    seqmix_weights weights;
    seqmix_tensor embedding, final_norm, head;
    seqmix_block *blocks;
    int64_t n_blocks, n_caches; /* n_caches: attention layers */
    size_t state_bytes;         /* of one sequence */
    size_t weight_bytes;        /* used as they are stored */
    int64_t elements;           /* of everything bound */
    size_t parameter_bytes;     /* widened or laid out anew */
    size_t device_bytes;        /* of all, on a device */
    char *parameters;           /* those laid out; NULL until prepared, and on a device */
    seqmix_ctx *device;         /* whose memory holds the weights; NULL: they are the host's */
    void *on_device;
} seqmix_model;

/* A directory in the Hugging Face layout or a GGUF file. Reads config and headers and checks every tensor; reads no weight.
 * NULL and a sentence on failure. */
seqmix_model *seqmix_model_open(const char *path, seqmix_why why);
/* Widens the small parameters, once. For a context of a device all weights go there, and the context is to outlive the model. */
bool seqmix_model_prepare(seqmix_model *model, seqmix_ctx *ctx, bool device, seqmix_why why);
void seqmix_model_close(seqmix_model *model);

/* Tells `tell` of each tensor that an opened model of safetensors has, under its name in GGUF. */
bool seqmix_model_each_tensor(seqmix_model *model, bool (*tell)(void *listener, const seqmix_bound *t, seqmix_why why),
                              void *listener, seqmix_why why);

/* One forward pass. */
seqmix_status seqmix_model_forward(const seqmix_model *model, seqmix_pass *pass);

#endif
