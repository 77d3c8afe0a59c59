"""Every `kipwatch` command in a block of the documents is one that its own parser takes."""

from __future__ import annotations

import importlib
import shlex
from collections.abc import Iterator

import pytest

from streaming.commands.main import COMMANDS, OneLineParser
from streaming.user_error import UserError
from tests.repository.test_documents import DOCUMENTS, text_of

PROGRAMS = ("kipwatch", ".venv/bin/kipwatch")
FENCE, COMMANDS_FENCES = "```", ("```", "```sh")


def shown() -> Iterator[tuple[str, list[str]]]:
    """The words after the program of each command, and the document that shows it."""
    for document in DOCUMENTS:
        for line in code_lines(text_of(document)):
            program, *words = words_of(line) or [""]
            if program in PROGRAMS:
                yield str(document), words


def code_lines(text: str) -> Iterator[str]:
    """The lines of the blocks that are not marked as another language than the shell's."""
    fence = None
    for line in text.splitlines():
        if line.strip().startswith(FENCE):
            fence = None if fence else line.strip()
        elif fence in COMMANDS_FENCES or (fence is None and line.startswith("    ")):
            yield line


def words_of(line: str) -> list[str]:
    """The words of the first command of a line, up to a pipe, a redirection or a comment."""
    try:
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words = list(lexer)
    except ValueError:
        return []
    ends = [place for place, word in enumerate(words) if set(word) <= set("();<>|&")]
    return words[: min(ends, default=len(words))]


def refusal(words: list[str]) -> str:
    """What the command's parser says against its words, empty if nothing."""
    name, *flags = words
    if name.startswith("-"):
        return "" if words in (["--version"], ["--help"]) else f"there is no flag {name}"
    if name not in COMMANDS:
        return f"there is no command {name}"
    parser = OneLineParser(prog=name, add_help=False, allow_abbrev=False)
    parser.add_argument("-h", "--help", action="store_true")
    importlib.import_module(f"streaming.commands.{name}").add_arguments(parser)
    try:
        parser.parse_args(flags)
    except UserError as error:
        return str(error)
    return ""


def test_the_flags_of_the_shown_commands_exist() -> None:
    commands = list(shown())
    assert len(commands) > 40
    assert [(document, words, said) for document, words in commands if (said := refusal(words))] == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("kipwatch check --quiet a.pcap || echo no", ["kipwatch", "check", "--quiet", "a.pcap"]),
        ("kipwatch rules   # the rules", ["kipwatch", "rules"]),
        ("kipwatch completion bash > file", ["kipwatch", "completion", "bash"]),
        ("it's", []),
    ],
)
def test_a_command_ends_where_the_shell_ends_it(line: str, expected: list[str]) -> None:
    assert words_of(line) == expected


@pytest.mark.parametrize("words", [["chek"], ["--verison"], ["feed", "--port", "9092"], ["completion", "sh"]])
def test_a_mistake_is_noticed(words: list[str]) -> None:
    assert refusal(words)
