"""The one gradient loop: average token cross-entropy over the batch's real tokens, for every family that learns by descent.

Shape legend: B rows, T positions.
"""

import json
import math
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import Interrupted, MachineError
from regard.models.contract import LanguageModel, State
from regard.models.memory import kept_for_reuse
from regard.models.translation import Translator
from regard.runs.board import Board
from regard.runs.checkpoint import load_checkpoint, optimiser_tensors, restore_optimisers, save_checkpoint
from regard.runs.machine import Machine
from regard.runs.optimisers import TrainingOptions, make_optimisers, rate
from regard.tokens.contract import Encoded
from regard.tokens.schedule import Corpus, Schedule

METRICS, TIMING, SAMPLES = "metrics.jsonl", "timing.jsonl", "samples.txt"  # what takes time is kept apart: the rest can be repeated
SAMPLE = "--- step "


class Step(nn.Module):
    """What is compiled and distributed: (tokens, targets, state) -> (loss, state). A state is given on only where it is carried;
    a translator's begins with its source."""

    def __init__(self, model: LanguageModel, smoothing: float = 0.0):
        super().__init__()
        self.model, self.smoothing = model, smoothing

    def forward(
        self, tokens_BT: Tensor, targets_BT: Tensor, state: State | None, source_BS: Tensor | None = None
    ) -> tuple[Tensor, State | None]:
        if source_BS is not None:
            assert isinstance(self.model, Translator)
            state = self.model.read(source_BS)
        prediction, state = self.model(tokens_BT, state)
        carried = self.model.context is None and source_BS is None
        return prediction.loss(targets_BT, smoothing=self.smoothing), state.detach() if carried else None


@dataclass
class Progress:
    """How far a training has come; what a checkpoint remembers beside tensors."""

    step: int = 0
    epoch: int = 0
    place: int = 0  # steps into the epoch
    tokens: int = 0
    seconds: float = 0.0
    summed_loss: float = 0.0  # since the last validation
    summed_steps: int = 0
    best_loss: float | None = None
    best_step: int = 0
    worse: int = 0  # validations since the best
    metrics: int = 0  # lines written


@dataclass(frozen=True)
class Report:
    """One line of what is going on, a few times a second."""

    step: int
    steps: int | None
    loss: float
    tokens_per_second: float
    peak_share: float
    seconds_left: float
    valid_loss: float | None


Listener = Callable[[Report], None]


