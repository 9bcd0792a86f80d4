/* SPDX-License-Identifier: MIT */
/* UTF-8 (see utf8.h). Well-formed means Unicode table 3-7: no surrogates, no overlong forms, nothing above U+10FFFF. */
#include "utf8.h"

#include <utf8proc.h>

int seqmix_utf8_next(const unsigned char *s, size_t n, uint32_t *code)
{
    if (n == 0) return 0;
    unsigned char first = s[0];
    *code = first;
    if (first < 0x80) return 1;
    if (first < 0xC2 || first > 0xF4) return -1;
    int length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    /* Only the second byte's range depends on the first. */
    unsigned char low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    unsigned char high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    uint32_t value = first & (0x7Fu >> length);
    for (int i = 1; i < length; i++) {
        if ((size_t)i == n) return 0;
        if (s[i] < low || s[i] > high) return -i;
        value = value << 6 | (s[i] & 0x3Fu);
        low = 0x80;
        high = 0xBF;
    }
    *code = value;
    return length;
}

int seqmix_utf8_put(uint32_t code, unsigned char out[4])
{
    if (code < 0x80) {
        out[0] = (unsigned char)code;
        return 1;
    }
    int length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (int i = length - 1; i > 0; i--, code >>= 6)
        out[i] = (unsigned char)(0x80u | (code & 0x3Fu));
    out[0] = (unsigned char)((0xF00u >> length & 0xF0u) | code);
    return length;
}

size_t seqmix_utf8_check(const unsigned char *s, size_t n)
{
    size_t at = 0;
    uint32_t code;
    while (at < n) {
        int length = seqmix_utf8_next(s + at, n - at, &code);
        if (length <= 0) return at;
        at += (size_t)length;
    }
    return n;
}

size_t seqmix_utf8_before(const unsigned char *s, size_t end)
{
    size_t at = end - 1;
    while (at > 0 && (s[at] & 0xC0) == 0x80)
        at--;
    return at;
}

bool seqmix_utf8_is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
           c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool seqmix_utf8_is_word(uint32_t c)
{
    if (c == 0x200C || c == 0x200D) return true;
    switch (utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
        return true;
    default:
        return false;
    }
}

bool seqmix_utf8_push(seqmix_utf8_stream *s, const unsigned char *bytes, size_t n, bool flush, seqmix_bytes *out)
{
    static const unsigned char replacement[3] = {0xEF, 0xBF, 0xBD};
    size_t taken = 0;
    for (;;) {
        while (s->n < sizeof s->held && taken < n)
            s->held[s->n++] = bytes[taken++];
        if (s->n == 0) return true;
        uint32_t code;
        int length = seqmix_utf8_next(s->held, s->n, &code);
        if (length == 0 && !flush) return true;
        size_t used = length > 0 ? (size_t)length : length < 0 ? (size_t)-length : s->n;
        if (!seqmix_bytes_add(out, length > 0 ? s->held : replacement, length > 0 ? used : sizeof replacement))
            return false;
        s->n -= used;
        memmove(s->held, s->held + used, s->n);
    }
}
