"""The promise, for every family and site: looking changes nothing and costs no kernel; changing a site changes what comes after it.

Shape legend: B rows, T positions, V vocabulary.
"""

import pytest
import torch
from families import MODELS, V
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from regard.errors import UserError
from regard.models.contract import LanguageModel
from regard.models.transformer import Transformer
from regard.parts.edits import Shift, Silence, Zero
from regard.parts.look import Look

EXACT = 1e-10  # float64, as in test_laws
LOOKED_AT = [name for name, make in MODELS.items() if make().sites()]
COMPILED = [
    "dan",
    "dan-last",
    "window",
    "transformer",
    "transformer-post",
    "transformer-alibi",
    "transformer-gate",
    "backpack",
]
TOKENS_BT = torch.tensor([[V, 3, 1, 4, 1, 5]])


@pytest.fixture(params=LOOKED_AT)
def model(request, double) -> LanguageModel:
    return MODELS[request.param]()


def log_probs(model: LanguageModel, look: Look | None = None) -> Tensor:
    return model(TOKENS_BT, look=look)[0].log_probs()


def difference(first: Tensor, second: Tensor) -> float:
    return float((first - second).detach().abs().max())


def other(name: str, weights: bool):
    """A change that must be seen at the end, whatever stands at the site."""
    if weights and not name.endswith(".scores"):
        return lambda tensor, place: tensor.roll(1, 3)
    return lambda tensor, place: tensor + torch.arange(tensor.shape[-1]) * 0.37


def test_watching_changes_no_bit_and_each_site_fires_once(model: LanguageModel):
    plain, look = log_probs(model), Look(["*"])
    assert torch.equal(log_probs(model, look), plain)
    assert set(look.seen) == set(model.sites())
    for name, seen in look.seen.items():
        tensor = seen() if callable(seen) else seen
        assert tensor.dim() == model.sites()[name].count(",") + 1
        if callable(seen):
            torch.testing.assert_close(
                seen(torch.tensor([2, 0])), tensor[:, :, [2, 0]], rtol=EXACT, atol=EXACT
            )
            if not name.endswith(".scores"):
                sums = tensor.sum(3)
                assert bool(((sums - 1).abs().lt(1e-9) | (sums == 0)).all())


def test_a_changed_site_changes_the_output_and_lets_gradients_through(model: LanguageModel):
    plain, look = log_probs(model), Look(["*"])
    log_probs(model, look)
    for name, seen in look.seen.items():
        changed = log_probs(model, Look(changes={name: other(name, callable(seen))}))
        assert difference(changed, plain) > 1e-6, name
        strength = torch.ones((), requires_grad=True)
        log_probs(
            model, Look(changes={name: lambda tensor, place, strength=strength: tensor * strength})
        ).square().sum().backward()
        assert strength.grad is not None, name
        assert float(strength.grad) != 0, name


def test_a_site_that_is_changed_to_itself_gives_what_the_kernel_gives(model: LanguageModel):
    """The explicit body is the specification: a fused or recurrent kernel agrees with it."""
    plain = log_probs(model)
    for name in model.sites():
        assert (
            difference(log_probs(model, Look(changes={name: lambda tensor, place: tensor * 1.0})), plain)
            < EXACT
        ), name


def test_a_change_at_one_row_leaves_what_came_before(model: LanguageModel):
    """And reading step by step gives the same as reading at once: places are positions in the text, not in the call."""
    plain = log_probs(model)
    for name, shape in model.sites().items():
        if name.startswith("source."):
            continue  # what is read before the first row
        weights = shape.endswith(("S)", "K)")) and not name.endswith(".scores")
        edit = (
            Silence(site=name, rows=(3,)) if weights else Shift(site=name, rows=(3,), features=(1,), by=0.73)
        )
        if name.endswith(".scores"):
            edit = Shift(site=name, rows=(3,), columns=(1,), by=23.0)
        whole = log_probs(model, Look(changes={name: edit}))
        assert difference(whole[:, :3], plain[:, :3]) < EXACT, name
        assert difference(whole[:, 3:], plain[:, 3:]) > 100 * EXACT, name  # more than rounding can do
        if (model.family, name) in {("dan", "embedding"), ("window", "embedding"), ("dan", "attention")}:
            continue  # these remember words, not what was made of them: an edit there reaches as far as the call
        state, parts = None, []
        for place in range(TOKENS_BT.shape[1]):
            prediction, state = model(TOKENS_BT[:, place : place + 1], state, Look(changes={name: edit}))
            parts.append(prediction.log_probs())
        assert difference(torch.cat(parts, 1), whole) < EXACT, name


def test_an_unknown_site_is_told_with_the_list(model: LanguageModel):
    with pytest.raises(UserError, match="no site matches 'nowhere'; there are: "):
        Look(["nowhere"]).check(model.sites())


class Kernels(TorchDispatchMode):
    """Counts the operations that run, by name."""

    def __init__(self):
        super().__init__()
        self.counts = dict[str, int]()

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        name = function.name().split("::")[1].split(".")[0]
        self.counts[name] = self.counts.get(name, 0) + 1
        return function(*arguments, **keywords or {})


FLASH = "_scaled_dot_product_flash_attention_for_cpu"


def kernels(look: Look | None) -> dict[str, int]:
    torch.manual_seed(3)
    model = Transformer(V, Transformer.Config(layers=5, width=12, heads=3, context=41)).eval()
    with torch.no_grad(), Kernels() as counting:
        model(TOKENS_BT, look=look)
    return counting.counts


def test_watching_keeps_every_fused_kernel_and_an_edit_leaves_the_others():
    plain = kernels(None)
    assert plain[FLASH] == 5
    assert kernels(Look(["*"])) == plain
    edited = kernels(Look(["*"], changes={"layer2.attention": Zero(site="layer2.attention", columns=(1,))}))
    assert edited[FLASH] == 4


@pytest.mark.parametrize("name", COMPILED)
def test_without_a_look_the_graph_is_the_same_node_for_node(name: str):
    """And whole: fullgraph raises at a break. The library's recurrent kernels break every graph, so recurrent models are not here."""
    model = MODELS[name]().train()
    for module in model.modules():
        if isinstance(module.__dict__.get("dropout"), float):
            module.dropout = 0.0

    def graph(*more) -> list[str]:
        graphs = []

        def keep(module, _):
            graphs.append([(node.op, str(node.target)) for node in module.graph.nodes])
            return module.forward

        torch._dynamo.reset()
        torch.compile(
            lambda tokens: model(tokens, None, *more)[0].features_BTD, backend=keep, fullgraph=True
        )(TOKENS_BT)
        assert len(graphs) == 1
        return graphs[0]

    plain = graph()
    assert graph(None) == plain
    assert len(plain) > 5
    if name == "transformer":
        assert sum("scaled_dot_product_attention" in target for _, target in plain) == 2


@pytest.mark.parametrize("name", ["transformer", "backpack"])
def test_watching_changes_no_bit_of_a_compiled_model(name: str):
    """The same kernels in the same order (aot_eager): what is kept beside them changes none of their bits."""
    model = MODELS[name]()

    def run(look: Look | None) -> Tensor:
        torch._dynamo.reset()
        with torch.no_grad():
            return torch.compile(lambda tokens: model(tokens, look=look)[0].log_probs(), backend="aot_eager")(
                TOKENS_BT
            )

    look = Look(["*"])
    assert torch.equal(run(look), run(None))
    assert set(look.seen) == set(model.sites())
