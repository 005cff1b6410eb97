"""Deeds of a kernel that has lost its mind, as tests/boot/containment/fail.c asks for them."""

import re

from machine import ROOT


def _numbers():
    """Their positions, from the list in the contract."""
    text = (ROOT / "contract/src/native.rs").read_text()
    names = re.findall(r'"([a-z-]+)"', re.search(r"pub const ATTACKS:.*?\];", text, re.S).group(0))
    return {name: str(number) for number, name in enumerate(names)}


NUMBERS = _numbers()
