"""regard export RUN --to PATH: a run in another form."""

from dataclasses import dataclass

from regard.commands.parsing import RunPath, parse
from regard.commands.printing import print_json, print_lines
from regard.runs.exporting import export


@dataclass(frozen=True, kw_only=True)
class Export:
    """Write an n-gram run as an ARPA file (FILE.arpa, FILE.arpa.gz), an ARPA file as a run folder, a transformer as a GPT-2 checkpoint."""

    run: RunPath
    to: str
    """What to write; its ending says the form."""
    json: bool = False
    """One JSON object on standard output."""


def main(arguments: list[str]) -> None:
    options = parse(Export, arguments, "export")
    result = {"out": str(export(options.run, options.to))}
    (print_json if options.json else print_lines)(result)
