"""regard train FAMILY: train a model on a text and write a run folder."""

import dataclasses
import hashlib
import json
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch

from regard.boundary import parse_json, read_bytes
from regard.errors import Interrupted, UserError
from regard.inside.attention_rows import weight_sites
from regard.inside.starting_vectors import begin_with_vectors
from regard.machine.device import Machine, choose_machine
from regard.machine.disk import absolute, relocated, remove_begun, write_json
from regard.machine.joining import joined
from regard.machine.ranks import Ranks, current_ranks
from regard.machine.shared_folder import check_shared, lock_shared
from regard.machine.spill import spill_into
from regard.models import family_class, family_name
from regard.models.model import Model
from regard.runs.formats.folder import (
    CONFIG,
    MARK,
    MODEL,
    SOURCE_TOKENIZER,
    TOKENIZER,
    TRAINING,
    check_free,
    claim_free,
    write_run,
)
from regard.runs.run import Run, Texts, describe
from regard.tables import Table, TableRows
from regard.training.checkpoint import checkpoints, remove_checkpoints
from regard.training.log import METRICS, SAMPLES, TIMING
from regard.training.loop import descend
from regard.training.options import PATHS, CountingOptions, Options, TrainingOptions, read_options
from regard.training.recipes import find_recipe
from regard.training.task import Listener, TextTask, ignore_reports
from regard.training.tasks import make_task

# The files of a run that are useless without config.json and training.json.
WRITTEN = (MARK, MODEL, TOKENIZER, SOURCE_TOKENIZER, METRICS, TIMING, SAMPLES)


@dataclasses.dataclass(frozen=True)
class Trained(Table):
    """A finished training."""

    run: Run
    steps: int
    tokens: int
    seconds: float
    loss: float | None
    # BLEU of a translator, and its alignment error rate if the gold links are known; of a captioner, BLEU,
    # exact matches, and the pointing game if boxes are known.
    figures: dict[str, float] = dataclasses.field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "out": str(self.run.folder),
            "family": self.run.config.family,
            "parameters": self.run.model.parameter_count(),
            "steps": self.steps,
            "tokens": self.tokens,
            "seconds": self.seconds,
            "loss": self.loss,
            **self.figures,
        }

    def rows(self) -> TableRows:
        """One row with every figure."""
        return [self.to_json()]


@dataclasses.dataclass(frozen=True)
class Began:
    """The content of training.json: the options and texts of a training that is not finished."""

    family: str
    options: dict[str, Any]
    texts: Texts
    tokens: str  # the hash of the tokenizers
    bf16: bool
    folder: str | None = None  # the run's folder at the beginning
    threads: int | None = None  # of a CPU; a resumed training equals an undisturbed one with as many
    sha256: str | None = None  # of all the rest; runs before version 0.3 have none
    ranks: int = 1  # whose batches make a step; the file of a single process does not name them

    def record(self) -> dict[str, Any]:
        """Return the content of the file."""
        record = dataclasses.asdict(self)
        if self.ranks == 1:
            del record["ranks"]
        return record

    def hash(self) -> str:
        rest = dataclasses.replace(self, sha256=None).record()
        return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def train(
    family: str | type[Model] | None = None,
    *,
    recipe: str | None = None,
    data: str | Path = "data",
    listener: Listener = ignore_reports,
    **options: Any,
) -> Trained:
    """Train a model of a family and write it to a run folder. `regard train FAMILY --help` lists the options.

    >>> trained = regard.train("ngram", order=2, out="runs/doctest")
    >>> trained.run.model.order
    2

    Args:
        family: The family, such as lstm; MODULE:CLASS, or the class itself, for a family of your own.
        recipe: A named recipe instead of a family. Other options replace those of the recipe.
        data: The folder of the recipe's texts.
        listener: A function that is called with a report of the training a few times a second.
        options: Options of the text, the tokens, the model and the training.
    """
    if recipe is not None:
        if family is not None:
            raise UserError(f"a recipe has its own family: leave out {family}")
        chosen = find_recipe(recipe)
        family = chosen.family
        options = options if options.get("resume") else chosen.with_options(data, options)
    if family is None:
        raise UserError("name a family, or a `recipe`")
    with joined() as ranks:
        return _train(family_class(family), options, listener if ranks.speaks else ignore_reports)


def _train(kind: type[Model], given: dict[str, Any], listener: Listener) -> Trained:
    ranks = current_ranks()
    if ranks.count > 1 and kind.learns != "descent":
        raise UserError(f"{kind.family} is not trained by descent: start it without torchrun")
    _check_same_options(kind, given, ranks)
    if given.get("resume"):
        out = Path(given.get("out") or f"runs/{kind.family}")
        if not out.is_dir():
            raise UserError(_nothing_there(out))
        with lock_shared(out, ranks):
            check_shared(out, ranks)
            return _resume(kind, out, given, listener)
    options = read_options(kind, given)
    out = _output(kind, options, ranks)
    with lock_shared(out, ranks) as created:
        if ranks.speaks:
            check_free(out)
        try:
            check_shared(out, ranks)
            task = make_task(kind, options)
            return _begin(kind, task, options, given, out, listener)
        except BaseException:
            if ranks.speaks and not (out / CONFIG).exists() and not (out / TRAINING).exists():
                # the folder can be neither opened nor resumed
                remove_begun(out, WRITTEN, created or not options.data.out)
            raise


