/* SPDX-License-Identifier: MIT */
/*
 * MLP and mixture of experts.
 *   MLP   h = h + W_down act,  act = silu(W_gate n) * (W_up n), or relu(W_up n)^2 where there is no gate
 *   MoE   h = h + sum over the chosen experts of their weight times their MLP of n, + the shared expert's MLP of n, its act
 *         times sigmoid(w_s n) where that has a gate (the product behind it is linear). With a latent bottleneck the experts
 *         work on W_d n, and W_u brings their sum back.
 */
#include "layers.h"

static void bind_mlp(seqmix_binder *b, const seqmix_config *c, int64_t width, const char *const names[3][2],
                     seqmix_mlp_block *l)
{
    if (c->mlp.gated) l->gate = seqmix_bind_matrix(b, names[0][0], names[0][1], width, c->hidden);
    l->up = seqmix_bind_matrix(b, names[1][0], names[1][1], width, c->hidden);
    l->down = seqmix_bind_matrix(b, names[2][0], names[2][1], c->hidden, width);
}

void seqmix_bind_mlp(seqmix_binder *b, const seqmix_config *c, seqmix_mlp_block *l)
{
    static const char *const names[3][2] = {{"gate_proj.weight", "ffn_gate.weight"},
                                            {"up_proj.weight", "ffn_up.weight"},
                                            {"down_proj.weight", "ffn_down.weight"}};
    bind_mlp(b, c, c->mlp.width, names, l);
    /* Where a GGUF file has a scale beside an MLP's matrix, llama.cpp multiplies the bias by it, too. */
    l->up_bias = seqmix_bind_scaled_bias(b, "up_proj.bias", "ffn_up", c->mlp.width, c->mlp.bias);
    l->down_bias = seqmix_bind_scaled_bias(b, "down_proj.bias", "ffn_down", c->hidden, c->mlp.bias);
}

/* Gate and up may be one tensor, each expert's gate in front of its up. */
static void bind_experts(seqmix_binder *b, const seqmix_config *c, seqmix_moe_block *l)
{
    int64_t E = c->moe.experts, F = c->moe.width, D = c->moe.latent > 0 ? c->moe.latent : c->hidden;
    if (c->moe.gated && seqmix_bind_has(b, "experts.gate_up_proj", "ffn_gate_up_exps.weight")) {
        seqmix_tensor both =
            seqmix_bind_experts(b, "experts.gate_up_proj", NULL, "ffn_gate_up_exps.weight", E, 2 * F, D);
        if (b->failed) return;
        l->gate = seqmix_rows_of(both, 0, F);
        l->up = seqmix_rows_of(both, F, F);
    } else {
        if (c->moe.gated)
            l->gate = seqmix_bind_experts(b, "experts.gate_proj", "experts.%lld.gate_proj.weight",
                                          "ffn_gate_exps.weight", E, F, D);
        l->up = seqmix_bind_experts(b, "experts.up_proj", "experts.%lld.up_proj.weight", "ffn_up_exps.weight", E, F, D);
    }
    l->down =
        seqmix_bind_experts(b, "experts.down_proj", "experts.%lld.down_proj.weight", "ffn_down_exps.weight", E, D, F);
}

void seqmix_bind_moe(seqmix_binder *b, const seqmix_config *c, seqmix_moe_block *l)
{
    static const char *const qwen[3][2] = {{"shared_expert.gate_proj.weight", "ffn_gate_shexp.weight"},
                                           {"shared_expert.up_proj.weight", "ffn_up_shexp.weight"},
                                           {"shared_expert.down_proj.weight", "ffn_down_shexp.weight"}};
    static const char *const nemotron[3][2] = {{NULL, NULL},
                                               {"shared_experts.up_proj.weight", "ffn_up_shexp.weight"},
                                               {"shared_experts.down_proj.weight", "ffn_down_shexp.weight"}};
    int64_t D = c->hidden, L = c->moe.latent;
    l->router = seqmix_bind_delicate(b, "gate.weight", "ffn_gate_inp.weight", c->moe.experts, D);
    if (c->moe.sigmoid)
        l->bias = seqmix_bind_vector(b, "gate.e_score_correction_bias", "exp_probs_b.bias", c->moe.experts,
                                     SEQMIX_WIDEN_PLAIN);
    bind_experts(b, c, l);
    if (c->moe.shared_width > 0) bind_mlp(b, c, c->moe.shared_width, c->moe.gated ? qwen : nemotron, &l->shared);
    if (c->moe.shared_router)
        l->shared_router =
            seqmix_bind_wide(b, "shared_expert_gate.weight", "ffn_gate_inp_shexp.weight", 1, D, SEQMIX_WIDEN_PLAIN);
    if (L == 0) return;
    l->latent_down = seqmix_bind_matrix(b, "fc1_latent_proj.weight", "ffn_latent_down.weight", L, D);
    l->latent_up = seqmix_bind_matrix(b, "fc2_latent_proj.weight", "ffn_latent_up.weight", D, L);
}

