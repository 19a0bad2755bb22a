"""Published weights: logits are those of transformers for the same numbers; files that are wrong are named."""

import json
import math
from zlib import crc32

import numpy as np
import pytest

import retrograd as rg
from retrograd.cli import main
from retrograd.models import BERT, GPT2, KeyValueCache, Llama, generate
from retrograd.serialization import CorruptFileError
from retrograd.weights import load_model, load_tokens, save_model
from retrograd.weights.name_maps import ARCHITECTURES

pytest.importorskip("safetensors")

CONFIGS = {
    "gpt2": {
        "model_type": "gpt2", "vocab_size": 20, "n_positions": 12, "n_embd": 8, "n_layer": 2, "n_head": 2,
        "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "bos_token_id": 1, "eos_token_id": 19,
    },
    "llama": {
        "model_type": "llama", "vocab_size": 20, "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 32, "rms_norm_eps": 1e-6,
        "hidden_act": "silu", "tie_word_embeddings": False,
        "rope_parameters": {
            "rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 16,
        },
    },
    "bert": {
        "model_type": "bert", "vocab_size": 20, "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2,
        "num_attention_heads": 2, "max_position_embeddings": 16, "type_vocab_size": 2, "hidden_act": "gelu",
        "layer_norm_eps": 1e-12,
    },
}  # fmt: skip
IDS = [[1, 5, 7, 2, 9]]
# The first outputs at the last token, by transformers 5.23 from the numbers that `numbers` gives.
EXPECTED = {
    "gpt2": [-3.543737, -2.384796, 1.103118, 3.513736],
    "llama": [-0.002043, 0.486016, 0.499435, 0.02511],
    "bert": [-0.46886, 1.166622, 1.576985, 2.922358],
}
EXPECTED_POOLED = [0.770398, -0.337562, -0.944639, -0.726466]


def numbers(name, shape):
    """Made-up weights, which depend on nothing but name and shape."""
    count = math.prod(shape)
    values = 0.5 * np.sin(crc32(name.encode()) % 1000 + 1.7 * np.arange(count)).reshape(shape)
    return (values + (1 if "norm" in name.lower() or ".ln_" in name or "ln_f" in name else 0)).astype(np.float32)


def published(kind):
    """The weights of a tiny model by the names and in the layout of transformers."""
    architecture = ARCHITECTURES[kind]
    model = architecture.model(CONFIGS[kind], {"pooler.dense.weight"})
    shapes = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    found = {}
    for theirs, ours in architecture.names.items():
        for layer in range(2 if "{}" in ours else 1):
            name, shape = theirs.format(layer), shapes.get(ours.format(layer))
            if shape is None or name == "lm_head.weight" and kind == "gpt2":
                continue
            if architecture.change(theirs)(rg.zeros(2, 3)).shape == (3, 2):
                shape = shape[::-1]
            prefix = "" if name == "lm_head.weight" else architecture.prefixes[0]
            found[prefix + name] = rg.tensor(numbers(name, shape))
    return found


@pytest.fixture
def folder(tmp_path):
    """Writes a published model, and says where."""

    def write(kind, weights=None, **changes):
        (tmp_path / "config.json").write_text(json.dumps({**CONFIGS[kind], **changes}))
        rg.save(published(kind) if weights is None else weights, tmp_path / "model.safetensors")
        return tmp_path

    return write


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_logits_are_those_of_transformers_with_a_cache_and_without(folder, kind):
    model = load_model(folder(kind))
    assert not model.training
    with rg.no_grad():
        whole = model(rg.tensor(IDS))
        cache = KeyValueCache()
        pieces = rg.cat([model(rg.tensor(IDS)[:, part], cache) for part in (slice(0, 2), slice(2, 4), slice(4, 5))], 1)
        last = model(rg.tensor(IDS), last=True)
    np.testing.assert_allclose(whole[0, -1, :4].numpy(), EXPECTED[kind], atol=2e-5)
    np.testing.assert_allclose(pieces.numpy(), whole.numpy(), atol=2e-5)
    np.testing.assert_allclose(last.numpy(), whole[:, -1:].numpy(), atol=2e-5)


def test_outputs_of_bert_are_those_of_transformers_with_a_mask_and_segments(folder):
    model = load_model(folder("bert", {**published("bert"), "cls.predictions.bias": rg.zeros(20)}))
    mask, segments = rg.tensor([[0, 1, 1, 1, 1]]), rg.tensor([[0, 0, 1, 1, 1]])
    states, pooled = model(rg.tensor(IDS), attention_mask=mask, token_type_ids=segments)
    np.testing.assert_allclose(states[0, -1, :4].detach().numpy(), EXPECTED["bert"], atol=1e-5)
    np.testing.assert_allclose(pooled[0, :4].detach().numpy(), EXPECTED_POOLED, atol=1e-5)
    headless = {name: value for name, value in published("bert").items() if "pooler" not in name}
    assert load_model(folder("bert", headless))(rg.tensor(IDS))[1] is None


