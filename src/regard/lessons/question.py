"""Questions to the reader of a lesson. The right choice, and the reason of each choice, follow the inputs."""

import string
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from regard.errors import UserError


@dataclass(frozen=True)
class Choice:
    text: str
    reason: str  # told after this choice: the error that it makes, or the cause of the right answer
    right: bool = False


@dataclass(frozen=True)
class Question:
    """A question before the numbers of a step are shown: predict, then run."""

    text: str
    choices: tuple[Choice, ...]

    @property
    def right(self) -> Choice:
        return next(choice for choice in self.choices if choice.right)

    @property
    def letters(self) -> str:
        return string.ascii_lowercase[: len(self.choices)]

    def choice(self, answer: str) -> Choice:
        """Return the choice with this letter."""
        letter = answer.strip().lower().strip("().")
        if letter not in self.letters or len(letter) != 1:
            raise UserError(f"answer with one of the letters {', '.join(self.letters)}, not {answer!r}")
        return self.choices[self.letters.index(letter)]

    def check(self, answer: str = "") -> str:
        """Return what a choice means. In a notebook, the reader sets the letter and runs the cell again."""
        if not answer:
            return f"{self}\n\nSet the answer to one of the letters and run the cell again."
        chosen = self.choice(answer)
        return f"{'Right' if chosen.right else 'Not quite'}. {chosen.reason}"

    def __str__(self) -> str:
        pairs = zip(self.letters, self.choices, strict=True)
        return "\n".join([self.text, *(f"  ({letter}) {choice.text}" for letter, choice in pairs)])

    def to_json(self) -> dict[str, Any]:
        choices = [
            {"text": choice.text, "right": choice.right, "reason": choice.reason} for choice in self.choices
        ]
        return {"text": self.text, "choices": choices}


@dataclass(frozen=True)
class Exercise:
    """A task at the end of a lesson, with a solution in Python that runs."""

    task: str
    solution: str

    def to_json(self) -> dict[str, str]:
        return {"task": self.task, "solution": self.solution}


@dataclass(frozen=True)
class Score:
    asked: int
    right: int


def ask(text: str, right: tuple[str, str], *wrong: tuple[str, str]) -> Question | None:
    """Make a question of (choice, reason) pairs. Its choices are sorted, so that their order tells nothing.

    With some inputs, a wrong choice has the same text as the right one or as another wrong one. It is left
    out. Without a wrong choice, there is no question.
    """
    choices = {choice: Choice(choice, reason) for choice, reason in wrong if choice != right[0]}
    if not choices:
        return None
    every = [Choice(*right, right=True), *choices.values()]
    return Question(text, tuple(sorted(every, key=lambda choice: choice.text)))


def put(question: Question, read: Callable[[str], str], say: Callable[[str], None]) -> bool | None:
    """Ask one question until the answer is one of its letters. None: the input has ended."""
    say(str(question))
    while True:
        try:
            answer = read("your answer: ")
        except EOFError:
            return None
        try:
            chosen = question.choice(answer)
        except UserError as error:
            say(str(error))
            continue
        say(question.check(answer))
        return chosen.right
