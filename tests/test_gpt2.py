"""GPT-2 checkpoints: the same logits as `transformers`, through every verb, and out again."""

import json
import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, pre_tokenizers, trainers

import regard
from regard.errors import UserError

transformers = pytest.importorskip("transformers")

TEXT = "The cat saw the dog, and the dog saw the cat.\nÄpfel — so they say — cost more.\n" * 7
CLOSE = 1e-4  # float32 logits of order one after some hundred sums; the issue's own bound
SHAPES = [
    {"n_layer": 1, "n_head": 1, "n_embd": 6, "n_positions": 41},
    {"n_layer": 3, "n_head": 2, "n_embd": 10, "n_positions": 37},
    {"n_layer": 2, "n_head": 7, "n_embd": 21, "n_positions": 43, "tie_word_embeddings": False},
    {
        "n_layer": 2,
        "n_head": 4,
        "n_embd": 44,
        "n_positions": 1031,
        "activation_function": "gelu_pytorch_tanh",
    },
]


def checkpoint(folder: Path, shape: dict, files: str = "tokenizer.json") -> Path:
    """A small random model in the form in which GPT-2 is published."""
    library = Library(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=283,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        special_tokens=["<|endoftext|>"],
        show_progress=False,
    )
    library.train_from_iterator([TEXT], trainer)
    torch.manual_seed(3)
    size = library.get_vocab_size()
    config = transformers.GPT2Config(
        vocab_size=size, bos_token_id=0, eos_token_id=0, initializer_range=0.2, **shape
    )
    model = transformers.GPT2LMHeadModel(config)
    for parameter in model.parameters():  # norms and biases too, which start at ones and zeros
        torch.nn.init.normal_(parameter, std=0.2) if parameter.dim() == 1 else None
    folder.mkdir()
    model.save_pretrained(folder)
    if files == "tokenizer.json":
        library.save(str(folder / files))
    else:
        library.model.save(str(folder))
    return folder


def ids_of(run: regard.Run) -> torch.Tensor:
    return torch.tensor([run.tokenizer.prompt("The dog saw Äpfel, so they say.")])


def logits(run: regard.Run, ids: torch.Tensor) -> torch.Tensor:
    """Ours before the softmax: the readout of the features."""
    start = torch.full((1, 1), run.tokenizer.start)
    with torch.no_grad():
        prediction, _ = run.model.read_from_start(torch.cat([start, ids], 1))
        return torch.nn.functional.linear(prediction.features_BTD, prediction.weight_VD, prediction.bias_V)


def theirs(folder: Path, ids: torch.Tensor, start: int) -> torch.Tensor:
    model = transformers.GPT2LMHeadModel.from_pretrained(folder).eval()
    with torch.no_grad():
        return model(torch.cat([torch.full((1, 1), start), ids], 1)).logits


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: f"{shape['n_layer']}x{shape['n_embd']}")
def test_the_same_logits_in_and_out_again(tmp_path: Path, shape: dict):
    folder = checkpoint(tmp_path / "published", shape)
    run = regard.load(folder)
    ids = ids_of(run)
    ours, expected = logits(run, ids), theirs(folder, ids, start=0)
    difference = float((ours - expected).abs().max())
    print(f"largest difference of a logit: {difference:.1e}")
    assert float(expected.std()) > 0.1  # they do differ among themselves
    assert difference < CLOSE

    out = regard.export(run, tmp_path / "again")
    assert torch.equal(logits(regard.load(out), ids), ours)
    published, again = (load_file(path / "model.safetensors") for path in (folder, out))
    assert set(again) == set(published)
    assert all(torch.equal(again[name], tensor) for name, tensor in published.items())
    assert float((theirs(out, ids, start=0) - expected).abs().max()) < CLOSE
    assert json.loads((out / "config.json").read_text())["vocab_size"] == run.model.vocabulary_size


def test_the_tokens_are_those_of_the_published_tokenizer(tmp_path: Path):
    folder = checkpoint(tmp_path / "published", SHAPES[0])
    run = regard.load(folder)
    library = transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    text = "The dog saw Äpfel 猫 —\n\n they"
    assert run.tokenizer.prompt(text) == library(text)["input_ids"]
    assert run.tokenizer.decode(run.tokenizer.prompt(text)) == text
    assert run.tokenizer.name(0) == "</s>"
    older = checkpoint(tmp_path / "older", SHAPES[0], files="vocab.json")
    assert regard.load(older).tokenizer.prompt(text) == run.tokenizer.prompt(text)


def test_every_verb_takes_the_folder(tmp_path: Path, regard_cli):
    checkpoint(tmp_path / "gpt2", SHAPES[1])
    (tmp_path / "text.txt").write_text(TEXT)
    for arguments in (
        ["evaluate", "gpt2", "--text", "text.txt"],
        ["score", "gpt2", "--text", "text.txt"],
        ["generate", "gpt2", "--prompt", "The", "--length", "9"],
        ["look", "gpt2", "--text", "The cat", "--out", "map.html"],
        [
            "look",
            "gpt2",
            "--text",
            "The cat",
            "--edit",
            '{"do": "silence", "site": "layer1.attention", "heads": [1]}',
            "--save-edit",
            "edit.json",
        ],
        ["generate", "gpt2", "--edit", "edit.json", "--length", "5"],
    ):
        done = regard_cli(*arguments)
        note = "map.html shows it." if "map.html" in arguments else ""
        assert (done.returncode, done.stderr.strip()) == (0, note), arguments
    assert "tokens             " in regard_cli("evaluate", "gpt2", "--text", "text.txt").stdout


