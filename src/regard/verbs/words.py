"""regard words RUN [WORD...]: ask the word vectors of a run."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from regard.errors import UserError
from regard.inside import word_questions as ask
from regard.inside.output import PICTURES
from regard.inside.scatter import Arrow, Point, scatter
from regard.inside.sheet import Heading, Part, Picture, Prose, Table, check_sheet, text_table, write_sheet
from regard.inside.word_questions import Answer, Plane, Question, Similarity
from regard.inside.word_tables import WordTable, tables_of
from regard.runs.formats import as_run
from regard.tables import Table as Result
from regard.tables import TableRows, visible
from regard.text.word_pairs import read_word_pairs
from regard.verbs.arguments import File, Out, RunLike
from regard.verbs.options import Argument
from regard.verbs.parsing import parse
from regard.verbs.printing import print_json, tell

Asked = Annotated[str | Sequence[str], Argument(tuple[str, ...], positional=True, metavar="WORD")]
DRAWN = 60  # a picture without words shows the first words of the vocabulary


@dataclass(frozen=True)
class AboutTable:
    """A table of word vectors."""

    name: str
    words: int
    width: int
    how: str | None  # about the vectors of words that are several tokens


@dataclass(frozen=True)
class WordAnswers(Result):
    """The answers of a run's word vectors."""

    tables: list[AboutTable]
    answers: list[Answer]
    similarities: list[Similarity]
    left_out: list[str]  # the questions with a word that no table has
    planes: list[Plane] = field(default_factory=list)  # of the pictures

    def rows(self) -> TableRows:
        """A row for each answer; without answers, for each correlation; without those, for each table."""
        if self.answers:
            return [
                {"word": one.question, "table": one.table, "nearest": word, "cosine": cosine}
                for one in self.answers
                for word, cosine in one.nearest
            ]
        if self.similarities:
            return [one.to_json() for one in self.similarities]
        return [{"table": one.name, "words": one.words, "width": one.width} for one in self.tables]

    def to_json(self) -> dict[str, Any]:
        return {
            "words": [one.to_json() for one in self.answers],
            "similarity": [one.to_json() for one in self.similarities],
            "left_out": self.left_out,
            "tables": [vars(one) for one in self.tables],
            "pictures": [one.to_json() for one in self.planes],
        }


def words(
    run: RunLike,
    words: Asked = (),
    *,
    top: int = 8,
    similarity: File = None,
    table: str | None = None,
    out: Out = None,
) -> WordAnswers:
    """Ask the word vectors of a run: nearest words, analogies, agreement with people, a picture.

    >>> regard.words("runs/embedding", ["cat", "king - man + woman"]).rows()  # doctest: +SKIP

    Args:
        run: A run with word vectors, a GPT-2 checkpoint, or a word2vec file.
        words: Words, or sums and differences of words: "king - man + woman".
        top: The number of nearest words.
        similarity: A list of word pairs with scores: Spearman's correlation of cosines and scores.
        table: Ask one table of vectors alone, such as "source" of a translator or "sense 3" of a Backpack.
        out: Draw the words and their neighbours in the plane of most variance: .svg, .png, .html or .json.
    """
    check_sheet(out)
    if top < 1:
        raise UserError("`top` must be 1 or more")
    listed = None if similarity is None else read_word_pairs(similarity)
    questions = ask.read_questions([words] if isinstance(words, str) else list(words))
    asked = _chosen(tables_of(as_run(run)), table)
    answers, left_out = _answers(asked, questions, top)
    correlations = [] if listed is None else ask.similarities(asked, listed)
    about = [AboutTable(one.name, len(one.words), one.vectors_VD.shape[1], one.how) for one in asked]
    result = WordAnswers(about, answers, correlations, left_out)
    return result if out is None else _drawn(result, asked, Path(out))


def _chosen(asked: list[WordTable], name: str | None) -> list[WordTable]:
    names = [one.name for one in asked]
    if name is not None and name not in names:
        raise UserError(f"there is no table {name!r}; the run has: {', '.join(names)}")
    return [one for one in asked if name in (None, one.name)]


def _answers(asked: list[WordTable], questions: list[Question], top: int) -> tuple[list[Answer], list[str]]:
    """Return the answers, and the questions that no table can answer."""
    found = [[ask.answer(one, question, top) for one in asked] for question in questions]
    answers = [one for answers in found for one in answers if one is not None]
    left_out = [question for question, own in zip(questions, found, strict=True) if not any(own)]
    if questions and not answers:
        words = [term.word for question in questions for term in question]
        missing = next(word for word in words if not all(one.spelling(word) for one in asked))
        near = dict.fromkeys(word for one in asked for word in one.near_spellings(missing))
        hint = f"; it has {', '.join(list(near)[:3])}" if near else ""
        raise UserError(f"the vocabulary lacks {missing!r}{hint}")
    return answers, list(map(ask.write_question, left_out))


