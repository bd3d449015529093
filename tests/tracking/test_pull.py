"""Records that others uploaded, read with W&B's own client from a server on the loopback."""

import base64
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from repro.errors import ReproError, UserError
from repro.tracking import pull as module
from repro.tracking.pull import MAX_FILES, Pulled, pull, split_target
from tests.wandb_api import KEY, FileStore, WandbApi
from tests.wandb_server import ENTITY, GONE, HANG, PROJECT

TARGET = f"{ENTITY}/{PROJECT}"
RECORD = b'{"experiment": "toy/base"}'


@pytest.fixture
def api(bare: pytest.MonkeyPatch) -> Iterator[WandbApi]:
    """A server that the environment names, with a key."""
    made = WandbApi()
    bare.setenv("WANDB_BASE_URL", made.url)
    bare.setenv("WANDB_API_KEY", KEY)
    yield made
    made.close()


def test_every_version_of_every_artifact_is_read_over_several_pages(api: WandbApi) -> None:
    for name, files in (
        ("record-a", {"record.json": RECORD, "x.outputs.txt": b"hallo\n"}),
        ("record-a", {"record.json": RECORD + b" "}),
        ("record-a", {"record.json": RECORD, "config.yaml": b"more", "curves.csv": b"more"}),
        ("record-b", {"any.json": b"not read here, only carried", "outputs.txt": b""}),
        ("record-c", {"record.json": b"\xff"}),
    ):
        api.upload(name, files)
    assert list(pull(TARGET)) == [
        Pulled("record-a:v0", RECORD, b"hallo\n"),
        Pulled("record-a:v1", RECORD + b" "),
        Pulled("record-a:v2", RECORD),
        Pulled("record-b:v0", b"not read here, only carried", b""),
        Pulled("record-c:v0", b"\xff"),
    ]
    assert api.asked("ArtifactTypeArtifactCollections") == 2, "three collections at two a page"
    assert not any("Authorization" in headers for headers in api.store.headers), "the key is W&B's alone"


def test_names_that_leave_are_never_opened_and_nothing_is_written(
    api: WandbApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    api.upload("r1", {"../../escaped.json": RECORD, "/etc/absolute.json": RECORD})
    api.upload("r2", {"../../escaped.json": RECORD, "record.json": RECORD, "a/../outputs.txt": b"x"})
    found = list(pull(TARGET))
    assert "0 JSON files" in str(found[0].problem)
    assert found[1] == Pulled("r2:v0", RECORD), "what lies in folders is passed over"
    assert not [path for path in tmp_path.rglob("*") if path.suffix in (".json", ".txt")]
    assert len(api.store.headers) == 1


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"a.json": RECORD, "b.json": RECORD}, "2 JSON files"),
        ({}, "0 JSON files"),
        ({"a.json": RECORD, "outputs.txt": b"", "x.outputs.txt": b""}, "2 of outputs"),
        ({f"{i}.txt": b"" for i in range(MAX_FILES + 1)}, f"more than {MAX_FILES} files"),
    ],
)
def test_an_artifact_of_another_shape_is_named_and_the_next_is_read(
    api: WandbApi, files: dict[str, bytes], words: str
) -> None:
    api.page = 50
    api.upload("odd", files)
    api.upload("good", {"record.json": RECORD})
    odd, good = pull(TARGET)
    assert words in str(odd.problem)
    assert good == Pulled("good:v0", RECORD)


