"""The built-in text: the language reference inside every Python, half a megabyte of English. No download."""

from regard.text.files import Source

BUILT_IN = "built-in"


def built_in_text() -> Source:
    """The language reference as one text. A run keeps its hash, because Python versions differ a little."""
    from pydoc_data.topics import topics  # a large module, imported on first use

    return Source(BUILT_IN, "".join(topics[name].rstrip("\n") + "\n\n" for name in sorted(topics)))
