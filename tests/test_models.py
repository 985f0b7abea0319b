"""Each family against its own equation, worked out in the plainest way, and the lectures' numbers.

Shape legend: B rows, T positions, K keys, L senses, D width.
"""

import math

import pytest
import torch

import regard
from regard.boundary import build
from regard.errors import UserError
from regard.models.attentive import Attentive
from regard.models.backpack import Backpack
from regard.models.contract import LanguageModel, Prediction
from regard.models.dan import Dan
from regard.models.predictions import CopyPrediction
from regard.models.recurrent import Lstm
from regard.models.transformer import Transformer
from regard.models.window import Window
from regard.models.wrappers.mixture import Mixture
from regard.models.wrappers.neural_cache import NeuralCache
from regard.parts.look import Look
from regard.parts.senses import sum_senses
from regard.probabilities.cache_choice import with_cache
from regard.probabilities.measures import token_losses
from regard.tokens.contract import Encoded

V = 7
START = V
IDS = [3, 1, 4, 1, 5, 0, 2, 6, 5, 3, 1]


def row() -> torch.Tensor:
    return torch.tensor([[START, *IDS]])


def predict(model: LanguageModel, tokens_BT: torch.Tensor, look: Look | None = None) -> Prediction:
    return model.read_from_start(tokens_BT, look=look)[0]


def test_a_dan_gives_the_lectures_plain_average(double):
    """A A B A with e_A = [1, 0] and e_B = [0, 1]: [3/4, 1/4]."""
    model = Dan(2, Dan.Config(lookback=4, layers=1, width=2)).eval()
    whole = Dan(2, Dan.Config(lookback=0, layers=1, width=2)).eval()
    for dan in (model, whole):
        dan.embedding.weight.data[:2] = torch.eye(2)
        look = Look(["average"])
        predict(dan, torch.tensor([[0, 0, 1, 0]]), look)
        torch.testing.assert_close(look.values["average"][0, 3], torch.tensor([0.75, 0.25]))
    look = Look(["average"])
    predict(model, torch.tensor([[0, 0, 1, 0, 1, 1]]), look)
    torch.testing.assert_close(
        look.values["average"][0, 5], torch.tensor([0.25, 0.75])
    )  # the last four alone


def test_the_original_window_is_its_equation(double):
    """y = b + W x + U tanh(d + H x), x the last three embeddings, zeros before the beginning."""
    torch.manual_seed(1)
    model = Window(V, Window.Config(style="original", window=3, width=5)).eval()
    embedded = torch.cat([torch.zeros(2, 5), model.embedding(row())[0]])
    for place, log_probs in enumerate(predict(model, row()).log_probs()[0]):
        x = embedded[place : place + 3].flatten()
        h = torch.tanh(model.read.weight @ x + model.read.bias)
        y = model.readout.bias + model.readout.weight[:, :15] @ x + model.readout.weight[:, 15:] @ h
        torch.testing.assert_close(log_probs, y.log_softmax(0))


def test_a_modern_window_sees_averages_that_double(double):
    """Behind 2 words in order: the average of the 2 before those, then of the 4 before those; no more."""
    torch.manual_seed(1)
    model = Window(V, Window.Config(window=2, distant=2, layers=1, width=5)).eval()
    embedded = model.embedding(row())[0]
    seen = list[torch.Tensor]()
    model.read.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0]))
    predict(model, row())
    expected = torch.cat([embedded[8:10].flatten(), embedded[6:8].mean(0), embedded[2:6].mean(0)])
    torch.testing.assert_close(seen[0][0, 9], expected)
    short = torch.cat([embedded[2:4].flatten(), embedded[0:2].mean(0), torch.zeros(5)])
    torch.testing.assert_close(seen[0][0, 3], short)  # an average over nothing is zero


@pytest.mark.parametrize("options", [{"style": "original", "distant": 2}, {"style": "original", "layers": 3}])
def test_the_original_window_has_nothing_modern(options):
    with pytest.raises(UserError, match="leave out `layers` and `distant`"):
        Window.Config(**options)