def test_weights_keep_their_dtype_or_are_converted(folder):
    pytest.importorskip("ml_dtypes")
    narrow = {name: value.to(rg.bfloat16) for name, value in published("llama").items()}
    where = folder("llama", narrow)
    model = load_model(where)
    assert model(rg.tensor(IDS)).dtype == rg.bfloat16 and model.head.weight.dtype == rg.bfloat16
    wide = load_model(where, dtype="float32")
    np.testing.assert_allclose(wide(rg.tensor(IDS))[0, -1, :4].detach().numpy(), EXPECTED["llama"], atol=0.05)


def test_embeddings_stay_tied_and_train_as_one(folder):
    model = load_model(folder("gpt2"))
    assert model.head.weight is model.token.weight
    tied = {name: value for name, value in published("llama").items() if name != "lm_head.weight"}
    model = load_model(folder("llama", tied, tie_word_embeddings=True))
    assert model.head.weight is model.token.weight


@pytest.mark.parametrize("kind", ["gpt2", "llama", "bert"])
def test_a_model_is_saved_under_the_published_names(folder, tmp_path, kind):
    published_weights = published(kind)
    model = load_model(folder(kind, dtype="bfloat16"))
    with rg.no_grad():
        model.norm.bias.add_(1) if kind != "llama" else model.norm.weight.add_(1)
    save_model(model, tmp_path / "out" / "tuned")
    assert json.loads((tmp_path / "out" / "tuned" / "config.json").read_text()) == {**CONFIGS[kind], "dtype": "float32"}
    saved = rg.load(tmp_path / "out" / "tuned" / "model.safetensors")
    bare = {name.removeprefix("transformer.").removeprefix("bert.") for name in published_weights}
    assert set(saved) == bare
    again = load_model(tmp_path / "out" / "tuned")
    for name, value in model.state_dict().items():
        assert rg.equal(again.state_dict()[name], value), name


def test_what_cannot_be_saved_under_published_names_is_named(folder, tmp_path):
    model = load_model(folder("gpt2"))
    with pytest.raises(ValueError, match="config has vocab_size = 21, but the model has 20"):
        save_model(model, tmp_path / "out", {**CONFIGS["gpt2"], "vocab_size": 21})
    with pytest.raises(ValueError, match="config has model_type = 'llama', but the model has 'gpt2'"):
        save_model(model, tmp_path / "out", CONFIGS["llama"])
    model.extra = rg.nn.Linear(2, 1)
    with pytest.raises(RuntimeError, match="gpt2 has no published name for extra.weight"):
        save_model(model, tmp_path / "out")
    with pytest.raises(ValueError, match="pass config="):
        save_model(GPT2(20, 12, 2, 2, 8), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_weights_in_several_files_are_read_by_their_index(folder):
    whole = published("llama")
    where = folder("llama", whole)
    (where / "model.safetensors").unlink()
    names = sorted(whole)
    for number, part in enumerate((names[:5], names[5:]), 1):
        rg.save({name: whole[name] for name in part}, where / f"part-{number}.safetensors")
    index = {name: f"part-{1 if name in names[:5] else 2}.safetensors" for name in whole}
    path = where / "model.safetensors.index.json"
    path.write_text(json.dumps({"metadata": {}, "weight_map": index}))
    assert all(rg.equal(value, whole[name]) for name, value in rg.load(path).items())
    np.testing.assert_allclose(load_model(where)(rg.tensor(IDS))[0, -1, :4].detach(), EXPECTED["llama"], atol=2e-5)
    path.write_text(json.dumps({"weight_map": {**index, "one more": "part-1.safetensors"}}))
    with pytest.raises(CorruptFileError, match=r"part-1.safetensors: has no 'one more'"):
        rg.load(path)
    path.write_text(json.dumps({"weight_map": {**index, "x": "part-3.safetensors"}}))
    with pytest.raises(FileNotFoundError, match="part-3"):
        rg.load(path)


@pytest.mark.parametrize("file", ["../model.safetensors", "/etc/passwd", "a/b.safetensors", "..", "", 3, None, []])
def test_an_index_reads_nothing_outside_its_folder(tmp_path, file):
    path = tmp_path / "inside" / "model.safetensors.index.json"
    path.parent.mkdir()
    rg.save({"x": rg.ones(1)}, tmp_path / "model.safetensors")
    path.write_text(json.dumps({"weight_map": {"x": file}}))
    with pytest.raises(CorruptFileError, match="which is not a file in its folder|damaged, or not an index"):
        rg.load(path)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"weight_map": 3}', "\x00", '{"weight_map": {"a": 1, "a": 2}}'])
