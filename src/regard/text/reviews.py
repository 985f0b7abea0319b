"""Built-in labelled text: short reviews from a small grammar, with three labels.

The label cannot be read from single words alone: a negation turns a judgement, and of two judgements joined
by "but" the second one counts. A model that averages words (dan) therefore stays below a recurrent one.
"""

import random

REVIEWS = 3000
THINGS = {
    "film": ("plot", "ending", "music", "acting", "dialogue", "photography"),
    "book": ("plot", "ending", "style", "cover", "dialogue", "first chapter"),
    "hotel": ("room", "breakfast", "view", "staff", "bed", "pool"),
    "restaurant": ("soup", "service", "dessert", "wine", "menu", "view"),
    "phone": ("screen", "battery", "camera", "sound", "price", "keyboard"),
}
GOOD = ("good", "great", "lovely", "wonderful", "excellent", "delightful", "charming", "splendid")
BAD = ("bad", "awful", "dull", "terrible", "poor", "dreadful", "boring", "tedious")
PLAIN = (
    "we bought the {thing} in {month}",
    "the {thing} has a {part}",
    "my sister told me about the {part} of this {thing}",
    "this {thing} comes from {place}",
    "I read about the {thing} in {place}",
    "there is a {part} , as in every {thing}",
)
MONTHS = ("March", "May", "June", "August", "October", "December")
PLACES = ("Lisbon", "Oslo", "Chicago", "Lima", "Kyoto", "Cairo")
DEGREES = ("", "", "really", "rather", "very", "quite")
OPENINGS = ("", "", "", "honestly ,", "in short ,", "I must say ,")


def reviews(count: int = REVIEWS, seed: int = 19) -> list[tuple[str, str]]:
    """Return (label, text) pairs. The label is good, bad or neutral.

    >>> label, text = reviews(1)[0]
    >>> label in ("good", "bad", "neutral")
    True
    """
    chance = random.Random(seed)
    return [_review(chance) for _ in range(count)]


def _review(chance: random.Random) -> tuple[str, str]:
    thing = chance.choice(list(THINGS))
    label = chance.choice(("good", "bad", "neutral"))
    if label == "neutral":
        sentences = [_plain(chance, thing) for _ in range(chance.randint(1, 2))]
        return label, _join(chance, " and ".join(sentences))
    text = _judgement(chance, thing, label)
    form = chance.random()
    if form < 0.35:  # the judgement after "but" counts
        other = "bad" if label == "good" else "good"
        text = f"{_judgement(chance, thing, other)} but {text}"
    elif form < 0.55:
        text = f"{_plain(chance, thing)} and {text}"
    return label, _join(chance, text)


def _judgement(chance: random.Random, thing: str, label: str) -> str:
    """A clause that praises or blames; a third of them with a negation."""
    part = chance.choice((thing, *THINGS[thing]))
    negated = chance.random() < 0.35
    word = chance.choice(GOOD if (label == "good") != negated else BAD)
    verb = chance.choice(("is not", "was not", "was never")) if negated else chance.choice(("is", "was"))
    degree = chance.choice(DEGREES)
    return " ".join(filter(None, (f"the {part}", verb, degree, word)))


def _plain(chance: random.Random, thing: str) -> str:
    return chance.choice(PLAIN).format(
        thing=thing,
        part=chance.choice(THINGS[thing]),
        month=chance.choice(MONTHS),
        place=chance.choice(PLACES),
    )


def _join(chance: random.Random, text: str) -> str:
    return " ".join(filter(None, (chance.choice(OPENINGS), text, chance.choice((".", ".", "!")))))
