"""Fixtures of the reference engine's tests."""

from tests.driving import drive, gpu, triton_device

__all__ = ["drive", "gpu", "triton_device"]
