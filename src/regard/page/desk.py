"""The questions of a page, and the workers that answer them: one for each run, and one for the lessons.

The server and the notebook ask here. A question comes as JSON; what it names and holds is checked.
"""

import sys
import traceback
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from operator import attrgetter
from typing import Any, final

from regard.boundary import parse_json
from regard.errors import MachineError, UserError
from regard.page import messages, protocol, recorded
from regard.serving.workers import Stream, Worker

# The questions that have one answer, and those whose answers come piece by piece, with their methods.
ASKED = {
    "read": (protocol.ReadQuestion, "readings.read"),
    "rows": (protocol.RowsQuestion, "readings.rows"),
    "tile": (protocol.TileQuestion, "readings.tile"),
    "mosaic": (protocol.MosaicQuestion, "readings.mosaic"),
    "next": (protocol.NextQuestion, "readings.next"),
    "scenes": (protocol.ScenesQuestion, "readings.scenes"),
    "add": (protocol.AddQuestion, "readings.add"),
    "trained": (messages.TrainedQuestion, "readings.trained"),
    "senses": (messages.SensesQuestion, "measures.senses"),
    "course": (messages.CourseQuestion, "course"),
    "lesson": (messages.LessonQuestion, "lesson"),
}
STREAMED = {
    "write": (protocol.WriteQuestion, "readings.write"),
    "doubt": (messages.DoubtQuestion, "measures.doubt"),
    "say": (messages.SayQuestion, "measures.say"),
    "heads": (messages.HeadsQuestion, "measures.heads"),
    "forget": (messages.ForgetQuestion, "measures.forget"),
}
LESSONS = "lessons"  # the worker of the lessons, beside those of the runs
SAVE = "save"  # the question for a file, which several workers answer
Open = Callable[[], Any]
Send = Callable[[Any], None]


@final
class Desk:
    """The runs of a page. `opener` returns the function that opens a run, in the thread of its worker."""

    def __init__(self, infos: Callable[[], list[protocol.RunInfo]], opener: Callable[[str], Open]):
        self.infos, self._opener = infos, opener
        self._workers = dict[str, Worker[Any]]()
        self._files = ThreadPoolExecutor(1)  # puts what the workers recorded into files

    def ask(self, name: str, body: bytes, view: str) -> Future[Any]:
        """Return the answer to come. A waiting question of the same view is cancelled."""
        if name == SAVE:
            return self._save(body, view)
        kind, method = ASKED[name]
        question = parse_json(kind, body, "the question")
        work = _worded(lambda opened: attrgetter(method)(opened)(question))
        return self._worker(_worker_of(question)).ask(view, work)

    def stream(self, name: str, body: bytes) -> Callable[[Send], Stream]:
        """Return what begins a stream: it sends each piece of the answer, then None or an error."""
        kind, method = STREAMED[name]
        question = parse_json(kind, body, "the question")
        work = _worded(lambda opened: attrgetter(method)(opened)(question))
        worker = self._worker(_worker_of(question))
        return lambda send: worker.stream(work, send)

    def _save(self, body: bytes, view: str) -> Future[bytes]:
        """Return the file of a view to come."""
        question = parse_json(recorded.SaveQuestion, body, "the question")
        infos = {info.id: info for info in self.infos()}
        futures = []
        for of in question.of:
            worker = self._worker(of.run)  # refuses a run that is not in the list
            futures.append(worker.ask(f"{view}/{of.run}", _recording(infos[of.run], of)))
        return self._files.submit(_file, question.view, futures)

    def warm(self) -> None:
        """Open the first run before the first question."""
        for info in self.infos()[:1]:
            self._worker(info.id).ask("warm", lambda opened: None)

    def _worker(self, run: str) -> Worker[Any]:
        if run not in self._workers:
            self._workers[run] = Worker(_open_lessons if run == LESSONS else self._opener(run))
        return self._workers[run]


def is_piece(answer: Any) -> bool:
    """Return whether more follows after a piece of a stream."""
    return isinstance(answer, protocol.Piece | messages.Stage)


def reason(error: BaseException) -> str:
    """Return an error in words for the page. A mistake of the lab is printed for its owner."""
    if isinstance(error, UserError | MachineError | OSError):
        return str(error).replace("`", "")
    traceback.print_exception(error, file=sys.stderr)
    return "the lab made a mistake here; the terminal says which"


def _file(view: str, futures: list[Future[Any]]) -> bytes:
    from regard.page.recording import page  # imports torch

    models = [future.result() for future in futures]
    title = " · ".join(model.info.name for model in models)
    return page(recorded.Recording(title, view, models), f"regard · {title}").encode()


def _recording(info: protocol.RunInfo, of: protocol.ReadQuestion) -> Callable[[Any], Any]:
    return _worded(lambda opened: opened.readings.recorded(info, of))


def _open_lessons() -> Any:
    from regard.page.lessons import Lessons  # imports torch, in the worker's thread

    return Lessons()


def _worker_of(question: Any) -> str:
    """Return the worker of a question: the run that it names, or that of its reading, or the lessons."""
    if isinstance(question, messages.CourseQuestion | messages.LessonQuestion):
        return LESSONS
    return str(question.run if isinstance(question, messages.OF_RUN) else question.of.run)


def _worded(work: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the work, with errors of memory in words. (Warnings of a worker have no reader.)"""

    def worded(opened: Any) -> Any:
        try:
            return work(opened)
        except (MemoryError, RuntimeError) as error:
            if isinstance(error, MemoryError) or "memory" in str(error):
                raise UserError("the machine has too little memory for this text: shorten it") from None
            raise

    return worded
