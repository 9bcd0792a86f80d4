/* SPDX-License-Identifier: MIT */
/*
 * Byte-level BPE tokenizers from tokenizer.json or GGUF metadata: added tokens, Unicode normalisation, pre-tokenizers ByteLevel, Split and
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
/* From the metadata of a GGUF file, which may be closed afterwards. */
typedef struct seqmix_gguf seqmix_gguf;
seqmix_tokenizer *seqmix_tokenizer_from_gguf(const seqmix_gguf *g, const char *label, seqmix_why why);
void seqmix_tokenizer_free(seqmix_tokenizer *t);

/* The highest id plus one. */
int32_t seqmix_tokenizer_size(const seqmix_tokenizer *t);
/* The bytes an id stands for; NULL for an id that stands for nothing. */
const unsigned char *seqmix_tokenizer_token(const seqmix_tokenizer *t, int32_t id, size_t *n);
bool seqmix_tokenizer_is_special(const seqmix_tokenizer *t, int32_t id);
/* The id of the added token with this text, or -1. */
int32_t seqmix_tokenizer_find(const seqmix_tokenizer *t, const char *text);

/* Appends the ids of a well-formed UTF-8 text, between the template's tokens if `with_template`. One thread at a time. */
bool seqmix_tokenizer_encode(seqmix_tokenizer *t, const void *text, size_t n, bool with_template, seqmix_ids *out,
                             seqmix_why why);
/* Appends what the template puts before a text. */
bool seqmix_tokenizer_begin(const seqmix_tokenizer *t, seqmix_ids *out);
/* The same as _encode without a template, and with the words of special tokens taken as plain text. */
bool seqmix_tokenizer_encode_plain(seqmix_tokenizer *t, const void *text, size_t n, seqmix_ids *out, seqmix_why why);

/*
 * Appends the text of some more ids to `out`, keeping back the beginning of an unfinished character; the last call passes
 * `flush`. Ids without a token add nothing.
 */
bool seqmix_tokenizer_decode(const seqmix_tokenizer *t, seqmix_utf8_stream *stream, const int32_t *ids, size_t n,
                             bool skip_special, bool flush, seqmix_bytes *out);

#endif
