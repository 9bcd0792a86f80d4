/* SPDX-License-Identifier: MIT */
/*
 * Byte-level BPE tokenizers from tokenizer.json: added tokens, Unicode normalisation, pre-tokenizers ByteLevel, Split and
 * Digits, merges, templates that put tokens around a text; and back from ids to text.
 */
#ifndef SEQMIX_MODEL_TOKENIZER_H
#define SEQMIX_MODEL_TOKENIZER_H

#include "buffer.h"
#include "json.h"
#include "utf8.h"

typedef struct seqmix_tokenizer seqmix_tokenizer;

/* NULL and a sentence on failure. `label` begins the messages of the in-memory form. */
seqmix_tokenizer *seqmix_tokenizer_parse(const void *bytes, size_t size, const char *label, seqmix_why why);
seqmix_tokenizer *seqmix_tokenizer_open(const char *dir, seqmix_why why);
void seqmix_tokenizer_free(seqmix_tokenizer *t);

/* The highest id plus one. */
int32_t seqmix_tokenizer_size(const seqmix_tokenizer *t);
/* The bytes an id stands for; NULL for an id that stands for nothing. */
const unsigned char *seqmix_tokenizer_token(const seqmix_tokenizer *t, int32_t id, size_t *n);
bool seqmix_tokenizer_is_special(const seqmix_tokenizer *t, int32_t id);

/* Appends the ids of a well-formed UTF-8 text, between the template's tokens if `with_template`. One thread at a time. */
bool seqmix_tokenizer_encode(seqmix_tokenizer *t, const void *text, size_t n, bool with_template, seqmix_ids *out,
                             seqmix_why why);

/*
 * Appends the text of some more ids to `out`, keeping back the beginning of an unfinished character; the last call passes
 * `flush`. Ids without a token add nothing.
 */
bool seqmix_tokenizer_decode(const seqmix_tokenizer *t, seqmix_utf8_stream *stream, const int32_t *ids, size_t n,
                             bool skip_special, bool flush, seqmix_bytes *out);

#endif
