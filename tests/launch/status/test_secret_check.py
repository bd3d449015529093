"""Secrets are found by their variable's name, whatever text they stand in, and never repeated."""

import pytest

from repro.errors import UserError
from repro.launch.status.secret_check import refuse_secrets, secret_values

SECRETS = {
    "WANDB_API_KEY": "0123456789abcdef" * 2,
    "HF_TOKEN": "hf_sesame_open",
    "AWS_SECRET_ACCESS_KEY": "pässwörter/+=",
    "MY_PASSWORD": "correct horse",
}


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_found_and_not_repeated(name: str) -> None:
    for text in (f"a {SECRETS[name]} b", f"a {SECRETS[name]} b".encode()):
        with pytest.raises(UserError, match=rf"\${name}") as caught:
            refuse_secrets("the script", text, {**SECRETS, "HOME": "/root"})
        assert SECRETS[name] not in str(caught.value)


def test_this_shells_secrets_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_PASSWORD", "correct horse")
    with pytest.raises(UserError, match="MY_PASSWORD"):
        refuse_secrets("x", "correct horse")
    monkeypatch.delenv("MY_PASSWORD")
    refuse_secrets("x", "correct horse")


def test_short_values_and_other_variables_are_no_secrets() -> None:
    environment = {"SOME_KEY": "1234567", "TOKENIZERS_PARALLELISM": "false---", "HOME": "/home/me/x"}
    assert secret_values(environment) == {}
    refuse_secrets("x", "1234567 false--- /home/me/x", environment)
    with pytest.raises(UserError, match="SOME_KEY"):
        refuse_secrets("x", "x 12345678 y", {"SOME_KEY": "12345678"})
