"""The lesson about n-grams: counting, smoothing, generation."""

import math
from itertools import pairwise

import torch

from regard.lessons.drawing import Bars
from regard.lessons.inputs import need
from regard.lessons.lesson import Step, listed
from regard.lessons.question import ask
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
    seen = {token: p for token, p in counted.items() if p > 0}
    unseen_p = {name: after(name)[tokenizer.name(word)] for name in ("add 1", "Kneser-Ney")}
    return [
        _count(context, seen, sentences),
        Step(
            "A pair never seen",
            "count(v w) = 0, so P = 0",
            f"{context!r} was never followed by {unseen!r}, so every sentence with this pair has "
            "probability 0.",
            {"unseen": counted[tokenizer.name(word)]},
            latex=r"\mathrm{count}(v\,w) = 0 \;\Rightarrow\; P(w \mid v) = 0",
            intro=f"The pair '{context} {unseen}' is not in the sentences.",
        ),
        _smoothing(context, unseen, unseen_p, sum(after("Kneser-Ney").values()), tokenizer.size),
        Step(
            "Generate",
            "w ~ P(w | v), again and again",
            f"From the counts: {written!r}. Each pair of words is in the sentences; the whole may not be.",
            {"length": len(written.split())},
            latex=r"w_{i+1} \sim P(w \mid w_i)",
            intro="Draw a word, append it, and draw again. The model sees one word of context only.",
        ),
    ]


def _count(context: str, seen: dict[str, float], sentences: tuple[str, ...]) -> Step:
    """The words after one word, counted and normalised."""
    best = max(seen, key=lambda token: seen[token])
    total = sum(sentence.split().count(context) for sentence in sentences)
    return Step(
        "Count and normalise",
        "P(w | v) = count(v w) / count(v)",
        f"{context!r} stands {total} times in the sentences, followed by {listed(list(seen))}.",
        {"after": seen},
        Bars(list(seen.values()), list(seen), f"P(w | {context})"),
        latex=r"P(w \mid v) = \frac{\mathrm{count}(v\,w)}{\mathrm{count}(v)}",
        intro=f"The sentences: {' / '.join(sentences)}.",
        question=ask(
            f"What is P({best} | {context})?",
            (f"{seen[best]:.3g}", f"'{context} {best}' counts {round(seen[best] * total)} of {total}."),
            (f"{1 / len(sentences) / 4:.3g}", "Only the words after the context count, not all words."),
            ("1", f"{context!r} has other followers, too." if len(seen) > 1 else "It has other followers."),
        ),
    )


def _smoothing(context: str, unseen: str, unseen_p: dict[str, float], total: float, size: int) -> Step:
    """Two ways to give a pair that was never seen a probability."""
    return Step(
        "Smoothing",
        "(count(v w) + 1) / (count(v) + V);  Kneser-Ney: max(count - D, 0) / count(v) + backoff(v) P(w)",
        f"{unseen!r} after {context!r} now has probability {unseen_p['add 1']:.3f} (add 1) and "
        f"{unseen_p['Kneser-Ney']:.3f} (Kneser-Ney). Pairs that were seen pay for it.",
        unseen_p | {"sum": total},
        Bars(list(unseen_p.values()), list(unseen_p), f"P({unseen} | {context})"),
        latex=r"\frac{\mathrm{count}(v\,w) + 1}{\mathrm{count}(v) + V}",
        intro=f"Pretend that every pair was seen once more. V = {size} tokens: the words, the "
        "end of a line, and a token for unknown words. Kneser-Ney moves probability only from pairs that "
        "were seen.",
    )
