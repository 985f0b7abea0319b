"""The compiled body of the decoder on a CPU writes what the eager body writes, and is made once."""

import time
import warnings

import pytest
import torch
from families import MODELS, WRAPPED

from regard.errors import Notice
from regard.machine import packages
from regard.models.transformer import Transformer
from regard.probabilities import packaged
from regard.probabilities.captured import body_for, compiled_body_for
from regard.probabilities.decoder import Writing, generate
from regard.probabilities.packaged import PackagedBody
from regard.probabilities.sampling import Sampling
from regard.probabilities.step import EagerBody, Step

FEW = Sampling(top_k=3)
needs_compiler = pytest.mark.skipif(packages.compiler() is None, reason="no C++ compiler is installed")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "packages"


def written(model, prompts, body, sampling=FEW, length=101, end=2):
    writing = Writing(length=length, end=end, sampling=sampling, likeliest=2, body=body)
    return list(generate(model, model.begin(len(prompts)), prompts, writing))


def compare(model, prompts, body, sampling=FEW):
    texts = [written(model, prompts, each, sampling) for each in (EagerBody, body)]
    assert [step.tokens for step in texts[0]] == [step.tokens for step in texts[1]]
    for eager, compiled in zip(*texts, strict=True):
        torch.testing.assert_close(compiled.log_prob_B, eager.log_prob_B, atol=1e-5, rtol=0)
        assert torch.equal(compiled.likeliest_BK, eager.likeliest_BK)


def grouped() -> Transformer:
    """A context that needs three sizes of buffers and a new window, and shared heads of keys and values."""
    torch.manual_seed(7)
    options = {"layers": 1, "width": 12, "heads": 3, "key_value_heads": 1, "context": 83}
    return Transformer(17, Transformer.Config(**options)).eval()


@needs_compiler
@pytest.mark.parametrize("prompts", [[[17]], [[17, 5, 6], [17], [17, 3]]])
def test_a_package_writes_what_the_eager_body_writes(prompts, cache):
    model = grouped()
    with pytest.warns(Notice, match="compiling the decoder's step"):
        compare(model, prompts, PackagedBody)
    (made,) = cache.glob("*.pt2")
    # another process finds the package: nothing is compiled, and a damaged file is no harm
    packaged._PACKAGES.clear()
    other = grouped()
    other.embedding.weight.data.mul_(1.1)  # a package holds no weights
    began = time.perf_counter()
    compare(other, prompts, body_for)
    assert isinstance(body_for(Step(other, FEW, 2)), PackagedBody)
    assert time.perf_counter() - began < 10
    made.write_bytes(made.read_bytes()[:1000])
    packaged._PACKAGES.clear()
    compare(other, prompts, body_for)
    assert not made.exists()


@pytest.mark.parametrize(
    "name",
    [
        "dan",
        "window",
        "lstm",
        "attentive-gate",
        "transformer-post",
        "transformer-alibi",
        "transformer-gate",
        "backpack",
    ],
)
def test_a_step_of_other_families_can_be_written_down(name, monkeypatch):
    """For any number of rows and any size of buffers: what is left to the compiler is the same for all."""
    written_down = []

    def export(path, module, tensors, sizes):
        with torch.inference_mode(False), torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sizes = (list(sizes),)
            program = torch.export.export(module, (list(tensors),), dynamic_shapes=sizes, strict=False)
        # the first rows of the tokens and of the state, as another number of rows
        five = [tensor[:1].repeat_interleave(5, 0) for tensor in tensors]
        expected, changed = [tensor.clone() for tensor in five], five
        module(expected)
        program.module()(changed)
        for one, other in zip(expected, changed, strict=True):
            torch.testing.assert_close(one, other, atol=1e-5, rtol=0)
        written_down.append(path)
        raise RuntimeError("not compiled here")

    monkeypatch.setattr(packaged, "make_package", export)
    monkeypatch.setattr(packaged, "compiler", lambda: "g++")
    model = MODELS[name]()
    with pytest.warns(Notice) as told:
        written(model, [[model.start], [model.start, 3]], compiled_body_for, length=3, end=None)
    assert "not compiled here" in str(told[-1].message)
    assert len(written_down) == 1


def test_steps_that_no_package_can_run_are_eager():
    names = ("ngram-3-kneser-ney", "transformer-translator")
    models = [MODELS[name]() for name in names] + [WRAPPED["edited"](), WRAPPED["cache"]()]
    assert not any(map(packaged._can_package, models))


def test_without_a_compiler_the_step_is_eager_and_says_so(monkeypatch, cache):
    monkeypatch.setattr(packaged, "compiler", lambda: None)
    with pytest.warns(Notice, match="install g"):
        compare(grouped(), [[17]], PackagedBody)
    assert not cache.exists()
