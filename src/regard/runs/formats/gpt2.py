"""GPT-2 checkpoints as Hugging Face publishes them, read as Transformers, and written: config.json,
model.safetensors, tokenizer files.

GPT-2 is a pre-norm Transformer with learned positions, tanh GELU and a tied readout without bias. Its
matrices lie the other way round. A document begins with `<|endoftext|>`: what this package calls `<s>` has
that token's vector.
"""

import json
from pathlib import Path
from typing import Any, final

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken
from tokenizers import Tokenizer as Library
from torch import Tensor

from regard.errors import UserError
from regard.machine.disk import file_hash
from regard.models.model import Model
from regard.models.transformer import Transformer
from regard.runs.formats.format import Format
from regard.runs.run import Run, describe
from regard.tokens.subwords import SubwordTokenizer

CONFIG, MODEL, TOKENIZER = "config.json", "model.safetensors", "tokenizer.json"
FIXED = {  # what every GPT-2 of the first publication has, and this package's Transformer with it
    "activation_function": ("gelu_new", "gelu_pytorch_tanh"),
    "layer_norm_epsilon": (1e-5,),
    "scale_attn_weights": (True,),
    "scale_attn_by_inverse_layer_idx": (False,),
    "add_cross_attention": (False,),
}
LAYER = {  # ours: theirs, and whether it is a matrix
    "attention_norm": ("ln_1", False),
    "project": ("attn.c_attn", True),
    "out": ("attn.c_proj", True),
    "feed_norm": ("ln_2", False),
    "feed.up": ("mlp.c_fc", True),
    "feed.down": ("mlp.c_proj", True),
}
SPECIAL = "<|endoftext|>"


@final
class Gpt2(Format):
    name = "gpt2"
    about = "a GPT-2 checkpoint"

    def recognises(self, path: Path) -> bool:
        """A folder with the config.json of a Hugging Face model, of whatever kind."""
        try:
            return path.is_dir() and "model_type" in json.loads((path / CONFIG).read_bytes())
        except (OSError, ValueError, TypeError, RecursionError):
            return False

    def read(self, path: Path, family: type[Model] | None = None) -> Run:
        model, tokenizer = read(path)
        config = describe(model, made_from=path.name, files={MODEL: file_hash(path / MODEL)})
        return Run(model.eval(), tokenizer, config, path)

    def default_for(self, run: Run) -> bool:
        return isinstance(run.model, Transformer)

    def write(self, run: Run, out: Path) -> None:
        if not isinstance(run.model, Transformer):
            raise UserError(
                f"a GPT-2 checkpoint holds a transformer; this run is of the family {run.model.family}"
            )
        if not isinstance(run.tokenizer, SubwordTokenizer):
            train = "train one with `tokens` bpe"
            raise UserError(
                f"GPT-2 reads byte-pair encoding; this run reads `tokens` {run.tokenizer.kind}: {train}"
            )
        write(run.model, run.tokenizer, out)


def read(folder: Path) -> tuple[Transformer, SubwordTokenizer]:
    config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    if config["model_type"] != "gpt2":
        raise UserError(
            f"{folder}: a checkpoint of {config['model_type']!r}; "
            "of Hugging Face's models, regard reads only 'gpt2'"
        )
    for name, allowed in FIXED.items():
        if config.get(name, allowed[0]) not in allowed:
            raise UserError(
                f"{folder}: {name} is {config[name]!r} where GPT-2 has {allowed[0]!r}; "
                "regard cannot read such a model"
            )
    width, size = config["n_embd"], config["vocab_size"]
    if config.get("n_inner") not in (None, 4 * width):
        raise UserError(
            f"{folder}: its feed-forward layers are {config['n_inner']} wide where GPT-2's are 4 x {width}; "
            "regard cannot read such a model"
        )
    if not (folder / MODEL).is_file():
        raise UserError(
            f"{folder}: {MODEL} is missing (weights in other files are not read, least of all pickled ones)"
        )
    tied = config.get("tie_word_embeddings", True)
    model = Transformer(
        size,
        Transformer.Config(
            layers=config["n_layer"],
            width=width,
            heads=config["n_head"],
            context=config["n_positions"],
            positions="learned",
            dropout=config.get("resid_pdrop", 0.1),
            tied=tied,
            readout_bias=False,
        ),
    )
    start, end = (_token(config.get(name), size) for name in ("bos_token_id", "eos_token_id"))
    tokenizer = SubwordTokenizer(_library(folder), "file", end, size)
    try:
        theirs = {
            name.removeprefix("transformer."): tensor.float()
            for name, tensor in load_file(folder / MODEL).items()
        }
        model.load_state_dict(_ours(theirs, config["n_layer"], start, tied, size))
    except (KeyError, RuntimeError, SafetensorError) as error:
        raise UserError(f"{folder}: {MODEL} does not fit {CONFIG} ({str(error).splitlines()[0]})") from None
    return model, tokenizer


def _token(number: int | None, size: int) -> int:
    """A token's number as the configuration has it; the last where it says nothing of use."""
    return number if number is not None and number < size else size - 1


