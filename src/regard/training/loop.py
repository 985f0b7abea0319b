"""The training loop: gradient descent on a task, from the first step or from a checkpoint."""

import math
import time
from pathlib import Path

import torch
from torch import nn

from regard.errors import Interrupted, MachineError
from regard.machine.device import Machine
from regard.machine.memory import keep_freed_memory
from regard.machine.ranks import Ranks
from regard.machine.signals import delayed_stop
from regard.models.model import M, Model
from regard.training.checkpoint import Checkpoints
from regard.training.film import Film
from regard.training.gradients import make_gradients
from regard.training.log import Log, Losses
from regard.training.optimisers import current_rate, make_optimisers, rate, set_rate
from regard.training.options import TrainingOptions
from regard.training.task import Batch, Batches, Listener, Progress, Report, Task
from regard.training.weights import BestWeights


def descend(
    model: M,
    task: Task[M],
    options: TrainingOptions,
    seed: int,
    out: Path,
    machine: Machine,
    listener: Listener,
) -> Progress:
    """Train a model, from the checkpoint in `out` if there is one. At the end, it holds its best weights."""
    ranks = begin_alike(model, machine, seed)
    batches = task.batches(model, options, seed, machine)
    optimisers = make_optimisers(model, options)
    objective = compiled(task.objective(model, options), model, options, machine)
    gradients = make_gradients(objective, model, machine)
    weights = BestWeights(model, options.average, task.keeps)
    checkpoints = Checkpoints(out, model, optimisers, weights, ranks)
    progress, state = checkpoints.restore()
    log = Log(out, progress, options.tensorboard, ranks.speaks)
    losses, budget = Losses(), Budget(options, batches)
    watch = Watch(model, machine, listener, progress)
    film = Film(out, model, progress, options.film and ranks.speaks)

    def validate() -> None:
        losses.settle(progress)
        watch.report("validating", budget)
        model.eval()
        train_loss = progress.summed_loss / progress.summed_steps
        valid_loss = task.validate(model)
        loss = check_finite(train_loss if valid_loss is None else valid_loss, progress.step)
        judged = ranks.first(task.judge(model, loss))
        log.write(progress, train_loss, valid_loss, judged, current_rate(optimisers), task.sample(model))
        weights.judge(progress, judged)
        film.add()
        model.train()

    model.train()
    with machine.using_threads(), delayed_stop() as stop, keep_freed_memory():
        while not budget.spent(progress):
            set_rate(optimisers, options.learning_rate * rate(budget.share(progress), options))
            step_batches = [next_batch(batches, progress) for _ in range(options.accumulate)]
            loss, state = gradients.of(step_batches, state)
            update(model, optimisers, options.clip)
            progress.step += 1
            losses.add(loss)
            watch.tick(losses, budget)
            stops = watch.agree(stop.requested)
            if due := progress.step % options.evaluate_every == 0:
                validate()
            if due or stops:
                losses.settle(progress)
                checkpoints.save(progress, state)
                watch.restart()
            if stops:
                raise Interrupted(f"stopped at step {progress.step}, which is saved")
        if losses.waiting or progress.summed_steps:
            validate()
            checkpoints.save(progress, state)
    weights.load_best(lambda: task.judge(model.eval(), task.validate(model) or math.inf), progress)
    return progress


def begin_alike(model: Model, machine: Machine, seed: int) -> Ranks:
    """Give all ranks the parameters of rank 0, and each rank random numbers of its own."""
    model.to(machine.device)
    machine.ranks.copy_first(model.state_dict().values())
    machine.ranks.seed(seed)
    return machine.ranks


def update(model: Model, optimisers: list[torch.optim.Optimizer], clip: float | None) -> None:
    """Change the parameters by their gradients, and clear the gradients."""
    if clip is not None:
        nn.utils.clip_grad_norm_(model.parameters(), clip)
    for optimiser in optimisers:
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)