/* act of an MLP; [rows, width]. */
static seqmix_status inner(seqmix_pass *p, const seqmix_mlp_block *l, seqmix_tensor n, seqmix_tensor *act)
{
    const seqmix_tensor none = {0};
    int64_t R = p->rows, F = l->up.shape[0];
    seqmix_tensor up = seqmix_view2(seqmix_take(p, R, F), R, F, 0, F), gate;
    *act = up;
    seqmix_status s = seqmix_layer_linear(p, n, l->up, l->up_bias, none, up);
    if (l->gate.rank == 0) return s == SEQMIX_OK ? seqmix_layer_act(p, SEQMIX_ACT_ROWS_RELU2, up, none, up) : s;
    gate = seqmix_view2(seqmix_take(p, R, F), R, F, 0, F);
    if (s == SEQMIX_OK) s = seqmix_layer_linear(p, n, l->gate, none, none, gate);
    if (s == SEQMIX_OK) s = seqmix_layer_act(p, SEQMIX_ACT_ROWS_SILU_MUL, gate, up, up);
    return s;
}

seqmix_status seqmix_forward_mlp(seqmix_pass *p, const seqmix_config *c, const seqmix_block *block, seqmix_tensor n,
                                 seqmix_tensor h)
{
    const seqmix_mlp_block *l = &block->u.mlp;
    seqmix_tensor act;
    (void)c;
    seqmix_status s = inner(p, l, n, &act);
    return s == SEQMIX_OK ? seqmix_layer_linear(p, act, l->down, l->down_bias, h, h) : s;
}

static seqmix_status shared(seqmix_pass *p, const seqmix_moe_block *l, seqmix_tensor n, seqmix_tensor h)
{
    const seqmix_tensor none = {0};
    seqmix_tensor act;
    seqmix_status s = inner(p, &l->shared, n, &act);
    if (s == SEQMIX_OK && l->shared_router.rank > 0) {
        seqmix_tensor gate = seqmix_view2(seqmix_take(p, p->rows, 1), p->rows, 1, 0, 1);
        s = seqmix_layer_linear(p, n, l->shared_router, none, none, gate);
        if (s == SEQMIX_OK) s = seqmix_layer_act(p, SEQMIX_ACT_ROWS_SIGMOID_MUL, gate, act, act);
    }
    return s == SEQMIX_OK ? seqmix_layer_linear(p, act, l->shared.down, none, h, h) : s;
}

static seqmix_status experts(seqmix_pass *p, const seqmix_config *c, const seqmix_moe_block *l, seqmix_tensor x,
                             seqmix_tensor ids, seqmix_tensor weights, bool accumulate, seqmix_tensor y)
{
    seqmix_moe_args args = {.struct_size = sizeof args,
                            .activation = c->moe.gated ? SEQMIX_ACT_ROWS_SILU_MUL : SEQMIX_ACT_ROWS_RELU2,
                            .accumulate = accumulate,
                            .invariant = p->invariant,
                            .x = x,
                            .ids = ids,
                            .weights = weights,
                            .gate = l->gate,
                            .up = l->up,
                            .down = l->down,
                            .y = y};
    return seqmix_call(p->caller, SEQMIX_OP_MOE_EXPERTS, &args);
}

seqmix_status seqmix_forward_moe(seqmix_pass *p, const seqmix_config *c, const seqmix_block *block, seqmix_tensor n,
                                 seqmix_tensor h)
{
    const seqmix_moe_block *l = &block->u.moe;
    const seqmix_tensor none = {0};
    int64_t R = p->rows, E = c->moe.experts, K = c->moe.per_token, L = c->moe.latent;
    seqmix_tensor logits = seqmix_view2(seqmix_take(p, R, E), R, E, 0, E);
    seqmix_tensor weights = seqmix_view2(seqmix_take(p, R, K), R, K, 0, K);
    seqmix_tensor ids = seqmix_view2(seqmix_take(p, R, K), R, K, 0, K);
    ids.dtype = SEQMIX_I32;
    seqmix_route_args route = {.struct_size = sizeof route,
                               .kind = c->moe.sigmoid ? SEQMIX_ROUTE_SIGMOID : SEQMIX_ROUTE_SOFTMAX,
                               .renormalise = c->moe.renormalise,
                               .n_group = (int32_t)c->moe.groups,
                               .topk_group = (int32_t)c->moe.top_groups,
                               .scale = c->moe.scale,
                               .logits = logits,
                               .bias = l->bias,
                               .ids = ids,
                               .weights = weights};
    seqmix_status s = seqmix_layer_linear(p, n, l->router, none, none, logits);
    if (s == SEQMIX_OK) s = seqmix_call(p->caller, SEQMIX_OP_MOE_ROUTE, &route);
    if (L == 0) {
        if (s == SEQMIX_OK) s = experts(p, c, l, n, ids, weights, true, h);
    } else {
        seqmix_tensor down = seqmix_view2(seqmix_take(p, R, L), R, L, 0, L);
        seqmix_tensor sum = seqmix_view2(seqmix_take(p, R, L), R, L, 0, L);
        if (s == SEQMIX_OK) s = seqmix_layer_linear(p, n, l->latent_down, none, none, down);
        if (s == SEQMIX_OK) s = experts(p, c, l, down, ids, weights, false, sum);
        if (s == SEQMIX_OK) s = seqmix_layer_linear(p, sum, l->latent_up, none, h, h);
    }
    if (s == SEQMIX_OK && l->shared.up.rank > 0) s = shared(p, l, n, h);
    return s;
}
