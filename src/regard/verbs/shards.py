"""regard shards: the encoded texts that are kept for the next training: list them, remove them."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from regard.errors import UserError
from regard.tables import Table, TableRows, as_text
from regard.tokens.shards import KeptShard, kept_shards, remove_shard, shards_folder
from regard.verbs.options import Argument
from regard.verbs.parsing import parse
from regard.verbs.printing import print_json, show

ALL = "all"
SHOWN = 12  # letters of a name

Chosen = Annotated[str | tuple[str, ...], Argument(tuple[str, ...], metavar="NAME", commas=True)]


@dataclass(frozen=True)
class Shards(Table):
    """The encoded texts in the folder of the cache."""

    folder: Path
    shards: tuple[KeptShard, ...]
    removed: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "folder": str(self.folder),
            "shards": [asdict(shard) for shard in self.shards],
            "removed": [*self.removed],
        }

    def rows(self) -> TableRows:
        """A row for each encoded text."""
        return [asdict(shard) for shard in self.shards]


def shards(remove: Chosen = ()) -> Shards:
    """List the encoded texts that are kept for the next training, and remove some.

    A text that is too large to be kept in memory is encoded once for each tokenizer. REGARD_CACHE names
    another folder for it.

    >>> [shard.tokens for shard in regard.shards().shards]  # doctest: +SKIP
    [179536440]

    $ regard shards
    $ regard shards --remove 3f2a9c
    $ regard shards --remove all

    Args:
        remove: Names, or their first letters, of encoded texts to remove; all: every one. A removed text is
            encoded again when it is needed.
    """
    asked = (remove,) if isinstance(remove, str) else tuple(remove)
    kept, removed = kept_shards(), list[str]()
    for name in asked:
        found = [shard for shard in kept if name == ALL or shard.name.startswith(name)]
        if not found and name != ALL:
            raise UserError(f"{name}: no encoded text has this name; regard shards lists them")
        if len(found) > 1 and name != ALL:
            raise UserError(f"{name}: {len(found)} encoded texts begin like this; give more letters")
        for shard in found:
            remove_shard(shard.name)
            removed.append(shard.name)
    return Shards(shards_folder(), tuple(kept_shards()), tuple(removed))


def main(arguments: list[str]) -> None:
    call = parse(shards, arguments)
    result = shards(**call.values)
    if call.json:
        print_json(result.to_json())
        return
    for name in result.removed:
        show(f"{name[:SHOWN]} is removed")
    for shard in result.shards:
        size = f"{shard.megabytes:,.1f} MB"
        what = f"{as_text(shard.tokens)} tokens ({shard.kind}, a document is a {shard.document})"
        show(f"{shard.name[:SHOWN]}  {size:>12}  used {shard.used}  {what} of {', '.join(shard.files)}")
    show(f"{len(result.shards)} encoded texts in {result.folder}")
