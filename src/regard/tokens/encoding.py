"""Encodes large texts piece by piece, on all cores, in bounded memory."""

import json
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from regard.machine.child import answer_requests, map_on_all_cores
from regard.text.documents import ROW, Piece, split_pieces
from regard.tokens.contract import Tokenizer
from regard.tokens.saved import parse_tokenizer

CHILD = "from regard.tokens.encoding import answer; answer()"
HEAD = struct.Struct("<QQ")  # the number of ids, and of unknown ids


@dataclass(frozen=True)
class EncodedPiece:
    """The ids of a piece, and the index after each document that ends in it."""

    ids: np.ndarray
    ends: np.ndarray
    unknown: int


def encode_strings(tokenizer: Tokenizer, strings: Iterable[str]) -> Iterator[EncodedPiece]:
    """Encode one text, which comes as strings."""
    pieces = split_pieces(strings, tokenizer.document, tokenizer.cut)
    described = json.dumps(tokenizer.to_json()).encode()
    asked = (_to_bytes(piece) for piece in pieces)
    for data in map_on_all_cores(CHILD, described, asked, "the encoding of the text"):
        count, unknown = HEAD.unpack_from(data)
        ids = np.frombuffer(data, np.int32, count, HEAD.size)
        yield EncodedPiece(ids, np.frombuffer(data, np.int64, -1, HEAD.size + ids.nbytes), unknown)


def answer() -> None:
    """Encode pieces from standard input. The first request describes the tokenizer."""
    answer_requests(_encoder)


def _encoder(described: bytes) -> Callable[[bytes], bytes]:
    tokenizer = parse_tokenizer(described, "the tokenizer")

    def encode(data: bytes) -> bytes:
        ids, ends = tokenizer.encode_piece(_from_bytes(data))
        head = HEAD.pack(len(ids), tokenizer.count_unknown(ids))
        return head + ids.astype(np.int32).tobytes() + ends.astype(np.int64).tobytes()

    return encode


def _to_bytes(piece: Piece) -> bytes:
    return bytes([piece.unfinished]) + ROW.join(piece.documents).encode()


def _from_bytes(data: bytes) -> Piece:
    return Piece(data[1:].decode().split(ROW), unfinished=bool(data[0]))
