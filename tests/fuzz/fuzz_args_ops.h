/* SPDX-License-Identifier: MIT */
/* The ops that fuzz_args calls, and their tensors. */
#ifndef SEQMIX_TESTS_FUZZ_ARGS_OPS_H
#define SEQMIX_TESTS_FUZZ_ARGS_OPS_H

#ifndef SEQMIX_EXPERIMENTAL
#    define SEQMIX_EXPERIMENTAL
#endif
#include <seqmix/seqmix.h>

#include <stdbool.h>

enum family {
    CONV,
    SCAN,
    SSD,
    DELTANET,
    ATTENTION,
    INVERSE,
    NORM,
    LINEAR,
    EMBED,
    ROPE,
    ROUTE,
    ACT,
    MOE,
    ARGMAX
}; /* those with a batch first */
enum { MAX_FIELDS = 10 + 1, MAX_BYTES = 1 << 14, MAX_ITEMS = 64 };

struct field {
    size_t offset;
    const char *axes; /* one letter per axis, the same letter for the same size */
};

// clang-format off
#define AT(type, field) offsetof(seqmix_##type##_args, field)
static const struct field fields[][MAX_FIELDS] = {
    [CONV] = {{AT(conv, x), "RD"}, {AT(conv, weight), "DK"}, {AT(conv, bias), "D"}, {AT(conv, state), "SDk"},
              {AT(conv, y), "RD"}},
    [SCAN] = {{AT(scan, x), "RD"}, {AT(scan, dt), "RD"}, {AT(scan, A), "DN"}, {AT(scan, B), "RGN"}, {AT(scan, C), "RGN"},
              {AT(scan, skip), "D"}, {AT(scan, dt_bias), "D"}, {AT(scan, z), "RD"}, {AT(scan, state), "SDN"},
              {AT(scan, y), "RD"}},
    [SSD] = {{AT(ssd, x), "RHP"}, {AT(ssd, dt), "RH"}, {AT(ssd, A), "H"}, {AT(ssd, B), "RGN"}, {AT(ssd, C), "RGN"},
             {AT(ssd, skip), "HP"}, {AT(ssd, dt_bias), "H"}, {AT(ssd, z), "RHP"}, {AT(ssd, state), "SHPN"},
             {AT(ssd, y), "RHP"}},
    [DELTANET] = {{AT(deltanet, q), "Rgd"}, {AT(deltanet, k), "Rgd"}, {AT(deltanet, v), "Rhe"}, {AT(deltanet, gate), "Rhd"},
                  {AT(deltanet, beta), "Rh"}, {AT(deltanet, A), "h"}, {AT(deltanet, dt_bias), "hd"},
                  {AT(deltanet, state), "Shde"}, {AT(deltanet, o), "Rhe"}},
    [INVERSE] = {{AT(inverse, a), "BCnn"}, {AT(inverse, inv), "BCnn"}},
    [NORM] = {{AT(norm, x), "RD"}, {AT(norm, z), "RD"}, {AT(norm, weight), "D"}, {AT(norm, y), "RD"}},
    [LINEAR] = {{AT(linear, x), "RI"}, {AT(linear, weight), "OI"}, {AT(linear, bias), "O"}, {AT(linear, residual), "RO"},
                {AT(linear, y), "RO"}},
    [EMBED] = {{AT(embed, table), "VD"}, {AT(embed, y), "RD"}},
    [ATTENTION] = {{AT(attention, q), "RHd"}, {AT(attention, k), "Rgd"}, {AT(attention, v), "Rgd"}, {AT(attention, gate), "RHd"},
                   {AT(attention, k_pages), "SKgd"}, {AT(attention, v_pages), "SKgd"}, {AT(attention, y), "RHd"}},
    [ROPE] = {{AT(rope, x), "RhH"}, {AT(rope, y), "RhH"}},
    [ROUTE] = {{AT(route, logits), "RH"}, {AT(route, bias), "H"}, {AT(route, ids), "Rg"}, {AT(route, weights), "Rg"}},
    [ACT] = {{AT(act, a), "RD"}, {AT(act, b), "RD"}, {AT(act, y), "RD"}},
    [MOE] = {{AT(moe, x), "RD"}, {AT(moe, ids), "Rg"}, {AT(moe, weights), "Rg"}, {AT(moe, gate), "SID"}, {AT(moe, up), "SID"},
             {AT(moe, down), "SOI"}, {AT(moe, y), "RO"}},
    [ARGMAX] = {{AT(argmax, x), "RD"}, {AT(argmax, index), "R"}},
};

#define EACH_OP(DO)                                  \
    DO(SHORT_CONV_ROWS, short_conv_rows, CONV)       \
    DO(SHORT_CONV_STEP, short_conv_step, CONV)       \
    DO(SELECTIVE_SCAN_ROWS, selective_scan_rows, SCAN) \
    DO(SELECTIVE_SCAN_STEP, selective_scan_step, SCAN) \
    DO(SSD_CHUNK_FORWARD, ssd_chunk_forward, SSD)    \
    DO(SSD_STEP, ssd_step, SSD)                      \
    DO(DELTANET_CHUNK_FORWARD, deltanet_chunk_forward, DELTANET) \
    DO(DELTANET_STEP, deltanet_step, DELTANET)       \
    DO(UNIT_LOWER_INVERSE, unit_lower_inverse, INVERSE) \
    DO(GATED_RMS_NORM_ROWS, gated_rms_norm_rows, NORM) \
    DO(LINEAR, linear, LINEAR)                       \
    DO(EMBED_ROWS, embed_rows, EMBED)                \
    DO(ROPE_ROWS, rope_rows, ROPE)                   \
    DO(ATTENTION_ROWS, attention_rows, ATTENTION)    \
    DO(MOE_ROUTE, moe_route, ROUTE)                  \
    DO(ACT_ROWS, act_rows, ACT)                      \
    DO(MOE_EXPERTS, moe_experts, MOE)                \
    DO(ARGMAX, argmax, ARGMAX)

static const struct {
    int32_t id;
    enum family family;
    bool step;
} ops[] = {
#define ROW(ID, name, family) {SEQMIX_OP_##ID, family, SEQMIX_OP_##ID % 2 == 0 && SEQMIX_OP_##ID <= SEQMIX_OP_DELTANET_STEP},
    EACH_OP(ROW)
};
// clang-format on

#endif
