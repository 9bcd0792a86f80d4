/* SPDX-License-Identifier: MIT */
/*
 * tokenizer.json, and texts through it. Up to the first NUL byte the input is the file, behind it the text; without one the
 * file's own first bytes are the text.
 */
#include <string.h>

#include "fuzz.h"
#include "tokenizer.h"

/* Keeps patterns with much backtracking, which the match limit bounds per match, from taking seconds per text. */
#define MAX_TEXT 48

static void run_text(seqmix_tokenizer *t, const uint8_t *text, size_t n)
{
    char why[128] = "";
    seqmix_ids ids = {0};
    seqmix_bytes out = {0};
    seqmix_utf8_stream stream = {0};
    bool ok = seqmix_tokenizer_encode(t, text, n, true, &ids, (seqmix_why){why, sizeof why});
    seqmix_must(ok || why[0] != '\0');
    for (size_t i = 0; i < ids.n; i++) {
        size_t length;
        seqmix_must(ids.data[i] >= 0 && ids.data[i] < seqmix_tokenizer_size(t));
        seqmix_must(!ok || seqmix_tokenizer_token(t, ids.data[i], &length) != NULL);
    }
    seqmix_must(seqmix_tokenizer_decode(t, &stream, ids.data, ids.n, false, true, &out));
    seqmix_must(seqmix_utf8_check(out.data, out.n) == out.n);
    free(ids.data);
    free(out.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char why[256] = "";
    const uint8_t *end = size > 0 ? memchr(data, 0, size) : NULL;
    size_t n = end != NULL ? (size_t)(end - data) : size;
    const uint8_t *text = end != NULL ? end + 1 : data;
    size_t text_n = end != NULL ? size - n - 1 : size;
    if (text_n > MAX_TEXT) text_n = MAX_TEXT;
    seqmix_tokenizer *t = seqmix_tokenizer_parse(data, n, "fuzz", (seqmix_why){why, sizeof why});
    seqmix_must(t != NULL || why[0] != '\0');
    if (t == NULL) return 0;
    run_text(t, text, text_n);
    run_text(t, (const uint8_t *)"It's 12 o'clock,\n  isn't it? a<s>b", 34);
    seqmix_tokenizer_free(t);
    return 0;
}
