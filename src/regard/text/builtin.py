"""The built-in text: the reference topics inside every Python, about half a megabyte of English. Nothing is downloaded."""

from regard.text.files import Source

BUILT_IN = "built-in"


def built_in_text() -> Source:
    """The language reference as one text. It differs a little between Python versions, so runs record its hash."""
    from pydoc_data.topics import topics  # a large module: read only when it is wanted

    return Source(BUILT_IN, "".join(topics[name].rstrip("\n") + "\n\n" for name in sorted(topics)))