class Descent:
    """One training, from the first step or from a checkpoint."""

    def __init__(
        self, model: LanguageModel, text: Encoded, schedule: Schedule, options: TrainingOptions, out: Path, machine: Machine,
        listener: Listener, validate: Callable[[], float] | None, judge: Callable[[], float] | None, sample: Callable[[], str],
    ):  # fmt: skip
        """`validate` gives the loss on validation text, where there is any; `judge` what decides which validation is better, the lower."""
        self.model, self.options, self.out, self.machine = model.to(machine.device), options, out, machine
        self.listener, self.sample, self.validate, self.judge = listener, sample, validate, judge
        self.corpus, self.schedule = Corpus.of(text, model.start, machine.device), schedule
        self.optimisers = make_optimisers(model, options)
        auto = machine.device.type == "cuda" and model.context is not None and model.compiles
        compiled = options.compile == "on" or (options.compile == "auto" and auto)
        self.step: Callable[..., tuple[Tensor, State | None]] = (
            torch.compile(Step(model, options.label_smoothing)) if compiled else Step(model, options.label_smoothing)
        )
        self.progress = Progress()
        self.state: State | None = None
        self.best: dict[str, Tensor] = {}
        self.recent = list[dict[str, Tensor]]()  # the weights at the last validations
        self.board: Board | None = None
        self.losses: list[Tensor] = []  # of the last steps, still on the device
        self.limit = options.steps or (None if options.minutes else 1000)

    def run(self) -> Progress:
        """Train to the end and leave the model with its best weights."""
        self._restore()
        self.board = Board(self.out / "tensorboard", self.progress.step) if self.options.tensorboard else None
        began, shown = time.perf_counter() - self.progress.seconds, 0.0
        reported = (time.perf_counter(), self.progress.tokens)
        with stopping() as stop, kept_for_reuse(), (self.out / METRICS).open("a") as metrics:
            while not self._done():
                self._train_step()
                now = time.perf_counter()
                self.progress.seconds = now - began
                if now - shown > 0.5:
                    self._report(self._settle(), reported)
                    shown = now
                due = self.progress.step % self.options.evaluate_every == 0
                if due:
                    self._validate(metrics)
                if due or stop.asked:
                    self._save()
                    reported = (time.perf_counter(), self.progress.tokens)
                if stop.asked:
                    raise Interrupted(f"stopped at step {self.progress.step}, which is saved")
            if self.losses or self.progress.summed_steps:
                self._validate(metrics)
                self._save()
        if self.best:
            self.model.load_state_dict(self.best)
        if len(self.recent) > 1:
            self._average()
        return self.progress

    def _weights(self) -> dict[str, Tensor]:
        return {name: tensor.clone() for name, tensor in self.model.state_dict().items()}

    def _average(self) -> None:
        """The average of the last weights, where it is better than the best of them."""
        self.model.load_state_dict({name: sum(one[name] for one in self.recent) / len(self.recent) for name in self.recent[0]})
        self.model.eval()
        judge = self.judge or self.validate
        if judge is None or (self.progress.best_loss is not None and judge() >= self.progress.best_loss):
            self.model.load_state_dict(self.best)

    def _done(self) -> bool:
        if self.options.patience and self.progress.worse >= self.options.patience:
            return True
        return self._share() >= 1

    def _share(self) -> float:
        """How much of the training is behind us."""
        return self.progress.step / self.limit if self.limit else self.progress.seconds / (60 * float(self.options.minutes or 1))

    def _train_step(self) -> None:
        progress, options = self.progress, self.options
        self.model.train()
        for optimiser in self.optimisers:
            for group in optimiser.param_groups:
                group["lr"] = options.learning_rate * rate(self._share(), options)
        total = torch.zeros((), device=self.machine.device)
        for _ in range(options.accumulate):
            tokens_BT, targets_BT, source_BS = self._next_rows()
            with torch.autocast(self.machine.device.type, torch.bfloat16, enabled=self.machine.bf16):
                loss, self.state = self.step(tokens_BT, targets_BT, self.state, source_BS)
            (loss / options.accumulate).backward()
            total += loss.detach() / options.accumulate
        nn.utils.clip_grad_norm_(self.model.parameters(), options.clip)
        for optimiser in self.optimisers:
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
        progress.step += 1
        self.losses.append(total)

    def _settle(self) -> float:
        """Read the losses since the last time, the last of which is given back. It waits for the device: so not at every step."""
        progress = self.progress
        values = torch.stack(self.losses).tolist() if self.losses else []
        self.losses.clear()
        for back, value in zip(range(len(values), 0, -1), values, strict=True):
            self._check(value, progress.step - back + 1)
            progress.summed_loss += value
        progress.summed_steps += len(values)
        return values[-1] if values else math.nan

    def _check(self, loss: float, step: int) -> None:
        if not math.isfinite(loss):
            raise MachineError(f"the loss is not a number at step {step}: train again, into another --out, with a lower --learning-rate")

    def _next_rows(self) -> tuple[Tensor, Tensor, Tensor | None]:
        progress = self.progress
        if progress.place >= self.schedule.steps(progress.epoch):
            progress.epoch, progress.place = progress.epoch + 1, 0
        place_BT, fresh_B = self.schedule.places(progress.epoch, progress.place)
        source_BS = self.schedule.sources(progress.epoch, progress.place)
        progress.place += 1
        progress.tokens += int((place_BT >= 0).sum())
        if self.state is not None and bool(fresh_B.any()):
            self.state = None if bool(fresh_B.all()) else self.state.begin(fresh_B.to(self.machine.device))
        tokens_BT, targets_BT = self.corpus.rows(place_BT.to(self.machine.device), self.model.padding)
        return tokens_BT, targets_BT, None if source_BS is None else source_BS.to(self.machine.device)

    def _validate(self, metrics: Any) -> None:
        progress = self.progress
        self._settle()
        self.model.eval()
        loss = self.validate() if self.validate is not None else progress.summed_loss / progress.summed_steps
        self._check(loss, progress.step)
        judged = loss if self.judge is None else self.judge()
        row = {
            "step": progress.step,
            "tokens": progress.tokens,
            "train_loss": progress.summed_loss / progress.summed_steps,
            "valid_loss": loss if self.validate is not None else None,
            **({} if self.judge is None else {"judged": judged}),
            "learning_rate": self.optimisers[0].param_groups[0]["lr"],
        }
        if self.board is not None:
            self.board.write(row)
        metrics.write(json.dumps(row) + "\n")
        metrics.flush()
        with (self.out / TIMING).open("a") as timing:
            timing.write(json.dumps({"step": progress.step, "seconds": progress.seconds}) + "\n")
        with (self.out / SAMPLES).open("a", encoding="utf-8") as samples:
            samples.write(f"{SAMPLE}{progress.step}\n{self.sample()}\n")
        progress.metrics += 1
        progress.summed_loss, progress.summed_steps = 0.0, 0
        if self.options.average > 1:
            self.recent = [*self.recent, self._weights()][-self.options.average :]
        if progress.best_loss is None or judged < progress.best_loss:
            progress.best_loss, progress.best_step, progress.worse = judged, progress.step, 0
            self.best = self._weights()
        else:
            progress.worse += 1

    def _report(self, loss: float, since: tuple[float, int]) -> None:
        progress = self.progress
        speed = (progress.tokens - since[1]) / max(1e-9, time.perf_counter() - since[0])
        inner = sum(p.numel() for name, p in self.model.named_parameters() if not name.startswith("embedding"))
        share = self._share()
        left = progress.seconds * (1 - share) / max(share, 1e-9)
        self.listener(Report(progress.step, self.limit, loss, speed, 6 * inner * speed / self.machine.peak, left, progress.best_loss))

    def _save(self) -> None:
        self._settle()
        tensors = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        tensors |= {f"best.{name}": tensor for name, tensor in self.best.items()}
        if self.options.average > 1:
            tensors |= {f"recent{number}.{name}": tensor for number, one in enumerate(self.recent) for name, tensor in one.items()}
        tensors |= optimiser_tensors(self.optimisers)
        tensors["random.cpu"] = torch.get_rng_state()
        if self.machine.device.type == "cuda":
            tensors["random.cuda"] = torch.cuda.get_rng_state()
        if self.state is not None:
            carried = list[Tensor]()
            self.state.map(lambda tensor: carried.append(tensor) or tensor)  # type: ignore[func-returns-value]
            tensors |= {f"state.{number}": tensor for number, tensor in enumerate(carried)}
        save_checkpoint(self.out, self.progress.step, tensors, asdict(self.progress))

    def _restore(self) -> None:
        """Go on from the newest checkpoint; what was written after it is forgotten."""
        found = load_checkpoint(self.out)
        if found is None:
            for name in (METRICS, TIMING, SAMPLES):
                (self.out / name).unlink(missing_ok=True)
            return
        tensors, progress = found
        progress.pop("sha256")
        self.progress = Progress(**progress)
        self.model.load_state_dict(_under("model.", tensors))
        self.best = {name: tensor.to(self.machine.device) for name, tensor in _under("best.", tensors).items()}
        for number in range(self.options.average if self.options.average > 1 else 0):
            recent = {name: tensor.to(self.machine.device) for name, tensor in _under(f"recent{number}.", tensors).items()}
            self.recent += [recent] if recent else []
        restore_optimisers(self.optimisers, tensors)
        carried = _under("state.", tensors)
        if carried:
            values = iter(carried[str(number)] for number in range(len(carried)))
            start_B1 = torch.full((self.options.batch, 1), self.model.start, device=self.machine.device)
            with torch.no_grad():
                template = self.model.train()(start_B1)[1]
            self.state = template.map(lambda tensor: next(values).to(tensor.device))
        torch.set_rng_state(tensors["random.cpu"])
        if "random.cuda" in tensors:
            torch.cuda.set_rng_state(tensors["random.cuda"])
        for name in (METRICS, TIMING):
            (self.out / name).touch()  # stopped before the first validation, there is none yet
            lines = (self.out / name).read_text("utf-8").splitlines(keepends=True)[: self.progress.metrics]
            (self.out / name).write_text("".join(lines))
        samples = (self.out / SAMPLES).read_text("utf-8").split(SAMPLE) if (self.out / SAMPLES).exists() else []
        (self.out / SAMPLES).write_text(SAMPLE.join(samples[: self.progress.metrics + 1]), "utf-8")


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


@dataclass
class Stop:
    asked: bool = False


@contextmanager
def stopping() -> Iterator[Stop]:
    """Ctrl-C asks to stop after the step, so that what is saved is whole; a second one stops at once."""
    stop = Stop()

    def ask(*_: Any) -> None:
        if stop.asked:
            raise KeyboardInterrupt
        stop.asked = True

    try:
        before = signal.signal(signal.SIGINT, ask)
    except ValueError:  # not the main thread: nobody can ask
        yield stop
        return
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)
