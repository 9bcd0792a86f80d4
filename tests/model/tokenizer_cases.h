/* SPDX-License-Identifier: MIT */
/* Every case of a golden tokenizer, for tokenizers read from either kind of file. */
#ifndef SEQMIX_TESTS_MODEL_TOKENIZER_CASES_H
#define SEQMIX_TESTS_MODEL_TOKENIZER_CASES_H

#include "tokenizer.h"

#define N_GOLDEN_TOKENIZERS 6

typedef struct golden_tokenizer {
    const char *dir, *cases, *pre; /* pre: the name of its pattern in GGUF */
} golden_tokenizer;

extern const golden_tokenizer golden_tokenizers[N_GOLDEN_TOKENIZERS];

/* Texts to the ids and back that the `tokenizers` package gives for golden_tokenizers[i]. */
void check_golden_cases(seqmix_tokenizer *t, int i);
/* "1 2 3 ", cut at size. */
void print_ids(const seqmix_ids *ids, char *out, size_t size);

#endif
