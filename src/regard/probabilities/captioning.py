"""Captions of images with any captioner, and how good they are: BLEU, exact matches, and the pointing game.

In the pointing game (Zhang et al. 2016; for captions, Liu et al. 2017), the model reads the right caption.
The weights of the step that predicts a word point at the region with the highest weight. The word is a hit if
that region is right: at least a quarter of the region lies in the box of the word.

Shape legend: B images of a batch, P captions, H heads, T positions, R regions.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from regard.models.contract import LanguageModel
from regard.models.given import Images, as_images
from regard.probabilities.quality import bleu
from regard.probabilities.translation import Search, attention_of, crossing_sites, find, forced_attention
from regard.text.captions import Captioned
from regard.text.scenes import Box
from regard.tokens.captions import EncodedCaptions, ImageRows
from regard.tokens.contract import Tokenizer
from regard.tokens.pairs import batches_by_length
from regard.tokens.word_groups import line_groups

BATCH = 1 << 8  # images of a batch, times the number of beams
LONGEST = 60  # the maximal number of tokens in a caption
RIGHT = 0.25  # the least share of a right region that lies in the box


@dataclass(frozen=True)
class Caption:
    """A caption of an image."""

    text: str
    log_prob: float
    score: float  # hypotheses are ranked by the score
    ids: list[int]  # includes the end token, unless the length limit was reached
    tokens: list[str]  # the names of the ids
    # For each site (H, T, R): row t belongs to the step that predicted token t.
    attention: dict[str, Tensor] = field(repr=False)


@dataclass(frozen=True)
class Pointing:
    """The result of the pointing game."""

    words: int  # with a box
    share: float  # of hits
    by_kind: dict[str, float]  # of hits, for each kind of words
    mass: float  # the mean weight on right regions
    chance: float  # the mean share of right regions: that of a model that points anywhere


def caption_images(
    model: LanguageModel,
    tokenizer: Tokenizer,
    images: ImageRows,
    search: Search = Search(),  # noqa: B008 (a frozen value)
    attention: bool = True,
) -> list[list[Caption]]:
    """Return the best captions of each image. `attention` adds attention weights."""
    captions = list[list[Caption]]()
    for places_B in torch.arange(len(images)).split(max(1, BATCH // search.beam)):
        given = images.rows(places_B).to(model.device)
        longest_B = torch.full_like(places_B, LONGEST)
        best = find(model, given, tokenizer, longest_B, places_B, search)
        maps = attention_of(model, given, best) if attention else {}
        for row, hypotheses in enumerate(best):
            captions.append([])
            for number, hypothesis in enumerate(hypotheses):
                ids = [*hypothesis.ids, tokenizer.end] if hypothesis.ended else hypothesis.ids
                weights = {site: rows[row][number] for site, rows in maps.items()}
                text, names = tokenizer.decode(hypothesis.ids), [tokenizer.name(token) for token in ids]
                found = Caption(text, hypothesis.log_prob, hypothesis.score, ids, names, weights)
                captions[-1].append(found)
    return captions


def caption_texts(model: LanguageModel, tokenizer: Tokenizer, images: ImageRows, beam: int = 5) -> list[str]:
    """Return the text of the best caption of each image."""
    search = Search(beam=beam)
    return [best[0].text for best in caption_images(model, tokenizer, images, search, attention=False)]


def quality(texts: Sequence[str], captioned: Captioned) -> dict[str, float]:
    """Return BLEU, and the share of texts that equal a caption of their image."""
    references = captioned.references()
    most = max(map(len, references))
    columns = [[own[k] if k < len(own) else None for own in references] for k in range(most)]
    exact = sum(text in own for text, own in zip(texts, references, strict=True)) / len(texts)
    return {"bleu": bleu(texts, *columns).score, "exact": exact}


def right_regions(given: Images, filled: tuple[int, int], box: Box) -> Tensor:
    """(R): True for the right regions of a box, in an image that fills (height, width) of its frame."""
    assert given.grid is not None
    height, width = filled
    edge_R4 = torch.tensor(given.grid.boxes())
    wide_R = edge_R4[:, 2].clamp(max=box.right * width) - edge_R4[:, 0].clamp(min=box.left * width)
    high_R = edge_R4[:, 3].clamp(max=box.bottom * height) - edge_R4[:, 1].clamp(min=box.top * height)
    size_R = (edge_R4[:, 2] - edge_R4[:, 0]) * (edge_R4[:, 3] - edge_R4[:, 1])
    share_R = wide_R.clamp(min=0) * high_R.clamp(min=0) / size_R
    # A box that is smaller than a quarter of every region has the region that holds most of it.
    return share_R >= share_R.max().clamp(max=RIGHT)


def play_pointing(
    model: LanguageModel, tokenizer: Tokenizer, encoded: EncodedCaptions, captioned: Captioned
) -> Pointing | None:
    """Play the pointing game, or return None without boxes, without a grid, or without attention.

    The weights are averaged over layers and heads.
    """
    given = as_images(model.given)
    if captioned.boxes is None or given.grid is None or not crossing_sites(model):
        return None
    hits, mass, chance = defaultdict[str, list[bool]](list), list[float](), list[float]()
    for places_B in batches_by_length(encoded, model.batch_tokens // 4):
        maps = forced_attention(model, encoded, places_B)
        weights_BTR = torch.stack([weights_BHTR.mean(1) for weights_BHTR in maps.values()]).mean(0)
        for weights_TR, place in zip(weights_BTR, places_B.tolist(), strict=True):
            words = line_groups(captioned.captions[place], tokenizer)
            for box in captioned.boxes[place]:
                right_R = right_regions(given, encoded.images.filled(captioned.image_P[place]), box)
                weights_R = weights_TR[words[box.word].start]
                hits[box.kind].append(bool(right_R[weights_R.argmax()]))
                mass.append(float(weights_R[right_R].sum()))
                chance.append(float(right_R.float().mean()))
    if not mass:
        return None
    shares = {kind: sum(found) / len(found) for kind, found in hits.items()}
    share = sum(map(sum, hits.values())) / len(mass)
    by_kind = shares if set(shares) != {""} else {}
    return Pointing(len(mass), share, by_kind, sum(mass) / len(mass), sum(chance) / len(chance))
