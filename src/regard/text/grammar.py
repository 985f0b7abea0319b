"""A built-in parallel text: an English-Spanish grammar whose word alignment is known by construction.

Adjectives stand behind nouns, object pronouns before verbs, subject pronouns are dropped (the verb's ending says them, so they are aligned
with the verb), people as objects take "a", which nothing in English stands for. One translation each.
"""

import random
from dataclasses import dataclass, field

SENTENCES = 5000
PERSONS = ("I", "you", "he", "she", "we", "they")
OBJECTS = {
    "me": "me",
    "you": "te",
    "him": "lo",
    "her": "la",
    "us": "nos",
    "them": "los",
}  # English: Spanish clitic
SAME = {
    "I": {"me", "us"},
    "you": {"you"},
    "he": {"him"},
    "she": {"her"},
    "we": {"us", "me"},
    "they": {"them"},
}  # would be reflexive

NOUNS = {  # English: (Spanish, feminine, a person)
    "dog": ("perro", False, False),
    "cat": ("gato", False, False),
    "house": ("casa", True, False),
    "book": ("libro", False, False),
    "girl": ("niña", True, True),
    "boy": ("niño", False, True),
    "woman": ("mujer", True, True),
    "man": ("hombre", False, True),
    "car": ("coche", False, False),
    "table": ("mesa", True, False),
    "letter": ("carta", True, False),
    "friend": ("amigo", False, True),
    "teacher": ("maestra", True, True),
    "city": ("ciudad", True, False),
    "horse": ("caballo", False, False),
    "apple": ("manzana", True, False),
    "garden": ("jardín", False, False),
    "king": ("rey", False, True),
    "queen": ("reina", True, True),
    "bridge": ("puente", False, False),
}
ADJECTIVES = {  # English: (masculine, feminine)
    "red": ("rojo", "roja"),
    "big": ("grande", "grande"),
    "small": ("pequeño", "pequeña"),
    "old": ("viejo", "vieja"),
    "white": ("blanco", "blanca"),
    "black": ("negro", "negra"),
    "new": ("nuevo", "nueva"),
    "tall": ("alto", "alta"),
    "young": ("joven", "joven"),
    "green": ("verde", "verde"),
}
DETERMINERS = {"the": ("el", "la"), "a": ("un", "una"), "this": ("este", "esta"), "my": ("mi", "mi")}
TRANSITIVE = {  # present; English (plain, third person): Spanish for I, you, he or she, we, they
    ("love", "loves"): ("amo", "amas", "ama", "amamos", "aman"),
    ("see", "sees"): ("veo", "ves", "ve", "vemos", "ven"),
    ("know", "knows"): ("conozco", "conoces", "conoce", "conocemos", "conocen"),
    ("want", "wants"): ("quiero", "quieres", "quiere", "queremos", "quieren"),
    ("find", "finds"): ("encuentro", "encuentras", "encuentra", "encontramos", "encuentran"),
    ("paint", "paints"): ("pinto", "pintas", "pinta", "pintamos", "pintan"),
    ("follow", "follows"): ("sigo", "sigues", "sigue", "seguimos", "siguen"),
    ("remember", "remembers"): ("recuerdo", "recuerdas", "recuerda", "recordamos", "recuerdan"),
}
INTRANSITIVE = {  # past
    "ran": ("corrí", "corriste", "corrió", "corrimos", "corrieron"),
    "slept": ("dormí", "dormiste", "durmió", "dormimos", "durmieron"),
    "walked": ("caminé", "caminaste", "caminó", "caminamos", "caminaron"),
    "spoke": ("hablé", "hablaste", "habló", "hablamos", "hablaron"),
    "worked": ("trabajé", "trabajaste", "trabajó", "trabajamos", "trabajaron"),
    "sang": ("canté", "cantaste", "cantó", "cantamos", "cantaron"),
}
ADVERBS = {  # English words: Spanish words, and which stands for which
    "a lot": ("mucho", ((0, 0), (1, 0))),
    "really fast": ("muy rápido", ((0, 0), (1, 1))),
    "today": ("hoy", ((0, 0),)),
    "well": ("bien", ((0, 0),)),
    "every day": ("todos los días", ((0, 0), (0, 1), (1, 2))),
    "slowly": ("despacio", ((0, 0),)),
    "again": ("otra vez", ((0, 0), (0, 1))),
    "very well": ("muy bien", ((0, 0), (1, 1))),
}


@dataclass(frozen=True)
class Pair:
    source: str
    target: str
    alignment: frozenset[tuple[int, int]]  # source word i, target word j


@dataclass
class Sentence:
    """Words on both sides and what stands for what, put together piece by piece."""

    source: list[str] = field(default_factory=list)
    target: list[str] = field(default_factory=list)
    links: set[tuple[int, int]] = field(default_factory=set)

    def english(self, words: str) -> list[int]:
        first = len(self.source)
        self.source += words.split()
        return list(range(first, len(self.source)))

    def spanish(self, words: str) -> list[int]:
        first = len(self.target)
        self.target += words.split()
        return list(range(first, len(self.target)))

    def link(self, sources: list[int], targets: list[int]) -> None:
        self.links |= {(i, j) for i in sources for j in targets}

    def pair(self) -> Pair:
        def written(words: list[str]) -> str:
            return " ".join([words[0][0].upper() + words[0][1:], *words[1:]])

        return Pair(written(self.source), written(self.target), frozenset(self.links))


