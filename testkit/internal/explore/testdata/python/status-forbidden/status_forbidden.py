#!/usr/bin/python3
"""The correct operator, but its Role lacks pages/status.

Bug: it ignores the error of a status update, so the missing permission stays unnoticed.
"""

import logging
import os
import sys

sys.dont_write_bytecode = True
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "correct"))
import pages  # noqa: E402

log = logging.getLogger("status-forbidden")


class Operator(pages.Operator):
    def store_status(self, page, status):
        try:
            super().store_status(page, status)
        except Exception as e:
            log.error("Error updating status for Page %s: %s", pages.name_of(page), getattr(e, "reason", e))


if __name__ == "__main__":
    pages.main(Operator)