def test_too_large_a_file_is_not_read_whatever_the_server_says(
    api: WandbApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_RECORD", 100)
    api.upload("honest", {"record.json": b" " * 101})
    api.upload("liar", {"record.json": b"{}"}, sizes={"record.json": 1})
    api.store.endless["/liar/0/record.json"] = 2**30
    api.upload("just", {"record.json": b" " * 100})
    honest, liar, just = pull(TARGET)
    assert "larger than 100 bytes" in str(honest.problem)
    assert "larger than 100 bytes" in str(liar.problem)
    assert just.problem is None
    assert len(api.store.headers) == 2, "of the honest one the size was enough"
    assert api.store.sent < 2**26, "reading ended soon after the limit"


def test_files_of_this_machine_and_other_schemes_are_not_opened(api: WandbApi, tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text("secret")
    names = ("direct", "redirected", "moved", "lost")
    for name in names:
        api.upload(name, {"record.json": RECORD})
    api.addresses["direct"] = secret.as_uri()
    api.store.elsewhere["/redirected/0/record.json"] = secret.as_uri()
    api.store.elsewhere["/moved/0/record.json"] = f"{api.store.url}/direct/0/record.json"
    del api.store.contents["/lost/0/record.json"]
    found = {one.name: one for one in pull(TARGET)}
    assert "not opened" in str(found["direct:v0"].problem)
    assert "cannot be had" in str(found["redirected:v0"].problem)
    assert found["moved:v0"].record == RECORD
    assert "404" in str(found["lost:v0"].problem)
    assert all(b"secret" not in one.record for one in found.values())


def test_the_key_goes_to_wandbs_own_address_and_not_along_with_a_redirection() -> None:
    ours, theirs = FileStore(), FileStore()
    theirs.put("/moved.json", RECORD)
    ours.put("/here.json", RECORD)
    ours.elsewhere["/gone.json"] = f"{theirs.url}/moved.json"
    client = SimpleNamespace(settings={"base_url": ours.url}, api_key=KEY)
    for address in ("/here.json", f"{ours.url}/gone.json", f"{theirs.url}/moved.json"):
        file = SimpleNamespace(name="record.json", size=len(RECORD), direct_url=address, url=None)
        assert module._fetch(file, client, 100) == RECORD
    word = base64.b64encode(f"api:{KEY}".encode()).decode()
    assert [h.get("Authorization") for h in ours.headers] == [f"Basic {word}"] * 2
    assert [h.get("Authorization") for h in theirs.headers] == [None] * 2
    ours.close()
    theirs.close()


@pytest.mark.parametrize(
    "target",
    ["", "anna", "anna/", "/repro", "a/b/c", "a/b?c", "a/b#c", "a/\x1b[2J", "a/b:c", "a/" + "x" * 129],
)
def test_a_target_of_another_form_is_refused_at_once(target: str) -> None:
    with pytest.raises(UserError, match="ENTITY/PROJECT"):
        split_target(target)
    assert split_target("An na/größer-2.0") == ("An na", "größer-2.0")


def test_no_such_project_and_no_record_in_it_are_bad_input(api: WandbApi) -> None:
    for target in (TARGET, "anna/nowhere"):
        with pytest.raises(UserError, match="no such project, or no run uploaded a record"):
            list(pull(target))


def test_without_a_key_nobody_is_asked_for_one(api: WandbApi, bare: pytest.MonkeyPatch) -> None:
    bare.delenv("WANDB_API_KEY")
    with pytest.raises(UserError, match=r"127.0.0.1; set WANDB_API_KEY.*`wandb login`"):
        list(pull(TARGET))
    assert api.requests == []


def test_a_key_of_the_cloud_may_stand_under_either_of_its_names(
    bare: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text(f"machine api.wandb.ai login user password {KEY}\n")
    bare.setenv("NETRC", str(netrc))
    bare.setenv("WANDB_BASE_URL", "https://other.example")
    with pytest.raises(UserError, match=r"no key for other.example"):
        module.connect()
    asked: list[int] = []
    bare.setattr("wandb.Api", lambda timeout: SimpleNamespace(default_entity=asked.append(timeout)))
    bare.setenv("WANDB_BASE_URL", "https://api.forge.coreweave.com")
    module.connect()
    assert asked == [module.TIMEOUT_S]


@pytest.mark.parametrize("mode", ["offline", "disabled"])
def test_an_environment_that_logs_offline_can_still_pull(
    api: WandbApi, bare: pytest.MonkeyPatch, mode: str
) -> None:
    bare.setenv("WANDB_MODE", mode)
    api.upload("a", {"record.json": RECORD})
    assert [one.name for one in pull(TARGET)] == ["a:v0"]


@pytest.mark.parametrize(
    ("mood", "words"),
    [
        (401, "refuses the key"),
        (500, "does not answer"),
        (HANG, "does not answer"),
        (GONE, "does not answer"),
    ],
)
def test_a_server_that_fails_ends_in_a_line_soon(
    api: WandbApi, monkeypatch: pytest.MonkeyPatch, mood: int, words: str
) -> None:
    monkeypatch.setattr(module, "TIMEOUT_S", 0.3)
    api.fail(mood)
    with pytest.raises(UserError, match=words) as caught:
        list(pull(TARGET))
    assert "\n" not in str(caught.value)
    assert KEY not in str(caught.value)


def test_a_server_that_fails_in_between_leaves_what_came(api: WandbApi) -> None:
    api.upload("a", {"record.json": RECORD})
    api.upload("b", {"record.json": RECORD})
    coming = pull(TARGET)
    assert next(coming) == Pulled("a:v0", RECORD)
    api.fail(403)
    with pytest.raises(ReproError, match="W&B failed: ") as caught:
        list(coming)
    assert caught.value.exit_code == 1
