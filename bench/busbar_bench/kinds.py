"""The kinds of results, and the module that knows each.

Each such module has ``title``, ``result_text``, ``markdown``, ``grid`` (head and rows of the page's
table; a cell is a text, or text, class and explanation) and ``verdicts`` (name, verdict and its
text, for everything that is held against a bar).
"""

from busbar_bench import across, micro, nccl, report, sharing, switches, training


def of(result):
    """The module of a result's kind."""
    if result["table"] == "micro":
        return micro
    if result["table"] == "sharing":
        return sharing
    if result["table"] == "across":
        return across
    if result["table"] == "nccl":
        return nccl
    if result["table"] in ("scaling", "horovod"):
        return training
    return switches if "micro" in result else report
