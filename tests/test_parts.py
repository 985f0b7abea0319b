"""Parts: scores and masks by hand, attention against float64 and the library, positions by their laws."""

import math

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from regard.boundary import build
from regard.errors import UserError
from regard.models.transformer import Transformer
from regard.parts.attention import attend, fused, in_products, softmax, softmax_base, weigh
from regard.parts.look import Look
from regard.parts.masks import causal, earlier, everything, lookback, padding, prefix
from regard.parts.positions import PositionName, make_positions, sinusoids
from regard.parts.scores import Additive, Bilinear, Dot, ScaledDot, make_score
from regard.probabilities import sampling

B, H, Q, K, D, E = 2, 3, 5, 7, 11, 13  # distinct primes


def random(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_the_lectures_attention_in_base_three():
    """k_A = [1,0], k_B = [0,1], A A B A, q = [0,1]: 3^s / sum = [1,1,3,1] / 6, output [1/2, 1/2]."""
    keys = torch.tensor([[1.0, 0], [1, 0], [0, 1], [1, 0]]).view(1, 1, 4, 2)
    query = torch.tensor([0.0, 1]).view(1, 1, 1, 2)
    weights = weigh(query, keys, score=Dot(), mask=everything, normalise=softmax_base(3))
    torch.testing.assert_close(weights[0, 0, 0], torch.tensor([1, 1, 3, 1]) / 6)
    torch.testing.assert_close((weights @ keys)[0, 0, 0], torch.tensor([0.5, 0.5]))
    e = math.e
    torch.testing.assert_close(
        weigh(query, keys, score=Dot(), mask=everything)[0, 0, 0], torch.tensor([1, 1, e, 1]) / (3 + e)
    )


def test_scores_by_hand():
    query, key = torch.tensor([1.0, 2]).view(1, 1, 1, 2), torch.tensor([3.0, 5]).view(1, 1, 1, 2)
    assert float(Dot()(query, key)) == 13
    assert float(ScaledDot()(query, key)) == pytest.approx(13 / math.sqrt(2))
    bilinear = Bilinear(2, 2)
    bilinear.weight.weight.data = torch.tensor([[0.0, 1], [7, 0]])  # W q = [2, 7]
    assert bilinear(query, key).item() == 2 * 3 + 7 * 5
    additive = Additive(2, 2, inner=1)
    additive.query.weight.data, additive.key.weight.data = (
        torch.tensor([[0.1, 0.2]]),
        torch.tensor([[0.3, 0.05]]),
    )
    additive.out.data = torch.tensor([2.0])
    assert additive(query, key).item() == pytest.approx(2 * math.tanh(0.1 + 0.4 + 0.9 + 0.25))


@pytest.mark.parametrize("name", ["additive", "bilinear", "dot", "scaled-dot"])
def test_scores_share_one_signature(name):
    key_size = D if name.endswith("dot") else E
    score = make_score(name, D, key_size)
    scores = score(random(B, H, Q, D), random(B, H, K, key_size, seed=2))
    assert scores.shape == (B, H, Q, K)
    picture = score.picture(random(B, H, Q, D), random(B, H, K, key_size, seed=2)).splitlines()
    assert picture[0] == score.formula
    assert len(picture) == 1 + Q


def test_masks_are_what_they_say():
    seen = {
        str(mask): mask.visible(4, 4)[0].int().tolist()
        for mask in (causal, earlier, causal & lookback(1), prefix(2), everything)
    }
    assert seen["causal"] == [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]
    assert seen["earlier"] == [[0, 0, 0, 0], [1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0]]
    assert seen["causal & lookback(1)"] == [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]
    assert seen["prefix(2)"] == [[1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]
    assert seen["everything"] == [[1] * 4] * 4
    assert causal.visible(2, 4)[0].int().tolist() == [
        [1, 1, 1, 0],
        [1, 1, 1, 1],
    ]  # the queries are the last ones
    assert causal.picture(2, 2) == "■ ·\n■ ■"


def test_lookback_counts_earlier_tokens():
    for tokens in (1, 2, 5):
        visible = (earlier & lookback(tokens)).visible(11, 11)[0]
        assert visible.sum(1).tolist() == [min(place, tokens) for place in range(11)]


def test_padding_is_position_minus_one():
    keys = torch.tensor([[0, -1, 1, 2]])
    mask = (causal & padding).over(torch.tensor([[1, 2]]), keys)
    assert mask.visible(2, 4).int().tolist() == [[[1, 0, 1, 0], [1, 0, 1, 1]]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("score", [Dot(), ScaledDot()])
@pytest.mark.parametrize("mask", [everything, causal, earlier, causal & lookback(2)], ids=str)
def test_the_fused_body_earns_parity(mask, score, dtype):
    """Its error against float64 is at most twice that of the explicit body in that dtype, plus one ulp."""
    query, key, value = (random(B, H, K, D, seed=seed).double() for seed in (1, 2, 3))
    exact = weigh(query, key, score=score, mask=mask) @ value
    narrow = [tensor.to(dtype) for tensor in (query, key, value)]
    explicit = weigh(narrow[0], narrow[1], score=score, mask=mask) @ narrow[2]
    fused = attend(*narrow, score=score, mask=mask)
    errors = [float((out.double() - exact).abs().max()) for out in (fused, explicit)]
    assert errors[0] <= 2 * errors[1] + torch.finfo(dtype).eps * float(exact.abs().max())


@pytest.mark.parametrize("score", [Dot(), Additive(D, D)])
def test_a_row_that_may_see_nothing_gives_zeros_and_finite_gradients(score):
    query, key, value = (random(B, 1, Q, D, seed=seed).requires_grad_() for seed in (1, 2, 3))
    out = attend(query, key, value, score=score, mask=earlier)
    assert out[:, :, 0].abs().sum().item() == 0
    out.square().sum().backward()
    assert all(bool(tensor.grad.isfinite().all()) for tensor in (query, key, value))
    weights = weigh(query, key, score=score, mask=earlier)
    torch.testing.assert_close(weights.sum(3)[0, 0], torch.tensor([0.0, 1, 1, 1, 1]))


@pytest.mark.parametrize("mask", [causal, earlier, everything, lookback(7), prefix(11), causal & padding])
@pytest.mark.parametrize("block", [1, 5, 67])
def test_the_largest_weights_of_blocks_are_those_of_the_explicit_body(double, mask, block):
    """Slices of rows and of the keys that they see give the maxima of all weights, whatever is hidden."""
    heads, groups, tokens, width = 6, 2, 131, 7  # more rows than a slice has, and no multiple of a block
    split = torch.randn(1, tokens, heads + groups, width).transpose(1, 2)  # rows of a head lie apart
    query_BHQD, key_BGKD = split[:, :heads], split[:, heads:]
    bias_BHQK = torch.randn(1, heads, tokens, tokens)
    if ("padding", 0) in mask.rules:
        position_BT = torch.arange(tokens).unsqueeze(0) - 3  # three tokens of padding
        mask = mask.over(position_BT, torch.where(position_BT < 0, -1, position_BT))
    given = {"score": ScaledDot(), "mask": mask, "bias_BHQK": bias_BHQK}
    whole_BHQK = weigh(query_BHQD, key_BGKD, **given)
    blocks = -(-tokens // block)
    wanted_HIJ = torch.nn.functional.pad(whole_BHQK[0], (0, blocks * block - tokens) * 2)
    wanted_HIJ = wanted_HIJ.reshape(heads, blocks, block, blocks, block).amax((2, 4))
    look = Look(["attention"])
    attend(query_BHQD, key_BGKD, key_BGKD, look=look, **given)
    torch.testing.assert_close(look.coarse["attention"](block)[0], wanted_HIJ, rtol=1e-12, atol=1e-12)


def test_softmax_is_the_librarys():
    scores = random(B, H, Q, K) * 50
    torch.testing.assert_close(softmax(scores), torch.softmax(scores, 3))


def test_multi_head_attention_is_the_librarys():
    """Of one block: `attention_norm` is what attention reads, `attended` is what it adds to the stream."""
    library = torch.nn.MultiheadAttention(12, 3, bias=True, batch_first=True).eval()
    model = Transformer(7, Transformer.Config(layers=1, width=12, heads=3, context=K, positions="none"))
    block = model.eval().trunk.blocks[0]
    block.project.load_state_dict({"weight": library.in_proj_weight, "bias": library.in_proj_bias})
    block.out.load_state_dict({"weight": library.out_proj.weight, "bias": library.out_proj.bias})
    x = random(B, K, 12)
    look = Look(["layer0.attended"], changes={"layer0.attention_norm": lambda tensor, place: x})
    model.read_from_start(torch.zeros(B, K, dtype=torch.long), look=look)
    expected, _ = library(x, x, x, attn_mask=~causal.visible(K, K)[0], need_weights=False)
    torch.testing.assert_close(look.values["layer0.attended"], expected)


def test_the_fused_kernel_is_chosen():
    """In training and in plain reading the flash kernel alone must be able to do the work."""
    model = Transformer(7, Transformer.Config(layers=1, width=12, heads=3, context=K))
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        for mode in (True, False):
            prediction, _ = model.train(mode).read_from_start(torch.tensor([[7, 1, 2, 3]]))
            assert bool(prediction.log_probs().isfinite().all())


def test_training_compiles_to_one_graph():
    from regard.training.task import Step

    model = Transformer(7, Transformer.Config(layers=1, width=12, heads=3, context=K)).train()
    tokens = torch.tensor([[7, 1, 2, 3]])
    explained = torch._dynamo.explain(Step(model))(tokens, tokens.roll(-1, 1) % 7, None)
    assert explained.graph_count == 1
    assert explained.graph_break_count == 0


@pytest.mark.parametrize(
    "name", ["index", "onehot", "sinusoidal", "sinusoidal-appended", "learned", "rotary", "alibi"]
)
def test_with_positions_order_matters_and_without_it_does_not(name: PositionName):
    """Unmasked, "Jack gave water to Jill" and "Jill gave water to Jack" are one set."""
    swap = torch.tensor([4, 1, 2, 3, 0])
    x = random(1, 5, 24) * 0.2  # small scores, so that no word sees itself alone

    def outputs(positions, words):
        place = torch.arange(5).unsqueeze(0)
        placed = positions.place(words, place).unsqueeze(1)
        turned = positions.turn(placed, positions.angles(place))
        bias = positions.bias(place, place)
        return attend(turned, turned, placed, score=Dot(), mask=everything, bias_BHQK=bias)[0, 0]

    for kind, same in (("none", True), (name, False)):
        positions = make_positions(kind, 5, 24, 1)
        before, after = outputs(positions, x), outputs(positions, x[:, swap])
        assert torch.allclose(after[swap], before, atol=1e-5) is same


def test_rotary_scores_depend_on_the_distance_alone():
    positions = make_positions("rotary", 100, 8, 1)
    query, key = random(1, 1, 1, 8), random(1, 1, 1, 8, seed=2)

    def score(i: int, j: int) -> float:
        turned = [positions.turn(v, positions.angles(torch.tensor([[p]]))) for v, p in ((query, i), (key, j))]
        return float(Dot()(*turned))

    assert score(3, 1) == pytest.approx(score(43, 41), abs=1e-5)
    assert score(3, 1) != pytest.approx(score(3, 2), abs=1e-3)


def test_sinusoids_are_the_published_ones():
    table = sinusoids(torch.arange(3).unsqueeze(0), 4)[0]
    expected = [
        [math.sin(t), math.cos(t), math.sin(t / 100), math.cos(t / 100)] for t in range(3)
    ]  # 10000^(-2/4) = 1/100
    torch.testing.assert_close(table, torch.tensor(expected))


def test_alibi_slopes_are_the_published_ones():
    bias = make_positions("alibi", 5, 8, 8).bias(torch.tensor([[2]]), torch.tensor([[0, 1, 2]]))
    assert bias[0, 0, 0].tolist() == [-1.0, -0.5, 0.0]  # head 1 of 8: slope 1/2
    assert bias[0, 7, 0].tolist() == [-2 / 256, -1 / 256, 0.0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"width": 10, "heads": 3}, "cannot be divided"),
        ({"width": 6, "heads": 2}, "even number"),
        ({"width": 8, "heads": 2, "positions": "onehot", "context": 8}, "larger than `context`"),
        ({"layers": 0}, "`layers` must be 1 or more"),
        ({"dropout": 1.0}, "`dropout`"),
    ],
)
def test_impossible_shapes_are_refused(options, words):
    with pytest.raises(UserError, match=words):
        build(Transformer.Config, options)


def test_a_full_context_says_so():
    model = Transformer(7, Transformer.Config(layers=1, width=4, heads=1, context=3)).eval()
    _, state = model.read_from_start(torch.tensor([[7, 1, 2]]))
    with pytest.raises(ValueError, match="context of 3 tokens is full"):
        model(torch.tensor([[3]]), state)


def test_bisection_finds_what_the_specification_finds():
    """Also among weights of zero, and for numbers that are 1 after rounding to single precision."""
    weights_BV = torch.rand(211, 37, generator=torch.Generator().manual_seed(3))
    weights_BV[weights_BV < 0.4] = 0
    weights_BV[:, 31:] = 0  # as after top-p
    uniform_B1 = torch.rand(211, 1, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    uniform_B1[:7], uniform_B1[7:13] = 0, 1 - 2**-53
    cumulative_BV, bound_B1 = sampling._cumulative(weights_BV, uniform_B1.float())
    found_B1 = sampling._first_above(weights_BV, cumulative_BV, bound_B1)
    assert torch.equal(found_B1, sampling.first_above(weights_BV, cumulative_BV, bound_B1))
    assert bool((weights_BV.gather(1, found_B1) > 0).all())


@pytest.mark.parametrize("groups", [1, 2, 6])
@pytest.mark.parametrize("heads_of_bias", [0, 1, 6])
def test_products_and_sums_equal_the_kernel(double, groups: int, heads_of_bias: int):
    """The body that a compiler for CPUs gets instead of torch's kernel."""
    query, key, value = random(2, 6, 1, 5), random(2, groups, 7, 5), random(2, groups, 7, 3)
    bias = random(2, heads_of_bias, 1, 7) if heads_of_bias else None
    if bias is not None:
        bias[:, :, :, 5:] = -torch.inf
    torch.testing.assert_close(
        in_products(query, key, value, bias, 0.3), fused(query, key, value, bias, scale=0.3)
    )
    weights = weigh(query, key, score=ScaledDot(), mask=everything, bias_BHQK=bias)
    expected = weights @ value.repeat_interleave(6 // groups, 1)
    torch.testing.assert_close(fused(query, key, value, bias), expected)
