"""Write a lesson as one HTML file that opens offline, with its questions, pictures and formulas (MathML)."""

from importlib.resources import files

from regard.lessons.lesson import Lesson, Step, html_values
from regard.lessons.question import Question
from regard.tables import as_html


def page(shown: Lesson) -> str:
    """Make the page. The numbers of a step with a question appear after the reader's answer."""
    template = files("regard.lessons").joinpath("page.html").read_text(encoding="utf-8")
    before = f"Builds on: {', '.join(shown.builds_on)}." if shown.builds_on else ""
    steps = "".join(_step(number, step) for number, step in enumerate(shown.steps, 1))
    exercise = (
        f"<section><h2>Exercise</h2><p>{as_html(shown.exercise.task)}</p><details><summary>A "
        "solution</summary><pre "
        f"class='wide'>{as_html(shown.exercise.solution)}</pre></details></section>"
    )
    return (
        template.replace("{{title}}", as_html(shown.name))
        .replace("{{about}}", as_html(shown.about))
        .replace("{{before}}", as_html(before))
        .replace("{{steps}}", steps + exercise)
    )


def _step(number: int, step: Step) -> str:
    formula = f"<div class='wide formula'>{_math(step)}</div>" if step.formula or step.latex else ""
    intro = f"<p>{as_html(step.intro)}</p>" if step.intro else ""
    asked = "" if step.question is None else _question(step.question)
    drawn = "" if step.picture is None else f"<div class='wide picture'>{step.picture.svg()}</div>"
    says = f"<p>{as_html(step.says)}</p>" if step.says else ""
    result = f"{drawn}<div class='wide'>{html_values(step)}</div>{says}"
    kind = "result" if step.question is None else "result asked"
    heading = f"<h2>{number}. {as_html(step.title)}</h2>"
    return f"<section>{heading}{formula}{intro}{asked}<div class='{kind}'>{result}</div></section>"


def _math(step: Step) -> str:
    if not step.latex:
        return f"<code>{as_html(step.formula)}</code>"
    from latex2mathml.converter import convert

    return convert(step.latex, display="block")


def _question(question: Question) -> str:
    choices = "".join(
        f"<button type='button' data-right='{str(choice.right).lower()}' "
        f"data-reason='{as_html(choice.reason)}'>{as_html(choice.text)}</button>"
        for choice in question.choices
    )
    return (
        f"<div class='question'><p><b>{as_html(question.text)}</b></p><div "
        f"class='choices'>{choices}<button type='button' class='skip'>Show the numbers</button></div><p "
        "class='reason' aria-live='polite'></p></div>"
    )
