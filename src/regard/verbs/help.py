"""The page that `regard VERB --help` prints: plain text that fits the terminal, options in groups."""

import inspect
import re
import shutil
import textwrap
from collections.abc import Callable
from dataclasses import MISSING
from itertools import groupby
from typing import Any

from regard.verbs.options import Option, flag

LONGEST = 24  # columns of a flag with its value; a longer one has a line of its own
NARROWEST, WIDEST = 60, 100


def print_help(name: str, about: str, options: list[Option], examples: list[str]) -> None:
    """Print the usage line, what the verb does, examples, and the options in their groups."""
    width = min(WIDEST, max(NARROWEST, shutil.get_terminal_size().columns))
    places = "".join(f" {_place(option)}" for option in options if option.positional)
    lines = [f"usage: regard {name}{places} [OPTIONS]", "", textwrap.fill(_plain(about), width)]
    if examples:
        lines += ["", *(f"  $ {example}" for example in examples)]
    for group, members in groupby(options, key=lambda option: option.group):
        lines += ["", *([f"{group}:"] if group else [])]
        for option in members:
            lines += _option_lines(option, width)
    print("\n".join(lines))


def flags(message: str) -> str:
    """A message whose options, named in backticks, are spelled as flags.

    >>> flags("`top_k` must be 1 or more")
    '--top-k must be 1 or more'
    """
    return re.sub(r"`([a-z][a-z_0-9]*)`", lambda name: flag(name[1]), message)


def _plain(text: str) -> str:
    """Help without backticks: options are spelled as flags."""
    return flags(text).replace("`", "")


def summary(verb: Callable[..., Any]) -> tuple[str, list[str]]:
    """(first paragraph, examples for the shell) of a verb's docstring."""
    text = inspect.getdoc(verb) or ""
    examples = [line.strip()[2:] for line in text.splitlines() if line.strip().startswith("$ ")]
    return " ".join(text.split("\n\n")[0].split()), examples


def _place(option: Option) -> str:
    return option.value_name() if option.default is MISSING else f"[{option.value_name()}]"


def _option_lines(option: Option, width: int) -> list[str]:
    head = option.value_name() if option.positional else f"{option.flag} {option.value_name()}".rstrip()
    text = textwrap.wrap(_plain(option.help()), width - LONGEST - 4, break_on_hyphens=False)
    if len(head) > LONGEST or not text:
        return [f"  {head}", *(" " * (LONGEST + 4) + line for line in text)]
    first, *rest = text
    return [f"  {head:<{LONGEST}}  {first}", *(" " * (LONGEST + 4) + line for line in rest)]
