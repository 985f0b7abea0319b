"""The labelled texts of a run: read again for measuring, and labelled by the run's model."""

from regard.errors import UserError
from regard.models.classifier import Labeller
from regard.models.model import as_kind
from regard.runs.run import Run
from regard.text.labelled import Labelled, hold_out, read_labelled


def require_labeller(run: Run) -> Labeller:
    """Return the run's model if it labels texts."""
    return as_kind(run.model, Labeller)


def own_labelled(run: Run) -> Labelled:
    """Return the test or validation texts of the run's training, read again."""
    records = run.config.texts.test or run.config.texts.valid
    if not records:
        raise UserError(
            "this run was trained without validation or test texts; name the texts with `labelled`"
        )
    (record,) = records
    texts = read_labelled(record.paths(run.folder), record.columns)
    if record.held_out and record.hold is not None:
        texts = hold_out(texts, record.hold)[1]
    if texts.record()["sha256"] != record.sha256:
        raise UserError(
            f"{record.name}: has changed since the run was trained; name the texts with `labelled`"
        )
    return texts
