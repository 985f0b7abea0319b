"""The figure of a masked reader: its pseudo-perplexity."""

from regard.probabilities.blanks import BlankMeasure, measure_blanks
from regard.runs.blanks import require_filler
from regard.runs.run import Run
from regard.tokens.shards import encode_sources
from regard.verbs.arguments import Files


def evaluate_blanks(run: Run, *, text: Files) -> BlankMeasure:
    """Hide each word of a text alone, and measure how well it is predicted."""
    model = require_filler(run)
    encoded = encode_sources(run.tokenizer, run.read(text) or run.own_text())
    document = run.tokenizer.document
    protocol = {"tokens": run.tokenizer.kind, "document": document, "context": model.context}
    return measure_blanks(model, encoded, protocol)
