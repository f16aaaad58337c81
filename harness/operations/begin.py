"""Begin a campaign in pieces: everything that its options may have wrong is looked at before a counter is spent."""

from pathlib import Path
from typing import Any

from pp3.harness.evidence import store
from pp3.harness.operations.campaign import parse_shard
from pp3.harness.operations.engines import Engine
from pp3.harness.operations.folder import Folder, same
from pp3.harness.operations.found import open_out
from pp3.harness.operations.where import Where


def begin(
    where: Where,
    folder: Folder,
    wanted: dict[str, Any],
    counter: int | None,
    pieces: int,
    out: Path | None,
    apart: bool,
    jobs: int = 1,
) -> tuple[dict[str, Any], Engine, store.Store]:
    """Write down what is run: `wanted`, a manifest that lacks its counter. What is run, who by, and where to.

    PP3Error of the range of --shard, of the engine's address, of --out or of --dir: then nothing is left behind but,
    of the last two, an empty folder.
    """
    parse_shard(where.shard, pieces)
    engine = where.engine(apart, jobs)
    try:
        folders = open_out(out, wanted)
        folder.make()
        number, how = store.claim_counter(store.open_store(None), counter)
        mine = wanted | {"counter": number, "chosen": how}
        manifest = folder.begin(mine)
        same(manifest, mine, str(folder.path))
    except BaseException:
        engine.close()
        raise
    return manifest, engine, folders
