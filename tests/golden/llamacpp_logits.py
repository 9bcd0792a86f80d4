#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""llama.cpp's logits, by way of the cyllama package, which carries it.

    llamacpp_logits.py FILE.gguf OUT.npy TOKEN...

One prefill of all tokens with one thread; OUT is float32 [tokens][vocabulary].
"""
import sys

import numpy as np
from cyllama.llama import llama_cpp as lc


class Model(lc.LlamaModel):
    """get_logits_ith of cyllama 0.2.18 asks the model for this number, which it lacks."""

    @property
    def n_vocab(self):
        return self.get_vocab().n_vocab


def main():
    path, out, ids = sys.argv[1], sys.argv[2], [int(t) for t in sys.argv[3:]]
    lc.disable_logging()
    params = lc.LlamaModelParams()
    params.n_gpu_layers = 0
    model = Model(path, params)
    cp = lc.LlamaContextParams()
    cp.n_ctx, cp.n_batch, cp.n_ubatch, cp.n_threads, cp.n_threads_batch = 512, 512, 512, 1, 1
    ctx = lc.LlamaContext(model, cp)
    batch = lc.LlamaBatch(n_tokens=len(ids), embd=0, n_seq_max=1)
    batch.set_batch(ids, 0, True)
    assert ctx.decode(batch) == 0
    rows = [np.array(ctx.get_logits_ith(i), np.float32) for i in range(len(ids))]
    np.save(out, np.stack(rows))


if __name__ == "__main__":
    main()