@dataclass(frozen=True)
class Phrase:
    """A determiner, perhaps an adjective, a noun."""

    determiner: str
    adjective: str | None
    noun: str

    def english(self) -> str:
        return " ".join(word for word in (self.determiner, self.adjective, self.noun) if word)

    def add_spanish(self, sentence: Sentence, places: list[int], as_object: bool) -> None:
        noun, feminine, person = NOUNS[self.noun]
        if as_object and person:
            sentence.spanish("a" if (self.determiner, feminine) != ("the", False) else "")
        word = DETERMINERS[self.determiner][feminine]
        word = "al" if as_object and person and (self.determiner, feminine) == ("the", False) else word
        sentence.link(places[:1], sentence.spanish(word))
        sentence.link(places[-1:], sentence.spanish(noun))
        if self.adjective:
            sentence.link(places[1:2], sentence.spanish(ADJECTIVES[self.adjective][feminine]))


def _form(subject: str | Phrase) -> int:
    if isinstance(subject, Phrase):
        return 2
    return {"I": 0, "you": 1, "he": 2, "she": 2, "we": 3, "they": 4}[subject]


def sentence(
    subject: str | Phrase,
    verb: tuple[str, str] | str,
    thing: str | Phrase | None = None,
    adverb: str | None = None,
) -> Pair:
    """Subject, verb, perhaps an object (a pronoun or a phrase), perhaps an adverb."""
    made, form = Sentence(), _form(subject)
    subject_places = made.english(subject.english() if isinstance(subject, Phrase) else subject)
    verb_places = made.english(verb if isinstance(verb, str) else verb[form == 2])
    thing_places = (
        [] if thing is None else made.english(thing.english() if isinstance(thing, Phrase) else thing)
    )
    adverb_places = made.english(adverb) if adverb else []
    if isinstance(subject, Phrase):
        subject.add_spanish(made, subject_places, as_object=False)
    if isinstance(thing, str):
        made.link(thing_places, made.spanish(OBJECTS[thing]))
    spoken = made.spanish((INTRANSITIVE[verb] if isinstance(verb, str) else TRANSITIVE[verb])[form])
    made.link(verb_places, spoken)
    if isinstance(subject, str):  # dropped: the ending says it
        made.link(subject_places, spoken)
    if isinstance(thing, Phrase):
        thing.add_spanish(made, thing_places, as_object=True)
    if adverb:
        words, links = ADVERBS[adverb]
        places = made.spanish(words)
        for i, j in links:
            made.link([adverb_places[i]], [places[j]])
    return made.pair()


def described(phrase: Phrase, adjective: str) -> Pair:
    """`The house is white`: `La casa es blanca`."""
    made = Sentence()
    places = made.english(phrase.english())
    is_place, adjective_place = made.english("is"), made.english(adjective)
    phrase.add_spanish(made, places, as_object=False)
    made.link(is_place, made.spanish("es"))
    made.link(adjective_place, made.spanish(ADJECTIVES[adjective][NOUNS[phrase.noun][1]]))
    return made.pair()


def english_spanish(count: int = SENTENCES, seed: int = 7) -> list[Pair]:
    """`count` different sentences; the lecture's two come first."""
    chance = random.Random(seed)
    found = [
        sentence("I", ("love", "loves"), "you", "a lot"),
        sentence(Phrase("the", None, "dog"), "ran", adverb="really fast"),
    ]
    known = {pair.source for pair in found}
    while len(found) < count:
        pair = _any(chance)
        if pair.source not in known:
            known.add(pair.source)
            found.append(pair)
    return found


def _any(chance: random.Random) -> Pair:
    def phrase() -> Phrase:
        adjective = chance.choice([None, *ADJECTIVES]) if chance.random() < 0.6 else None
        return Phrase(chance.choice(list(DETERMINERS)), adjective, chance.choice(list(NOUNS)))

    subject: str | Phrase = chance.choice(PERSONS) if chance.random() < 0.4 else phrase()
    adverb = chance.choice(list(ADVERBS)) if chance.random() < 0.5 else None
    kind = chance.random()
    if kind < 0.2:
        return sentence(subject, chance.choice(list(INTRANSITIVE)), adverb=adverb)
    if kind < 0.3:
        return described(phrase(), chance.choice(list(ADJECTIVES)))
    verb = chance.choice(list(TRANSITIVE))
    if kind < 0.5:
        others = [word for word in OBJECTS if not isinstance(subject, str) or word not in SAME[subject]]
        return sentence(subject, verb, chance.choice(others), adverb)
    return sentence(subject, verb, phrase(), adverb)
