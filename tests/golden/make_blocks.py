#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Block-quantised weights and what they stand for: make_blocks.py OUT.gguf

For every type a tensor of random blocks (every byte random, the scales finite, some of them zero, negative or subnormal) and
NAME.wide, its values in f32 by the gguf package, which is the definition. Also one metadata value of every kind, for the
reader. Needs gguf (requirements.txt)."""
import sys

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

ROWS, BLOCKS = 3, 4
# where a block of each type has its f16 scales
SCALES = {Type.Q8_0: (0,), Type.Q4_0: (0,), Type.Q5_0: (0,), Type.Q5_1: (0, 2), Type.IQ4_NL: (0,),
          Type.Q4_K: (0, 2), Type.Q5_K: (0, 2), Type.Q6_K: (208,)}


def random_blocks(rng, kind):
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = rng.integers(0, 256, (ROWS, BLOCKS * 256 // elements, size), dtype=np.uint8)
    for at in SCALES[kind]:
        scale = rng.normal(0, 0.02, blocks.shape[:2]).astype(np.float16)
        scale[0, 0], scale[1, 0], scale[2, 0] = 0, 3e-6, -0.5
        blocks[..., at:at + 2] = scale[..., None].view(np.uint8)
    return blocks.reshape(ROWS, -1)


def main():
    rng = np.random.default_rng(8)
    writer = gguf.GGUFWriter(sys.argv[1], 'blocks')
    for name, add, value in (('u8', writer.add_uint8, 200), ('i8', writer.add_int8, -100), ('u16', writer.add_uint16, 60000),
                             ('i16', writer.add_int16, -30000), ('u32', writer.add_uint32, 4000000000),
                             ('i32', writer.add_int32, -2000000000), ('u64', writer.add_uint64, 2**63),
                             ('i64', writer.add_int64, -2**62), ('f32', writer.add_float32, 0.25),
                             ('f64', writer.add_float64, 1e300), ('bool', writer.add_bool, True),
                             ('string', writer.add_string, 'naïve'), ('strings', writer.add_array, ['a', '', 'bcd']),
                             ('ints', writer.add_array, [3, -1, 2]), ('floats', writer.add_array, [0.5, -2.0]),
                             ('bools', writer.add_array, [True, False])):
        add('test.' + name, value)
    for kind in SCALES:
        blocks = random_blocks(rng, kind)
        writer.add_tensor(kind.name.lower(), blocks, raw_dtype=kind)
        writer.add_tensor(kind.name.lower() + '.wide', gguf.dequantize(blocks, kind))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


main()
