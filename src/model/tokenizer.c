/* SPDX-License-Identifier: MIT */
/*
 * Using a tokenizer: text -> ids and back (see tokenizer.h). A text is first cut at the added tokens that want the raw text;
 * what lies between is normalised and cut at those that want normalised text; the rest goes through the pre-tokenizer, word
 * by word, to the merges.
 */
#include "tokenizer.h"

#include <utf8proc.h>

#include "tokenizer_impl.h"

#define MAX_TEXT ((size_t)1 << 30)

void seqmix_tokenizer_free(seqmix_tokenizer *t)
{
    if (t == NULL) return;
    seqmix_bpe_free(t->bpe);
    seqmix_pretokenizer_free(t->pretokenizer);
    for (size_t i = 0; i < t->n_added; i++)
        free(t->added[i].text);
    free(t->added);
    free(t->tokens);
    free(t->text.data);
    free(t->before.data);
    free(t->after.data);
    free(t);
}

int32_t seqmix_tokenizer_size(const seqmix_tokenizer *t)
{
    return t->n_tokens;
}

const unsigned char *seqmix_tokenizer_token(const seqmix_tokenizer *t, int32_t id, size_t *n)
{
    *n = 0;
    if (id < 0 || id >= t->n_tokens || !t->tokens[id].present) return NULL;
    *n = t->tokens[id].n;
    return t->text.data + t->tokens[id].offset;
}

bool seqmix_tokenizer_is_special(const seqmix_tokenizer *t, int32_t id)
{
    return id >= 0 && id < t->n_tokens && t->tokens[id].special;
}

bool seqmix_tokenizer_normalize(const seqmix_tokenizer *t, const unsigned char *text, size_t n, unsigned char **out,
                                size_t *out_n, seqmix_why why)
{
    unsigned char *now = malloc(n + 1);
    if (now == NULL) return seqmix_fail(why, "no memory for %zu bytes of text", n);
    if (n > 0) memcpy(now, text, n);
    now[n] = '\0';
    for (int i = 0; i < t->n_normalizers; i++) {
        utf8proc_uint8_t *next = NULL;
        utf8proc_ssize_t length = utf8proc_map(now, (utf8proc_ssize_t)n, &next, (utf8proc_option_t)t->normalizers[i]);
        free(now);
        if (length < 0) return seqmix_fail(why, "normalisation failed: %s", utf8proc_errmsg(length));
        now = next;
        n = (size_t)length;
    }
    *out = now;
    *out_n = n;
    return true;
}

/* ---- added tokens ---- */

typedef struct encoding {
    seqmix_tokenizer *t;
    seqmix_ids *out;
    bool plain; /* special tokens are not looked for */
    seqmix_why why;
} encoding;

/* The longest added token of the wanted kind at `at`, or NULL. */
static const seqmix_added *added_at(const encoding *e, const unsigned char *text, size_t n, size_t at, bool normalized)
{
    const seqmix_tokenizer *t = e->t;
    size_t last = t->first_added[text[at] + 1];
    for (size_t i = t->first_added[text[at]]; i < last; i++) {
        const seqmix_added *a = &t->added[i];
        if (a->normalized != normalized || a->n > n - at || memcmp(a->text, text + at, a->n) != 0) continue;
        if (!e->plain || !t->tokens[a->id].special) return a;
    }
    return NULL;
}

int32_t seqmix_tokenizer_find(const seqmix_tokenizer *t, const char *text)
{
    size_t n = strlen(text);
    for (size_t i = 0; i < t->n_added; i++) {
        const seqmix_token *token = &t->tokens[t->added[i].id];
        if (token->n == n && memcmp(t->text.data + token->offset, text, n) == 0) return t->added[i].id;
    }
    return -1;
}

static bool word_before(const unsigned char *text, size_t at)
{
    uint32_t code = 0;
    if (at == 0) return false;
    size_t start = seqmix_utf8_before(text, at);
    (void)seqmix_utf8_next(text + start, at - start, &code);
    return seqmix_utf8_is_word(code);
}

static bool word_after(const unsigned char *text, size_t n, size_t at)
{
    uint32_t code = 0;
    return at < n && seqmix_utf8_next(text + at, n - at, &code) > 0 && seqmix_utf8_is_word(code);
}

