#!/usr/bin/env python3
"""Makes a golden folder: a tiny random MiniMax-H3 and what the reference implementations compute with it.

    python tests/golden/make/make_golden.py --seed 0 --out DIR [--ckpt DIR] [--tasks all|NAMES]
                                            [--vllm-omni DIR] [--variant A|B] [--any-versions]

`tests/golden/README.md` says what the folder holds and how to install what this needs.
"""
from __future__ import annotations

import argparse
import os
import sys
import warnings
from pathlib import Path

from tinyh3 import versions

# Nothing may come from a hub or a GPU: the folder has to depend on the arguments and the versions alone.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")
os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ.setdefault("TQDM_DISABLE", "1")
warnings.filterwarnings("ignore")


def arguments() -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=0, help="weight seed; the requests' own seed is this plus 1000")
    parser.add_argument("--variant", choices=("A", "B"), default="A", help="which requests, sizes and shifts")
    parser.add_argument("--tasks", default="all", help="comma list of case names and 'components', or 'all'")
    parser.add_argument("--out", type=Path, required=True, help="new or empty folder for the golden files")
    parser.add_argument("--ckpt", type=Path, help="new or empty folder to keep the tiny checkpoint in")
    parser.add_argument("--vllm-omni", type=Path, metavar="DIR", dest="vllm_omni",
                        help="the vllm_omni package of the unpacked wheel, if it is not installed")
    parser.add_argument("--any-versions", action="store_true",
                        help="go on with other package versions than pinned; every file then says so")
    return parser, parser.parse_args()


def main() -> int:
    parser, args = arguments()
    for folder in (args.out, args.ckpt):
        if folder is not None and folder.exists() and any(folder.iterdir()):
            parser.error(f"{folder} is not empty")
    vllm_omni = versions.vllm_omni_folder(args.vllm_omni)
    differing = versions.differences(vllm_omni)
    if differing and not args.any_versions:
        parser.error("these versions are not the pinned ones (--any-versions goes on): " + ", ".join(differing))
    # Imported only now: with other versions the import itself may fail, and less clearly than the check above.
    from tinyh3 import session

    try:
        session.make(args.seed, args.variant, args.tasks, args.out, args.ckpt, vllm_omni, bool(differing))
    except session.BadArguments as error:
        parser.error(str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main())
