/* SPDX-License-Identifier: MIT */
/* What the readers of tokenizer.json and of GGUF metadata share: filling a tokenizer. */
#ifndef SEQMIX_MODEL_TOKENIZER_BUILD_H
#define SEQMIX_MODEL_TOKENIZER_BUILD_H

#include "tokenizer_impl.h"

#define SEQMIX_TOKENIZER_MAX_ID ((INT64_C(1) << 24) - 1)

/* Under which a GGUF file may hold a tokenizer.json as it is. */
#define SEQMIX_TOKENIZER_JSON_KEY "tokenizer.huggingface.json"
/* The name that GGUF has for a pattern that cuts words, or NULL; *exact: it also implies this about NFC and whole words. */
const char *seqmix_tokenizer_gguf_pre(const char *pattern, bool nfc, bool whole_words, bool *exact);

typedef struct seqmix_builder {
    seqmix_tokenizer *t;
    seqmix_bytes scratch;
    int16_t byte_of[324]; /* character of GPT-2's alphabet -> byte, or -1 */
    seqmix_why why;
} seqmix_builder;

/* An empty tokenizer with room for these. On failure too, seqmix_builder_end ends what was begun. */
bool seqmix_builder_begin(seqmix_builder *b, seqmix_why why);
bool seqmix_builder_room(seqmix_builder *b, int64_t n_ids, size_t n_vocab, size_t n_merges);
/* The tokenizer, or NULL (and it is freed) unless ok. */
seqmix_tokenizer *seqmix_builder_end(seqmix_builder *b, bool ok);

/* Always false, with the sentence. */
bool seqmix_builder_no_memory(const seqmix_builder *b);

/* The bytes of a key into scratch. *mapped is false, and scratch holds the key itself, when it is not of the alphabet. */
bool seqmix_builder_bytes(seqmix_builder *b, const char *key, size_t n, bool *mapped);
/* The text of an id. */
bool seqmix_builder_text(seqmix_builder *b, int64_t id, const void *text, size_t n);
/* A token of the vocabulary that merges can make: text and look-up. `key` is as the file writes it. */
bool seqmix_builder_token(seqmix_builder *b, int64_t id, const char *key, size_t n);
bool seqmix_builder_merge(seqmix_builder *b, int64_t rank, const char *left, size_t left_n, const char *right,
                          size_t right_n);

/* An added token: its text and how it is looked for; `added` must have room. Then sorting them, once. */
bool seqmix_builder_added(seqmix_builder *b, const seqmix_added *options, const char *text, size_t n, bool special);
void seqmix_builder_sort_added(seqmix_builder *b);

#endif