@pytest.mark.parametrize("copy", ["average", "gate"])
def test_the_parts_of_a_copying_models_probability_sum_to_it(double, copy):
    torch.manual_seed(1)
    makers = [
        Attentive(V, Attentive.Config(width=5, lookback=4, copy=copy)),
        Transformer(V, Transformer.Config(width=8, heads=2, copy=copy)),
    ]
    for model in makers:
        prediction = predict(model.eval(), row())
        assert isinstance(prediction, CopyPrediction)
        tokens = row()[0]
        for word in range(V):
            copied = (prediction.copied_BTS[0] * (tokens == word)).sum(1)
            vocabulary = prediction.rest_BT[0] * prediction.other.log_probs()[0, :, word].exp()
            torch.testing.assert_close(copied + vocabulary, prediction.log_probs()[0, :, word].exp())
        torch.testing.assert_close(
            prediction.rest_BT + prediction.copied_BTS.sum(2), torch.ones(1, len(tokens))
        )


@torch.no_grad()
def copying(**options) -> tuple[CopyPrediction, torch.Tensor]:
    """What a model that copies predicts, and its weights (T, K)."""
    torch.manual_seed(1)
    look = Look(["attention"])
    prediction = predict(Attentive(V, Attentive.Config(width=5, **options)).eval(), row(), look)
    assert isinstance(prediction, CopyPrediction)
    return prediction, look.maps["attention"]()[0, 0]


def test_the_average_copies_half_and_only_earlier_words(double):
    prediction, weights_TK = copying(lookback=3, copy="average")
    expected = weights_TK / 2
    expected[:, 0] = 0  # <s> cannot be copied: its share goes back to the vocabulary
    torch.testing.assert_close(prediction.copied_BTS[0], expected)
    assert float(weights_TK.triu().abs().sum()) == 0  # strictly earlier
    assert float(prediction.rest_BT[0, 0]) == 1  # nothing to copy yet


def test_the_gate_is_the_weight_on_the_sentinel_and_starts_open(double):
    prediction, weights_TK = copying(lookback=100, copy="gate")
    torch.testing.assert_close(weights_TK.sum(1), torch.ones(len(IDS) + 1))
    gate_T, first_T = weights_TK[:, -1], weights_TK[:, 0]
    # what would copy <s> goes to the vocabulary
    torch.testing.assert_close(prediction.rest_BT[0], gate_T + first_T)
    assert float(gate_T.min()) > 0.9


def test_a_model_that_copies_learns_to_copy(tmp_path):
    """Names that are said twice and never again: who cannot copy can only guess the second time."""
    generator = torch.Generator().manual_seed(1)
    names = torch.randint(0, 300, (1200,), generator=generator).tolist()
    (tmp_path / "text.txt").write_text(
        "".join(f"{first} met him and {first} left\n" for first in (f"n{name}" for name in names))
    )
    losses = {}
    options = {
        "width": 32,
        "steps": 250,
        "batch": 8,
        "learning_rate": 0.01,
        "evaluate_every": 250,
        "tokens": "word",
    }
    for copy in ("none", "gate"):
        trained = regard.train(
            "attentive", text=str(tmp_path / "text.txt"), out=str(tmp_path / copy), copy=copy, **options
        )
        losses[copy] = trained.loss
    # one name of a line's 7 predictions (its end included) can be copied: ln 300 / 7 = 0.81 nats a token,
    # half of that at least
    assert losses["none"] - losses["gate"] > 0.4


@torch.no_grad()
def test_the_cache_is_its_equation(double):
    """P = (1 - share) P_model + share P_cache.

    P_cache(w) is proportional to the sum of exp(theta h_t . h_i) over the last `size` i with w_{i+1} = w.
    """
    torch.manual_seed(1)
    model = Lstm(V, Lstm.Config(width=5)).eval()
    size, theta, share = 3, 2.0, 0.4
    prediction = predict(model, row())
    states, plain = prediction.features_BTD[0], prediction.log_probs()[0].exp()
    cached = predict(NeuralCache(model, size, theta, share), row()).log_probs()[0].exp()
    for t in range(len(IDS) + 1):
        expected = plain[t].clone()
        earlier = range(max(0, t - size), t)
        if earlier:
            powers = {i: math.exp(theta * float(states[t] @ states[i])) for i in earlier}
            expected *= 1 - share
            for i, power in powers.items():
                expected[IDS[i]] += share * power / sum(powers.values())
        torch.testing.assert_close(cached[t], expected)


