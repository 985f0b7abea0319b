"""For every family, wrapper and site: watching changes nothing and costs no kernel; a change has an effect.

Shape legend: B rows, T positions, V vocabulary.
"""

from random import Random

import pytest
import torch
from families import MODELS, WRAPPED, V
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from regard.errors import UserError
from regard.models.contract import LanguageModel
from regard.models.transformer import Transformer
from regard.parts.edits import Edit, Shift, Silence, Zero
from regard.parts.look import Look, Site

EXACT = 1e-10  # float64, as in test_laws
LOOKED_AT = {name: make for name, make in (MODELS | WRAPPED).items() if make().sites()}
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
    made = LOOKED_AT[request.param]()
    for parameter in made.parameters():  # large enough that what every site holds matters
        torch.nn.init.normal_(parameter, std=0.3)
    return made


def given(model: LanguageModel) -> int | Tensor:
    """One row, or a random source sentence or image, padding and all."""
    return 1 if model.given is None else model.given.random(1, Random(3))


def log_probs(model: LanguageModel, look: Look | None = None) -> Tensor:
    return model(TOKENS_BT, model.begin(given(model), look), look)[0].log_probs()


def difference(first: Tensor, second: Tensor) -> float:
    return float((first - second).detach().abs().max())


def steps(size: int) -> Tensor:
    return torch.arange(1.0, size + 1)


def other(site: Site):
    """A change that must be seen at the end, whatever stands at the site."""
    if site.holds == "weights":
        return lambda tensor, place: tensor.roll(1, 3)
    # no two rows alike: the same number added to every key changes no weight
    return lambda tensor, place: (
        tensor + steps(tensor.shape[-2]).unsqueeze(1) * steps(tensor.shape[-1]) * 0.37
    )


def test_watching_changes_no_bit_and_each_site_fires_once(model: LanguageModel):
    plain, look, sites = log_probs(model), Look(["*"]), model.sites()
    assert torch.equal(log_probs(model, look), plain)
    assert look.maps.keys() | look.values.keys() == sites.keys()
    for name, value in look.values.items():
        assert sites[name].holds == "values", name
        assert value.dim() == len(sites[name].axes), name
    for name, weights in look.maps.items():
        tensor = weights()
        assert sites[name].holds in ("weights", "scores"), name
        assert tensor.dim() == len(sites[name].axes), name
        rows = [tensor.shape[2] - 1, 0]  # a source may have two tokens only
        torch.testing.assert_close(weights(torch.tensor(rows)), tensor[:, :, rows], rtol=EXACT, atol=EXACT)
        if sites[name].holds == "weights":
            sums = tensor.sum(3)
            assert bool(((sums - 1).abs().lt(1e-9) | (sums == 0)).all()), name


def test_a_changed_site_changes_the_output_and_lets_gradients_through(model: LanguageModel):
    plain = log_probs(model)
    for name, site in model.sites().items():
        changed = log_probs(model, Look(changes={name: other(site)}))
        assert difference(changed, plain) > 1e-6, name
        strength = torch.ones((), requires_grad=True)
        scaled = Look(changes={name: lambda tensor, place, strength=strength: tensor * strength})
        log_probs(model, scaled).square().sum().backward()
        assert strength.grad is not None, name
        assert float(strength.grad) != 0, name


def test_a_site_that_is_changed_to_itself_gives_what_the_kernel_gives(model: LanguageModel):
    """The explicit body is the specification: a fused or recurrent kernel agrees with it."""
    plain = log_probs(model)
    for name in model.sites():
        same = log_probs(model, Look(changes={name: lambda tensor, place: tensor * 1.0}))
        assert difference(same, plain) < EXACT, name


def test_a_change_at_one_row_leaves_what_came_before(model: LanguageModel):
    """Reading step by step equals reading at once: places are positions in the text, not in the call."""
    plain = log_probs(model)
    for name, site in model.sites().items():
        if site.rows == "given":
            continue  # what is read before the first row
        edit: Edit = Shift(site=name, rows=(3,), features=(1,), by=0.73)
        if site.holds == "weights":
            edit = Silence(site=name, rows=(3,))
        elif site.holds == "scores":
            edit = Shift(site=name, rows=(3,), columns=(1,), by=23.0)
        whole = log_probs(model, Look(changes={name: edit}))
        assert difference(whole[:, :3], plain[:, :3]) < EXACT, name
        assert difference(whole[:, 3:], plain[:, 3:]) > 100 * EXACT, name  # more than rounding can do
        if (model.family, name) in {("dan", "embedding"), ("window", "embedding"), ("dan", "attention")}:
            continue  # these remember words, not what was made of them: an edit there ends with the call
        state, parts = model.begin(given(model)), []
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
        model.read_from_start(TOKENS_BT, look=look)
    return counting.counts


def test_watching_keeps_every_fused_kernel_and_an_edit_leaves_the_others():
    plain = kernels(None)
    assert plain[FLASH] == 5
    assert kernels(Look(["*"])) == plain
    edited = kernels(Look(["*"], changes={"layer2.attention": Zero(site="layer2.attention", columns=(1,))}))
    assert edited[FLASH] == 4


@pytest.mark.parametrize("name", COMPILED)
def test_without_a_look_the_graph_is_the_same_node_for_node(name: str):
    """The graph is whole: fullgraph raises at a break. PyTorch's recurrent kernels break every graph."""
    model = MODELS[name]().train()
    for module in model.modules():
        if isinstance(module.__dict__.get("dropout"), float):
            module.dropout = 0.0

    def graph(*more) -> list[str]:
        graphs = []

        def keep(module, _):
            graphs.append([(node.op, str(node.target)) for node in module.graph.nodes])
            return module.forward

        torch.compiler.reset()
        torch.compile(
            lambda tokens: model(tokens, model.begin(1), *more, padded="right")[0].features_BTD,
            backend=keep,
            fullgraph=True,
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
        torch.compiler.reset()
        read = torch.compile(lambda tokens: model.read_from_start(tokens, look=look), backend="aot_eager")
        with torch.no_grad():
            return read(TOKENS_BT)[0].log_probs()

    look = Look(["*"])
    assert torch.equal(run(look), run(None))
    assert look.maps.keys() | look.values.keys() == model.sites().keys()
