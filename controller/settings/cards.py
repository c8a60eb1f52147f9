"""How much memory has a card of each GPU type?

GB by name, as Runpod's documentation lists its GPU types (references/gpu-types, 2026-02-12). Runpod knows more types
than these and adds some each month: of one that is not here nothing is said, and it is as good a type as any other.
"""

from collections.abc import Mapping
from typing import Final

CARD_GB: Final[Mapping[str, int]] = {
    "AMD Instinct MI300X OAM": 192,
    "NVIDIA A100 80GB PCIe": 80,
    "NVIDIA A100-SXM4-80GB": 80,
    "NVIDIA A30": 24,
    "NVIDIA A40": 48,
    "NVIDIA B200": 180,
    "NVIDIA B300 SXM6 AC": 288,
    "NVIDIA GeForce RTX 3070": 8,
    "NVIDIA GeForce RTX 3080": 10,
    "NVIDIA GeForce RTX 3080 Ti": 12,
    "NVIDIA GeForce RTX 3090": 24,
    "NVIDIA GeForce RTX 3090 Ti": 24,
    "NVIDIA GeForce RTX 4070 Ti": 12,
    "NVIDIA GeForce RTX 4080": 16,
    "NVIDIA GeForce RTX 4080 SUPER": 16,
    "NVIDIA GeForce RTX 4090": 24,
    "NVIDIA GeForce RTX 5080": 16,
    "NVIDIA GeForce RTX 5090": 32,
    "NVIDIA H100 80GB HBM3": 80,
    "NVIDIA H100 NVL": 94,
    "NVIDIA H100 PCIe": 80,
    "NVIDIA H200": 141,
    "NVIDIA H200 NVL": 143,
    "NVIDIA L4": 24,
    "NVIDIA L40": 48,
    "NVIDIA L40S": 48,
    "NVIDIA RTX 2000 Ada Generation": 16,
    "NVIDIA RTX 4000 Ada Generation": 20,
    "NVIDIA RTX 4000 SFF Ada Generation": 20,
    "NVIDIA RTX 5000 Ada Generation": 32,
    "NVIDIA RTX 6000 Ada Generation": 48,
    "NVIDIA RTX A2000": 6,
    "NVIDIA RTX A4000": 16,
    "NVIDIA RTX A4500": 20,
    "NVIDIA RTX A5000": 24,
    "NVIDIA RTX A6000": 48,
    "NVIDIA RTX PRO 4500 Blackwell": 32,
    "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition": 96,
    "NVIDIA RTX PRO 6000 Blackwell Server Edition": 96,
    "NVIDIA RTX PRO 6000 Blackwell Server Edition MIG 1g.24gb": 24,
    "NVIDIA RTX PRO 6000 Blackwell Server Edition MIG 2g.48gb": 48,
    "NVIDIA RTX PRO 6000 Blackwell Workstation Edition": 96,
    "Tesla V100-PCIE-16GB": 16,
    "Tesla V100-SXM2-16GB": 16,
    "Tesla V100-SXM2-32GB": 32,
}
