"""What the tokenizers library of Hugging Face and OpenAI's tiktoken make of some texts.

Usage: peer.py FOLDER < texts.json

Trains one small tokenizer of every form that package tokens reads, writes each to
FOLDER/NAME.json, and prints {NAME: [[ids, decoded] of each text]}. FOLDER/NAME.ranks,
where there is one, is a vocabulary of tiktoken, base64 and rank a line, with the
expression that splits text in FOLDER/NAME.split.
"""

import base64
import glob
import json
import os
import sys

import tiktoken
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

GPT4 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
DEEPSEEK = [
    r"\p{N}{1,3}",
    r"[一-龥぀-ゟ゠-ヿ]+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
]


def split(expression, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(expression), behavior, invert)


def byte_level(*before, regex=False, prefix=False):
    return pre_tokenizers.Sequence([*before, pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=regex)])


def sentencepiece_decoder():
    return decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])


def forms():
    """NAME: model options, normalizer, pre-tokenizer, decoder."""
    level = decoders.ByteLevel()
    yield "gpt2", {}, None, byte_level(regex=True), level
    yield "gpt2_prefix", {}, None, byte_level(regex=True, prefix=True), level
    yield "llama3", {"ignore_merges": True}, None, byte_level(split(GPT4)), level
    yield "qwen", {}, normalizers.NFC(), byte_level(split(GPT4)), level
    yield "deepseek", {}, normalizers.Sequence([]), byte_level(*map(split, DEEPSEEK)), level
    yield "smollm", {}, None, byte_level(pre_tokenizers.Digits(individual_digits=True), regex=True), level
    yield "digits", {}, None, byte_level(pre_tokenizers.Digits(individual_digits=False), regex=True), level
    for behavior in ["removed", "contiguous", "merged_with_previous", "merged_with_next"]:
        yield behavior, {}, None, byte_level(split(r"[,.\s]", behavior)), level
    yield "inverted", {}, None, byte_level(split(r"\p{L}+|\p{N}+", "removed", True)), level
    yield "llama2", {"byte_fallback": True, "fuse_unk": True, "unk_token": "<unk>"}, \
        normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]), None, sentencepiece_decoder()
    yield "gemma", {"byte_fallback": True, "unk_token": "<unk>"}, \
        normalizers.Replace(" ", "▁"), pre_tokenizers.Split(" ", "merged_with_previous", False), sentencepiece_decoder()
    yield "unknown", {"unk_token": "<unk>"}, None, pre_tokenizers.Metaspace(), decoders.Metaspace()
    yield "unknown_fused", {"unk_token": "<unk>", "fuse_unk": True}, None, \
        pre_tokenizers.Metaspace(prepend_scheme="first"), decoders.Metaspace(prepend_scheme="first")
    yield "dropped", {}, None, pre_tokenizers.Metaspace(prepend_scheme="never", split=False), \
        decoders.Metaspace(prepend_scheme="never", split=False)


def train(corpus, options, normalizer, pre_tokenizer, decoder):
    tokenizer = Tokenizer(models.BPE(**options))
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    if pre_tokenizer is not None:
        tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoder
    special = ["<unk>", "<|end|>", "<|endoftext|>"]
    alphabet, limit = [], 120
    if isinstance(pre_tokenizer, pre_tokenizers.Sequence):
        alphabet, limit = pre_tokenizers.ByteLevel.alphabet(), 256
    if options.get("byte_fallback"):
        special += [f"<0x{b:02X}>" for b in range(256)]
    tokenizer.train_from_iterator(corpus, trainers.BpeTrainer(
        vocab_size=700, special_tokens=special, initial_alphabet=alphabet, limit_alphabet=limit, show_progress=False))
    tokenizer.add_special_tokens([AddedToken("<|pad|>", lstrip=True, rstrip=True, normalized=False)])
    tokenizer.add_tokens([AddedToken("needle", normalized=False)])
    return tokenizer


def main(folder):
    given = json.load(sys.stdin)
    out = {}
    for name, *form in forms():
        tokenizer = train(given["corpus"], *form)
        tokenizer.save(os.path.join(folder, name + ".json"))
        rows = []
        for text in given["texts"]:
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            rows.append([ids, tokenizer.decode(ids, skip_special_tokens=False)])
        out[name] = rows
    for path in glob.glob(os.path.join(folder, "*.ranks")):
        with open(path) as file:
            ranks = {base64.b64decode(a): int(b) for a, b in (line.split() for line in file)}
        with open(path.removesuffix("ranks") + "split") as file:
            encoding = tiktoken.Encoding(os.path.basename(path), pat_str=file.read(), mergeable_ranks=ranks, special_tokens={})
        name = os.path.basename(path).removesuffix(".ranks")
        out[name] = [[ids, encoding.decode(ids)] for ids in map(encoding.encode_ordinary, given["texts"])]
    json.dump(out, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
