/* SPDX-License-Identifier: MIT */
/*
 * Typed look-ups in a JSON object of a config: what is missing, of the wrong kind or out of range is named with its range.
 * Each returns false and a sentence on failure.
 */
#ifndef SEQMIX_MODEL_CONFIG_READER_H
#define SEQMIX_MODEL_CONFIG_READER_H

#include "config.h"

typedef struct seqmix_reader {
    const cJSON *object;
    const char *label;
    seqmix_why why;
} seqmix_reader;

/* NULL when there is none, or it is null. */
const cJSON *seqmix_read_node(const seqmix_reader *r, const char *key);
bool seqmix_read_whole(const seqmix_reader *r, const char *key, int64_t low, int64_t high, int64_t *out);
/* The same, but a missing key leaves *out alone. */
bool seqmix_read_optional(const seqmix_reader *r, const char *key, int64_t low, int64_t high, int64_t *out);
bool seqmix_read_flag(const seqmix_reader *r, const char *key, bool fallback, bool *out);
bool seqmix_read_epsilon(const seqmix_reader *r, const char *key, float *out);
/* A missing key leaves *out alone. */
bool seqmix_read_number(const seqmix_reader *r, const char *key, double low, double high, float *out);
/* A text key that, when present, must be this one. */
bool seqmix_read_fixed(const seqmix_reader *r, const char *key, const char *wanted);
/* eos_token_id: a number, a list of numbers, or nothing. Negative ids, as some files have, mean none. */
bool seqmix_read_stop_tokens(const seqmix_reader *r, int64_t vocab, seqmix_config *c);
/* time_step_limit = [low, high] with an infinite high as none. */
bool seqmix_read_limits(const seqmix_reader *r, const char *key, float *low, float *high);

/* Per model type: the object's keys to numbers. */
bool seqmix_config_mamba(const seqmix_reader *r, seqmix_config *c);
bool seqmix_config_mamba2(const seqmix_reader *r, seqmix_config *c);
bool seqmix_config_mamba_original(const seqmix_reader *r, seqmix_config *c);
bool seqmix_config_nemotron_h(const seqmix_reader *r, seqmix_config *c);
bool seqmix_config_qwen3_5(const seqmix_reader *r, seqmix_config *c);
bool seqmix_config_qwen3_5_moe(const seqmix_reader *r, seqmix_config *c);
bool seqmix_config_qwen3_next(const seqmix_reader *r, seqmix_config *c);

#endif
