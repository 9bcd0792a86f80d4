/* SPDX-License-Identifier: MIT */
/*
 * config.json (and generation_config.json) of a Hugging Face checkpoint as numbers that were checked. A family adds its own
 * struct beside `mamba` and one line to the table in config.c.
 */
#ifndef SEQMIX_MODEL_CONFIG_H
#define SEQMIX_MODEL_CONFIG_H

#include "json.h"

typedef enum seqmix_family_id { SEQMIX_FAMILY_MAMBA = 1 } seqmix_family_id;

#define SEQMIX_MAX_STOP 16

typedef struct seqmix_config {
    seqmix_family_id family;
    const char *family_name;
    int64_t vocab, hidden, layers; /* vocab counts padded rows of the embedding, too */
    float eps;
    bool tied;            /* the head is the embedding */
    bool original_layout; /* state-spaces' own config.json, before transformers had the model */
    int32_t n_stop;
    int32_t stop[SEQMIX_MAX_STOP]; /* tokens that end a text */
    struct {
        int64_t inner, state, conv, dt_rank;
        bool bias, conv_bias, residual_f32;
    } mamba;
} seqmix_config;

/* From bytes; `label` begins the messages. */
bool seqmix_config_parse(const void *bytes, size_t size, const char *label, seqmix_config *config, seqmix_why why);
/* DIR/config.json; the stop tokens of DIR/generation_config.json, if that exists and names some, replace the config's. */
bool seqmix_config_open(const char *dir, seqmix_config *config, seqmix_why why);

#endif