def _library(folder: Path) -> Library:
    """tokenizer.json, or the older pair of vocab.json and merges.txt."""
    if (folder / TOKENIZER).is_file():
        return Library.from_file(str(folder / TOKENIZER))
    if not ((folder / "vocab.json").is_file() and (folder / "merges.txt").is_file()):
        raise UserError(f"{folder}: {TOKENIZER} is missing, or vocab.json and merges.txt in its place")
    from tokenizers import decoders, models, pre_tokenizers

    library = Library(models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt")))
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    return library


def _ours(theirs: dict[str, Tensor], layers: int, start: int, tied: bool, size: int) -> dict[str, Tensor]:
    words = theirs["wte.weight"]
    ours = {
        "embedding.weight": torch.cat([words, words[start : start + 1], torch.zeros_like(words[:1])]),
        "trunk.positions.table.weight": theirs["wpe.weight"],
        "readout.bias": torch.zeros(size),
    }
    if not tied:
        ours["readout.weight"] = theirs["lm_head.weight"]
    for part in ("weight", "bias"):
        ours[f"trunk.final_norm.{part}"] = theirs[f"ln_f.{part}"]
        for layer in range(layers):
            for name, (their, matrix) in LAYER.items():
                tensor = theirs[f"h.{layer}.{their}.{part}"]
                ours[f"trunk.blocks.{layer}.{name}.{part}"] = (
                    tensor.T.contiguous() if matrix and part == "weight" else tensor
                )
    return ours


def write(model: Transformer, tokenizer: SubwordTokenizer, folder: Path) -> None:
    """Write a checkpoint that `transformers` and this package open."""
    _check(model)
    ours = {name: tensor.detach().cpu() for name, tensor in model.tensors().items()}
    words, size = ours["embedding.weight"], model.vocabulary_size
    # If <s> has the vector of a token, as in GPT-2 itself, it is written as that token. Otherwise <s> and the
    # padding are written as tokens of their own.
    same = (words[:size] == words[size]).all(1).nonzero().flatten().tolist()
    own_start = not same
    start = size if own_start else tokenizer.end if tokenizer.end in same else same[0]
    words = words[: size + 2] if own_start else words[:size]
    theirs = {"wte.weight": words, "wpe.weight": ours["trunk.positions.table.weight"]}
    for part in ("weight", "bias"):
        theirs[f"ln_f.{part}"] = ours[f"trunk.final_norm.{part}"]
        for layer in range(model.config.layers):
            for name, (their, matrix) in LAYER.items():
                tensor = ours[f"trunk.blocks.{layer}.{name}.{part}"]
                theirs[f"h.{layer}.{their}.{part}"] = tensor.T if matrix and part == "weight" else tensor
    tensors = {f"transformer.{name}": tensor.contiguous() for name, tensor in theirs.items()}
    if not model.config.tied:
        untied = ours["readout.weight"]
        tensors["lm_head.weight"] = torch.cat(
            [untied, torch.zeros(len(words) - len(untied), untied.shape[1])]
        )
    save_file(tensors, folder / MODEL, metadata={"format": "pt"})
    _write_tokenizer(tokenizer, own_start, folder)
    (folder / CONFIG).write_text(json.dumps(_config(model, len(words), start, tokenizer.end), indent=2))


def _check(model: Transformer) -> None:
    config = model.config
    wanted = {
        "--positions learned": config.positions == "learned",
        "--no-readout-bias": not bool(model.readout.bias.any()),
    }
    wanted |= {
        "--norm pre": config.norm == "pre",
        "no --query-key-norm": not config.query_key_norm,
        "no --key-value-heads": config.key_value_heads in (None, config.heads),
        "--projections learned": config.projections == "learned",
        "--copy none": config.copy == "none",
    }
    missing = [name for name, there in wanted.items() if not there]
    if missing:
        raise UserError(f"GPT-2's form cannot hold this model; train one with {' '.join(missing)}")


def _config(model: Transformer, size: int, start: int, end: int) -> dict[str, Any]:
    config = model.config
    return {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "vocab_size": size,
        "n_positions": config.context,
        "n_embd": config.width,
        "n_layer": config.layers,
        "n_head": config.heads,
        "n_inner": None,
        "activation_function": "gelu_new",
        "layer_norm_epsilon": 1e-5,
        "resid_pdrop": config.dropout,
        "embd_pdrop": config.dropout,
        "attn_pdrop": 0.0,
        "bos_token_id": start,
        "eos_token_id": end,
        "tie_word_embeddings": config.tied,
    }


def _write_tokenizer(tokenizer: SubwordTokenizer, own_start: bool, folder: Path) -> None:
    library = Library.from_str(json.dumps(tokenizer.to_json()["bpe"]))
    known = library.get_vocab_size()
    names = [SPECIAL] if known <= tokenizer.end else []
    names += ["<|startoftext|>", "<|padding|>"] if own_start else []
    library.add_special_tokens([AddedToken(name, special=True) for name in names])
    library.save(str(folder / TOKENIZER))
    start = "<|startoftext|>" if own_start else SPECIAL
    more = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": start,
        "eos_token": SPECIAL,
        "unk_token": SPECIAL,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(more, indent=2))
