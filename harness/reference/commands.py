"""docs/reference/cli.md: every command, argument and option, from the command line itself.

Nothing of click's own layout is used, so that neither the terminal nor click's version shows.
"""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import click

from pp3.harness import cli
from pp3.harness.reference.tables import code, table

HEAD = """\
# Commands

Every command of `pp3`, with every argument and option. Every command takes `--help`; every exit code is in
[exit-codes.md](../exit-codes.md). From a checkout without installation, `python3 -m pp3.harness.cli` is `pp3`.

"""
ALONE = """
## Modules that run by themselves

`python3 -m NAME`; those that take options say so under `--help`.

"""
GUARD = re.compile(r'^if __name__ == "__main__":', re.MULTILINE)
INNER = ("child", "supervise", "proxy_process", "cli")  # begun by others, or pp3 itself
TAKES = {"path": "PATH", "integer": "INTEGER", "float": "NUMBER", "text": "TEXT", "filename": "PATH"}


def page() -> str:
    """The page."""
    commands = sorted(cli.commands.commands.items())
    listed = table(
        ("command", "what it does"), [(f"[`pp3 {name}`](#pp3-{name})", _first(one)) for name, one in commands]
    )
    sections = "".join(_section(f"pp3 {name}", one) for name, one in commands)
    return HEAD + listed + sections + ALONE + table(("module", "what it is"), _modules())


def _modules() -> Iterator[tuple[str, str]]:
    """Of the package's files those that are run, with the first sentence of what they say of themselves."""
    top = Path(cli.__file__).parent
    for path in sorted(top.rglob("*.py")):
        text = path.read_text("utf-8")
        if GUARD.search(text) and path.stem not in INNER:
            said = (ast.get_docstring(ast.parse(text)) or "").split("\n\n")[0]
            parts = [part for part in path.relative_to(top).with_suffix("").parts if part != "__main__"]
            yield code(".".join(("pp3.harness", *parts))), said


def _section(path: str, command: click.Command) -> str:
    said = f"\n## {path}\n\n{inspect.cleandoc(command.help or '')}\n"
    if isinstance(command, click.Group):
        return said + "".join(_section(f"{path} {name}", one) for name, one in sorted(command.commands.items()))
    arguments = [one for one in command.params if isinstance(one, click.Argument)]
    options = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
    usage = " ".join([path, *(["[OPTIONS]"] if options else []), *(_shown(one) for one in arguments)])
    said += f"\n```text\n{usage}\n```\n"
    if options:
        rows = [(_names(one), code(_takes(one)), _default(one), one.help or "") for one in options]
        said += "\n" + table(("option", "takes", "default", "what it says"), rows)
    return said


def _first(command: click.Command) -> str:
    return inspect.cleandoc(command.help or "").split("\n\n")[0]


def _shown(argument: click.Argument) -> str:
    if argument.metavar:
        return argument.metavar
    name = (argument.name or "").upper() + ("..." if argument.nargs == -1 else "")
    return name if argument.required else f"[{name}]"


def _names(option: click.Option) -> str:
    return ", ".join(code(name) for name in (*option.opts, *option.secondary_opts))


def _takes(option: click.Option) -> str:
    """What stands behind it; a flag takes nothing."""
    if option.is_flag:
        return ""
    if isinstance(option.type, click.Choice):
        return "|".join(option.type.choices)
    taken = option.metavar or TAKES[option.type.name]
    return f"{taken}, repeated" if option.multiple else taken


def _default(option: click.Option) -> str:
    """What is told of it; where the help tells it, the help does."""
    if option.required:
        return "required"
    told = option.show_default and isinstance(option.default, (str, int, float))
    return code(str(option.default)) if told else ""
