"""The whole walk through a Transformer (see walks.py).

Shape legend: T positions, D width, F width of the feed-forward layer.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.lessons.drawing import Grid, Row
from regard.lessons.lesson import Step, numbers
from regard.lessons.question import ask
from regard.lessons.walks import Walk, first_steps, other_pronoun, readout_steps
from regard.lessons.walks_choice import choose_a_word, count_the_numbers
from regard.models.transformer import Transformer
from regard.models.trunk import Block
from regard.parts.attention import softmax
from regard.parts.masks import causal


def walk_transformer(walk: Walk) -> list[Step]:
    model = walk.run.language_model
    assert isinstance(model, Transformer)
    embedded_TD = model.embedding.weight[walk.ids_1T[0]]
    first = _layer(model, 0, embedded_TD)
    second = _layer(model, 1, first.out_TD)
    final_TD = model.trunk.final_norm(second.out_TD)
    return [
        *first_steps(walk, embedded_TD),
        _positions(walk),
        _norm(walk, model, embedded_TD, first.normed_TD),
        *_queries_and_keys(walk, model, first),
        *_scores(walk, first),
        _weights(walk, first),
        *_rest_of_layer(walk, first, embedded_TD),
        _second_layer(walk, first, second),
        *readout_steps(walk, final_TD, "final norm of x"),
        choose_a_word(walk),
        count_the_numbers(walk),
        other_pronoun(walk),
    ]


@dataclass(frozen=True)
class LayerNumbers:
    """Every number of one block, in the order of the computation."""

    normed_TD: Tensor
    query_TD: Tensor
    key_TD: Tensor
    value_TD: Tensor
    turned_query_TD: Tensor
    turned_key_TD: Tensor
    product_TT: Tensor
    scaled_TT: Tensor
    masked_TT: Tensor
    weights_TT: Tensor
    mixed_TD: Tensor
    projected_TD: Tensor
    after_attention_TD: Tensor
    inner_TF: Tensor
    fed_TD: Tensor
    out_TD: Tensor


def _layer(model: Transformer, number: int, x_TD: Tensor) -> LayerNumbers:
    block, positions = model.trunk.blocks[number], model.trunk.positions
    assert isinstance(block, Block)
    normed = block.attention_norm(x_TD)
    query, key, value = block.project(normed).chunk(3, 1)
    angles = positions.angles(torch.arange(len(x_TD))[None])
    turned_query, turned_key = positions.turn(torch.stack([query, key])[None], angles)[0]
    product = turned_query @ turned_key.T
    scaled = product / math.sqrt(query.shape[1])
    masked = scaled.masked_fill(~causal.visible(len(x_TD), len(x_TD))[0], -math.inf)
    weights = softmax(masked[None, None])[0, 0]
    mixed = weights @ value
    projected = block.out(mixed)
    after = x_TD + projected
    inner = F.gelu(block.feed.up(block.feed_norm(after)), approximate="tanh")
    fed = block.feed.down(inner)
    return LayerNumbers(
        normed,
        query,
        key,
        value,
        turned_query,
        turned_key,
        product,
        scaled,
        masked,
        weights,
        mixed,
        projected,
        after,
        inner,
        fed,
        after + fed,
    )


def _positions(walk: Walk) -> Step:
    model = walk.run.language_model
    assert isinstance(model, Transformer)
    angles = model.trunk.positions.angles(torch.arange(len(walk.words))[None])
    assert angles is not None
    turns = torch.atan2(angles[1], angles[0]).reshape(len(walk.words), -1)
    half = turns[:, : turns.shape[1] // 2]  # the other half turns by the same angles
    return Step(
        "Position",
        "q_t and k_t will be turned by the angles t w_i (rotary positions)",
        "Nothing is added to x. The product of a turned query and a turned key depends on the distance "
        "between their words, so the model can tell the second word before from the third.",
        {"angles of the last word": numbers(half[-1])},
        walk.grid(half, "angles (radians, between -3.14 and 3.14)"),
        latex=r"q_t \mapsto R(\omega t)\, q_t, \qquad k_t \mapsto R(\omega t)\, k_t",
        intro="Attention alone does not know the order of words. Here each pair of numbers in a query or key "
        "is turned by an angle that grows with the position.",
    )


def _norm(walk: Walk, model: Transformer, x_TD: Tensor, normed_TD: Tensor) -> Step:
    block = model.trunk.blocks[0]
    assert isinstance(block, Block)
    norm = block.attention_norm
    assert isinstance(norm, torch.nn.LayerNorm)
    mean, spread = float(x_TD[-1].mean()), float(x_TD[-1].std(correction=0))
    plain_D = F.layer_norm(x_TD[-1], (x_TD.shape[1],), eps=norm.eps)
    return Step(
        "Norm",
        "norm(x) = g * (x - mean) / sqrt(variance + epsilon) + b, for each word alone",
        f"The vector of {walk.last} has the mean {mean:.3f} and the spread {spread:.3f}. Less its mean and "
        f"divided by its spread, it has {float(plain_D.mean()):.0f} and "
        f"{float(plain_D.std(correction=0)):.3f}. "
        "Then g and b, learned for each component, scale and shift it.",
        {"mean": mean, "spread": spread, "g": numbers(norm.weight), "b": numbers(norm.bias)},
        Row([walk.grid(x_TD, "x", digits=1), walk.grid(normed_TD, "norm(x)", digits=1)]),
        latex=r"\mathrm{norm}(x) = g \odot \frac{x - \bar{x}}{\sqrt{\mathrm{Var}(x) + \epsilon}} + b",
        intro="Vectors of all words get the same scale before they are compared, whatever earlier layers "
        "have "
        "added to them.",
    )


def _asking(walk: Walk) -> int:
    """Return the place of the pronoun, or of the last word."""
    return next((p for p, word in enumerate(walk.words) if word in ("he", "she")), len(walk.words) - 1)


def _queries_and_keys(walk: Walk, model: Transformer, layer: LayerNumbers) -> list[Step]:
    width, pronoun = layer.query_TD.shape[1], _asking(walk)
    asking = walk.words[pronoun]
    block = model.trunk.blocks[0]
    assert isinstance(block, Block)
    W_q, W_k, W_v = block.project.weight.chunk(3)
    columns = [str(place) for place in range(width)]
    return [
        Step(
            "W_q, W_k, W_v",
            "q_t = W_q norm(x_t),  k_t = W_k norm(x_t),  v_t = W_v norm(x_t)",
            f"Three {width} x {width} matrices (and biases), all learned.",
            {"W_q": numbers(W_q), "W_k": numbers(W_k), "W_v": numbers(W_v)},
            Row(
                [
                    Grid(numbers(W), columns, columns, name, 1)
                    for name, W in (("W_q", W_q), ("W_k", W_k), ("W_v", W_v))
                ]
            ),
            latex=r"q_t = W_q \tilde{x}_t, \quad k_t = W_k \tilde{x}_t, \quad v_t = W_v \tilde{x}_t, \quad "
            r"\tilde{x}_t = \mathrm{norm}(x_t)",
            intro="Layer 0. x is first normalised: mean 0 and spread 1, then scaled by learned numbers.",
        ),
        Step(
            "q, k, v",
            "Q, K, V: a row for each word",
            f"The query of '{asking}' says what it looks for, the keys what each word offers, the values "
            "what each word gives.",
            {f"q of {asking}": numbers(layer.query_TD[pronoun])},
            Row(
                [
                    walk.grid(layer.query_TD, "q", digits=1),
                    walk.grid(layer.key_TD, "k", digits=1),
                    walk.grid(layer.value_TD, "v", digits=1),
                ]
            ),
            latex=r"Q, K, V \in \mathbb{R}^{T \times d}",
        ),
    ]


def _scores(walk: Walk, layer: LayerNumbers) -> list[Step]:
    width, count, pronoun = layer.query_TD.shape[1], len(walk.words), _asking(walk)
    asking = walk.words[pronoun]
    last = layer.masked_TT[pronoun][: pronoun + 1]
    return [
        Step(
            "S = Q K^T",
            "S_ij = q_i . k_j (turned by their positions)",
            f"S has {count} x {count} numbers. Row i is word i asking, column j is word j answering.",
            {f"scores of {asking}": numbers(layer.product_TT[pronoun])},
            walk.grid(layer.product_TT, "S", walk.words, 1),
            latex=r"S = Q K^\top",
        ),
        Step(
            "Scale and mask",
            f"S / sqrt({width});  -inf for j > i",
            f"Each score is divided by {math.sqrt(width):g}. Row '{asking}' keeps {pronoun + 1} scores, "
            f"and the {count - pronoun - 1} after it are hidden.",
            {f"scaled scores of {asking}": numbers(last)},
            walk.grid(
                layer.masked_TT.masked_fill(layer.masked_TT == -math.inf, 0),
                "scaled; hidden squares are drawn as 0",
                walk.words,
                1,
            ),
            latex=r"\frac{S}{\sqrt{d}} + M, \qquad M_{ij} = -\infty \text{ for } j > i",
            intro="The scale keeps the softmax from saturating. The mask hides the words that a language "
            "model has yet to predict.",
        ),
    ]


def _weights(walk: Walk, layer: LayerNumbers) -> Step:
    pronoun = _asking(walk)
    asking = walk.words[pronoun]
    seen, weight = walk.looked(layer.weights_TT, pronoun)
    return Step(
        "Softmax",
        "A_ij = e^S_ij / sum_j e^S_ij",
        f"'{asking}' gives '{seen}' {weight:.3f} of its weight.",
        {f"weights of {asking}": numbers(layer.weights_TT[pronoun])},
        walk.grid(layer.weights_TT, "A of layer 0: row i looks at column j", walk.words),
        latex=r"A_{ij} = \frac{e^{S_{ij}}}{\sum_j e^{S_{ij}}}",
        intro="Each row becomes weights that sum to 1.",
        question=ask(
            f"In this story, which word should '{asking}' look at?",
            (seen, f"It gives it {weight:.3f} of its weight."),
            *(
                (
                    word,
                    f"The model gives '{word}' {float(layer.weights_TT[pronoun, place]):.3f}, and "
                    f"'{seen}' {weight:.3f}.",
                )
                for place, word in enumerate(walk.words[: pronoun + 1])
                if word[0].isupper()
            ),
        ),
    )


def _rest_of_layer(walk: Walk, layer: LayerNumbers, x_TD: Tensor) -> list[Step]:
    inner = layer.inner_TF.shape[1]
    return [
        Step(
            "Mix, concatenate, project",
            "A V, then W_o",
            "Each row of A V is the average of the values by the row's weights. This model has one head; "
            "several heads would be joined here.",
            {"mixed, last word": numbers(layer.mixed_TD[-1])},
            Row(
                [
                    walk.grid(layer.mixed_TD, "A V", digits=1),
                    walk.grid(layer.projected_TD, "(A V) W_o", digits=1),
                ]
            ),
            latex=r"\mathrm{out} = (A V)\, W_o",
        ),
        Step(
            "Residual",
            "x <- x + out",
            "The old vector stays, and what attention found is added. 'he' is now 'he' plus what it found.",
            {"x of the last word": numbers(layer.after_attention_TD[-1])},
            walk.grid(layer.after_attention_TD, "x after attention", digits=1),
            latex=r"x \leftarrow x + \mathrm{out}",
        ),
        Step(
            "Norm and feed-forward",
            "x <- x + W_2 gelu(W_1 norm(x))",
            f"Each word by itself goes through {inner} units; {int((layer.inner_TF[-1] > 0.1).sum())} of "
            "them are active (above 0.1) at the last word.",
            {"units": inner, "x after layer 0, last word": numbers(layer.out_TD[-1])},
            Row(
                [
                    walk.grid(layer.fed_TD, "what the feed-forward layer adds", digits=1),
                    walk.grid(layer.out_TD, "x after layer 0", digits=1),
                ]
            ),
            latex=r"x \leftarrow x + W_2\, \mathrm{gelu}(W_1\, \mathrm{norm}(x))",
        ),
    ]


def _second_layer(walk: Walk, first: LayerNumbers, second: LayerNumbers) -> Step:
    seen, weight = walk.looked(second.weights_TT)
    place = walk.words.index(seen)
    then, further = walk.looked(first.weights_TT, place)
    hops = (
        f" In layer 0, '{seen}' looked at '{then}' ({further:.3f}). So {walk.last} reaches '{then}' in two "
        "hops."
        if seen in ("he", "she")
        else ""
    )
    return Step(
        "Layer 1: all of it again",
        "the same steps with other weights",
        f"In layer 1, {walk.last} gives '{seen}' {weight:.3f} of its weight.{hops} Other seeds find other "
        "routes to the same answer.",
        {"weights of the last word": numbers(second.weights_TT[-1])},
        walk.grid(second.weights_TT, "A of layer 1", walk.words),
        latex=r"x \leftarrow x + \mathrm{attention}(x), \qquad x \leftarrow x + \mathrm{feed}(x)",
        intro="Norm, q, k, v, S, scale, mask, softmax, mix, project, residual, norm, feed-forward, residual.",
        question=ask(
            f"Where does {walk.last} look in layer 1?",
            (seen, f"{weight:.3f} of its weight.{hops}"),
            *(
                (word, f"It gives '{word}' {float(second.weights_TT[-1, at]):.3f}.")
                for at, word in enumerate(walk.words)
                if word[0].isupper() or word in ("garden", walk.words[-1])
            ),
        ),
    )
