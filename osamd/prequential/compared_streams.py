"""The streams of the comparison, in two groups: streams on which constants may be chosen, and streams only for tests.

Development uses the first group with seeds from 100 on. Nothing is chosen on the second group, or on seeds below 100.
"""

from __future__ import annotations

from osamd.prequential.generated import MADE
from osamd.prequential.keel import KEEL
from osamd.prequential.shipped import SHIPPED, Shipped

CHOSEN: dict[str, Shipped] = SHIPPED | {name: KEEL[name] for name in list(KEEL)[::2]}
"""Constants may be chosen on these: the streams compared from the beginning, and every second KEEL table by name."""

TESTED: dict[str, Shipped] = {name: KEEL[name] for name in list(KEEL)[1::2]} | MADE
"""No constant is chosen on these."""

GROUPS: dict[str, dict[str, Shipped]] = {"chosen": CHOSEN, "tested": TESTED}
ALL: dict[str, Shipped] = CHOSEN | TESTED
