#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Small tokenizers of the kinds real models use, and test cases for every tokenizer of tests/golden.

    make_tokenizers.py WORKDIR

Writes tokenizers/NAME/{tokenizer.json,cases.json}, and mamba-tiny/tokenizer_cases.json for the
tokenizer that train_mamba_tiny.py made. Each case: the text, the token ids that the `tokenizers`
package gives (no special tokens added), and its decoding (special tokens kept).
"""
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import kjv_text  # noqa: E402

CASES = [
    "", " ", "a", "In the beginning God created the heaven and the earth.",
    "And God said, Let there be light: and there was light.",
    "  two leading spaces", "trailing spaces   ", "a b  c   d    e     f", "        eight spaces", " ",
    "\n", "\n\n", "\n\n\n", "line one\nline two\n", "line one\r\nline two\r\n\r\n", " \n ", "  \n\n  x", "a\n b\n  c\n",
    "\t", "\tindented\t\ttwice", "tab \t space", "\u000b\u000c vertical and form feed",
    "0", "7", "42", "1234567890", "3.14159", "1,000,000", "12 345 6789", "v1.2.3-rc4", "x2y22z222", "\u0663\u0664\u0665 \u00bd \u2167",
    "I'm you're he's we'll they'd I've don't", "I'M YOU'RE HE'S WE'LL THEY'D I'VE DON'T", "'tis 'twas ''quoted'' 's 'S", "rock'n'roll it's'",
    "Hello, World!", "CamelCase snake_case kebab-case SCREAMING_CASE", "(a+b)*c/d-e%f == {\"k\": [1, 2]};", "!!! ??? ... --- === ###",
    "$100 & 50% #tag @name ~/path a/b\\c", "for (int i = 0; i < n; i++) {\n    s += a[i];\n}\n", "https://example.org/a?b=c&d=%20#e", "e-mail: who@where.net",
    "caf\u00e9 na\u00efve \u00fcber stra\u00dfe", "cafe\u0301 nai\u0308ve u\u0308ber", "\u1e9b\u0323 \u1100\u1161\u11a8 \u212b", "q\u0307\u0323 and \u0323 alone", "\u0301start with a mark",
    "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e0a\u0e32\u0e27\u0e42\u0e25\u0e01", "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440! \u0393\u03b5\u03b9\u03ac", "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645 \u05e9\u05dc\u05d5\u05dd",
    "\u4f60\u597d\uff0c\u4e16\u754c\u3002\u3053\u3093\u306b\u3061\u306f \uc548\ub155", "\u7b2c1\u7ae02\u8282", "\U0001f600\U0001f680 emoji", "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 \U0001f44d\U0001f3fd \U0001f1eb\U0001f1f7", "\u2764\ufe0f \u00a9\u00ae\u2122 \u2192\u2260\u221e",
    "a\u00a0b\u2003c\u3000d\u200be\u2028f\u0085g", "\ufeffBOM", "\ufffd replaced \ufffd\ufffd", "\u0000 nul", "\u0001\u001f\u007f\u0080\u009f controls", "\ue000\U0010ffff\ufdd0 private and non-characters", "\U0001d518\U0001d52b\U0001d526 \U00020000\U0002a6d6",
    "<|endoftext|>", "a<|endoftext|>b", " <|endoftext|> ", "<|endoftext|><|endoftext|>", "<|endoftext", "<|EndOfText|>", "x <|im_start|>user\nhi<|im_end|>\n", "<think>\nno\n</think>\n\n", "<|padding|>  <|padding|>",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "supercalifragilisticexpialidocious",
    "The LORD is my shepherd; I shall not want.\nHe maketh me to lie down in green pastures: he leadeth me beside the still waters.",
    "fooBar getHTTPResponse XMLParser iOS McDonald ABCdef", "path/\n//\nend/ \n/\r\n", "e\u0301\u0301x !\u0301a 1\u0301 \u0301\u0301", "DON'T don'T x'Ll 'S's",
    "unto notwithstanding UNTO Unto unTo", "\u0130stanbul \u01c5ungla \u02b0igh \u00aa\u00ba",
]

CONTR = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
REGEX = {
    "qwen2": CONTR + r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "qwen35": CONTR + r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "llama3": CONTR + r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "tekken": r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
              r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}|"
              r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
}


def build(name, text):
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
    tok = Tokenizer(models.BPE())
    # Trained on pieces of any 9 characters: merges then cross every boundary that a pre-tokenizer
    # draws (letters and digits, words and spaces, upper and lower case), so a wrong one shows.
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(r"[\s\S]{1,9}"), behavior="isolated"),
                                                 pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    first = ["<|endoftext|>", "<|padding|>"] if name == "neox" else []
    tok.train_from_iterator(text, trainers.BpeTrainer(
        vocab_size=1400, special_tokens=first, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    if name == "llama3":  # whole words in the vocabulary that no merge reaches
        spec = json.loads(tok.to_str())
        spec["model"]["ignore_merges"] = True
        for w in ("\u0120notwithstanding", "UNTO", "superc", "caf\u00c3\u00a9"):
            spec["model"]["vocab"].setdefault(w, len(spec["model"]["vocab"]))
        tok = Tokenizer.from_str(json.dumps(spec))
    elif name == "tekken":  # as Mistral publishes it: text as it is, whole words first
        spec = json.loads(tok.to_str())
        spec["model"]["ignore_merges"] = True
        tok = Tokenizer.from_str(json.dumps(spec))
    else:
        tok.normalizer = normalizers.NFC()
    if name == "neox":
        tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    else:
        tok.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Split(Regex(REGEX[name]), behavior="isolated", invert=False),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.decoder = decoders.ByteLevel()
    if name == "neox":  # runs of spaces, as in GPT-NeoX: not special, matched before the pre-tokenizer
        tok.add_tokens([AddedToken(" " * n, normalized=True, special=False) for n in range(8, 1, -1)])
    else:
        tok.add_special_tokens([AddedToken(t, normalized=False, special=True)
                                for t in ("<|endoftext|>", "<|im_start|>", "<|im_end|>")])
        tok.add_tokens([AddedToken(t, normalized=False, special=False) for t in ("<think>", "</think>")])
    spec = json.loads(tok.to_str())
    if name == "neox":  # merges as older files have them: "a b", not ["a", "b"]
        spec["model"]["merges"] = [" ".join(m) for m in spec["model"]["merges"]]
    return json.dumps(spec, ensure_ascii=False, separators=(",", ":"))


def cases(tok):
    """Texts, and token sequences that no text gives (their decoding has U+FFFD for invalid UTF-8)."""
    res = []
    for text in dict.fromkeys(CASES):
        ids = tok.encode(text, add_special_tokens=False).ids
        res.append({"text": text, "tokens": ids, "decoded": tok.decode(ids, skip_special_tokens=False)})
    byte = {}
    for w, i in tok.get_vocab().items():
        if len(w) == 1:
            byte[w] = i
    # GPT-2's byte alphabet: bytes 0xA1-0xAC and 0xAE-0xFF stand for themselves.
    seq = lambda bs: [byte[chr(b)] for b in bs]  # noqa: E731
    dec = []
    for bs in ((0xE2,), (0xE4, 0xBD), (0xFF, 0xFE), (0xF0, 0xAF, 0xBF, 0x41), (0xC3, 0x41), (0xE2, 0xAE)):
        ids = seq(bs)
        dec.append({"bytes": list(bs), "tokens": ids, "decoded": tok.decode(ids, skip_special_tokens=False)})
    return {"cases": res, "decode_cases": dec}


def dump(obj, path):
    with open(path, "w", encoding="utf-8") as f:
        f.write("{\n")
        keys = list(obj)
        for j, k in enumerate(keys):
            f.write(f' "{k}": [\n')
            f.write(",\n".join("  " + json.dumps(c, ensure_ascii=False) for c in obj[k]))
            f.write("\n ]" + (",\n" if j + 1 < len(keys) else "\n"))
        f.write("}\n")


def main():
    from tokenizers import Tokenizer
    chapters = kjv_text.chapters(sys.argv[1])
    text = chapters[:20] + [" " * i + c for c in CASES for i in range(5)] * 4
    for name in ("neox", *REGEX):
        out = os.path.join(HERE, "tokenizers", name)
        os.makedirs(out, exist_ok=True)
        spec = build(name, text)
        with open(os.path.join(out, "tokenizer.json"), "w", encoding="utf-8") as f:
            f.write(spec + "\n")
        c = cases(Tokenizer.from_str(spec))
        dump(c, os.path.join(out, "cases.json"))
        print(name, len(c["cases"]), "cases,", sum(x["text"] != x["decoded"] for x in c["cases"]), "decode to another text")
    tok = Tokenizer.from_file(os.path.join(HERE, "mamba-tiny", "tokenizer.json"))
    c = cases(tok)
    dump(c, os.path.join(HERE, "mamba-tiny", "tokenizer_cases.json"))
    print("mamba-tiny", len(c["cases"]), "cases,", sum(x["text"] != x["decoded"] for x in c["cases"]), "decode to another text")


if __name__ == "__main__":
    main()