def next_batch(batches: Batches, progress: Progress) -> Batch:
    """Return the next batch and count it in the progress. After the last batch, a new epoch begins."""
    if progress.place >= batches.steps(progress.epoch):
        progress.epoch, progress.place = progress.epoch + 1, 0
    batch = batches.batch(progress.epoch, progress.place)
    progress.place += 1
    progress.tokens += batch.tokens
    return batch


def compiled(objective: nn.Module, model: Model, options: TrainingOptions, machine: Machine) -> nn.Module:
    """Compile the objective if the option `compile` says so.

    With `auto`, the objective is compiled on a GPU if the model carries no state from batch to batch:
    compilation saves time only there.
    """
    saves_time = machine.device.type == "cuda" and not model.carries and model.compiles
    compiles = options.compile == "on" or (options.compile == "auto" and saves_time)
    return torch.compile(objective) if compiles else objective  # type: ignore[return-value]


def check_finite(loss: float, at_step: int) -> float:
    """Return the loss, or raise an error if the loss is infinite or NaN."""
    if not math.isfinite(loss):
        advice = "train again with a lower `learning_rate`, and write to another `out`"
        raise MachineError(f"the loss is not a number at step {at_step}: {advice}")
    return loss


class Budget:
    """The length of a training: steps, minutes or epochs, or less if validation stops improving."""

    def __init__(self, options: TrainingOptions, batches: Batches):
        self._minutes, self._epochs, self._patience = options.minutes, options.epochs, options.patience
        self._batches = batches
        self.steps = options.steps or (None if options.minutes or options.epochs else 1000)

    def share(self, progress: Progress) -> float:
        """Return the share of the steps, epochs or minutes that is used up."""
        if self.steps:
            return progress.step / self.steps
        if self._epochs:
            read = progress.place / self._batches.steps(progress.epoch)
            return (progress.epoch + read) / self._epochs
        return progress.seconds / (60 * float(self._minutes or 1))

    def spent(self, progress: Progress) -> bool:
        return bool(self._patience and progress.worse >= self._patience) or self.share(progress) >= 1


class Watch:
    """A stopwatch: measures the time and speed of a training, and reports to the listener twice a second."""

    def __init__(self, model: Model, machine: Machine, listener: Listener, progress: Progress):
        tables = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
        inner = (parameter.numel() for parameter in model.parameters() if id(parameter) not in tables)
        # The seconds that a token would take at the machine's peak speed: a token costs 2 operations for each
        # weight in the forward pass, and 4 in the backward pass. Embeddings are looked up, not multiplied.
        self._peak_seconds = 6 * sum(inner) / machine.peak
        self._listener, self._progress = listener, progress
        self._began, self._shown, self._loss = time.perf_counter() - progress.seconds, 0.0, math.nan
        self._ranks = machine.ranks
        self._pause = 0.5 if self._ranks.speaks else math.inf  # seconds between reports
        self.restart()

    def restart(self) -> None:
        """Begin a new measurement of speed, so that validation and checkpoints do not count."""
        self._since = (time.perf_counter(), self._progress.tokens)

    def tick(self, losses: Losses, budget: Budget) -> None:
        now = time.perf_counter()
        self._progress.seconds = now - self._began
        if now - self._shown > self._pause:
            self._loss, self._shown = losses.settle(self._progress), now
            self.report("training", budget)

    def agree(self, stop: bool) -> bool:
        """Return whether any rank asks to stop. All ranks take the clock of rank 0: one learning rate."""
        clock = self._progress.seconds if self._ranks.speaks else 0.0
        self._progress.seconds, stops = self._ranks.most([clock, float(stop)])
        return bool(stops)

    def report(self, doing: str, budget: Budget) -> None:
        progress = self._progress
        speed = (progress.tokens - self._since[1]) / max(1e-9, time.perf_counter() - self._since[0])
        share = budget.share(progress)
        left = progress.seconds * (1 - share) / max(share, 1e-9)
        peak_share = self._peak_seconds * speed
        self._listener(
            Report(
                progress.step, budget.steps, self._loss, speed, peak_share, left, progress.best_loss, doing
            )
        )
