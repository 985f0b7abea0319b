"""The training loop: gradient descent on a task, from the first step or from a checkpoint, to the best weights."""

import math
import time
from pathlib import Path

import torch
from torch import Tensor, nn

from regard.errors import Interrupted, MachineError
from regard.machine.device import Machine
from regard.machine.memory import keep_freed_memory
from regard.machine.signals import delayed_stop
from regard.models.contract import LanguageModel, State
from regard.training.checkpoint import Checkpoints
from regard.training.log import Log, Losses
from regard.training.optimisers import make_optimisers, rate, set_rate
from regard.training.options import TrainingOptions
from regard.training.task import Batches, Listener, Progress, Report, Task
from regard.training.weights import BestWeights


def descend(
    model: LanguageModel,
    task: Task,
    options: TrainingOptions,
    seed: int,
    out: Path,
    machine: Machine,
    listener: Listener,
) -> Progress:
    """Train a model and leave it with its best weights. Metrics, samples and checkpoints go to the folder `out`."""
    model.to(machine.device)
    batches = task.batches(model, options, seed, machine.device)
    optimisers = make_optimisers(model, options)
    objective = compiled(task.objective(model, options), model, options, machine)
    weights = BestWeights(model, options.average)
    checkpoints = Checkpoints(out, model, optimisers, weights)
    progress, state = checkpoints.restore()
    log, losses, budget = Log(out, progress, options.tensorboard), Losses(), Budget(options)
    watch = Watch(model, machine, listener, progress)

    def validate() -> None:
        losses.settle(progress)
        watch.report("validating", budget)
        model.eval()
        train_loss = progress.summed_loss / progress.summed_steps
        valid_loss = task.validate(model)
        loss = check_finite(train_loss if valid_loss is None else valid_loss, progress.step)
        judged = task.judge(model, loss)
        log.write(
            progress, train_loss, valid_loss, judged, optimisers[0].param_groups[0]["lr"], task.sample(model)
        )
        weights.judge(progress, judged)

    with delayed_stop() as stop, keep_freed_memory():
        while not budget.spent(progress):
            model.train()
            set_rate(optimisers, options.learning_rate * rate(budget.share(progress), options))
            loss, state = step(objective, batches, state, progress, options, machine)
            nn.utils.clip_grad_norm_(model.parameters(), options.clip)
            for optimiser in optimisers:
                optimiser.step()
                optimiser.zero_grad(set_to_none=True)
            progress.step += 1
            losses.add(loss)

            watch.tick(losses, budget)
            due = progress.step % options.evaluate_every == 0
            if due:
                validate()
            if due or stop.requested:
                losses.settle(progress)
                checkpoints.save(progress, state)
                watch.restart()
            if stop.requested:
                raise Interrupted(f"stopped at step {progress.step}, which is saved")
        if losses.waiting or progress.summed_steps:
            validate()
            checkpoints.save(progress, state)
    weights.load_best(lambda: task.judge(model.eval(), task.validate(model) or math.inf), progress)
    return progress


def step(
    objective: nn.Module,
    batches: Batches,
    state: State | None,
    progress: Progress,
    options: TrainingOptions,
    machine: Machine,
) -> tuple[Tensor, State | None]:
    """Accumulate the gradients of one step. The sums of all its batches are divided by all their targets: they equal one batch."""
    chosen = [next_batch(batches, progress) for _ in range(options.accumulate)]
    weight = max(1.0, sum(batch.weight for batch in chosen))
    total = torch.zeros((), device=machine.device)
    for batch in chosen:
        if state is not None and batch.fresh_B is not None and bool(batch.fresh_B.any()):
            state = None if bool(batch.fresh_B.all()) else state.reset(batch.fresh_B.to(machine.device))
        with torch.autocast(machine.device.type, torch.bfloat16, enabled=machine.bf16):
            summed, state = objective(**batch.inputs, state=state)
        loss = summed / weight
        loss.backward()
        total += loss.detach()
    return total, state


def next_batch(batches: Batches, progress: Progress):
    if progress.place >= batches.steps(progress.epoch):
        progress.epoch, progress.place = progress.epoch + 1, 0
    batch = batches.batch(progress.epoch, progress.place)
    progress.place += 1
    progress.tokens += batch.tokens
    return batch


def compiled(
    objective: nn.Module, model: LanguageModel, options: TrainingOptions, machine: Machine
) -> nn.Module:
    """The objective, compiled if that is requested, or if it pays: on a GPU, for models that carry no state."""
    auto = machine.device.type == "cuda" and model.context is not None and model.compiles
    wanted = options.compile == "on" or (options.compile == "auto" and auto)
    return torch.compile(objective) if wanted else objective  # type: ignore[return-value]


def check_finite(loss: float, at_step: int) -> float:
    if not math.isfinite(loss):
        advice = "train again, into another `out`, with a lower `learning_rate`"
        raise MachineError(f"the loss is not a number at step {at_step}: {advice}")
    return loss


class Budget:
    """How long a training lasts: steps, minutes, or until validation stops improving."""

    def __init__(self, options: TrainingOptions):
        self._minutes, self._patience = options.minutes, options.patience
        self.steps = options.steps or (None if options.minutes else 1000)

    def share(self, progress: Progress) -> float:
        """How much of the training is done."""
        if self.steps:
            return progress.step / self.steps
        return progress.seconds / (60 * float(self._minutes or 1))

    def spent(self, progress: Progress) -> bool:
        return bool(self._patience and progress.worse >= self._patience) or self.share(progress) >= 1


class Watch:
    """Counts the seconds of a training and reports to the listener, at most twice a second."""

    def __init__(self, model: LanguageModel, machine: Machine, listener: Listener, progress: Progress):
        inner = (p.numel() for name, p in model.named_parameters() if not name.startswith("embedding"))
        self._operations = (
            6 * sum(inner) / machine.peak
        )  # of a token, forward and backward, as a share of a second
        self._listener, self._progress = listener, progress
        self._began, self._shown, self._loss = time.perf_counter() - progress.seconds, 0.0, math.nan
        self.restart()

    def restart(self) -> None:
        """Measure the speed from here on: validation and checkpoints do not count."""
        self._since = (time.perf_counter(), self._progress.tokens)

    def tick(self, losses: Losses, budget: Budget) -> None:
        now = time.perf_counter()
        self._progress.seconds = now - self._began
        if now - self._shown > 0.5:
            self._loss, self._shown = losses.settle(self._progress), now
            self.report("training", budget)

    def report(self, doing: str, budget: Budget) -> None:
        progress = self._progress
        speed = (progress.tokens - self._since[1]) / max(1e-9, time.perf_counter() - self._since[0])
        share = budget.share(progress)
        left = progress.seconds * (1 - share) / max(share, 1e-9)
        peak = self._operations * speed
        self._listener(
            Report(progress.step, budget.steps, self._loss, speed, peak, left, progress.best_loss, doing)
        )
