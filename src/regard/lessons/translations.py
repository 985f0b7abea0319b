"""Lessons about translation: the bottleneck of one vector, and attention as a mixture of source words.

Shape legend: Q target positions, K source positions.
"""

from collections import Counter, defaultdict
from collections.abc import Callable
from functools import cache

import torch

from regard.errors import UserError
from regard.lessons.attention import Matrix, as_row, scores_of, weights_of
from regard.lessons.drawing import Bars, Grid
from regard.lessons.inputs import need
from regard.lessons.lesson import Step, listed, numbers
from regard.lessons.question import ask
from regard.lessons.shipped import shipped
from regard.parts.attention import weigh
from regard.parts.masks import everything
from regard.parts.scores import Dot
from regard.probabilities.quality import bleu
from regard.probabilities.translation import Search, translate, translate_lines
from regard.text.grammar import ADJECTIVES, DETERMINERS, Pair, english_spanish

MODELS = {
    "one vector": "translator-one-vector",
    "attention": "translator-attention",
    "Transformer": "translator-transformer",
}
SENTENCES = (
    "The dog ran really fast",
    "I love you a lot",
    "The white cat sees that the old king walked but we follow him",
)
BINS = ((1, 6), (7, 11), (12, 16), (17, 40))  # source words
EACH = 12  # sentences of a bin
TRAINED_ON = 7  # the seed of the built-in pairs; other seeds give other sentences


@cache
def _dictionary() -> dict[str, str]:
    """Return the most frequent translation of each word in the built-in pairs.

    Feminine articles and adjectives count for the masculine form, which a dictionary lists.
    """
    listed_as = {feminine: masculine for masculine, feminine in (*DETERMINERS.values(), *ADJECTIVES.values())}
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for pair in english_spanish():
        source, target = pair.source.lower().split(), pair.target.lower().split()
        for i, j in pair.alignment:
            counts[source[i]][listed_as.get(target[j], target[j])] += 1
    return {word: found.most_common(1)[0][0] for word, found in counts.items()}


def word_for_word(sentence: str) -> str:
    words = [_dictionary().get(word.lower(), word) for word in sentence.split()]
    return " ".join([words[0].capitalize(), *words[1:]])


def _translators() -> dict[str, Callable[[list[str]], list[str]]]:
    def by(name: str) -> Callable[[list[str]], list[str]]:
        run = shipped(name)
        return lambda lines: translate_lines(run.language_model, *run.both_tokenizers(), lines, beam=1)

    learned = {label: by(name) for label, name in MODELS.items()}
    return {"word for word": lambda lines: list(map(word_for_word, lines)), **learned}


