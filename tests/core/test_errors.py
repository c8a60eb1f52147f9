"""Are refusals fixed words, free of anybody's text?"""

import pytest

from controller.core.errors import REFUSAL_TEXTS, Code, Refusal, RefusalCode

CODES = """invalid-policy invalid-spec unauthorized duplicate missing wrong-phase clock-reversed capacity-exceeded
lease-held lease-lost stale-epoch foreign-resource ambiguous-mutation idempotency-unsupported"""

OUTWARD = """unknown_model model_starting model_stopping model_blocked queue_full no_capacity no_funds budget_exhausted
provider_unavailable controller_down store_unavailable start_failed upstream_disconnected upstream_timeout wrong_key
body_too_large not_served"""


def test_the_contract_refuses_with_exactly_its_14_codes() -> None:
    assert [code.value for code in RefusalCode] == CODES.split()


@pytest.mark.parametrize("code", RefusalCode)
def test_each_code_has_one_fixed_text(code: RefusalCode) -> None:
    refusal = Refusal(code)
    assert refusal.code is code
    assert str(refusal) == REFUSAL_TEXTS[code]


def test_no_two_codes_share_a_text_and_none_names_a_provider() -> None:
    texts = list(REFUSAL_TEXTS.values())
    assert len(set(texts)) == 14
    assert not [text for text in texts if "runpod" in text.lower() or "pod" in text.split()]


def test_every_outward_code_of_the_design_exists() -> None:
    assert set(OUTWARD.split()) <= {code.value for code in Code}
