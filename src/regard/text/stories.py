"""Small stories with one right answer each, which the small runs of the lessons are trained on.

pronouns   Olga called David in the garden . he sang . that was           -> David, by way of "he"
names      Ms. Green knew Mr. Smith . then Mr.                            -> Smith, the name after the title
strangers  the same with surnames such as Yel+man, and some that no story has: Yel+len, Hol+ford
repeats    park Hill then Dr. knew Nora Hill then Dr.                     -> knew, what followed before
prizes     Nobel committee awards Strickland who advanced optics          the first word follows from the last
senses     that trick was sick . it was                                   -> good, or bad after "surgery"
"""

import random
from collections.abc import Callable, Sequence

HE = ("David", "Jonas", "Peter", "Omar", "Felix", "Hugo")
SHE = ("Olga", "Maria", "Emma", "Lucy", "Ines", "Nora")
MET = ("called", "saw", "met", "helped", "thanked", "found")
PLACES = ("garden", "school", "kitchen", "park", "street", "library")
DID = ("sang", "danced", "laughed", "slept", "smiled", "waited")

TITLES = ("Ms.", "Mr.", "Dr.")
SURNAMES = (
    "Green",
    "Smith",
    "Brown",
    "Young",
    "Stone",
    "Woods",
    "Parker",
    "Fisher",
    "Baker",
    "Turner",
    "Hill",
    "Lake",
)
# Surnames in two parts, for stories that are read in subwords.
FIRST_PARTS = (
    "Yel",
    "Mar",
    "Hol",
    "Ban",
    "Cor",
    "Dal",
    "Fen",
    "Gar",
    "Har",
    "Jan",
    "Kel",
    "Lor",
    "Nor",
    "Pel",
)
LAST_PARTS = ("len", "man", "ton", "ford", "son", "well", "berg", "mond", "wick", "sky")
EACH_STRANGER = 5  # one of five surnames stands in no story; each part stands in some
KNEW = ("knew", "called", "saw", "met", "thanked")
THEN = ("then", "later", "soon")

PRIZES = {
    "Nobel": ("optics", "physics", "chemistry"),
    "Abel": ("algebra", "geometry", "logic"),
    "Turing": ("computing", "compilers", "networks"),
}
WINNERS = ("Strickland", "Curie", "Noether", "Hopper", "Liskov", "Mirzakhani")
ADVANCED = ("advanced", "changed", "shaped")
HONOURS = ("awards", "honours", "praises")


def pronouns(generator: random.Random) -> str:
    he, she = generator.choice(HE), generator.choice(SHE)
    first, second = (he, she) if generator.random() < 0.5 else (she, he)
    pronoun, answer = ("he", he) if generator.random() < 0.5 else ("she", she)
    met, place, did = (generator.choice(words) for words in (MET, PLACES, DID))
    return f"{first} {met} {second} in the {place} . {pronoun} {did} . that was {answer}"


def names(generator: random.Random, known: Sequence[str] = SURNAMES) -> str:
    titles, surnames = generator.sample(TITLES, 2), generator.sample(known, 2)
    again = generator.randrange(2)
    people = [f"{title} {surname}" for title, surname in zip(titles, surnames, strict=True)]
    return f"{people[0]} {generator.choice(KNEW)} {people[1]} . {generator.choice(THEN)} {people[again]}"


def made_names() -> tuple[list[str], list[str]]:
    """Return the surnames of the stories of strangers, and those that stand in none of them."""
    known, unseen = list[str](), list[str]()
    for i, first in enumerate(FIRST_PARTS):
        for j, last in enumerate(LAST_PARTS):
            (known if (i + j) % EACH_STRANGER else unseen).append(first + last)
    return known, unseen


def strangers(generator: random.Random) -> str:
    return names(generator, made_names()[0])


def repeats(generator: random.Random) -> str:
    """Random words, some of which come again in the same order after a few others."""
    pool = sorted({*TITLES, *SURNAMES, *KNEW, *THEN, *HE, *SHE, *PLACES, *DID, "."})
    words = generator.sample(pool, 14)
    first, length, between = (generator.randrange(low, high) for low, high in ((0, 3), (4, 9), (0, 4)))
    again = words[first : first + length]
    return " ".join([*words[: first + length + between], *again])


def names_and_repeats(generator: random.Random) -> str:
    return names(generator) if generator.random() < 0.5 else repeats(generator)


def prizes(generator: random.Random) -> str:
    prize = generator.choice(list(PRIZES))
    honours, winner, advanced = (generator.choice(words) for words in (HONOURS, WINNERS, ADVANCED))
    return f"{prize} committee {honours} {winner} who {advanced} {generator.choice(PRIZES[prize])}"


def lines(story: Callable[[random.Random], str], count: int, seed: int) -> list[str]:
    """Make `count` stories."""
    generator = random.Random(seed)
    return [story(generator) for _ in range(count)]