def _output(kind: type[Model], options: Options, ranks: Ranks) -> Path:
    """Return the output folder. Rank 0 chooses one without a name."""
    out = options.data.out or ""
    if ranks.speaks and out:
        check_free(Path(out))
    return Path(ranks.first(str(out or claim_free(kind.family)) if ranks.speaks else ""))


def _check_same_options(kind: type[Model], given: Mapping[str, Any], ranks: Ranks) -> None:
    values = {f"`{name}`": str(_plain(value)) for name, value in given.items()}
    found = ranks.difference({"the family": family_name(kind), **values})
    if found is not None:
        differs = f"{found.name} is {found.theirs} on rank {found.rank}, and {found.ours} on rank 0"
        raise UserError(f"{differs}: start all ranks with the same command")


def _check_same_texts(task: TextTask[Any], ranks: Ranks) -> None:
    hashes = {record["name"]: record["sha256"] for part in task.texts().values() for record in part}
    found = ranks.difference({**hashes, "the vocabulary": _tokens_hash(task)})
    if found is not None:
        raise UserError(f"{found.name} differs between rank {found.rank} and rank 0: give all the same files")


def _nothing_learned(out: Path) -> bool:
    return not (out / CONFIG).exists() and not checkpoints(out)


def _nothing_there(out: Path) -> str:
    return f"{out}: holds no training to resume; give the `out` of a training that was stopped"


def _begin(
    kind: type[Model],
    task: TextTask[Any],
    options: Options,
    given: dict[str, Any],
    out: Path,
    listener: Listener,
) -> Trained:
    ranks = current_ranks()
    _check_same_texts(task, ranks)
    torch.manual_seed(options.data.seed)
    model = task.make(kind, options.model)
    if task.vectors is not None:
        task.notes.append(begin_with_vectors(model, task.tokenizer, task.vectors))
    if not isinstance(options.training, TrainingOptions):
        return _count(model, task, options, out)
    if options.training.film:
        weight_sites(model, "to film")
    machine = choose_machine(options.training.precision)
    beginning = Began(
        family=family_name(kind),
        options=_with_paths(given, absolute),
        texts=Texts.of(task.texts(), out),
        tokens=_tokens_hash(task),
        bf16=machine.bf16,
        threads=machine.threads,
        folder=absolute(str(out)),
        ranks=ranks.shares,
    )
    beginning = dataclasses.replace(beginning, sha256=beginning.hash())
    if ranks.speaks:
        write_json(beginning.record(), out / TRAINING)
    try:
        return _descend(model, task, options, out, machine, listener)
    except UserError:
        if ranks.speaks and _nothing_learned(out):  # the text was refused before the first step
            (out / TRAINING).unlink(missing_ok=True)
        raise


def _count(model: Model, task: TextTask[Any], options: Options, out: Path) -> Trained:
    """Train a model that learns by counting, within the memory budget if there is one."""
    assert isinstance(options.training, CountingOptions)
    began, budget = time.perf_counter(), options.training.budget
    encoded, tensors = task.encoded(), None
    with ExitStack() as stack:
        if budget is None:
            model.fit(encoded)
        else:
            spill = stack.enter_context(spill_into(out, budget, options.training.engine))
            tensors = model.fit_within(encoded, spill)
        seconds = time.perf_counter() - began
        loss = task.loss(model.eval())
        measured = {"tokens": len(encoded), "seconds": seconds, "notes": tuple(task.notes)}
        config = describe(model, texts=Texts.of(task.texts(), out), seed=options.data.seed, **measured)
        run = write_run(Run(model, task.tokenizer, config), out, tensors, loss=loss)
    return Trained(run, 0, len(encoded), seconds, loss)