@cache
def _new_pairs() -> dict[str, tuple[Pair, ...]]:
    """Return pairs that no model has read, by their length."""
    known = {pair.source for pair in english_spanish()}
    new = [pair for pair in english_spanish(seed=TRAINED_ON + 4) if pair.source not in known]
    bins = {}
    for low, high in BINS:
        found = [pair for pair in new if low <= len(pair.source.split()) <= high]
        bins[f"{low}-{high}"] = tuple(found[:: max(1, len(found) // EACH)][:EACH])
    return bins


def bottleneck(sentences: tuple[str, ...] = SENTENCES, words: int = 10_000, length: int = 5) -> list[Step]:
    """One vector must hold the whole sentence: four translators on the same sentences, and how they fall."""
    answers = {name: translator(list(sentences)) for name, translator in _translators().items()}
    return [
        _whole_sentences(words, length),
        _each_word(answers["word for word"], sentences),
        _same_sentences(answers, sentences),
        _by_length(),
    ]


def _whole_sentences(words: int, length: int) -> Step:
    count = float(words) ** length
    need(count < 1e300, "that is too many sentences to write down: give fewer words or a smaller length")
    return Step(
        "Learning whole sentences",
        "(#words)^S sentences of S words",
        f"{words:,} words make {count:.0e} sentences of {length} words. At a million sentences a second "
        f"they take {count / 1e6 / 3.15e7:.1g} years to read once. So a model must build translations "
        "from parts.",
        {"sentences": count},
        latex=r"(\#\mathrm{words})^S",
        intro=f"A table from sentences to translations would need every sentence. Take {words:,} words and S "
        f"= {length}.",
        question=ask(
            f"How many sentences of {length} words are there?",
            (f"{count:.0e}", f"{words:,} choices at each of {length} places."),
            (f"{words * length:.0e}", "Choices multiply; they do not add."),
            (
                f"{float(length) ** words:.0e}" if length ** min(words, 9) < 1e9 and words < 20 else "5e+07",
                "Each place has one of all words: (#words)^S.",
            ),
        ),
    )


def _each_word(said: list[str], sentences: tuple[str, ...]) -> Step:
    known = {pair.source: pair.target for pair in english_spanish()}
    told = []
    for sentence, translation in zip(sentences, said, strict=True):
        right = known.get(sentence)
        verdict = "" if right is None else " (right)" if right == translation else f" (right: {right})"
        told.append(f"'{sentence}' becomes '{translation}'{verdict}")
    return Step(
        "Word for word",
        "y_i = dictionary(x_i)",
        f"{'; '.join(told)}. It works only if both languages use as many words, in the same order, "
        "whatever the context.",
        {
            "lengths": [
                [len(sentence.split()), len(translation.split())]
                for sentence, translation in zip(sentences, said, strict=True)
            ]
        },
        latex=r"y_i = \mathrm{dictionary}(x_i)",
        intro="Each word is replaced by its most frequent translation in the built-in text.",
        question=ask(
            "Which of the lecture's two sentences works word for word?",
            (
                "The dog ran really fast",
                "Five words for five words, in the same order: El perro corrió muy rápido.",
            ),
            (
                "I love you a lot",
                "Te amo mucho has three words: 'I' is in the verb's ending, and the pronoun comes first.",
            ),
        ),
    )


def _same_sentences(answers: dict[str, list[str]], sentences: tuple[str, ...]) -> Step:
    told = [
        f"'{sentence}': " + "; ".join(f"{name}: '{said[place]}'" for name, said in answers.items())
        for place, sentence in enumerate(sentences)
    ]
    agree = sum(said[-1] == answers["attention"][-1] for said in answers.values())
    return Step(
        "The same sentences by four models",
        "one vector: s_0 = W [h_forward; h_backward];  attention: every h_j, at every step",
        ". ".join(told) + ".",
        {"models": len(answers), "that agree on the last sentence": agree},
        latex=r"s_0 = W [\overrightarrow{h}_n; \overleftarrow{h}_1] \qquad \text{or} \qquad c_t = \sum_j "
        r"a_{tj} h_j",
        intro="All three networks are small (width 40; the Transformer 32) and were trained on the same "
        "5,000 pairs with the "
        "same number of steps.",
    )


def _by_length() -> Step:
    """BLEU on new sentences of each length."""
    pairs = _new_pairs()
    lines: dict[str, list[tuple[float, float]]] = {}
    for name, translator in _translators().items():
        lines[name] = []
        for found in pairs.values():
            said = translator([pair.source for pair in found])
            mean = sum(len(pair.source.split()) for pair in found) / len(found)
            lines[name].append((round(mean, 1), bleu(said, [pair.target for pair in found]).score))
    table = [[score for _, score in points] for points in lines.values()]
    first, last = lines["one vector"][0][1], lines["one vector"][-1][1]
    return Step(
        "Quality against length",
        "BLEU on sentences that no model has read",
        f"One vector falls from BLEU {first:.0f} on {next(iter(pairs))} words to {last:.0f} on "
        f"{list(pairs)[-1]}. With attention it is {lines['attention'][0][1]:.0f} and "
        f"{lines['attention'][-1][1]:.0f}: attention stops the fall, because no vector has to hold "
        "everything. A bidirectional RNN alone does not: its last states are still one vector.",
        {"BLEU": table},
        Grid(table, list(lines), list(pairs), "BLEU by the number of source words", 0),
        latex=r"\mathrm{BLEU} \text{ against } n",
        intro=f"{sum(map(len, pairs.values()))} new sentences of the same grammar.",
        question=ask(
            "Which model gets worse with longer sentences?",
            ("the one vector", f"{first:.0f} to {last:.0f} BLEU."),
            (
                "attention",
                f"{lines['attention'][0][1]:.0f} to {lines['attention'][-1][1]:.0f} BLEU: it can look at "
                "every word.",
            ),
            ("none", "One vector of fixed width has to hold more and more words."),
        ),
    )


TRANSLATION = ((0.0, 0.0, 1.0, 0.0, 0.0), (0.25, 0.75, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.5, 0.5))


def translation(
    source: str = "I love you a lot",
    target: str = "Te amo mucho",
    weights: Matrix = TRANSLATION,
    beam: int = 4,
) -> list[Step]:
    """Sentences of other lengths and orders: each target word is a mixture of source words."""
    source_words, target_words = source.split(), target.split()
    if (len(target_words), len(source_words)) != (len(weights), len(weights[0])):
        sizes = f"{len(target_words)} target words and {len(source_words)} source words"
        raise UserError(f"{sizes} need as many rows and columns of weights")
    keys = torch.eye(len(source_words), dtype=torch.float64)
    mixed = weigh(as_row(scores_of(weights)), as_row(keys), score=Dot(), mask=everything)[0, 0]
    return [
        _straight(),
        _mixture(source_words, target_words, numbers(mixed)),
        _trained(source),
        _in_a_transformer(source),
        _search(source, beam),
    ]


def _straight() -> Step:
    easy = ["The", "dog", "ran", "really", "fast"], ["El", "perro", "corrió", "muy", "rápido"]
    one_hot = torch.eye(5, dtype=torch.float64)
    straight = weights_of(100 * one_hot, one_hot)
    return Step(
        "Word for word",
        "y_i = x_i",
        "Each target word takes one source word, in the same order: the weights are a diagonal.",
        {"straight": numbers(straight)},
        Grid(numbers(straight), easy[1], easy[0]),
        latex=r"y_i = x_i",
        intro="Word for word is attention whose weights are 1 on the diagonal.",
    )


def _mixture(source: list[str], target: list[str], mixed: list[list[float]]) -> Step:
    row = max(range(len(target)), key=lambda place: -max(mixed[place]))
    parts = [f"{weight:g} {word}" for weight, word in zip(mixed[row], source, strict=True) if weight]
    best = max(range(len(source)), key=lambda place: mixed[0][place])
    return Step(
        "A mixture",
        f"{target[row]} = {' + '.join(parts)}",
        f"'{target[row]}' is made of {listed(parts)}. {len(source)} source words become {len(target)} "
        "target words, in another order.",
        dict(zip(target, mixed, strict=True)),
        Grid(mixed, target, source),
        latex=r"y_i = \sum_j w_{ij} x_j",
        intro="Every target word attends to the whole source.",
        question=ask(
            f"Which source word does '{target[0]}' need most?",
            (source[best], f"Its weight is {mixed[0][best]:g}."),
            *(
                (word, f"Its weight is {mixed[0][place]:g}.")
                for place, word in enumerate(source)
                if mixed[0][place] < mixed[0][best]
            ),
        ),
    )


def _trained(source: str) -> Step:
    """The attention of a small trained translator."""
    run = shipped("translator-attention")
    ((best, *_),) = translate(run.language_model, *run.both_tokenizers(), [source])
    weights = numbers(best.attention["attention"][0])
    looks = [
        f"'{word}' at '{best.source_tokens[row.index(max(row))]}'"
        for word, row in zip(best.tokens, weights, strict=True)
        if not word.startswith("<")
    ]
    return Step(
        "A small trained model",
        "a_tj = softmax_j score(s_t, H_j)",
        f"The model writes: {best.text}. It looks for {listed(looks)}. Nobody told it which words belong "
        "together: the alignment is learned from pairs of sentences.",
        {"grid": weights},
        Grid(weights, best.tokens, best.source_tokens, "a: row = target word", 2),
        latex=r"a_{tj} = \mathrm{softmax}_j\, \mathrm{score}(s_t, H_j)",
        intro="A small recurrent translator, trained on 5,000 pairs of the built-in grammar.",
    )


def _in_a_transformer(source: str) -> Step:
    """The cross-attention of a small Transformer translator: every layer and head has a map."""
    run = shipped("translator-transformer")
    ((best, *_),) = translate(run.language_model, *run.both_tokenizers(), [source])
    maps = {name: weights for name, weights in best.attention.items() if "cross" in name}
    heads = next(iter(maps.values())).shape[0]
    last = maps[max(maps)]
    return Step(
        "Encoder and decoder of a Transformer",
        "q from the decoder;  k, v from the encoder;  softmax(q K^T / sqrt(d_k)) V",
        f"The Transformer writes: {best.text}. Its decoder attends to the source in {len(maps)} layers with "
        f"{heads} heads each; the picture is their mean in the last layer. The source is read once, "
        f"without a "
        "mask, and its keys and values serve every target word.",
        {"maps": [len(maps), *last.shape], "mean of the last layer": numbers(last.mean(0))},
        Grid(numbers(last.mean(0)), best.tokens, best.source_tokens, "last layer, mean of the heads", 2),
        latex=r"\mathrm{softmax}\left(\frac{Q_{\mathrm{decoder}} K_{\mathrm{encoder}}^\top}"
        r"{\sqrt{d_k}}\right) V_{\mathrm{encoder}}",
        intro="A Transformer translator has two stacks. The encoder's words attend to each other; the "
        "decoder's "
        "words attend to the words written so far, and then to the encoder's.",
        question=ask(
            "Which of the three attentions has a causal mask?",
            (
                "the decoder's to its own words",
                "It must not see the words that it has yet to write.",
            ),
            (
                "the encoder's to its own words",
                "The whole source is known, so every word may see every word.",
            ),
            ("the decoder's to the source", "The whole source is known before the first word is written."),
        ),
    )


def _search(source: str, beam: int) -> Step:
    """The best sentences of a beam search, beside the greedy one."""
    run = shipped("translator-attention")
    (found,) = translate(
        run.language_model, *run.both_tokenizers(), [source], Search(beam=beam, count=beam), attention=False
    )
    (greedy,) = translate_lines(run.language_model, *run.both_tokenizers(), [source], beam=1)
    scores = [best.score for best in found]
    same = (
        "the greedy search writes the same" if greedy == found[0].text else f"the greedy search: '{greedy}'"
    )
    return Step(
        "Choosing a whole sentence",
        "greedy: the likeliest word at each step;  beam: the k likeliest beginnings;  score = log P / length",
        f"A beam of {beam} ends with '{found[0].text}' ({scores[0]:.3f}); {same}. "
        + (f"Second is '{found[1].text}' ({scores[1]:.3f})." if len(found) > 1 else ""),
        {"scores": scores, "sentences": [best.text for best in found]},
        Bars(scores, [best.text for best in found], "log P / length"),
        latex=r"\arg\max_y \frac{1}{|y|} \sum_t \log P(y_t \mid y_{<t}, x)",
        intro="The likeliest first word need not begin the likeliest sentence. A beam search keeps several "
        "beginnings, and goes on with each of them.",
        question=ask(
            "What is a beam of 1?",
            ("a greedy search", "Only the likeliest beginning is kept at each step."),
            ("sampling", "Sampling draws words at random. A beam search draws nothing."),
        ),
    )
