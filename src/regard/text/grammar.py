"""A built-in parallel text: an English-Spanish grammar whose word alignment is known by construction.

In Spanish, adjectives stand behind nouns, and object pronouns before verbs. Subject pronouns are dropped: the
verb's ending carries them, and they are aligned with the verb. People as objects take "a", which no English
word is aligned with. Every sentence has one translation.

Half of the sentences join clauses: "and", "but", "because" and "when" join two or three, and "that" follows
a verb of knowing. They need no new nouns or verbs, but one vector cannot hold them.
"""

import random
from dataclasses import dataclass, field

SENTENCES = 5000
SIMPLE = 2500  # sentences of one clause; they come first
PERSONS = ("I", "you", "he", "she", "we", "they")
OBJECTS = {  # English: Spanish clitic
    "me": "me",
    "you": "te",
    "him": "lo",
    "her": "la",
    "us": "nos",
    "them": "los",
}
REFLEXIVE = {  # subject: the objects that would make the sentence reflexive
    "I": {"me", "us"},
    "you": {"you"},
    "he": {"him"},
    "she": {"her"},
    "we": {"us", "me"},
    "they": {"them"},
}

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
ADVERBS = {  # English words: Spanish words, and the links between them
    "a lot": ("mucho", ((0, 0), (1, 0))),
    "really fast": ("muy rápido", ((0, 0), (1, 1))),
    "today": ("hoy", ((0, 0),)),
    "well": ("bien", ((0, 0),)),
    "every day": ("todos los días", ((0, 0), (0, 1), (1, 2))),
    "slowly": ("despacio", ((0, 0),)),
    "again": ("otra vez", ((0, 0), (0, 1))),
    "very well": ("muy bien", ((0, 0), (1, 1))),
}

JOINTS = {"and": "y", "but": "pero", "because": "porque", "when": "cuando"}
KNOWING = (("see", "sees"), ("find", "finds"), ("remember", "remembers"))  # verbs that take "that"


@dataclass(frozen=True)
class Pair:
    source: str
    target: str
    alignment: frozenset[tuple[int, int]]  # links (source word i, target word j)


@dataclass
class PairBuilder:
    """Builds a sentence pair piece by piece: words on both sides, and links between them."""

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
    """A determiner, an optional adjective, and a noun."""

    determiner: str
    adjective: str | None
    noun: str

    def english(self) -> str:
        words = [word for word in (self.adjective, self.noun) if word]
        vowel = self.determiner == "a" and words[0][0] in "aeiou"
        return " ".join(["an" if vowel else self.determiner, *words])

    def add_spanish(self, pair: PairBuilder, places: list[int], as_object: bool) -> None:
        noun, feminine, person = NOUNS[self.noun]
        if as_object and person:
            pair.spanish("a" if (self.determiner, feminine) != ("the", False) else "")
        word = DETERMINERS[self.determiner][feminine]
        word = "al" if as_object and person and (self.determiner, feminine) == ("the", False) else word
        pair.link(places[:1], pair.spanish(word))
        pair.link(places[-1:], pair.spanish(noun))
        if self.adjective:
            pair.link(places[1:2], pair.spanish(ADJECTIVES[self.adjective][feminine]))


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
    """Build a pair from subject, verb, an optional object (a pronoun or a phrase) and an optional adverb."""
    pair, form = PairBuilder(), _form(subject)
    subject_places = pair.english(subject.english() if isinstance(subject, Phrase) else subject)
    verb_places = pair.english(verb if isinstance(verb, str) else verb[form == 2])
    object_places = (
        [] if thing is None else pair.english(thing.english() if isinstance(thing, Phrase) else thing)
    )
    adverb_places = pair.english(adverb) if adverb else []
    if isinstance(subject, Phrase):
        subject.add_spanish(pair, subject_places, as_object=False)
    if isinstance(thing, str):
        pair.link(object_places, pair.spanish(OBJECTS[thing]))
    verb_words = pair.spanish((INTRANSITIVE[verb] if isinstance(verb, str) else TRANSITIVE[verb])[form])
    pair.link(verb_places, verb_words)
    if isinstance(subject, str):  # the dropped pronoun is in the ending of the verb
        pair.link(subject_places, verb_words)
    if isinstance(thing, Phrase):
        thing.add_spanish(pair, object_places, as_object=True)
    if adverb:
        words, links = ADVERBS[adverb]
        places = pair.spanish(words)
        for i, j in links:
            pair.link([adverb_places[i]], [places[j]])
    return pair.pair()