def _resume(kind: type[Model], out: Path, given: dict[str, Any], listener: Listener) -> Trained:
    """Resume a stopped training with its own options. An option that is given again must be the same."""
    if (out / CONFIG).exists():
        raise UserError(f"{out}: this run is finished; there is nothing to resume")
    if not (out / TRAINING).is_file():
        raise UserError(_nothing_there(out))
    advice = "is damaged; its checkpoints are kept: train again into another `out`"
    began = parse_json(Began, read_bytes(out / TRAINING, f"{out}: {TRAINING}"), f"{out}: {TRAINING} {advice}")
    if began.sha256 not in (None, began.hash()):
        kept = "its checkpoints are kept: train again into another `out`"
        raise UserError(f"{out}: {TRAINING} was changed; {kept}")
    if began.family != family_name(kind):
        raise UserError(f"{out}: holds a {began.family}, not a {family_name(kind)}")
    beginning = began.options
    if began.folder is not None:
        beginning = _with_paths(beginning, lambda path: relocated(path, str(began.folder), out))
        given = _with_paths(given, absolute)
    for name, value in given.items():
        if name not in ("resume", "out") and (
            name not in beginning or _plain(beginning[name]) != _plain(value)
        ):
            earlier = beginning.get(name, "the default")
            raise UserError(f"`{name}` was {earlier} when {out} began; a resumed run cannot change it")
    options = read_options(kind, {**beginning, "resume": True, "out": str(out)})
    task = make_task(kind, options)
    _check_texts(out, task, began)
    _check_same_texts(task, current_ranks())
    torch.manual_seed(options.data.seed)
    model = task.make(kind, options.model)
    if task.vectors is not None and _nothing_learned(out):  # a checkpoint holds what became of them
        task.notes.append(begin_with_vectors(model, task.tokenizer, task.vectors))
    # The precision and the threads are not measured again: others would give another model.
    machine = choose_machine("bf16" if began.bf16 else "fp32", began.threads)
    machine = dataclasses.replace(machine, ranks=dataclasses.replace(machine.ranks, shares=began.ranks))
    return _descend(model, task, options, out, machine, listener)


def _plain(value: Any) -> Any:
    """Convert paths to strings and tuples to lists, as JSON keeps them."""
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def _descend(
    model: Model, task: TextTask[Any], options: Options, out: Path, machine: Machine, listener: Listener
) -> Trained:
    assert isinstance(options.training, TrainingOptions)
    ranks, go_on = machine.ranks, f"go on with: regard train {family_name(type(model))} --out {out} --resume"
    ranks.advise(f"{go_on}, under torchrun")
    if ranks.shares > 1:
        task.notes.append(f"a step reads {ranks.shares} batches: the training began on {ranks.shares} ranks")
    try:
        progress = descend(model, task, options.training, options.data.seed, out, machine, listener)
        model.eval()
        loss = task.loss(model)  # on the device of the training
        figures = task.report(model)
    except KeyboardInterrupt as stop:
        raise Interrupted(f"{str(stop) or 'stopped'}; {go_on}") from None
    model.to("cpu")
    config = describe(
        model,
        texts=Texts.of(task.texts(), out),
        seed=options.data.seed,
        training=dataclasses.asdict(options.training),
        notes=tuple(task.notes),
        steps=progress.step,
        best_step=progress.best_step,
        tokens=progress.tokens,
        seconds=progress.seconds,
        loss=loss,
        figures=figures,
        **task.known(),
    )
    run = Run(model, task.tokenizer, config, out, task.source_tokenizer)
    if ranks.speaks:
        run = write_run(run, out)
        remove_checkpoints(out)
    ranks.wait()
    return Trained(run, progress.step, progress.tokens, progress.seconds, loss, figures)


def _with_paths(options: Mapping[str, Any], change: Callable[[str], str]) -> dict[str, Any]:
    """Return the options with every path changed."""

    def changed(value: Any) -> Any:
        if value is None:
            return None
        return change(str(value)) if isinstance(value, str | Path) else [change(str(item)) for item in value]

    return {name: changed(value) if name in PATHS else _plain(value) for name, value in options.items()}


def _tokens_hash(task: TextTask[Any]) -> str:
    kinds = [
        tokenizer.to_json() for tokenizer in (task.tokenizer, task.source_tokenizer) if tokenizer is not None
    ]
    return hashlib.sha256(json.dumps(kinds).encode()).hexdigest()


def _check_texts(out: Path, task: TextTask[Any], began: Began) -> None:
    """A resumed training must find the text and the vocabulary that it began with."""
    texts = Texts.of(task.texts(), out)
    for part in ("train", "valid", "test"):
        records, earlier = getattr(texts, part), getattr(began.texts, part)
        names = [[Path(record.name).name for record in group] for group in (records, earlier)]
        if names[0] != names[1]:
            files = ", ".join(names[1])
            raise UserError(f"{out} began with other files ({files}); a resumed run needs the same text")
        for record, earlier_record in zip(records, earlier, strict=True):
            if record.sha256 != earlier_record.sha256:
                changed = f"{record.name}: has changed since {out} began"
                raise UserError(f"{changed}; a resumed run needs the same text")
    if _tokens_hash(task) != began.tokens:
        raise UserError(f"the vocabulary has changed since {out} began; a resumed run needs the same")


def main(arguments: list[str]) -> None:
    from regard.verbs.help import flags
    from regard.verbs.printing import print_json, print_lines, tell
    from regard.verbs.train_options import live_line, parse_train, print_usage

    if not arguments or arguments[0] in ("--help", "-h"):
        print_usage()
        return
    call = parse_train(arguments)
    trained = train(**call.values, listener=live_line(quiet=call.json))
    for note in trained.run.config.notes:
        tell(flags(note))
    result = trained.to_json()
    if call.json:
        print_json(result)
        return
    print_lines(result)
    tell(f"\nnext: regard {trained.run.model.verb} {result['out']}")
