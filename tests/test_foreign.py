"""Models and tokenizers of other tools mean here what they mean there."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from test_gpt2 import CLOSE, SHAPES, TEXT, checkpoint, ids_of, logits, theirs
from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

import regard
from regard.errors import MachineError, UserError
from regard.tokens.subwords import SubwordTokenizer

transformers = pytest.importorskip("transformers")


@pytest.mark.parametrize(
    "change",
    [
        {"activation_function": "relu"},
        {"activation_function": "gelu"},
        {"activation_function": "silu"},
        {"n_inner": 17},
        {"scale_attn_by_inverse_layer_idx": True},
        {"scale_attn_weights": False},
        {"layer_norm_epsilon": 0.03},
        {"activation_function": "relu", "n_inner": 7, "scale_attn_by_inverse_layer_idx": True},
    ],
    ids=str,
)
def test_each_line_of_arithmetic_is_that_of_transformers(tmp_path: Path, change: dict):
    folder = checkpoint(tmp_path / "published", SHAPES[1] | change)
    run = regard.load(folder)
    ids = ids_of(run)
    expected = theirs(folder, ids, start=0)
    assert float((logits(run, ids) - expected).abs().max()) < CLOSE
    again = regard.export(run, tmp_path / "again")  # the scales are in the weights then
    assert float((theirs(again, ids, start=0) - expected).abs().max()) < CLOSE


def test_weights_in_several_files(tmp_path: Path):
    folder = checkpoint(tmp_path / "published", SHAPES[1])
    ids, whole = ids_of(regard.load(folder)), logits(regard.load(folder), ids_of(regard.load(folder)))
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(tensors)
    parts = {"model-1.safetensors": names[::2], "model-2.safetensors": names[1::2]}
    for file, own in parts.items():
        save_file({name: tensors[name] for name in own}, folder / file, metadata={"format": "pt"})
    index = {"metadata": {}, "weight_map": {name: file for file, own in parts.items() for name in own}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert torch.equal(logits(regard.load(folder), ids), whole)
    assert float((theirs(folder, ids, start=0) - whole).abs().max()) < CLOSE
    (folder / "model-2.safetensors").unlink()
    with pytest.raises(UserError, match=r"model-2\.safetensors is missing"):
        regard.load(folder)
    index["weight_map"] = dict.fromkeys(names, "../model.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(UserError, match="is missing"):
        regard.load(folder)


def test_absent_keys_have_the_defaults_of_transformers(tmp_path: Path):
    folder = checkpoint(tmp_path / "published", {"n_layer": 1, "n_head": 12, "n_embd": 12})
    config = json.loads((folder / "config.json").read_text())
    kept = ("model_type", "architectures", "vocab_size", "n_embd", "n_layer")
    slim = {name: config[name] for name in kept}
    slim["hidden_size"] = slim.pop("n_embd")  # the name that other models have
    (folder / "config.json").write_text(json.dumps(slim | {"eos_token_id": [1, 0]}))
    run = regard.load(folder)
    assert (run.model.context, run.model.config.heads, run.tokenizer.end) == (1024, 12, 1)
    ids = ids_of(run)
    last = run.model.vocabulary_size - 1  # <s>, as the default 50256 is not in the vocabulary
    assert float((logits(run, ids) - theirs(folder, ids, start=last)).abs().max()) < CLOSE


@pytest.mark.parametrize("change", ["int8", "bool", "nan", "inf", "scalar", "missing"])
def test_weights_that_are_none_name_the_tensor(tmp_path: Path, change: str):
    folder = checkpoint(tmp_path / "published", SHAPES[0])
    tensors = load_file(folder / "model.safetensors")
    name = "transformer.h.0.mlp.c_fc.weight"
    tensor = tensors.pop(name)
    made = {
        "int8": tensor.char(),
        "bool": tensor.bool(),
        "nan": tensor * float("nan"),
        "scalar": tensor[0, 0],
    }
    made["inf"] = tensor / 0
    if change != "missing":
        tensors[name] = made[change].clone()
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(
        UserError, match=r"the tensor h\.0\.mlp\.c_fc\.weight (holds|has the shape|is missing)"
    ):
        regard.load(folder)


def test_numbers_that_grow_too_large_stop_the_work(tmp_path: Path, capfd):
    from regard.cli import main

    folder = checkpoint(tmp_path / "published", SHAPES[0])
    tensors = load_file(folder / "model.safetensors")
    for name in tensors:
        if name.endswith("mlp.c_fc.weight"):
            tensors[name] = tensors[name].sign() * 3e38  # finite, and their sums are not
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (tmp_path / "text").write_text("The cat saw")
    run = str(folder)
    for arguments in (
        ["evaluate", run, "--text", str(tmp_path / "text")],
        ["score", run, "--text", str(tmp_path / "text"), "--json"],
        ["generate", run, "--prompt", "The"],
        ["look", run, "--text", "The cat"],
        ["look", run, "--text", "The cat", "--json"],
        ["trace", run, "--text", "The cat"],
    ):
        capfd.readouterr()
        assert main(arguments) == 1
        out, err = capfd.readouterr()
        assert (out, err.count("\n")) == ("", 1), arguments
        assert "is not a number" in err
    with pytest.raises(MachineError):
        regard.evaluate(folder, tmp_path / "text")


def changed_tokenizer(folder: Path, **parts) -> Path:
    data = json.loads((folder / "tokenizer.json").read_text())
    (folder / "tokenizer.json").write_text(json.dumps(data | parts))
    return folder


def test_settings_of_batches_are_switched_off(tmp_path: Path):
    folder = checkpoint(tmp_path / "published", SHAPES[0])
    (tmp_path / "text").write_text(TEXT + "<|endoftext|> is a name\n")
    plain = regard.evaluate(folder, tmp_path / "text")
    library = Library.from_file(str(folder / "tokenizer.json"))
    library.enable_truncation(8)
    library.enable_padding(length=64)
    library.post_processor = processors.TemplateProcessing(
        single="<|endoftext|> $A <|endoftext|>", special_tokens=[("<|endoftext|>", 0)]
    )
    library.save(str(folder / "tokenizer.json"))
    cut = regard.evaluate(folder, tmp_path / "text")
    assert (cut.loss, cut.tokens) == (plain.loss, plain.tokens)
    run = regard.load(folder)
    assert 0 not in run.tokenizer.prompt("The <|endoftext|> cat")
    assert run.tokenizer.decode(run.tokenizer.prompt("The <|endoftext|> cat")) == "The <|endoftext|> cat"


def trained(model, trainer, **parts) -> Library:
    library = Library(model)
    for name, part in parts.items():
        setattr(library, name, part)
    library.train_from_iterator(TEXT.splitlines(), trainer)
    return library


def metaspace() -> Library:
    return trained(
        models.BPE(unk_token="[UNK]"),
        trainers.BpeTrainer(vocab_size=90, special_tokens=["[UNK]"], show_progress=False),
        pre_tokenizer=pre_tokenizers.Metaspace(),
        decoder=decoders.Metaspace(),
    )


def wordpiece() -> Library:
    return trained(
        models.WordPiece(unk_token="[UNK]"),
        trainers.WordPieceTrainer(vocab_size=90, special_tokens=["[UNK]"], show_progress=False),
        normalizer=normalizers.Lowercase(),
        pre_tokenizer=pre_tokenizers.Whitespace(),
        decoder=decoders.WordPiece(cleanup=False),
    )


def unigram() -> Library:
    return trained(
        models.Unigram(),
        trainers.UnigramTrainer(
            vocab_size=60, special_tokens=["[UNK]"], unk_token="[UNK]", show_progress=False
        ),
        pre_tokenizer=pre_tokenizers.Metaspace(),
        decoder=decoders.Metaspace(),
    )


@pytest.mark.parametrize("make", [metaspace, wordpiece, unigram])
def test_other_tokenizers_write_with_their_own_decoder(make):
    library = make()
    ids = library.encode("the cat saw the dog").ids
    expected = library.decode(ids)
    tokenizer = SubwordTokenizer(library, "line")
    assert tokenizer.prompt("the cat saw the dog") == ids
    pieces = tokenizer.decoder()
    assert "".join(pieces(token) for token in ids) == tokenizer.decode(ids) == expected
    assert tokenizer.unknown == library.token_to_id("[UNK]")
    for text in ("The 猫", "the\tcat"):
        with pytest.raises(UserError, match="does not keep the text"):
            tokenizer.encode(text)


def test_a_tokenizer_that_loses_text_measures_nothing(tmp_path: Path):
    folder = checkpoint(tmp_path / "published", SHAPES[0])
    changed_tokenizer(folder, normalizer={"type": "Lowercase"})
    (tmp_path / "small").write_text("the cat saw\n")
    (tmp_path / "text").write_text("the cat saw The dog\n")
    assert regard.evaluate(folder, tmp_path / "small").tokens > 1
    with pytest.raises(
        UserError, match=r"does not keep the text \(at character 12, 'cat saw The dog"
    ) as error:
        regard.evaluate(folder, tmp_path / "text")
    assert "train" not in str(error.value)


def test_a_space_before_the_text_is_allowed(tmp_path: Path):
    library = trained(
        models.BPE(),
        trainers.BpeTrainer(
            vocab_size=270, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
        ),
        pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=True),
        decoder=decoders.ByteLevel(),
    )
    tokenizer = SubwordTokenizer(library, "line")
    assert tokenizer.encode("the cat\nsaw").unknown == 0
    assert tokenizer.decode(tokenizer.prompt("the cat")) == " the cat"


def test_tokenizer_and_model_must_agree(tmp_path: Path):
    folder = checkpoint(tmp_path / "published", SHAPES[0])
    library = Library.from_file(str(folder / "tokenizer.json"))
    library.add_tokens(["more"])
    library.save(str(folder / "tokenizer.json"))
    with pytest.raises(UserError, match="the tokenizer has 284 tokens and the model only 283"):
        regard.load(folder)


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "\x00\xff", "[" * 100_000, '{"model": {"type": "BPE"}}', "1"]
)
@pytest.mark.parametrize("name", ["tokenizer.json", "config.json", "model.safetensors"])
def test_files_of_nothing_of_the_kind_are_one_line(tmp_path: Path, name: str, text: str):
    folder = checkpoint(tmp_path / "published", SHAPES[0])
    (folder / name).write_bytes(text.encode("latin-1"))
    with pytest.raises(UserError) as error:
        regard.load(folder)
    assert "\n" not in str(error.value)
    assert "train the run again" not in str(error.value)