def description(phrase: Phrase, adjective: str) -> Pair:
    """Build a pair such as `The house is white`, `La casa es blanca`."""
    pair = PairBuilder()
    places = pair.english(phrase.english())
    is_place, adjective_place = pair.english("is"), pair.english(adjective)
    phrase.add_spanish(pair, places, as_object=False)
    pair.link(is_place, pair.spanish("es"))
    pair.link(adjective_place, pair.spanish(ADJECTIVES[adjective][NOUNS[phrase.noun][1]]))
    return pair.pair()


def join(first: Pair, joint: str, second: Pair) -> Pair:
    """Join two clauses: `I see the dog because we ran`, `Veo el perro porque corrimos`."""
    pair = PairBuilder(first.source.split(), first.target.split(), set(first.alignment))
    pair.link(pair.english(joint), pair.spanish("que" if joint == "that" else JOINTS[joint]))
    sources, targets = pair.english(_inside(second.source)), pair.spanish(_inside(second.target))
    pair.links |= {(sources[i], targets[j]) for i, j in second.alignment}
    return pair.pair()


def _inside(clause: str) -> str:
    """Write a clause as it stands inside a sentence: only "I" keeps its capital."""
    return clause if clause.split()[0] == "I" else clause[0].lower() + clause[1:]


def english_spanish(count: int = SENTENCES, seed: int = 7) -> list[Pair]:
    """Make `count` different sentence pairs: simple ones, then joined ones.

    The first two are the lecture's examples.
    """
    generator = random.Random(seed)
    pairs = [
        sentence("I", ("love", "loves"), "you", "a lot"),
        sentence(Phrase("the", None, "dog"), "ran", adverb="really fast"),
    ]
    sources = {pair.source for pair in pairs}
    while len(pairs) < count:
        pair = _clause(generator) if len(pairs) < SIMPLE else _joined(generator)
        if pair.source not in sources:
            sources.add(pair.source)
            pairs.append(pair)
    return pairs


def _joined(generator: random.Random) -> Pair:
    """Make two or three clauses, of which one may begin with "that"."""
    pair = _knowing(generator) if generator.random() < 0.4 else _clause(generator)
    for _ in range(generator.choice((1, 2))):
        follows = _knowing(generator) if generator.random() < 0.2 else _clause(generator)
        pair = join(pair, generator.choice(list(JOINTS)), follows)
    return pair


def _knowing(generator: random.Random) -> Pair:
    """Make a clause such as `We see that the dog ran`."""
    return join(sentence(_subject(generator), generator.choice(KNOWING)), "that", _clause(generator))


def _subject(generator: random.Random) -> str | Phrase:
    return generator.choice(PERSONS) if generator.random() < 0.4 else _phrase(generator)


def _phrase(generator: random.Random) -> Phrase:
    adjective = generator.choice([None, *ADJECTIVES]) if generator.random() < 0.6 else None
    return Phrase(generator.choice(list(DETERMINERS)), adjective, generator.choice(list(NOUNS)))


def _clause(generator: random.Random) -> Pair:
    subject = _subject(generator)
    adverb = generator.choice(list(ADVERBS)) if generator.random() < 0.5 else None
    draw = generator.random()
    if draw < 0.2:
        return sentence(subject, generator.choice(list(INTRANSITIVE)), adverb=adverb)
    if draw < 0.3:
        return description(_phrase(generator), generator.choice(list(ADJECTIVES)))
    verb = generator.choice(list(TRANSITIVE))
    if draw < 0.5:
        objects = [word for word in OBJECTS if not isinstance(subject, str) or word not in REFLEXIVE[subject]]
        return sentence(subject, verb, generator.choice(objects), adverb)
    return sentence(subject, verb, _phrase(generator), adverb)
