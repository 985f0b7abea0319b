"""Tokens to predictions. The two dicts are the only registry: one line a family, its class imported when it is wanted."""

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
}
TRANSLATORS = {  # which need parallel text
    "recurrent-translator": "regard.models.recurrent_translator:RecurrentTranslator",
    "transformer-translator": "regard.models.transformer_translator:TransformerTranslator",
}


def family_class(name: str):
    """The class of a family; an unknown name is the user's mistake, answered with the nearest one."""
    if name not in FAMILIES | TRANSLATORS:
        from difflib import get_close_matches

        near = get_close_matches(name, FAMILIES | TRANSLATORS, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise UserError(f"unknown family {name!r}; {hint}there are: {', '.join(FAMILIES | TRANSLATORS)}")
    module, _, attribute = (FAMILIES | TRANSLATORS)[name].partition(":")
    return getattr(import_module(module), attribute)
