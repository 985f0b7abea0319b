"""A run in another form: an n-gram model as an ARPA file, an ARPA file as a run folder, a Transformer as a GPT-2 checkpoint."""

import os
from pathlib import Path

from regard.errors import UserError
from regard.models import arpa, gpt2
from regard.models.ngram import Ngram
from regard.models.transformer import Transformer
from regard.runs.folder import Run, as_run, renamed_into, save
from regard.tokens.contract import Tokenizer
from regard.tokens.subwords import SubwordTokenizer
from regard.tokens.words import WordTokenizer


def export(run: Run | str | Path, to: str | Path) -> Path:
    """Write a run as `FILE.arpa` or `FILE.arpa.gz`; an ARPA file as a run folder; a Transformer as a folder that Hugging Face opens.

    >>> regard.export("runs/ngram", "model.arpa.gz")  # doctest: +SKIP
    """
    opened, out = as_run(run), Path(to)
    if not arpa.is_arpa(out):
        if isinstance(opened.model, Transformer):
            return _checkpoint(opened.model, opened.tokenizer, out)
        if not isinstance(opened.model, Ngram):
            raise UserError(f"a {opened.model.family} run has no other form; its folder can be copied as it is")
        return save(opened, out).folder or out
    if out.exists():
        raise UserError(f"{out}: exists already; choose another --to or remove it")
    if not isinstance(opened.model, Ngram):
        raise UserError(f"an ARPA file holds an n-gram model; this run is of the family {opened.model.family}")
    if not isinstance(opened.tokenizer, WordTokenizer):
        raise UserError(f"an ARPA file holds words; this run reads --tokens {opened.tokenizer.kind}")
    beside = out.with_name(f".{os.getpid()}.{out.name}")
    try:
        arpa.write(opened.model, opened.tokenizer, beside)
        os.rename(beside, out)
    finally:
        beside.unlink(missing_ok=True)
    return out


def _checkpoint(model: Transformer, tokenizer: Tokenizer, out: Path) -> Path:
    if out.exists():
        raise UserError(f"{out}: exists already; choose another --to or remove it")
    if not isinstance(tokenizer, SubwordTokenizer):
        raise UserError(f"GPT-2 reads byte-pair encoding; this run reads --tokens {tokenizer.kind}: train one with --tokens bpe")
    with renamed_into(out) as folder:
        gpt2.write(model, tokenizer, folder)
    return out
