/* SPDX-License-Identifier: MIT */
/*
 * Chat formats (see chat.h), as the published templates render them: Qwen3.5's, ChatML for Qwen3-Next, Nemotron Nano v2's
 * (the one its model files carry: one line end after the system text), Nemotron 3 Nano's. A prompt is a row of special
 * tokens and stretches of text; a stretch is encoded as a whole, since its words may reach across the format's own text and
 * the message.
 */
#include "chat.h"

static const char open_tag[] = "<think>", close_tag[] = "</think>";
#define TAG_MAX 8 /* strlen(close_tag) */

typedef struct prompt {
    seqmix_tokenizer *t;
    seqmix_ids *out;
    seqmix_bytes text; /* the stretch */
    seqmix_why why;
} prompt;

const char *seqmix_chat_name(seqmix_chat_format format)
{
    static const char *const names[] = {"qwen3.5", "qwen3-next", "nemotron-nano-v2", "nemotron-3"};
    return names[format];
}

bool seqmix_chat_find(const seqmix_tokenizer *t, const char *family, seqmix_chat_format *format, seqmix_why why)
{
    bool nemotron = strncmp(family, "nemotron", 8) == 0;
    if (seqmix_tokenizer_find(t, "<|im_start|>") >= 0 && seqmix_tokenizer_find(t, "<|im_end|>") >= 0) {
        *format = nemotron ? SEQMIX_CHAT_NEMOTRON_3
                  : strncmp(family, "qwen3_next", 10) == 0 || strncmp(family, "qwen3next", 9) == 0
                      ? SEQMIX_CHAT_QWEN3_NEXT
                      : SEQMIX_CHAT_QWEN3_5;
        return true;
    }
    if (nemotron && seqmix_tokenizer_find(t, "<SPECIAL_11>") >= 0 && seqmix_tokenizer_find(t, "<SPECIAL_12>") >= 0) {
        *format = SEQMIX_CHAT_NEMOTRON_NANO_V2;
        return true;
    }
    return seqmix_fail(why,
                       "no chat format is known for family '%.32s' with this tokenizer (it has neither <|im_start|> "
                       "nor <SPECIAL_11>)",
                       family);
}

/* ---- building ---- */

static bool flush(prompt *p)
{
    bool ok = p->text.n == 0 || seqmix_tokenizer_encode_plain(p->t, p->text.data, p->text.n, p->out, p->why);
    p->text.n = 0;
    return ok;
}

static bool say(prompt *p, const char *text, size_t n)
{
    return seqmix_bytes_add(&p->text, text, n) || seqmix_fail(p->why, "no memory for the prompt");
}

/* One of the format's tokens; where the vocabulary has no such token, its letters. */
static bool mark(prompt *p, const char *token)
{
    int32_t id = seqmix_tokenizer_find(p->t, token);
    if (id < 0) return say(p, token, strlen(token));
    return flush(p) && (seqmix_ids_add(p->out, id) || seqmix_fail(p->why, "no memory for the prompt"));
}

typedef struct span {
    const char *text;
    size_t n;
} span;

static span trim_left(span s, bool lines_only)
{
    const unsigned char *at = (const unsigned char *)s.text;
    uint32_t code = 0;
    for (int k; s.n > 0 && (k = seqmix_utf8_next(at, s.n, &code)) > 0; at += k, s.n -= (size_t)k)
        if (lines_only ? code != '\n' : !seqmix_utf8_is_space(code)) break;
    return (span){(const char *)at, s.n};
}

static span trim(span s)
{
    s = trim_left(s, false);
    while (s.n > 0) {
        uint32_t code = 0;
        size_t start = seqmix_utf8_before((const unsigned char *)s.text, s.n);
        (void)seqmix_utf8_next((const unsigned char *)s.text + start, s.n - start, &code);
        if (!seqmix_utf8_is_space(code)) break;
        s.n = start;
    }
    return s;
}

/* What an assistant said after its (last) thinking; *thought tells whether there was any. */
static span after_thinking(span s, bool *thought)
{
    size_t from = 0;
    for (size_t i = 0; i + TAG_MAX <= s.n; i++)
        if (memcmp(s.text + i, close_tag, TAG_MAX) == 0) from = i + TAG_MAX;
    *thought = from > 0;
    return (span){s.text + from, s.n - from};
}

