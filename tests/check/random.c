/* SPDX-License-Identifier: MIT */
/* Seeded random numbers (SplitMix64): the same on every machine, so that a case id is enough to replay a case. */
#include <math.h>

#include "harness.h"

struct rng check_rng(uint64_t seed, const char *text)
{
    uint64_t hash = 0xcbf29ce484222325u ^ seed * 0x9e3779b97f4a7c15u;
    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
    return (struct rng){hash};
}

uint64_t check_bits(struct rng *rng)
{
    uint64_t z = rng->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

double check_uniform(struct rng *rng)
{
    return ((double)(check_bits(rng) >> 12) + 0.5) * 0x1p-52;
}

double check_gauss(struct rng *rng)
{
    const double radius = sqrt(-2 * log(check_uniform(rng)));
    return radius * cos(6.283185307179586 * check_uniform(rng));
}

int64_t check_below(struct rng *rng, int64_t n)
{
    return n > 1 ? (int64_t)(check_bits(rng) % (uint64_t)n) : 0;
}

bool check_chance(struct rng *rng, double probability)
{
    return check_uniform(rng) < probability;
}

int64_t check_pick(struct rng *rng, const int64_t *set, int64_t n)
{
    return set[check_below(rng, n)];
}