def _drawn(result: WordAnswers, asked: list[WordTable], out: Path) -> WordAnswers:
    """Draw a plane for each table that answers, and write the file."""
    planes = [(table, _words_to_draw(result, table)) for table in asked]
    planes = [(table, points) for table, points in planes if points]
    if out.suffix in PICTURES and len(planes) > 1:
        names = ", ".join(table.name for table, _ in planes)
        raise UserError(f"{out}: a picture shows one table: choose it with `table` ({names}), or write .html")
    drawn = [ask.principal_plane(table, list(points)) for table, points in planes]
    pictures = [_picture(result, plane, points) for plane, (_, points) in zip(drawn, planes, strict=True)]
    whole = replace(result, planes=drawn)
    write_sheet(out, _title(result), _page(whole, pictures), pictures[0], whole.to_json())
    return whole


def _words_to_draw(result: WordAnswers, table: WordTable) -> dict[str, tuple[int, bool]]:
    """Return the words of a table's picture, each with the number of its group and whether it was asked."""
    own = [one for one in result.answers if one.table == table.name]
    if not result.answers:
        return dict.fromkeys(table.words[:DRAWN], (0, False))
    points = {term.word: (group, True) for group, one in enumerate(own) for term in one.terms}
    for group, one in enumerate(own):
        for word, _ in one.nearest:
            points.setdefault(word, (group, False))
    return points


def _picture(result: WordAnswers, plane: Plane, groups: dict[str, tuple[int, bool]]) -> str:
    """Draw the plane. An analogy a - b + c has the arrows b to a, and c to the best answer."""
    points = [
        Point(word, float(x), float(y), *groups[word])
        for word, (x, y) in zip(plane.words, plane.points_K2, strict=True)
    ]
    place = {word: number for number, word in enumerate(plane.words)}
    arrows = []
    for one in result.answers:
        if one.table == plane.table and [term.sign for term in one.terms] == [1, -1, 1] and one.nearest:
            first, second, third = (place[term.word] for term in one.terms)
            arrows += [Arrow(second, first), Arrow(third, place[one.nearest[0][0]])]
    axes = [
        f"component {number + 1} ({share:.0%} of the variance)" for number, share in enumerate(plane.shares)
    ]
    return scatter(points, arrows, f"{_title(result)} ({plane.table})", (axes[0], axes[1]))


def _title(result: WordAnswers) -> str:
    asked = list(dict.fromkeys(one.question for one in result.answers))
    return f"Words near {', '.join(asked)}" if asked else "The first words of the vocabulary"


def _page(result: WordAnswers, pictures: list[str]) -> list[Part]:
    about = (
        "Words are drawn in the plane in which their vectors, scaled to length 1, differ most (principal "
        "components). Words that are far apart in the plane are different; words that are near may still "
        "differ in the directions that the plane leaves out. The cosines below use all directions."
    )
    return [*map(Picture, pictures), Prose(about), Heading("Numbers"), *_tables(result)]


def _tables(result: WordAnswers) -> list[Table]:
    several = len(result.tables) > 1
    tables = []
    if result.answers:
        most = max(len(one.nearest) for one in result.answers)
        rows = [
            [visible(one.question), *([one.table] if several else [])]
            + [f"{visible(word)} {cosine:.2f}" for word, cosine in one.nearest]
            + [""] * (most - len(one.nearest))
            for one in result.answers
        ]
        columns = ["nearest to", *(["table"] if several else []), *map(str, range(1, most + 1))]
        tables.append(Table(columns, rows))
    if result.similarities:
        rows = [
            [
                one.table,
                f"{one.spearman:.3f}",
                f"{one.low:.3f} to {one.high:.3f}",
                str(one.pairs),
                str(one.left_out),
            ]
            for one in result.similarities
        ]
        tables.append(Table(["table", "Spearman", "95% interval", "pairs", "left out"], rows))
    if not tables:
        rows = [[one.name, f"{one.words:,}", str(one.width)] for one in result.tables]
        tables.append(Table(["table", "words", "width"], rows))
    return tables


def main(arguments: list[str]) -> None:
    call = parse(words, arguments)
    result = words(**call.values)
    if call.values["out"] is not None:
        tell(f"{call.values['out']} is written.")
    if call.json:
        print_json(result.to_json())
        return
    print("\n\n".join(text_table(table) for table in _tables(result)))
    for how in dict.fromkeys(one.how for one in result.tables if one.how):
        tell(f"{how}.")
    if result.left_out:
        many = len(result.left_out) + len({one.question for one in result.answers})
        there = ", ".join(map(visible, result.left_out))
        tell(f"left out {len(result.left_out)} of {many}, which the vocabulary lacks: {there}")
    if result.similarities and result.similarities[0].missing:
        missing = result.similarities[0].missing
        tell(
            f"the vocabulary lacks {len(missing)} words of the list: {', '.join(missing[:8])}"
            + (", ..." if len(missing) > 8 else "")
        )
