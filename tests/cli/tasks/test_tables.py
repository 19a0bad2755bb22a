"""`train --data`, `predict`, `export` and `compare` on CSV files as users have them, and `train --text`."""

import csv

import numpy as np
import pytest

import retrograd as rg
from retrograd.cli import main
from retrograd.cli.console import UserError
from retrograd.cli.tasks.csv_files import read_csv
from retrograd.cli.tasks.encoding import Category, Encoding, Number, fit
from retrograd.cli.tasks.tables import table_task
from retrograd.training import plots


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with prices that depend on size, age and city; some sizes are missing."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    size, age, city = random.normal(100, 30, 200), random.integers(1, 80, 200), random.choice(["Rome", "Oslo"], 200)
    price = 1000 * size + 2000 * age * (city == "Rome")
    lines = ["age,city,size,price"]
    for row in zip(age, city, size, price):
        lines.append(f"{row[0]},{row[1]},{'' if row[2] < 55 else f'{row[2]:.1f}'},{row[3]:.0f}")
    (tmp_path / "my.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


def table(tmp_path, text):
    (tmp_path / "table.csv").write_text(text, encoding="utf-8")
    return tmp_path / "table.csv"


def test_columns_are_read_with_any_delimiter_quotes_and_a_byte_order_mark(tmp_path):
    read = read_csv(table(tmp_path, '\ufeffa; b\r\n1;"x;y"\r\n\r\n2;NA\r\n'))
    assert read.columns == {"a": ["1", "2"], "b": ["x;y", "NA"]}
    np.testing.assert_array_equal(read.numbers("a"), [1, 2])
    assert read.numbers("b") is None


def test_decimal_commas_are_read_where_another_character_separates_the_cells(tmp_path):
    assert read_csv(table(tmp_path, "a;b;c\n1,5;x,y;-0,125\n;z;3\n")).columns == {
        "a": ["1.5", ""],
        "b": ["x,y", "z"],
        "c": ["-0.125", "3"],
    }
    for text in ("a;b\n1,500;2,000\n", "a;b\n1,5;2.5\n"):  # thousands, or decimals of both kinds
        assert read_csv(table(tmp_path, text)).numbers("a") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("a,b\n", "no rows"),
        ("1,2\n3,4\n", "begins with numbers"),
        ("a,a\n1,2\n", "two columns named 'a'"),
        ("a,b\n1,2\n1\n", "line 3: expected 2 cells separated by ',', got 1"),
        ('a,b\n"1,2\n', "line 2: expected 2 cells"),
        ("a,b\n" + "1,2\n" * 3, "3 rows with 'b'; at least 10"),
        ("a,b\n" + "1,2\n" * 10, "'b' from: 'a' is 1 in all training rows"),
        ("a,b\n" + "".join(f"{i},7\n" for i in range(10)), "one value, '7', in all rows"),
        ("a,b\n" + "".join(f"{i},x{i}\n" for i in range(10)), "10 distinct values in 10 rows"),
        ("a,b\n" + "".join(f"{i},{i / 3}\n" for i in range(10)) + "inf,1\n", "row 11: 'inf' is not a finite number"),
        ("a,c\n" + "1,2\n" * 10, "no column 'b'; the columns are a, c"),
        ("a,bb\n" + "1,2\n" * 10, "no column 'b'; did you mean 'bb'"),
    ],
)
def test_a_file_that_is_no_table_is_refused_with_the_place(tmp_path, text, message):
    with pytest.raises(UserError) as raised:
        table_task(table(tmp_path, text), "b", None, "mlp", 4, 0, rg.Generator())
    assert message in str(raised.value)


def test_only_training_rows_determine_the_encoding(tmp_path):
    rows = "".join(f"{i},{'ab'[i % 2]},{i % 3},{i if i % 5 else ''}\n" for i in range(20)) + "1000,c,2,1000\n"
    read = read_csv(table(tmp_path, "x,kind,y,gaps\n" + rows))
    encoding = fit(read, "y", None, np.arange(20))
    x, kind, gaps = encoding.columns
    assert x == Number("x", 9.5, float(np.arange(20).std()), False)
    assert kind == Category("kind", ["a", "b"])
    assert gaps.indicator and gaps.inputs == ["gaps", "gaps is missing"]
    assert encoding.target.classes == ["0", "1", "2"]
    inputs = encoding.encode(read)
    np.testing.assert_allclose(inputs[:20, 0].mean(), 0, atol=1e-6)
    np.testing.assert_array_equal(inputs[-1, 1:3], [0, 0])  # a value that training has not seen
    np.testing.assert_array_equal(inputs[[0, 5], 3:], [[0, 1], [0, 1]])
    again = Encoding.from_plain(encoding.plain())
    np.testing.assert_array_equal(again.encode(read), inputs)


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["a", "b"], "classification"),
        (["0", "1"], "classification"),
        (["1.5", "2"], "regression"),
        ([str(i) for i in range(50)], "regression"),
    ],
)
def test_the_target_column_decides_between_regression_and_classification(tmp_path, cells, kind):
    rows = "".join(f"{i},{cells[i % len(cells)]}\n" for i in range(100))
    task = table_task(table(tmp_path, "x,y\n" + rows), "y", None, "linear", 8, 0, rg.Generator())
    assert task.encoding.target.kind == kind
    assert len(task.fitted.inputs) == 80 and len(task.test.inputs) == 20


