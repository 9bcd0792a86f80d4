/* SPDX-License-Identifier: MIT */
/*
 * Sampling (see sample.h). Candidates are ordered by logit, ties by id, so that the outcome depends on nothing but the
 * logits and the seed. Only as many as needed are put in order: a heap gives them one by one.
 */
#include "sample.h"

#include <math.h>
#include <stdlib.h>

typedef struct seqmix_choice {
    float logit;
    int32_t id;
    double weight;
} choice;

int32_t seqmix_greedy_token(const float *logits, int64_t n)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = i;
    return (int32_t)best;
}

/* Uniform in [0, 1): splitmix64. */
static double uniform(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    x ^= x >> 31;
    return (double)(x >> 11) * 0x1p-53;
}

static bool before(choice a, choice b)
{
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

static void sift(choice *heap, int64_t n, int64_t at)
{
    choice moving = heap[at];
    for (;;) {
        int64_t child = 2 * at + 1;
        if (child >= n) break;
        if (child + 1 < n && before(heap[child + 1], heap[child])) child++;
        if (!before(heap[child], moving)) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moving;
}

/* Takes the best of heap[0 .. *left) to the place behind what is left of the heap. */
static double pop(choice *heap, int64_t *left)
{
    choice best = heap[0];
    heap[0] = heap[--*left];
    sift(heap, *left, 0);
    heap[*left] = best;
    return best.weight;
}

/*
 * Puts the candidates that stay in order at the end of the array, the best last, and returns how many there are. `total` is
 * the sum of all weights on entry, of those that stay on return.
 */
static int64_t select_best(choice *heap, int64_t n, int64_t at_most, double top_p, double *total)
{
    for (int64_t i = n / 2 - 1; i >= 0; i--)
        sift(heap, n, i);
    int64_t left = n, kept = 0;
    double sum = 0.0;
    /* top-p counts in what top-k leaves. */
    if (at_most < n) *total = 0.0;
    while (at_most < n && n - left < at_most)
        *total += pop(heap, &left);
    double enough = top_p * *total;
    for (; kept < at_most && (kept == 0 || sum < enough); kept++) {
        if (left == n - kept) (void)pop(heap, &left);
        sum += heap[n - 1 - kept].weight;
    }
    *total = sum;
    return kept;
}

int32_t seqmix_sample(seqmix_sampler *s, const float *logits, int64_t n)
{
    int32_t best = seqmix_greedy_token(logits, n);
    if (!(s->temperature > 0.0F)) return best;
    if (s->room < n) {
        choice *grown = realloc(s->choices, (size_t)n * sizeof *grown);
        if (grown == NULL) return -1;
        s->choices = grown;
        s->room = n;
    }
    double total = 0.0, scale = 1.0 / (double)s->temperature, largest = (double)logits[best];
    for (int64_t i = 0; i < n; i++) {
        double weight = exp(((double)logits[i] - largest) * scale);
        s->choices[i] = (choice){logits[i], (int32_t)i, weight};
        total += weight;
    }
    int64_t at_most = s->top_k > 0 && s->top_k < n ? s->top_k : n, kept = n;
    bool cut = at_most < n || s->top_p < 1.0F;
    if (cut) kept = select_best(s->choices, n, at_most, (double)s->top_p, &total);

    double point = uniform(&s->state) * total;
    const choice *first = cut ? s->choices + n - 1 : s->choices;
    int64_t step = cut ? -1 : 1, at = 0;
    for (; at + 1 < kept; at++) {
        point -= first[at * step].weight;
        if (point < 0.0) break;
    }
    return first[at * step].id;
}

void seqmix_sampler_free(seqmix_sampler *s)
{
    free(s->choices);
    s->choices = NULL;
    s->room = 0;
}
