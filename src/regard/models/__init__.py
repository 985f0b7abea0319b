"""Tokens to predictions. FAMILIES is the only registry: one line for each family, whose class is imported when it is first wanted."""

from importlib import import_module

from regard.errors import UserError

FAMILIES = {
    "ngram": "regard.models.ngram:Ngram",
    "dan": "regard.models.dan:Dan",
    "window": "regard.models.window:Window",
    "rnn": "regard.models.recurrent:Rnn",
    "lstm": "regard.models.recurrent:Lstm",
    "gru": "regard.models.recurrent:Gru",
    "attentive": "regard.models.attentive:Attentive",
    "transformer": "regard.models.transformer:Transformer",
    "backpack": "regard.models.backpack:Backpack",
    "recurrent-translator": "regard.models.recurrent_translator:RecurrentTranslator",
    "transformer-translator": "regard.models.transformer_translator:TransformerTranslator",
}


def family_class(name: str):
    """The class of a family. An unknown name is the user's mistake, answered with the nearest name."""
    if name not in FAMILIES:
        from difflib import get_close_matches

        near = get_close_matches(name, FAMILIES, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise UserError(f"unknown family {name!r}; {hint}there are: {', '.join(FAMILIES)}")
    module, _, attribute = FAMILIES[name].partition(":")
    return getattr(import_module(module), attribute)


def families_that_read(reads: str) -> list[str]:
    """The families that are trained on this kind of data: text, or pairs."""
    return [name for name in FAMILIES if family_class(name).reads == reads]