static bool chatml(prompt *p, const char *role, span text)
{
    return mark(p, "<|im_start|>") && say(p, role, strlen(role)) && say(p, "\n", 1) && say(p, text.text, text.n) &&
           mark(p, "<|im_end|>") && say(p, "\n", 1);
}

static bool message(prompt *p, seqmix_chat_format format, const seqmix_chat_message *m)
{
    static const char *const roles[] = {"system", "user", "assistant"};
    bool thought = false, answer = m->role == SEQMIX_CHAT_ASSISTANT;
    span s = {m->text != NULL ? m->text : "", m->n};
    if (answer && format != SEQMIX_CHAT_NEMOTRON_3) s = trim_left(after_thinking(trim(s), &thought), true);
    switch (format) {
    case SEQMIX_CHAT_QWEN3_5:
        return chatml(p, roles[m->role], answer ? s : trim(s));
    case SEQMIX_CHAT_QWEN3_NEXT:
        return chatml(p, roles[m->role], s);
    case SEQMIX_CHAT_NEMOTRON_NANO_V2:
        s = trim(s);
        return mark(p, m->role == SEQMIX_CHAT_SYSTEM ? "<SPECIAL_10>" : "<SPECIAL_11>") &&
               (m->role == SEQMIX_CHAT_SYSTEM ? say(p, "System\n", 7)
                : answer                      ? say(p, "Assistant\n", 10)
                                              : say(p, "User\n", 5)) &&
               say(p, s.text, s.n) && say(p, "\n", 1) && (!answer || (mark(p, "<SPECIAL_12>") && say(p, "\n", 1)));
    case SEQMIX_CHAT_NEMOTRON_3:
        break;
    }
    if (!answer) return chatml(p, roles[m->role], s);
    /* The thinking is left out, its empty tags stay; blanks go at the end only, the tags being at the beginning. */
    span rest = after_thinking(s, &thought), kept = trim(rest);
    kept.n = kept.n > 0 ? (size_t)(kept.text - rest.text) + kept.n : 0;
    return mark(p, "<|im_start|>") && say(p, "assistant\n", 10) && mark(p, open_tag) && mark(p, close_tag) &&
           say(p, rest.text, kept.n) && mark(p, "<|im_end|>") && say(p, "\n", 1);
}

static bool open_answer(prompt *p, seqmix_chat_format format, bool think)
{
    if (format == SEQMIX_CHAT_NEMOTRON_NANO_V2) {
        if (!mark(p, "<SPECIAL_11>") || !say(p, "Assistant\n", 10)) return false;
    } else if (!mark(p, "<|im_start|>") || !say(p, "assistant\n", 10)) {
        return false;
    }
    if (think) return mark(p, open_tag) && say(p, "\n", 1);
    if (format == SEQMIX_CHAT_QWEN3_NEXT) return true;
    if (format == SEQMIX_CHAT_QWEN3_5)
        return mark(p, open_tag) && say(p, "\n\n", 2) && mark(p, close_tag) && say(p, "\n\n", 2);
    return mark(p, open_tag) && mark(p, close_tag);
}

static bool check_turns(const seqmix_chat_message *messages, size_t n, seqmix_why why)
{
    size_t first = n > 0 && messages[0].role == SEQMIX_CHAT_SYSTEM;
    for (size_t i = first; i < n; i++) {
        seqmix_chat_role due = (i - first) % 2 == 0 ? SEQMIX_CHAT_USER : SEQMIX_CHAT_ASSISTANT;
        if (messages[i].role != due)
            return seqmix_fail(why, "message %zu of the talk is not %s", i,
                               due == SEQMIX_CHAT_USER ? "the user's" : "the assistant's");
    }
    if (n == first || (n - first) % 2 == 0)
        return seqmix_fail(why, "the talk of %zu messages does not end with the user's", n);
    return true;
}

