"""The lesson about n-grams: counting, smoothing, generation."""

import math
from itertools import pairwise

import torch

from regard.lessons.lesson import Step, need
from regard.models.ngram import Ngram
from regard.probabilities.decoder import Writing, generate
from regard.tokens.choose import TokenOptions, train_tokenizer
from regard.tokens.words import WordTokenizer

SENTENCES = ("students opened their books", "students opened their exams", "people walked their dog")


def counting(
    sentences: tuple[str, ...] = SENTENCES, context: str = "their", unseen: str = "silent"
) -> list[Step]:
    """n-grams from a few sentences: count, normalise, meet an unseen pair, smooth, and generate."""
    text = "\n".join([*sentences, unseen])
    tokenizer, encoded = train_tokenizer([text], TokenOptions(tokens="word", document="line"))
    assert isinstance(tokenizer, WordTokenizer)
    configs = {
        "counted": Ngram.Config(order=2, smoothing="maximum-likelihood"),
        "add 1": Ngram.Config(order=2, smoothing="add-k", k=1.0),
        "Kneser-Ney": Ngram.Config(order=2, smoothing="kneser-ney"),
    }
    models = {name: Ngram(tokenizer.size, config).eval() for name, config in configs.items()}
    for model in models.values():
        model.fit(encoded)
    words = {word for sentence in sentences for word in sentence.split()}
    need(context in words, f"{context!r} stands in none of the sentences")
    pairs = {pair for sentence in sentences for pair in pairwise(sentence.split())}
    advice = "choose a word that never comes after it"
    need((context, unseen) not in pairs, f"{context!r} is followed by {unseen!r} in the sentences: {advice}")
    ids = [tokenizer.start, *tokenizer.prompt(context)]

    def after(name: str) -> dict[str, float]:
        log_probs_V = models[name].read_from_start(torch.tensor([ids]))[0].log_probs()[0, -1]
        return {tokenizer.name(token): math.exp(value) for token, value in enumerate(log_probs_V.tolist())}

    counted = after("counted")
    (word,) = tokenizer.prompt(unseen)
    prompt = [tokenizer.start, *tokenizer.prompt(sentences[0].split()[0])]
    counts = models["counted"]
    steps = generate(counts, counts.begin(1), [prompt], Writing(length=8, end=tokenizer.end))
    written = tokenizer.decode([*prompt[1:], *(step.tokens[0] for step in steps)]).strip()
    return [
        Step(
            "Count and normalise",
            "P(w | v) = count(v w) / count(v)",
            f"The words after {context!r} with their probabilities.",
            {"after": {token: p for token, p in counted.items() if p > 0}},
        ),
        Step(
            "A pair never seen",
            "count(v w) = 0, so P = 0",
            f"{context!r} was never followed by {unseen!r}, so the whole sentence has probability 0.",
            {"unseen": counted[tokenizer.name(word)]},
        ),
        Step(
            "Smoothing",
            "(count(v w) + 1) / (count(v) + V);  Kneser-Ney: max(count - D, 0) / count(v) + backoff(v) P(w)",
            "Unseen words get a part of the probability. The sum stays 1.",
            {name: after(name)[tokenizer.name(word)] for name in ("add 1", "Kneser-Ney")}
            | {"sum": sum(after("Kneser-Ney").values())},
        ),
        Step(
            "Generate",
            "w ~ P(w | v), again and again",
            f"From the counts: {written!r}.",
            {"length": len(written.split())},
        ),
    ]