def test_a_run_of_our_own_goes_out(tmp_path: Path, regard_cli):
    (tmp_path / "text.txt").write_text(TEXT * 9)
    options = {
        "tokens": "bpe",
        "bpe-size": 271,
        "layers": 2,
        "width": 12,
        "heads": 2,
        "context": 31,
        "batch": 2,
        "steps": 3,
    }
    line = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    done = regard_cli(
        "train",
        "transformer",
        "--text",
        "text.txt",
        "--positions",
        "learned",
        "--no-readout-bias",
        *line,
        "--out",
        "run",
    )
    assert done.returncode == 0
    assert regard_cli("export", "run", "--to", "hugging").returncode == 0
    run = regard.load(tmp_path / "run")
    ids, size = ids_of(run), run.model.vocabulary_size
    expected = theirs(tmp_path / "hugging", ids, start=size)[
        :, :, :size
    ]  # <s> and padding are tokens of their own there
    assert float((logits(run, ids) - expected).abs().max()) < CLOSE
    library = transformers.AutoTokenizer.from_pretrained(tmp_path / "hugging")
    assert library("The dog saw Äpfel, so they say.")["input_ids"] == ids[0].tolist()
    assert (library.bos_token_id, library.eos_token_id) == (size, run.tokenizer.end)
    back = regard.load(tmp_path / "hugging")
    assert torch.equal(
        logits(back, ids)[:, :, :size], logits(run, ids)
    )  # and begins with the start mark of its own
    assert back.tokenizer.prompt("the cat") == run.tokenizer.prompt("the cat")
    refused = regard_cli("export", "run", "--to", "hugging")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert regard_cli("train", "transformer", "--text", "text.txt", *line, "--out", "rotary").returncode == 0
    refused = regard_cli("export", "rotary", "--to", "out")
    assert (refused.returncode, (tmp_path / "out").exists()) == (2, False)
    assert "train one with --positions learned --no-readout-bias" in refused.stderr


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model_type": "llama"}, "a checkpoint of 'llama'; of Hugging Face's models, regard reads"),
        ({"activation_function": "tanh"}, "'activation_function' must be one of gelu_new, "),
        ({"add_cross_attention": True}, "'add_cross_attention' must be one of False; not True"),
        ({"n_inner": 17}, "the tensor h.0.mlp.c_fc.weight has the shape [6, 24], not [6, 17]"),
        ({"n_layer": 5}, "the tensor h.1.ln_1.weight is missing"),
        ({"n_embd": 12}, "the tensor wte.weight has the shape [283, 6], not [283, 12]"),
        ({"vocab_size": 11}, "the tensor wte.weight has the shape [283, 6], not [11, 6]"),
        ({"n_head": "2"}, "'n_head' must be a whole number; not '2'"),
        ({"n_head": None}, "'n_head' must be a whole number; not None"),
        ({"n_head": 5}, "'width' 6 cannot be divided among 'heads' 5"),
        ({"n_layer": 10**6}, "'n_layer' must be at most 1000"),
        ({"n_positions": 10**30}, "'n_positions' must be"),
        ({"n_positions": 10**9}, "the tensor wpe.weight has the shape [41, 6], not [1000000000, 6]"),
        ({"vocab_size": -1}, "'vocab_size' must be 1 or more; not -1"),
        ({"bos_token_id": 1.5}, "'bos_token_id' must be a whole number; not 1.5"),
        ({"eos_token_id": -5}, "'eos_token_id' must be 0 or more; not -5"),
        ({"eos_token_id": []}, "'eos_token_id' must be a whole number"),
        ({"resid_pdrop": "x"}, "'resid_pdrop' must be a number; not 'x'"),
        ({"layer_norm_epsilon": 0}, "'layer_norm_epsilon' must be above 0"),
    ],
)
def test_other_architectures_are_told(tmp_path: Path, change: dict, words: str):
    folder = checkpoint(tmp_path / "gpt2", SHAPES[0])
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | change))
    with pytest.raises(UserError, match=re.escape(words)) as error:
        regard.load(folder)
    assert "train the run again" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "words"),
    [("model.safetensors", "model.safetensors is missing"), ("tokenizer.json", "tokenizer.json is missing")],
)
def test_missing_files_are_told(tmp_path: Path, name: str, words: str):
    folder = checkpoint(tmp_path / "gpt2", SHAPES[0])
    (folder / name).unlink()
    with pytest.raises(UserError, match=words):
        regard.load(folder)


def test_damaged_weights_are_told(tmp_path: Path):
    folder = checkpoint(tmp_path / "gpt2", SHAPES[0])
    (folder / "model.safetensors").write_bytes(b"nothing of the kind")
    with pytest.raises(UserError, match="its weights cannot be read"):
        regard.load(folder)
