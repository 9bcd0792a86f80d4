/* SPDX-License-Identifier: MIT */
/* Choosing the next token: the largest logit, or at random from the softmax, cut by top-k and top-p; the same seed, the same text. */
#ifndef SEQMIX_MODEL_SAMPLE_H
#define SEQMIX_MODEL_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct seqmix_sampler {
    float temperature; /* 0 = greedy */
    int32_t top_k;     /* 0 = all */
    float top_p;       /* in (0, 1]; 1 = all */
    uint64_t state;    /* of the generator; begins as the seed */
    struct seqmix_choice *choices;
    int64_t room;
} seqmix_sampler;

/* The first of the largest. */
int32_t seqmix_greedy_token(const float *logits, int64_t n);
/* Finite logits, n >= 1. -1 without memory. */
int32_t seqmix_sample(seqmix_sampler *s, const float *logits, int64_t n);
void seqmix_sampler_free(seqmix_sampler *s);

#endif
