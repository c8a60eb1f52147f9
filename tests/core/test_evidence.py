"""Are the words of proof and of stop reasons the fixed ones that operators read?"""

from controller.core.evidence import EvidenceKind, StopReason

REASONS = """idle, lifetime-exceeded, startup-deadline, crash-loop, key-refused, unprotected, secret-unsubstituted,
served-model-mismatch, pod-exited, pod-error, zero-gpu, stopped-serving, hung, nccl-stall, multi-card-stall,
wrong-resource, spend, operator-request, model-removed, replaced, prefetched, ambiguous-mutation, lease-expired,
ownership-lost, orphan, reappeared, billed-after-stop, abandoned"""


def test_stop_reasons_are_the_closed_list_of_the_design() -> None:
    assert {reason.value for reason in StopReason} == set(REASONS.replace("\n", " ").replace(" ", "").split(","))


def test_kinds_of_evidence_are_the_four_that_settle_and_the_one_that_corroborates() -> None:
    assert {kind.value for kind in EvidenceKind} == {
        "inventory-complete-absent",
        "provider-terminated",
        "stop-accepted",
        "external-confirmation",
        "billing-quiet",
    }