@pytest.mark.slow
def test_a_table_is_trained_predicted_exported_and_compared(folder, capsys, monkeypatch):
    pytest.importorskip("safetensors")
    pytest.importorskip("onnx")
    assert main(["train", "--data", "my.csv", "--target", "price", "--epochs", "20"]) == 0
    short = ["train", "--epochs", "3", "--data", "my.csv", "--target", "price", "--out", "runs/short"]
    with monkeypatch.context() as patch:
        patch.setattr(plots, "available", lambda: False)  # drawing takes most of the time
        assert main(short) == 0
    out = capsys.readouterr().out
    assert "Linear least squares predicts the validation rows better than this model" in out
    assert "validation loss is still falling" in out and "earlier run" not in out
    with monkeypatch.context() as patch:
        patch.setattr(plots, "available", lambda: False)
        assert main(short) == 0
    out += capsys.readouterr().out
    assert "runs/short has an earlier run, which is replaced" in out
    assert "city=Oslo, city=Rome" in out and "linear least squares" in out and "Importance" in out
    report = (folder / "runs/my/report.html").read_text()
    assert "How to read this" in report and "The validation rows were not used for training" in report

    assert main(["predict", "runs/my", "my.csv"]) == 0
    out = capsys.readouterr().out
    assert "mean error" in out and "my.predicted.csv" in out
    with (folder / "my.predicted.csv").open() as file:
        rows = list(csv.DictReader(file))
    difference = np.array([float(row["predicted price"]) - float(row["price"]) for row in rows])
    spread = np.array([float(row["price"]) for row in rows]).std()
    assert np.sqrt((difference**2).mean()) < 0.3 * spread

    assert main(["export", "runs/my", "model.onnx"]) == 0
    model = rg.onnx.load("model.onnx")
    known = [row for row in rows if row["size"]]
    inputs = [[float(r["age"]), r["city"] == "Oslo", r["city"] == "Rome", float(r["size"]), 0] for r in known]
    np.testing.assert_allclose(
        model(rg.tensor(inputs, dtype=rg.float32)).detach().numpy()[:, 0],
        [float(row["predicted price"]) for row in known],
        rtol=1e-4,
        atol=1e-3 * spread,
    )

    capsys.readouterr()
    assert main(["compare", "runs/my", "runs/short"]) == 0
    out = capsys.readouterr().out
    assert "epochs" in out and "20" in out and "my" in out and "short" in out


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("train --data my.csv", "needs --target: one of age, city, size, price"),
        ("train --data my.csv --target prize", "no column 'prize'; did you mean 'price'?"),
        ("train --data me.csv --target price", "there is no file or folder me.csv; did you mean 'my.csv'?"),
        ("train --data . --target price", ". is a folder, expected a file"),
        ("train --data my.csv --target city --kind regression", "a regression needs numbers in 'city', got"),
        ("train --dta my.csv --target price", "unknown option --dta; did you mean '--data'?"),
        ("train --dta my.csv", "--dta without a TASK, or one of --data, --target, --text; did you mean '--data'?"),
        ("train --text my.txt", "there is no file or folder my.txt"),
        ("train --text short.txt", "has 6 characters; at least 650 are needed"),
        ("train --text bytes.txt", "is not a text file in UTF-8: byte 0 is 0xff"),
        ("predict nowhere my.csv", "checkpoint nowhere does not exist"),
        ("compare nowhere", "at least two runs"),
        ("trian --data my.csv", "unknown COMMAND 'trian'; did you mean 'train'?"),
        ("train hosing", "unknown TASK 'hosing'; did you mean 'housing'?"),
        ("train my.csv", "unknown TASK 'my.csv'; for a file of yours write --text my.csv or --data my.csv"),
        ("predict my.csv nowhere", "expected the folder of a run or its checkpoint, got my.csv"),
        ("train housing --epcohs 3", "unknown option --epcohs; did you mean '--epochs'?"),
        ("train housing --model cnn", "unknown --model 'cnn'; choose from linear, mlp"),
        ("run trian.py", "there is no file or folder trian.py"),
    ],
)
def test_a_mistake_is_answered_with_what_to_do(folder, capsys, line, message):
    (folder / "short.txt").write_text("to be\n")
    (folder / "bytes.txt").write_bytes(b"\xff\xfe" * 1000)
    assert main(line.split()) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


@pytest.mark.slow
def test_a_text_is_learnt_and_sampled(folder, capsys, monkeypatch):
    monkeypatch.setattr(plots, "available", lambda: False)
    (folder / "book.txt").write_text("It was the best of times, it was the worst of times. " * 100)
    assert main(["train", "--text", "book.txt", "--steps", "30"]) == 0
    assert main(["generate", "runs/book", "--length", "40"]) == 0
    assert main(["evaluate", "runs/book"]) == 0
    assert main(["export", "runs/book"]) == 0
    assert (folder / "runs/book/model.onnx").exists()
    capsys.readouterr()
    assert main(["predict", "runs/book", "my.csv"]) == 2
    assert "not from 'train --data'" in capsys.readouterr().err
