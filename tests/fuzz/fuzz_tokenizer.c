/* SPDX-License-Identifier: MIT */
/*
 * Tokenizers from both kinds of file, and texts through them. An input that begins with GGUF's magic is such a file. Else,
 * up to the first NUL byte it is a tokenizer.json, behind it the text; without one its own first bytes are the text.
 */
#include <string.h>

#include "chat.h"
#include "export.h"
#include "fuzz.h"
#include "gguf.h"
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

/* A talk in every format, and its tokens as an answer. */
static void run_chat(seqmix_tokenizer *t)
{
    static const seqmix_chat_message talk[] = {
        {SEQMIX_CHAT_USER, " a<s>", 5}, {SEQMIX_CHAT_ASSISTANT, "<think>b</think>\n c", 20}, {SEQMIX_CHAT_USER, "", 0}};
    char why[128] = "";
    for (int format = SEQMIX_CHAT_QWEN3_5; format <= SEQMIX_CHAT_NEMOTRON_3; format++) {
        seqmix_ids ids = {0};
        seqmix_bytes out = {0};
        seqmix_chat_view view;
        bool ok = seqmix_chat_prompt(t, (seqmix_chat_format)format, talk, 3, format % 2 == 0, &ids,
                                     (seqmix_why){why, sizeof why});
        seqmix_must(ok || (why[0] != '\0' && ids.n == 0));
        seqmix_must(seqmix_chat_view_begin(&view, false, format < 2, &out));
        for (size_t i = 0; i < ids.n; i++)
            seqmix_must(seqmix_chat_view_push(&view, t, ids.data[i], &out));
        seqmix_must(seqmix_chat_view_end(&view, &out) && seqmix_utf8_check(out.data, out.n) == out.n);
        free(ids.data);
        free(out.data);
    }
}

static void run_texts(seqmix_tokenizer *t, const uint8_t *text, size_t n)
{
    run_text(t, text, n < MAX_TEXT ? n : MAX_TEXT);
    run_text(t, (const uint8_t *)"It's 12 o'clock,\n  isn't it? a<s>b", 34);
    run_chat(t);
    seqmix_tokenizer_free(t);
}

static void run_gguf(const uint8_t *data, size_t size)
{
    char why[256] = "";
    seqmix_gguf g;
    void *file = malloc(size); /* aligned */
    if (file == NULL) return;
    memcpy(file, data, size);
    if (seqmix_gguf_parse(file, size, "fuzz", &g, (seqmix_why){why, sizeof why})) {
        why[0] = '\0';
        seqmix_tokenizer *t = seqmix_tokenizer_from_gguf(&g, "fuzz", (seqmix_why){why, sizeof why});
        seqmix_must(t != NULL || why[0] != '\0');
        seqmix_gguf_close(&g);
        free(file);
        if (t != NULL) run_texts(t, data, size);
        return;
    }
    free(file);
}

static void same_ids(seqmix_tokenizer *a, seqmix_tokenizer *b, const uint8_t *text, size_t n)
{
    seqmix_ids x = {0}, y = {0};
    bool ok = seqmix_tokenizer_encode(a, text, n, true, &x, (seqmix_why){NULL, 0});
    seqmix_must(seqmix_tokenizer_encode(b, text, n, true, &y, (seqmix_why){NULL, 0}) == ok);
    seqmix_must(!ok || (x.n == y.n && (x.n == 0 || memcmp(x.data, y.data, x.n * sizeof *x.data) == 0)));
    free(x.data);
    free(y.data);
}

/* As metadata of GGUF it stays the tokenizer that it was. */
static void run_export(seqmix_tokenizer *t, const uint8_t *json, size_t size, const uint8_t *text, size_t n)
{
    static seqmix_config config = {.bos = -1};
    char why[256] = "", note[256] = "";
    seqmix_draft d = {.alignment = 32};
    seqmix_bytes head = {0};
    seqmix_gguf g;
    config.vocab = seqmix_tokenizer_size(t) + 3;
    if (config.vocab > 4096) return; /* a list of unused tokens, otherwise */
    seqmix_must(seqmix_export_tokenizer_json(json, size, &config, &d, (seqmix_why){note, sizeof note},
                                             (seqmix_why){why, sizeof why}));
    seqmix_must(seqmix_draft_head(&d, &head));
    seqmix_must(seqmix_gguf_parse(head.data, head.n, "export", &g, (seqmix_why){why, sizeof why}));
    seqmix_tokenizer *back = seqmix_tokenizer_from_gguf(&g, "export", (seqmix_why){why, sizeof why});
    seqmix_must(back != NULL);
    same_ids(t, back, text, n < MAX_TEXT ? n : MAX_TEXT);
    same_ids(t, back, (const uint8_t *)"It's 12 o'clock,\n  isn't it? a<s>b", 34);
    seqmix_tokenizer_free(back);
    seqmix_gguf_close(&g);
    seqmix_draft_free(&d);
    free(head.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char why[256] = "";
    if (size >= 4 && memcmp(data, "GGUF", 4) == 0) {
        run_gguf(data, size);
        return 0;
    }
    const uint8_t *end = size > 0 ? memchr(data, 0, size) : NULL;
    size_t n = end != NULL ? (size_t)(end - data) : size;
    seqmix_tokenizer *t = seqmix_tokenizer_parse(data, n, "fuzz", (seqmix_why){why, sizeof why});
    seqmix_must(t != NULL || why[0] != '\0');
    if (t != NULL) run_export(t, data, n, end != NULL ? end + 1 : data, end != NULL ? size - n - 1 : size);
    if (t != NULL) run_texts(t, end != NULL ? end + 1 : data, end != NULL ? size - n - 1 : size);
    return 0;
}
