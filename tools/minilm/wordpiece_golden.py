#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes test/unit/examples/wordpiece_golden.txt: texts and the ids that the `tokenizers` package
gives them, with the model's vocabulary and with the small hand-made one that lies beside the file.

Needs `pip install tokenizers` and a model folder (scripts/fetch-minilm). Run it only to change the
cases; the test needs neither.

A line is: the text, with bytes other than printable ASCII and the backslash as \\xNN; a tab; the ids
by the small vocabulary; a tab; the ids by the model's.
"""
import os
import random
import sys

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

FOLDER = os.path.join(os.path.dirname(__file__), "..", "..", "test", "unit", "examples")

TEXTS = [
    # Nothing, and every kind of nothing.
    "", " ", "\t", "\n", "\r\n", "   \t \n ", "\u00a0", "\u3000", "\u2003\u2002", "\u2028", "\u2029",
    "\u200b", "\ufeff", "\x00", "\x01\x02\x1f", "\x7f", "\u0085", "\u202e\u202c", "\ufffd", "\ue000",
    "a\u00a0b", "a\u3000b", "a\u200bb", "a\u200db", "a\x00b", "a\x0bb", "a\x0cb", "a\u0085b", "a\ufffdb",
    "a\u2028b\u2029c", "tab\tnew\nline\rreturn", "  lead and trail  ", "soft\u00adhyphen", "a\u2060b",
    "a\ue000b", "a\u1680b", "a\u202fb", "a\u205fb", "a\u180eb",
    # Words.
    "hello", "Hello", "HELLO WORLD", "hello world", "the cat sat on the mat", "unaffable", "unwanted",
    "running", "antidisestablishmentarianism", "supercalifragilisticexpialidocious", "x", "I", "a b c",
    "The quick brown fox jumps over the lazy dog.", "tokenization", "embeddings", "qwertyuiop", "zzzzzz",
    "don't", "can't won't", "it's", "e.g.", "U.S.A.", "rock'n'roll", "state-of-the-art", "co-operate",
    "snake_case", "CamelCase", "path/to/file.txt", "a@b.example", "https://example.org/?q=1&r=2#top",
    "C++", "C#", ".NET", "100%", "$5.00", "\u00a35", "\u20ac9.99", "3.14159", "1,000,000", "2+2=4",
    "x^2", "~user", "`code`", "<tag>", "a|b", "[a]", "{a}", "(a)", "\\n", "\"quoted\"", "'single'",
    "...", "?!?!", "---", "#hashtag", "##ing", "# # #", "a##b", "[CLS]", "[SEP]", "[MASK] it", "[UNK]",
    "[PAD][PAD]", "[cls]", "2024-02-29T12:34:56Z", "+1 (555) 010-9999", "0x1F", "1e-12", "-0", "\u2212\u0031",
    # Accents: composed, decomposed, stacked, out of order.
    "caf\u00e9", "cafe\u0301", "na\u00efve", "r\u00e9sum\u00e9", "\u00c0\u00c9\u00ce\u00d5\u00dc", "\u0130stanbul", "\u0131", "stra\u00dfe", "STRASSE", "\u1e9e",
    "\u00c5ngstr\u00f6m", "\u212bngstr\u00f6m", "A\u030angstro\u0308m", "\u1ec7", "e\u0323\u0302", "e\u0302\u0323", "o\u0308\u0304", "q\u0307\u0323",
    "Vi\u1ec7t Nam", "\u017b\u00f3\u0142w", "\u0141\u00f3d\u017a", "\u010de\u0161tina", "sm\u00f8rrebr\u00f8d", "\u00fe\u00f3rr", "\u00c6sir", "\u0152uvre",
    "\u0301", "\u0301a", " \u0301 ", "a\u0300\u0301\u0302\u0303\u0304", "\u0344", "\u0958", "\u01c5", "\u01c4", "\ufb01ne", "\ufb03", "\u2460", "\u00bd", "\u2126", "\u212a",
    "Z\u0351\u036b\u0343\u036a\u0302\u036b\u033d\u034fa\u0334\u0319\u0324l\u0358g\u0319o\u0319",
    # Scripts.
    "\u03b3\u03b5\u03b9\u03ac \u03c3\u03bf\u03c5 \u039a\u03cc\u03c3\u03bc\u03b5", "\u03a3\u03af\u03c3\u03c5\u03c6\u03bf\u03c2", "\u03a3\u03a3", "\u1f0c\u03bd\u03b8\u03c1\u03c9\u03c0\u03bf\u03c2", "\u1fb3", "\u037e", "\u1fef", "\u0387",
    "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440!", "\u0439", "\u0438\u0306", "\u0401\u043b\u043a\u0430", "\u0407\u0436\u0430\u043a", "\u0531\u0580\u0574\u0565\u0576",
    "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd", "\u05e9\u05c1\u05b8\u05dc\u05d5\u05b9\u05dd", "\u05f3\u05f4", "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645", "\u0645\u064e\u0631\u0652\u062d\u064e\u0628\u064b\u0627", "\u0622", "\u060c\u061f", "\u0661\u0662\u0663",
    "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e", "\u0915\u094d\u0937", "\u0964", "\u0ba4\u0bae\u0bbf\u0bb4\u0bcd", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e42\u0e25\u0e01", "\u0e33", "\u1019\u103c\u1014\u103a\u1019\u102c",
    "\u4f60\u597d\u4e16\u754c", "\u4f60\u597d,\u4e16\u754c\u3002", "abc\u4e2d\u6587def", "\u4e2d a", "\u65e5\u672c\u8a9e\u306e\u30c6\u30b9\u30c8", "\u30ab\u30bf\u30ab\u30ca", "\u3072\u3089\u304c\u306a", "\u304c", "\u304b\u3099",
    "\uff76\uff9e", "\u6771\u4eac\u90fd", "\uf900", "\ufa11", "\U0002f800", "\u3400", "\U00020000", "\U0002a700", "\U0002b740", "\U0002b820", "\U0002b920", "\U00030000",
    "\u4dc0", "\u9fff", "\u3001\u3002\u300c\u300d", "\uff08\uff09", "\uff01", "\uff21\uff22\uff23", "\uff11\uff12", "\u3007", "\u2e80",
    "\uc548\ub155\ud558\uc138\uc694", "\u1112\u1161\u11ab", "\ud55c\uae00 test", "\uac00\uac01", "\u3131",
    # Symbols.
    "\U0001f600", "hi \U0001f600 there", "a\U0001f600b", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f44d\U0001f3fd", "\u2764\ufe0f", "\u2122\u00ae\u00a9", "\u2192\u2190", "\u221e",
    "\u2211x\u00b2", "\u2260", "\u00ac", "\u00a7 5", "\u00b6", "\u00b7", "\u00ab\u00e0\u00bb", "\u2018a\u2019 \u201cb\u201d", "a\u2014b", "a\u2013b", "\u2026", "\u2022 item", "\u00bfqu\u00e9?", "\u00a1ol\u00e9!",
    "\U0001d400\U0001d401", "\U0001d15e", "\U0001d165\U0001d16d", "\u302e\u302f", "a\u302f\u302e", "\u20dd", "a\u20dd", "\u02bc", "\u02c6", "\u00b4", "\u00a8", "^\u00b4`",
    # Length.
    "a" * 99, "a" * 100, "a" * 101, "a" * 5000, "\u00e9" * 100, "e\u0301" * 100, "e\u0301" * 101, "\u4e2d" * 150,
    "b" * 100 + " ok", "b" * 101 + " ok", "ok " + "\U0001f600" * 101 + " ok", "word " * 300, "." * 120,
]

SMALL_WORDS = (
    "hello world the cat sat on mat quick brown fox jump ##s over lazy dog un ##aff ##able ##want ##ed "
    "run ##ning cafe istanbul strasse stra ##\u00dfe a ##b ok word test token ##ization \u4e2d \u6587 \u4f60 \u597d "
    "\u03c3 ##\u03c3 \u0438 ##\u0438 \u1112 ##\u1161 ##\u11ab \u3042 \U0001f600 ##\U0001f600 \u20ac \u2014 \u2026 ## e.g").split(" ")


def small_vocabulary():
    letters = "abcdefghijklmnopqrstuvwxyz0123456789"
    # No "##q": a word with a q inside it is unknown.
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + list("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
    pieces += list(letters) + ["##" + c for c in letters if c != "q"]
    return pieces + [word for word in SMALL_WORDS if word not in pieces]


def small_tokenizer(pieces):
    vocabulary = {piece: index for index, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return tokenizer


def mixtures(count):
    """Texts joined from pieces of the others, always the same ones."""
    source = random.Random(7)
    short = [text for text in TEXTS if len(text) < 30]
    return ["".join(source.choice(short) + source.choice(["", " ", "", "-"]) for _ in range(6))
            for _ in range(count)]


def escape(text):
    return "".join(chr(b) if 0x20 <= b < 0x7F and b != 0x5C else "\\x%02x" % b for b in text.encode())


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: wordpiece_golden.py MODEL_FOLDER")
    full = Tokenizer.from_file(os.path.join(sys.argv[1], "tokenizer.json"))
    full.no_padding()
    full.no_truncation()
    full.encode_special_tokens = True  # text is text, whatever it spells
    pieces = small_vocabulary()
    small = small_tokenizer(pieces)
    with open(os.path.join(FOLDER, "wordpiece_small_vocab.txt"), "w", encoding="utf-8") as out:
        out.write("\n".join(pieces) + "\n")
    with open(os.path.join(FOLDER, "wordpiece_golden.txt"), "w", encoding="ascii") as out:
        for text in TEXTS + mixtures(60):
            columns = [" ".join(map(str, t.encode(text).ids)) for t in (small, full)]
            out.write(escape(text) + "\t" + "\t".join(columns) + "\n")


if __name__ == "__main__":
    main()