bool seqmix_chat_prompt(seqmix_tokenizer *t, seqmix_chat_format format, const seqmix_chat_message *messages,
                        size_t n_messages, bool think, seqmix_ids *out, seqmix_why why)
{
    prompt p = {.t = t, .out = out, .why = why};
    static const seqmix_chat_message nothing = {SEQMIX_CHAT_SYSTEM, "", 0};
    bool always_system = format == SEQMIX_CHAT_NEMOTRON_NANO_V2 || format == SEQMIX_CHAT_NEMOTRON_3;
    size_t kept = out->n;
    bool ok = check_turns(messages, n_messages, why) &&
              (seqmix_tokenizer_begin(t, out) || seqmix_fail(why, "no memory for the prompt"));
    if (ok && always_system && messages[0].role != SEQMIX_CHAT_SYSTEM) ok = message(&p, format, &nothing);
    for (size_t i = 0; ok && i < n_messages; i++)
        ok = message(&p, format, &messages[i]);
    ok = ok && open_answer(&p, format, think) && flush(&p);
    free(p.text.data);
    if (!ok) out->n = kept;
    return ok;
}

int32_t seqmix_chat_stops(const seqmix_tokenizer *t, seqmix_chat_format format, int32_t stops[SEQMIX_CHAT_MAX_STOPS])
{
    static const char *const chat_ml[] = {"<|im_end|>", "<|endoftext|>"}, *const special[] = {"<SPECIAL_12>", "</s>"};
    const char *const *names = format == SEQMIX_CHAT_NEMOTRON_NANO_V2 ? special : chat_ml;
    int32_t n = 0;
    for (int i = 0; i < 2; i++) {
        int32_t id = seqmix_tokenizer_find(t, names[i]);
        if (id >= 0) stops[n++] = id;
    }
    return n;
}

/* ---- the answer ---- */

bool seqmix_chat_view_begin(seqmix_chat_view *v, bool think, bool hide, seqmix_bytes *out)
{
    *v = (seqmix_chat_view){.hide = hide, .thinking = think};
    return !think || hide || seqmix_bytes_add(out, "<think>\n", 8);
}

/* One byte of text behind the tags' matching: shown, dropped, or held while it may belong to a tag. */
static bool pass(seqmix_chat_view *v, unsigned char byte, seqmix_bytes *out)
{
    if (v->hide && v->thinking) return true;
    if (v->blank && byte == '\n') return true;
    v->blank = false;
    return seqmix_bytes_add(out, &byte, 1);
}

static bool feed(seqmix_chat_view *v, unsigned char byte, seqmix_bytes *out)
{
    const char *tag = v->thinking ? close_tag : open_tag;
    size_t length = strlen(tag);
    v->held[v->n_held++] = byte;
    /* Let go from the front what cannot begin the tag. Tags hold '<' only at their front. */
    while (v->n_held > 0 && memcmp(v->held, tag, v->n_held) != 0) {
        if (!pass(v, v->held[0], out)) return false;
        v->n_held--;
        memmove(v->held, v->held + 1, v->n_held);
    }
    if (v->n_held < length) return true;
    v->n_held = 0;
    for (size_t i = 0; i < length && !v->hide; i++)
        if (!pass(v, (unsigned char)tag[i], out)) return false;
    v->blank = v->hide && v->thinking;
    v->thinking = !v->thinking;
    return true;
}

static bool feed_all(seqmix_chat_view *v, const seqmix_bytes *text, seqmix_bytes *out)
{
    bool ok = true;
    for (size_t i = 0; ok && i < text->n; i++)
        ok = feed(v, text->data[i], out);
    return ok;
}

bool seqmix_chat_view_push(seqmix_chat_view *v, const seqmix_tokenizer *t, int32_t id, seqmix_bytes *out)
{
    size_t n;
    const unsigned char *token = seqmix_tokenizer_token(t, id, &n);
    if (token == NULL) return true;
    bool tag =
        (n == TAG_MAX && memcmp(token, close_tag, n) == 0) || (n == TAG_MAX - 1 && memcmp(token, open_tag, n) == 0);
    if (seqmix_tokenizer_is_special(t, id) && !tag) return true;
    seqmix_bytes text = {0};
    bool ok = seqmix_utf8_push(&v->stream, token, n, false, &text) && feed_all(v, &text, out);
    free(text.data);
    return ok;
}

bool seqmix_chat_view_end(seqmix_chat_view *v, seqmix_bytes *out)
{
    seqmix_bytes text = {0};
    bool ok = seqmix_utf8_push(&v->stream, NULL, 0, true, &text) && feed_all(v, &text, out);
    for (size_t i = 0; ok && i < v->n_held; i++)
        ok = pass(v, v->held[i], out);
    v->n_held = 0;
    free(text.data);
    return ok;
}
