"""By whose word is a party on the network believed, and what does it cost to know?"""

import ssl

import httpx
import pytest

from controller.transport import Http, trusted


def test_certificates_are_read_once_for_all_who_are_spoken_to(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[ssl.SSLContext] = []

    def reading(*, trust_env: bool) -> ssl.SSLContext:
        read.append(ssl.create_default_context())
        return read[-1]

    monkeypatch.setattr(httpx, "create_ssl_context", reading)
    trusted.cache_clear()
    try:
        for address in ("https://one.example", "https://two.example"):
            Http(address, user_agent="test")
        assert read == [trusted()]
    finally:
        trusted.cache_clear()


def test_certificates_are_asked_for_and_so_is_the_name() -> None:
    assert (trusted().verify_mode, trusted().check_hostname) == (ssl.CERT_REQUIRED, True)
