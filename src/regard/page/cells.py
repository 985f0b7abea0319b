"""Parts of maps as bytes: tiles of a map, and small maps.

Shape legend: H heads, Q rows, K columns.
"""

import torch
from torch import Tensor

from regard.errors import UserError
from regard.inside.record import Map
from regard.page import protocol


def tile(band_QK: Tensor, site_map: Map, question: protocol.TileQuestion) -> bytes:
    """Return a byte for each block of cells, row by row; cells past the end of the map are 0."""
    block = question.block
    first, across = (question.column - site_map.first) // block, -(-question.columns // block)
    part_QK = band_QK[:, first : first + across]
    missing = across - part_QK.shape[1]
    below = -(-question.rows // block) - part_QK.shape[0]
    return _bytes(torch.nn.functional.pad(part_QK, (0, missing, 0, below)), site_map, question.gain)


def small_maps(site_map: Map, question: protocol.MosaicQuestion) -> bytes:
    """Return (heads, size, size) bytes. Rows and columns are pooled, the largest is kept."""
    heads = _coarse(site_map, question.size)
    return b"".join(_bytes(head_QK, site_map, question.gain) for head_QK in heads)


def band(site_map: Map, question: protocol.TileQuestion, shift: int) -> Tensor:
    """(rows, columns) in blocks: some rows of a head, or of the mean of all heads, with all columns."""
    rows = _inside(question.row, question.rows, site_map.rows[-1] + 1)
    part_HQK = site_map.tile(rows, heads=None if question.head < 0 else [question.head])
    part_QK = part_HQK.mean(0)[:, shift:]
    block, (height, width) = question.block, part_QK.shape
    return part_QK if block == 1 else _pooled(part_QK, -(-height // block), -(-width // block), block)


def _coarse(site_map: Map, size: int) -> Tensor:
    """(H, size, size): the map of each head, pooled."""
    rows = range(site_map.rows[0] if site_map.more is None else site_map.first, site_map.rows[-1] + 1)
    block = -(-len(rows) // size)
    if site_map.largest is not None and len(rows) == len(site_map.column_names):
        largest_HQK = site_map.largest(block)
        missing = size - largest_HQK.shape[2]
        return torch.nn.functional.pad(largest_HQK, (0, missing, 0, missing))
    parts, step = list[Tensor](), block * max(1, 256 // block)
    for start in range(rows.start, rows.stop, step):
        parts.append(site_map.tile(range(start, min(rows.stop, start + step))))
    whole_HQK = torch.cat(parts, 1)
    across = -(-whole_HQK.shape[2] // size)
    return torch.stack([_pooled(head_QK, size, size, block, across) for head_QK in whole_HQK])


def _pooled(part_QK: Tensor, rows: int, columns: int, block: int, across: int | None = None) -> Tensor:
    """(rows, columns): the number of the largest magnitude of each block; empty blocks are 0."""
    across = across or block
    if float(part_QK.min()) >= 0:  # weights: the library's kernel is much faster
        pooled = torch.nn.functional.max_pool2d(part_QK[None], (block, across), ceil_mode=True)[0]
        return torch.nn.functional.pad(pooled, (0, columns - pooled.shape[1], 0, rows - pooled.shape[0]))
    padded = torch.nn.functional.pad(
        part_QK, (0, columns * across - part_QK.shape[1], 0, rows * block - part_QK.shape[0])
    )
    blocks = padded.reshape(rows, block, columns, across).transpose(1, 2).reshape(rows, columns, -1)
    return blocks.gather(2, blocks.abs().argmax(2, keepdim=True)).squeeze(2)


def _bytes(part_QK: Tensor, site_map: Map, gain: float) -> bytes:
    """Return square roots of weights times a gain as 0 to 255, or shares of the largest value around 128.

    Square roots keep the differences between the many small weights of a long text.
    """
    if site_map.weighs:
        levels = (part_QK * gain).clamp(0, 1).sqrt() * 255
    else:
        levels = part_QK / (float(site_map.numbers.abs().max()) or 1.0) * 127 + 128
    return levels.round().clamp(0, 255).byte().numpy().tobytes()


def _inside(first: int, count: int, end: int) -> list[int]:
    rows = list(range(first, min(first + count, end)))
    if not rows:
        raise UserError(f"the map has rows up to {end - 1}; there is no row {first}")
    return rows
