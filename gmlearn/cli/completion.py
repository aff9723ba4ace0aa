"""``gmlearn completion``: what a shell needs to complete commands, options and names."""

from __future__ import annotations

import argparse
from typing import Any

from gmlearn.cli.console import OK

EPILOG = """examples:
  eval "$(gmlearn completion bash)"             in ~/.bashrc
  eval "$(gmlearn completion zsh)"              in ~/.zshrc, after compinit
  gmlearn completion fish > ~/.config/fish/completions/gmlearn.fish"""
BASH = """_gmlearn() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" words
  case "$before" in
    --solver) words="{solvers}" ;;
    *) case "${{COMP_WORDS[1]}}" in
{cases}
      *) words="{commands}" ;;
    esac ;;
  esac
  [ "$COMP_CWORD" -eq 1 ] && words="{commands}"
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _gmlearn gmlearn
"""


def add_commands(commands: Any, **options: Any) -> None:
    """Add ``completion`` to the parser."""
    parser = commands.add_parser(
        "completion",
        help="completion for your shell",
        epilog=EPILOG,
        **options,
        description="Print a script with which a shell completes commands, options and names.",
    )
    parser.add_argument("shell", choices=["bash", "zsh", "fish"])
    parser.set_defaults(function=print_completion, commands=commands)


def print_completion(arguments: argparse.Namespace) -> int:
    """The script for one shell."""
    words = command_words(arguments.commands)
    solvers = " ".join(names("solver"))
    if arguments.shell == "fish":
        for command, its in words.items():
            print(f"complete -c gmlearn -f -n __fish_use_subcommand -a {command}")
            seen = f"-n '__fish_seen_subcommand_from {command}'"
            print(f"complete -c gmlearn {seen} -a '{' '.join(its)}'")
        print(f"complete -c gmlearn -n '__fish_prev_arg_in --solver' -f -a '{solvers}'")
        return OK
    cases = "\n".join(f'      {name}) words="{" ".join(its)}" ;;' for name, its in words.items())
    if arguments.shell == "zsh":
        print("autoload -U +X bashcompinit && bashcompinit")
    print(BASH.format(solvers=solvers, cases=cases, commands=" ".join(words)), end="")
    return OK


def command_words(commands: Any) -> dict[str, list[str]]:
    """What may follow each command: its options, and the names that it takes."""
    words = {
        name: sorted(o for o in parser._option_string_actions if o.startswith("--"))
        for name, parser in commands.choices.items()
    }
    words["run"] += names("experiment")
    words["check"] += sorted({owner for _, _, owner in known()})
    return words


def names(kind: str) -> list[str]:
    """The registered names of a kind."""
    return sorted(name for its_kind, name, _ in known() if its_kind == kind)


def known() -> list[tuple[str, str, str]]:
    """(kind, name, owner) of everything that is registered, without importing plugins that say
    so themselves.
    """
    from gmlearn.registry import registry

    return registry.names()
