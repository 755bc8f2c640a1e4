"""The streams of the comparison, in two groups: those that constants may be chosen on, and those that only test.

Development plays the first group on seeds from 100 on. Nothing is chosen by the second one, nor by seeds below 100.
"""

from __future__ import annotations

from osamd.prequential.generated import MADE
from osamd.prequential.keel import KEEL
from osamd.prequential.shipped import SHIPPED, Shipped

CHOSEN: dict[str, Shipped] = SHIPPED | {name: KEEL[name] for name in list(KEEL)[::2]}
"""Constants may be chosen on these: the streams that were always compared, and every second KEEL table by its name."""

TESTED: dict[str, Shipped] = {name: KEEL[name] for name in list(KEEL)[1::2]} | MADE
"""No constant is chosen on these."""

GROUPS: dict[str, dict[str, Shipped]] = {"chosen": CHOSEN, "tested": TESTED}
ALL: dict[str, Shipped] = CHOSEN | TESTED