@torch.no_grad()
def test_a_cache_goes_on_over_windows(double):
    """A Transformer reads three windows of four, each from nothing; the cache compares the states of all."""
    torch.manual_seed(1)
    model = Transformer(V, Transformer.Config(width=8, heads=2, context=4)).eval()
    theta, share = 0.7, 0.4
    read = [START, *IDS]
    parts = [predict(model, torch.tensor([read[place : place + 4]])) for place in range(0, 12, 4)]
    states, plain = (
        torch.cat(list(some))
        for some in zip(*((p.features_BTD[0], p.log_probs()[0].exp()) for p in parts), strict=True)
    )
    text = Encoded(torch.tensor([*IDS, 0]), torch.tensor([12]), bytes=12, unknown=0)
    losses = token_losses(NeuralCache(model, 50, theta, share), text)
    for t, target in enumerate([*IDS, 0]):
        powers = (theta * states[:t] @ states[t]).exp()
        copied = sum((float(power) for power, word in zip(powers, IDS, strict=False) if word == target), 0.0)
        expected = (
            float(plain[t, target])
            if t == 0
            else (1 - share) * float(plain[t, target]) + share * copied / float(powers.sum())
        )
        assert float(losses[t]) == pytest.approx(-math.log(expected))


def test_a_mix_gives_each_model_a_context_of_its_own(double):
    torch.manual_seed(1)
    bounded, unbounded = (
        Transformer(V, Transformer.Config(width=8, heads=2, context=2)).eval(),
        Lstm(V, Lstm.Config(width=5)).eval(),
    )
    text = Encoded(torch.tensor([*IDS, 0]), torch.tensor([12]), bytes=12, unknown=0)
    one, two = token_losses(bounded, text), token_losses(unbounded, text)
    mixed = token_losses(Mixture(bounded, unbounded, 0.3), text)
    torch.testing.assert_close((-mixed).exp(), 0.3 * (-one).exp() + 0.7 * (-two).exp())
    with pytest.raises(UserError, match="`stride` must lie between 1 and the model"):
        token_losses(Mixture(unbounded, unbounded, 0.3), text, stride=1)


def test_the_caches_numbers_are_the_best_of_those_tried(double):
    torch.manual_seed(1)
    model = Lstm(V, Lstm.Config(width=5)).eval()
    ids = torch.tensor([1, 2, 3, 4, 5, 6] * 20 + [0])
    text = Encoded(ids, torch.tensor([len(ids)]), bytes=242, unknown=0)
    chosen = with_cache(model, text, size=12)
    reached = float(token_losses(chosen, text).mean())
    assert reached < float(token_losses(model, text).mean())
    for share in (chosen.share - 0.02, min(1.0, chosen.share + 0.02)):
        assert reached <= float(token_losses(NeuralCache(model, 12, chosen.theta, share), text).mean())


def test_that_trick_was_sick():
    """The lecture's Backpack: two senses a word, weighed by evidence of topic.

    The components are positive, negative, skateboarding and health.
    """
    senses_LKD = torch.zeros(2, 4, 4)
    senses_LKD[0, 1] = torch.tensor([0.0, 0, 1, 0])  # trick
    senses_LKD[0, 3] = torch.tensor([1.0, 0, 1, 0])  # sick, said of a trick
    senses_LKD[1, 3] = torch.tensor([0.0, 1, 0, 1])  # sick, said of health
    evidence_KL = senses_LKD.sum(0)[:, 2:]
    shares_KL = evidence_KL / evidence_KL.sum(1, keepdim=True).clamp(min=1e-9)
    alpha_KL = shares_KL.sum(0) - shares_KL  # of the other words
    assert alpha_KL.tolist() == [[1.5, 0.5], [0.5, 0.5], [1.5, 0.5], [1, 0]]
    weights_LKK = torch.diag_embed(alpha_KL.T)
    out_KD = sum_senses(weights_LKK.unsqueeze(0), senses_LKD.unsqueeze(0))[0]
    assert out_KD[3].tolist() == [1, 0, 1, 0]  # only the skateboarding sense speaks: positive
    assert out_KD[1].tolist() == [0, 0, 0.5, 0]
    assert float(out_KD[[0, 2]].abs().sum()) == 0


