from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import certifi
import pytest

from bot.client.environment import CA_VARIABLES, Surroundings, settle
from bot.errors import ConfigError

URL: Final = "https://sunpleat.test"
CERTIFICATE: Final = Path(__file__).with_name("service.pem")


@pytest.fixture(autouse=True)
def _without_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


def refusal(environ: dict[str, str], *, use_proxies: bool = False) -> str:
    with pytest.raises(ConfigError) as caught:
        settle(environ, URL, use_proxies=use_proxies)
    assert caught.value.exit_code == 78
    return str(caught.value)


def test_an_empty_environment_brings_the_certificates_of_certifi_and_no_proxy() -> None:
    assert settle({}, URL, use_proxies=True) == Surroundings(certifi.where(), {})


@pytest.mark.parametrize("name", CA_VARIABLES)
def test_a_variable_names_the_ca_bundle(name: str) -> None:
    for path in (CERTIFICATE, CERTIFICATE.parent):
        assert settle({name: str(path)}, URL, use_proxies=False).ca_bundle == str(path)


def test_the_variables_have_an_order() -> None:
    assert CA_VARIABLES == ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")
    for place, name in enumerate(CA_VARIABLES):
        environ = dict.fromkeys(CA_VARIABLES[place:], "/nowhere") | {name: str(CERTIFICATE)}
        assert settle(environ, URL, use_proxies=False).ca_bundle == str(CERTIFICATE)


@pytest.mark.parametrize("name", [*CA_VARIABLES, "SSLKEYLOGFILE"])
def test_a_variable_that_is_set_to_nothing_says_nothing(name: str) -> None:
    assert settle({name: ""}, URL, use_proxies=False).ca_bundle == certifi.where()


@pytest.mark.parametrize("name", CA_VARIABLES)
@pytest.mark.parametrize("content", [None, b"", b"garbage", b"-----BEGIN CERTIFICATE-----\nx"])
def test_an_unusable_ca_bundle_is_refused_by_variable_and_path(
    name: str, content: bytes | None, tmp_path: Path
) -> None:
    path = tmp_path / "bundle.pem"
    if content is not None:
        path.write_bytes(content)
    message = refusal({name: str(path)})
    assert message.startswith(f"{name} names {path}, no usable CA bundle: ")
    assert "\n" not in message


def test_a_name_too_long_for_a_file_is_refused_by_variable() -> None:
    name = "x" * 300
    assert refusal({"REQUESTS_CA_BUNDLE": name}) == (
        f"REQUESTS_CA_BUNDLE names {name}, no usable CA bundle: File name too long"
    )
    assert refusal({"SSLKEYLOGFILE": name}) == (
        f"SSLKEYLOGFILE names {name}, which cannot be written"
    )


def test_a_ca_bundle_that_never_ends_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    message = refusal({"REQUESTS_CA_BUNDLE": str(tmp_path / "pipe")})
    assert message.startswith(f"REQUESTS_CA_BUNDLE names {tmp_path / 'pipe'}, no usable CA bundle")


@pytest.mark.parametrize("path", ["nowhere/keys.log", "", "file/keys.log", "loop"])
def test_a_key_log_that_cannot_be_written_is_refused_by_variable_and_path(
    path: str, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    message = refusal({"SSLKEYLOGFILE": str(tmp_path / path)})
    assert message == f"SSLKEYLOGFILE names {tmp_path / path}, which cannot be written"


def test_a_key_log_that_can_be_written_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "keys.log"
    settle({"SSLKEYLOGFILE": str(path)}, URL, use_proxies=False)
    assert not path.exists()
    path.write_text("keys")
    settle({"SSLKEYLOGFILE": str(path)}, URL, use_proxies=False)
    assert path.read_text() == "keys"


@pytest.mark.slow
@pytest.mark.parametrize(
    "proxy",
    [
        "socks5://proxy.test:1080",
        "proxy.test:3128",
        "http://",
        "http://proxy:99999",
        "://",
        "ftp://a",
    ],
)
@pytest.mark.parametrize("name", ["HTTPS_PROXY", "https_proxy", "ALL_PROXY"])
def test_an_impossible_proxy_is_refused_by_variable_and_value(
    name: str, proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, proxy)
    message = refusal(dict(os.environ), use_proxies=True)
    assert message == f"{name} names {proxy!r}, no address of an HTTP proxy"


def test_a_bad_proxy_is_no_matter_where_none_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "://")
    assert settle(dict(os.environ), URL, use_proxies=False).proxies == {}


def test_the_proxies_of_the_environment_are_used_where_a_setting_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.test:3128")
    monkeypatch.setenv("HTTP_PROXY", "http://other.test:3128")
    monkeypatch.setenv("NO_PROXY", "elsewhere.test")
    monkeypatch.setenv("FTP_PROXY", "http://ftp.test:3128")
    assert settle(dict(os.environ), URL, use_proxies=True).proxies == {
        "https": "http://proxy.test:3128",
        "http": "http://other.test:3128",
    }


def test_a_host_that_is_to_be_reached_without_a_proxy_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.test:3128")
    monkeypatch.setenv("NO_PROXY", "sunpleat.test")
    assert settle(dict(os.environ), URL, use_proxies=True).proxies == {}
