"""Reads one JSON object a line, one for each run of a peer, and prints medians and their ratios to ours."""

import json
import statistics
import sys

FIGURES = ["push_per_s", "drain_per_s", "idle_p50_ms", "idle_p99_ms"]
OURS = "clapboard"

runs = {}
for line in sys.stdin:
    if line.startswith("{"):
        run = json.loads(line)
        runs.setdefault(run["peer"], []).append(run)

medians = {peer: [statistics.median(run[figure] for run in of_peer) for figure in FIGURES] for peer, of_peer in runs.items()}
ours = next(medians[peer] for peer in medians if peer.startswith(OURS))
print(f"{'median of ' + str(max(map(len, runs.values()))) + ' runs':32}" + "".join(f"{figure:>24}" for figure in FIGURES))
for peer, figures in medians.items():
    # Above 1 is worse for us where more is better, and better where less is.
    cells = [f"{figure:.2f} ({figure / own:.2f}x ours)" for figure, own in zip(figures, ours)]
    print(f"{peer:32}" + "".join(f"{cell:>24}" for cell in cells))