def test_a_backpacks_senses_sum_to_its_scores(double):
    """Position j and sense l add alpha_lij C(x_j)_l . E_w to a word's score; the bias is added to them."""
    torch.manual_seed(1)
    model = Backpack(V, Backpack.Config(layers=1, width=6, heads=1, senses=3, context=17)).eval()
    look = Look(["senses", "senses.attention"])
    prediction = predict(model, row(), look)
    weights, senses = look.maps["senses.attention"]()[0], look.values["senses"][0]
    added_LTKV = weights.unsqueeze(3) * (senses @ model.embedding.weight[:V].T).unsqueeze(1)
    logits_TV = added_LTKV.sum((0, 2)) + model.readout.bias
    torch.testing.assert_close(logits_TV.log_softmax(1), prediction.log_probs()[0])
    for word in range(V):
        parts = prediction.parts(torch.full_like(row(), word))
        assert [part.name for part in parts.terms] == ["sense 0", "sense 1", "sense 2", "bias"]
        spread = torch.cat([part.value for part in parts.terms[:3]])
        torch.testing.assert_close(spread, added_LTKV[..., word])


def test_a_word_has_the_same_senses_wherever_it_stands(double):
    torch.manual_seed(1)
    model = Backpack(V, Backpack.Config(layers=1, width=6, heads=1, senses=3, context=17)).eval()
    look = Look(["senses"])
    predict(model, row(), look)
    senses_LTD = look.values["senses"][0]
    torch.testing.assert_close(senses_LTD[:, 2], senses_LTD[:, 4])  # both are the word 1


def test_training_a_backpack_does_not_hold_its_senses(double):
    """No L x T x D numbers are kept for the backward pass: all that autograd saves is smaller."""
    torch.manual_seed(1)
    senses, length, width = 16, 31, 32
    model = Backpack(
        V, Backpack.Config(layers=1, width=width, heads=1, senses=senses, context=length)
    ).train()
    kept = list[int]()
    tokens = torch.randint(0, V, (1, length))
    parameters = {parameter.data_ptr() for parameter in model.parameters()}

    def keep(tensor):
        if tensor.data_ptr() not in parameters:
            kept.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        predict(model, tokens).loss(tokens)
    assert max(kept) < senses * length * width


def test_heads_that_share_their_keys_are_heads_with_equal_keys(double):
    """Grouped keys and values: query heads 0 and 1 read key head 0, query heads 2 and 3 read key head 1."""
    torch.manual_seed(3)
    options = {"layers": 1, "width": 12, "heads": 6, "context": 11, "positions": "none"}
    grouped = Transformer(5, Transformer.Config(**options, key_value_heads=3)).eval()
    whole = Transformer(5, Transformer.Config(**options)).eval()
    tensors = dict(grouped.state_dict())
    for name, tensor in grouped.state_dict().items():
        if ".project." in name:  # 6 heads of queries, 3 of keys, 3 of values, 2 features each
            query, key, value = tensor.unflatten(0, (12, 2)).split([6, 3, 3])
            tensors[name] = torch.cat(
                [query, key.repeat_interleave(2, 0), value.repeat_interleave(2, 0)]
            ).flatten(0, 1)
    whole.load_state_dict(tensors)
    tokens_BT = torch.tensor([[5, 1, 4, 2, 0, 3]])
    prediction, state = grouped.read_from_start(tokens_BT)
    torch.testing.assert_close(prediction.log_probs(), predict(whole, tokens_BT).log_probs())
    assert state.trunk.keys[0].shape == (1, 3, 6, 2)  # the cache is half as large
    for wrong, words in (
        ({"key_value_heads": 4}, "cannot be divided among `key_value_heads` 4"),
        ({"key_value_heads": 0}, "1 or more"),
    ):
        with pytest.raises(UserError, match=words):
            build(Transformer.Config, options | wrong)


def test_queries_and_keys_with_a_norm_have_bounded_scores(double):
    """|q . k| / sqrt(d) is at most sqrt(d) if both have a root mean square of 1, whatever the weights."""
    model = Transformer(
        5, Transformer.Config(layers=1, width=12, heads=3, context=11, query_key_norm=True)
    ).eval()
    torch.nn.init.normal_(model.trunk.blocks[0].project.weight, std=100)
    look = Look(["layer0.attention.scores"])
    predict(model, torch.tensor([[5, 1, 4, 2, 0, 3]]), look)
    scores = look.maps["layer0.attention.scores"]()
    assert float(scores[scores.isfinite()].detach().abs().max()) <= math.sqrt(4) + 1e-9
