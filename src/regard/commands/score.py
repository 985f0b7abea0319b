"""regard score RUN: every token with its log-probability."""

import math
import sys
from dataclasses import asdict, dataclass
from itertools import chain

from regard.commands.parsing import EditFile, RunPath, parse
from regard.commands.printing import escaped, print_json
from regard.runs.looking import under
from regard.runs.using import ScoredToken, score


@dataclass(frozen=True, kw_only=True)
class Score:
    """Print every token of a text with its natural-log probability, as a stream; an empty line ends a document."""

    run: RunPath
    text: tuple[str, ...] = ()
    """The text. Without it, the run's own test or validation text."""
    explain: bool = False
    """Under each token, the chain of discounts and back-offs that makes its probability (ngram)."""
    edit: EditFile = None
    json: bool = False
    """One JSON object on standard output."""


def main(arguments: list[str]) -> None:
    options = parse(Score, arguments, "score")
    documents = score(under(options.run, options.edit), options.text, explain=options.explain)
    if options.json:
        print_json({"documents": [[_data(token) for token in document] for document in documents]})
        return
    for document in documents:
        sys.stdout.writelines(chain.from_iterable(map(_lines, document)))
        sys.stdout.write("\n")


def _data(token: ScoredToken) -> dict[str, object]:
    data = {"token": token.token, "log_prob": token.log_prob if math.isfinite(token.log_prob) else None}
    return data | ({} if token.chain is None else {"chain": [asdict(link) for link in token.chain]})


def _lines(token: ScoredToken) -> list[str]:
    lines = [f"{escaped(token.token)}\t{token.log_prob:.6f}\n"]
    for link in token.chain or ():
        order = "uniform" if link.order == 0 else f"{link.order}-gram"
        seen = "found" if link.found else "unseen"
        lines.append(f"    {order:<8} {seen:<6} own {link.own:<10.4g} backoff {link.backoff:<10.4g} share {link.share:.4g}\n")
    return lines
