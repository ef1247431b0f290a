"""The program: what its help knows, and how it takes the settings that it is given."""

import functools
import os
import re
import subprocess

from conftest import PROGRAM

# Variables that others read: the runtime that gives a container its GPU.
FOREIGN = re.compile(r"NVIDIA_\w+")


@functools.cache
def help_of(command):
    done = subprocess.run([PROGRAM, *command.split(), "--help"], capture_output=True, text=True)
    assert done.returncode == 0, f"clapboard has no {command}"
    return done.stdout


def variables_of(command):
    return set(re.findall(r"\[env: (\w+)", help_of(command)))


def unknown(command, variables):
    """The variables that the command does not know, of those that are its own to know."""
    return {v for v in variables - variables_of(command) if not FOREIGN.fullmatch(v)}


def shared():
    """What belongs to the deployment is given to all: a process passes over what is not for it."""
    return set.union(*(variables_of(c) for c in ("api", "worker", "scheduler")))


def outcome(arguments, variables, folder):
    """The exit code of a command with nothing but these variables, and what it said."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder)} | variables
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, env=environment, cwd=folder, timeout=60)
    return done.returncode, done.stdout + done.stderr


@functools.cache
def tiny(folder):
    """A tiny checkpoint below a folder."""
    made = f"{folder}/tiny"
    subprocess.run([PROGRAM, "checkpoint", "tiny", "--out", made], check=True, capture_output=True)
    return made
