#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the published chat templates make of some talks: chat_cases.json.

    make_chat.py TEMPLATES

TEMPLATES: a directory with the Jinja templates of Qwen3.5 and Nemotron 3 Nano, as the source package of
llama-cpp-python carries them (vendor/llama.cpp/models/templates). They are rendered as transformers does it; only
the rendered texts are kept. Qwen3-Next's is plain ChatML, written out here. So is Nemotron Nano v2's: the published
model's, which ends the system text with one line end (llama.cpp's copy of it has two).
"""
import json
import os
import sys

import jinja2

HERE = os.path.dirname(os.path.abspath(__file__))
FORMATS = {"qwen3.5": "Qwen3.5-4B.jinja", "nemotron-3": "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16.jinja", "qwen3-next": None, "nemotron-nano-v2": None}
WRITTEN = {
    "qwen3-next": "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}"
                  "{{ m.content.strip().split('</think>')[-1].lstrip('\n') }}{% else %}{{ m.content }}{% endif %}<|im_end|>\n"
                  "{% endfor %}<|im_start|>assistant\n{% if enable_thinking %}<think>\n{% endif %}",
    "nemotron-nano-v2": "{% if messages[0].role != 'system' %}<SPECIAL_10>System\n\n{% endif %}{% for m in messages %}"
                        "{% if m.role == 'system' %}<SPECIAL_10>System\n{{ m.content.strip() }}\n{% elif m.role == 'user' %}"
                        "<SPECIAL_11>User\n{{ m.content.strip() }}\n{% else %}<SPECIAL_11>Assistant\n"
                        "{{ m.content.split('</think>')[-1].strip() }}\n<SPECIAL_12>\n{% endif %}{% endfor %}"
                        "<SPECIAL_11>Assistant\n{% if enable_thinking %}<think>\n{% else %}<think></think>{% endif %}",
}
TALKS = [
    [("user", "Hello")],
    [("system", "Be brief."), ("user", "Who wrote this?")],
    [("user", "  spaces and\n\nlines \n")],
    [("system", "  You are a scribe.\n"), ("user", "One"), ("assistant", "<think>\nhm, two\n</think>\n\nTwo"), ("user", "Three?")],
    [("user", "One"), ("assistant", "Two "), ("user", "Three"), ("assistant", "<think></think>Four"), ("user", "Five 5")],
    [("user", "caf\u00e9 \u4f60\u597d \U0001f600"), ("assistant", "a < b </i>"), ("user", "")],
    [("system", ""), ("user", "empty system")],
]


def main():
    env = jinja2.Environment(trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
                             extensions=["jinja2.ext.loopcontrols"])

    def stop(message):
        raise ValueError(message)
    env.globals["raise_exception"] = stop
    cases = []
    for name, file in FORMATS.items():
        text = WRITTEN.get(name)
        if text is None:
            with open(os.path.join(sys.argv[1], file), encoding="utf-8") as f:
                text = f.read()
        template = env.from_string(text)
        for talk in TALKS:
            messages = [{"role": r, "content": c} for r, c in talk]
            for think in (True, False):
                out = template.render(messages=messages, add_generation_prompt=True, enable_thinking=think, bos_token="<s>",
                                      eos_token="</s>", tools=None)
                cases.append({"format": name, "think": think, "messages": messages, "text": out})
    with open(os.path.join(HERE, "chat_cases.json"), "w", encoding="utf-8") as f:
        f.write('{"cases": [\n' + ",\n".join(json.dumps(c, ensure_ascii=False) for c in cases) + "\n]}\n")


if __name__ == "__main__":
    main()
