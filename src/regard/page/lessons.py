"""The lessons for the page: formula, question, numbers and picture of each step, for any inputs."""

import base64
from typing import final

from latex2mathml.converter import convert

from regard.lessons.inputs import example
from regard.lessons.lesson import LESSONS, Step, about, inputs_of, is_short, parse, run_lesson, short_text
from regard.page import messages


@final
class Lessons:
    """Runs lessons. Only one thread may use it."""

    def course(self, question: messages.CourseQuestion) -> messages.Course:
        return messages.Course(
            [messages.LessonInfo(name, about(name), list(entry.builds_on)) for name, entry in LESSONS.items()]
        )

    def lesson(self, question: messages.LessonQuestion) -> messages.LessonPage:
        usual = inputs_of(question.name)
        chosen = dict(parse(question.name, f"{name}={text}") for name, text in question.inputs.items())
        shown = run_lesson(question.name, **chosen)
        return messages.LessonPage(
            shown.name,
            shown.about,
            list(shown.builds_on),
            [
                messages.LessonInput(name, example(value), example(usual[name]))
                for name, value in shown.inputs.items()
            ],
            list(map(_step, shown.steps)),
            shown.exercise.task,
            shown.exercise.solution,
        )


def _step(step: Step) -> messages.LessonStep:
    asked = step.question
    return messages.LessonStep(
        step.title,
        step.formula,
        convert(step.latex, display="block") if step.latex else "",
        step.intro,
        "" if asked is None else asked.text,
        []
        if asked is None
        else [messages.LessonChoice(choice.text, choice.reason, choice.right) for choice in asked.choices],
        "" if step.picture is None else _svg_uri(step.picture.svg()),
        [
            (name, short_text(value))
            for name, value in step.values.items()
            if is_short(value) or step.picture is None
        ],
        step.says,
    )


def _svg_uri(svg: str) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"
