/* SPDX-License-Identifier: MIT */
/* UTF-8: decoding, encoding, classes of characters, and a stream that never passes on half a character. */
#ifndef SEQMIX_MODEL_UTF8_H
#define SEQMIX_MODEL_UTF8_H

#include "buffer.h"

/*
 * The character at the start of `s`: its length 1..4. 0: the n bytes are the beginning of a character and more may follow.
 * Negative: -k, where the first k bytes are no character (the longest well-formed beginning, at least one byte).
 */
int seqmix_utf8_next(const unsigned char *s, size_t n, uint32_t *code);
/* Writes 1..4 bytes. */
int seqmix_utf8_put(uint32_t code, unsigned char out[4]);
/* The first byte that is not part of well-formed UTF-8, or n. */
size_t seqmix_utf8_check(const unsigned char *s, size_t n);
/* The start of the character that ends right before `end` in well-formed text; end > 0. */
size_t seqmix_utf8_before(const unsigned char *s, size_t end);

bool seqmix_utf8_is_space(uint32_t code); /* White_Space */
bool seqmix_utf8_is_word(uint32_t code);  /* letters, marks, digits, connectors */

typedef struct seqmix_utf8_stream {
    unsigned char held[4];
    size_t n;
} seqmix_utf8_stream;

/* Appends to `out` what is complete; ill-formed bytes become U+FFFD. `flush` also ends an unfinished character. */
bool seqmix_utf8_push(seqmix_utf8_stream *s, const unsigned char *bytes, size_t n, bool flush, seqmix_bytes *out);

#endif
