r"""n-gram models as ARPA files, plain or gzipped, which KenLM and SRILM read and write.

ARPA files reserve the words `<unk>`, `<s>` and `</s>`. If a text contains one of them as a word, the word is
written with a backslash: `\<unk>` is the word `<unk>`, and `<unk>` is the class of unknown words.

Shape legend: G n-grams of one order.
"""

import gzip
import math
import zlib
from pathlib import Path
from typing import final

import numpy as np
import torch

from regard.errors import UserError, notify
from regard.models.model import Model
from regard.models.ngram import Ngram
from regard.runs.formats.arpa_reader import ZERO, escape, open_to_read, read
from regard.runs.formats.format import Format
from regard.runs.run import Run, describe
from regard.tokens.words import WordTokenizer

HEAD = 1 << 16  # the bytes in which \data\ must stand in a file whose name does not end in .arpa


@final
class Arpa(Format):
    name = "arpa"
    about = "an ARPA file"
    endings = (".arpa", ".arpa.gz")

    def recognises(self, path: Path) -> bool:
        return path.is_file() and (path.name.endswith(self.endings) or _has_head(path))

    def read(self, path: Path, family: type[Model] | None = None) -> Run:
        model, tokenizer = read(path)
        return Run(model.eval(), tokenizer, describe(model, made_from=path.name))

    def write(self, run: Run, out: Path) -> None:
        if not isinstance(run.model, Ngram):
            raise UserError(
                f"an ARPA file holds an n-gram model; this run is of the family {run.model.family}"
            )
        if not isinstance(run.tokenizer, WordTokenizer):
            raise UserError(f"an ARPA file holds words; this run reads `tokens` {run.tokenizer.kind}")
        if run.tokenizer.document != "line":
            change = f"this run's documents are of the kind {run.tokenizer.document}: its figures change"
            notify(f"an ARPA file reads each line as a document of its own, and {change}")
        write(run.model, run.tokenizer, out)


def _has_head(path: Path) -> bool:
    """Whether \\data\\ stands alone on a line at the beginning of the file."""
    try:
        with open_to_read(path) as file:
            return b"\\data\\" in (line.strip() for line in file.read(HEAD).splitlines())
    except (OSError, EOFError, zlib.error):
        return False


def write(model: Ngram, tokenizer: WordTokenizer, path: Path) -> None:
    names = [b"</s>", b"<unk>", *map(escape, tokenizer.words), b"<s>"]
    with gzip.open(path, "wb") if path.name.endswith(".gz") else open(path, "wb") as file:
        sizes = [len(names), *(len(model.get_buffer(f"key_{order}")) for order in range(2, model.order + 1))]
        counts = "".join(f"ngram {order}={size}\n" for order, size in enumerate(sizes, 1))
        file.write(f"\\data\\\n{counts}".encode())
        contexts = names
        for order in range(1, model.order + 1):
            file.write(f"\n\\{order}-grams:\n".encode())
            if order == 1:
                ngrams = names
            else:
                key_G = model.get_buffer(f"key_{order}")
                context, word = (
                    (key_G // model.vocabulary_size).tolist(),
                    (key_G % model.vocabulary_size).tolist(),
                )
                ngrams = [contexts[c] + b" " + names[w] for c, w in zip(context, word, strict=True)]
            log_probs = _log10(model.get_buffer(f"log_prob_{order}"))
            if order == 1:
                log_probs = np.append(log_probs, ZERO)  # the start mark
            if order < model.order:
                backoffs = _log10(model.get_buffer(f"backoff_{order}"))
                rows = zip(log_probs.tolist(), ngrams, backoffs.tolist(), strict=True)
                file.writelines(b"%.8g\t%b\t%.8g\n" % row for row in rows)
            else:
                file.writelines(b"%.8g\t%b\n" % row for row in zip(log_probs.tolist(), ngrams, strict=True))
            contexts = ngrams
        file.write(b"\n\\end\\\n")


def _log10(natural: torch.Tensor) -> np.ndarray:
    return np.maximum(natural.double().numpy() / math.log(10), ZERO)