def test_a_damaged_index_is_one(tmp_path, text):
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(text)
    with pytest.raises(CorruptFileError, match="damaged, or not an index"):
        rg.load(path)


def test_what_does_not_fit_is_named(folder, tmp_path):
    weights = published("gpt2")
    missing = {name: value for name, value in weights.items() if "h.1.ln_2.bias" not in name}
    for wrong, changes, error, message in [
        (missing, {}, RuntimeError, "the file has no weights for blocks.1.norm2.bias"),
        ({**weights, "transformer.extra": rg.ones(1)}, {}, RuntimeError, "unexpected weights 'transformer.extra'"),
        (
            weights,
            {"n_embd": 10},
            RuntimeError,
            r"token.weight has shape \(20, 8\), but the configuration implies \(20, 10\)",
        ),
        (weights, {"n_layer": 1}, RuntimeError, "the file has weights for blocks.1.*, which the configured model"),
        (weights, {"model_type": "t5"}, ValueError, "model_type must be one of gpt2, llama, bert, got 't5'"),
        (weights, {"activation_function": "relu"}, ValueError, "activation_function = 'relu', which is not supported"),
        (weights, {"vocab_size": None}, ValueError, "config.json has no 'vocab_size'"),
    ]:
        with pytest.raises(error, match=message):
            load_model(folder("gpt2", wrong, **changes))
    with pytest.raises(ValueError, match="dtype must be floating, got int64"):
        load_model(folder("gpt2"), dtype="int64")
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(CorruptFileError, match="config.json: (invalid JSON|must contain)"):
        load_model(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    (tmp_path / "config.json").write_text(json.dumps(CONFIGS["gpt2"]))
    with pytest.raises(FileNotFoundError, match="pytorch_model.bin is a pickle; convert it"):
        load_model(tmp_path)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda: GPT2(5, 4, 1, 3, 8), "GPT2: channels=8 must be divisible by heads=3"),
        (lambda: Llama(5, 4, 1, 4, 8, 3), "heads=4 must be divisible by groups=3"),
        (lambda: Llama(5, 4, 1, 2, 8, scaling={"rope_type": "yarn"}), "got 'yarn'"),
        (lambda: BERT(5, 4, 1, 2, 8, activation="tanh"), "activation must be one of gelu, gelu_new, relu"),
        (lambda: GPT2(5, 4, 1, 2, 8)(rg.zeros(1, 5, dtype=rg.int64)), "5 positions do not fit in a context of 4"),
    ],
)
def test_sizes_that_do_not_fit_are_named(model, message):
    with pytest.raises(ValueError, match=message):
        model()


def test_what_is_drawn_with_a_cache_is_what_is_drawn_without_also_beyond_the_context(folder):
    model = load_model(folder("gpt2"))  # a context of 12
    text = list(IDS[0])
    with rg.no_grad():
        for _ in range(15):
            text.append(int(model(rg.tensor([text[-12:]]))[0, -1].argmax()))
    assert generate(model, IDS[0], 15, temperature=0) == text[5:]


def test_the_command_draws_text_from_published_weights(folder, capsys):
    where = folder("gpt2", vocab_size=20)
    line = ["generate", "--weights", str(where), "--prompt", "\x01\x05", "--length", "4", "--temperature", "0"]
    assert main(line) == 0
    drawn = generate(load_model(where), [1, 5], 4, temperature=0, stop=19)
    assert capsys.readouterr().out == "\x01\x05" + bytes(drawn).decode() + "\n"
    for line, message in [
        (
            ["generate", "--weights", str(where), "--prompt", "z"],
            "--prompt has tokens outside the model's vocabulary of 20",
        ),
        (["generate", "--weights", str(where / "none")], "No such file or directory"),
        (["generate"], "pass exactly one of CHECKPOINT and --weights PATH"),
    ]:
        assert main(line) == 2
        assert message in capsys.readouterr().err
    assert main(["generate", "--weights", str(folder("bert"))]) == 2
    assert "has weights of BERT, which does not generate text" in capsys.readouterr().err


def test_tokens_are_those_of_the_folders_files(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    library = tokenizers.ByteLevelBPETokenizer()
    library.train_from_iterator(["to be or not to be"] * 5, vocab_size=270, min_frequency=2, show_progress=False)
    library.save_model(str(tmp_path))
    text = load_tokens(tmp_path)
    assert text.encode("to be not") == library.encode("to be not").ids and text.decode(text.encode("né to")) == "né to"
    library.save(str(tmp_path / "tokenizer.json"))
    assert load_tokens(tmp_path).encode("to be not") == text.encode("to be not")
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ValueError, match="tokenizer.json: not a tokenizer"):
        load_tokens(tmp_path)


def test_tokens_of_a_folder_that_is_not_there_are_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        load_tokens(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError, match="file"):
        load_tokens(tmp_path / "file")
