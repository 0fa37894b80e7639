#!/usr/bin/python3
"""The correct operator, but its watch threads are not restarted.

Bug: a broken or expired watch is an exception, which ends the thread. The process keeps running, seems healthy, and
receives no further events.
"""

import os
import sys

from kubernetes import watch

sys.dont_write_bytecode = True
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "correct"))
import pages  # noqa: E402


class Operator(pages.Operator):
    def watch(self, list_):
        for event in watch.Watch(return_type=object).stream(list_):
            self.queue.add(event["object"]["metadata"]["name"])


if __name__ == "__main__":
    pages.main(Operator)