/* The match widened over the blanks it swallows; false when it stands inside a longer word and must not. */
static bool widen(const seqmix_added *a, const unsigned char *text, size_t n, size_t floor, seqmix_range *match)
{
    uint32_t code = 0;
    if (a->single_word && (word_before(text, match->begin) || word_after(text, n, match->end))) return false;
    while (a->lstrip && match->begin > floor) {
        size_t start = seqmix_utf8_before(text, match->begin);
        (void)seqmix_utf8_next(text + start, match->begin - start, &code);
        if (!seqmix_utf8_is_space(code)) break;
        match->begin = start;
    }
    while (a->rstrip && match->end < n) {
        int length = seqmix_utf8_next(text + match->end, n - match->end, &code);
        if (length <= 0 || !seqmix_utf8_is_space(code)) break;
        match->end += (size_t)length;
    }
    return true;
}

typedef bool (*plain_fn)(const encoding *e, const unsigned char *text, size_t n);

/* Emits the added tokens of one kind and passes the text between them on. */
static bool cut_added(const encoding *e, const unsigned char *text, size_t n, bool normalized, plain_fn plain)
{
    size_t done = 0, at = 0;
    while (at < n) {
        const seqmix_added *a = added_at(e, text, n, at, normalized);
        seqmix_range match = {at, a != NULL ? at + a->n : at + 1};
        if (a != NULL && widen(a, text, n, done, &match)) {
            if (match.begin > done && !plain(e, text + done, match.begin - done)) return false;
            if (!seqmix_ids_add(e->out, a->id)) return seqmix_fail(e->why, "no memory for the tokens");
            done = match.end;
        }
        at = match.end;
    }
    return done == n || plain(e, text + done, n - done);
}

static bool encode_words(const encoding *e, const unsigned char *text, size_t n)
{
    const unsigned char *words_text;
    const seqmix_ranges *words;
    if (!seqmix_pretokenizer_run(e->t->pretokenizer, text, n, &words_text, &words, e->why)) return false;
    for (size_t i = 0; i < words->n; i++) {
        seqmix_range word = words->data[i];
        if (!seqmix_bpe_encode(e->t->bpe, words_text + word.begin, word.end - word.begin, e->out))
            return seqmix_fail(e->why, "no memory for the tokens");
    }
    return true;
}

static bool encode_raw(const encoding *e, const unsigned char *text, size_t n)
{
    unsigned char *normal;
    size_t normal_n;
    if (e->t->n_normalizers == 0) return cut_added(e, text, n, true, encode_words);
    if (!seqmix_tokenizer_normalize(e->t, text, n, &normal, &normal_n, e->why)) return false;
    bool ok = normal_n < MAX_TEXT || seqmix_fail(e->why, "text of %zu bytes (limit %zu)", normal_n, MAX_TEXT);
    ok = ok && cut_added(e, normal, normal_n, true, encode_words);
    free(normal);
    return ok;
}

static bool add_all(seqmix_ids *out, const seqmix_ids *ids)
{
    for (size_t i = 0; i < ids->n; i++)
        if (!seqmix_ids_add(out, ids->data[i])) return false;
    return true;
}

static bool encode(const encoding *e, const void *text, size_t n)
{
    if (n >= MAX_TEXT) return seqmix_fail(e->why, "text of %zu bytes (limit %zu)", n, MAX_TEXT);
    size_t bad = seqmix_utf8_check(text, n);
    if (bad < n) return seqmix_fail(e->why, "the text is not UTF-8 at byte %zu of %zu", bad, n);
    return cut_added(e, text, n, false, encode_raw);
}

bool seqmix_tokenizer_encode(seqmix_tokenizer *t, const void *text, size_t n, bool with_template, seqmix_ids *out,
                             seqmix_why why)
{
    encoding e = {t, out, false, why};
    if (with_template && !add_all(out, &t->before)) return seqmix_fail(why, "no memory for the tokens");
    if (!encode(&e, text, n)) return false;
    if (with_template && !add_all(out, &t->after)) return seqmix_fail(why, "no memory for the tokens");
    return true;
}

bool seqmix_tokenizer_begin(const seqmix_tokenizer *t, seqmix_ids *out)
{
    return add_all(out, &t->before);
}

bool seqmix_tokenizer_encode_plain(seqmix_tokenizer *t, const void *text, size_t n, seqmix_ids *out, seqmix_why why)
{
    encoding e = {t, out, true, why};
    return encode(&e, text, n);
}

bool seqmix_tokenizer_decode(const seqmix_tokenizer *t, seqmix_utf8_stream *stream, const int32_t *ids, size_t n,
                             bool skip_special, bool flush, seqmix_bytes *out)
{
    for (size_t i = 0; i < n; i++) {
        size_t length;
        const unsigned char *text = seqmix_tokenizer_token(t, ids[i], &length);
        if (text == NULL || (skip_special && seqmix_tokenizer_is_special(t, ids[i]))) continue;
        if (!seqmix_utf8_push(stream, text, length, false, out)) return false;
    }
    return !flush || seqmix_utf8_push(stream, NULL, 0, true, out);
}
