"""Where and how the pieces of a campaign are run, as the command line says."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pp3.harness.errors import CampaignError
from pp3.harness.operations import stall
from pp3.harness.operations.engines import Engine, gpus, lanes, serial
from pp3.harness.operations.folder import Folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Where and how the pieces are run, as the command line says."""

    folder: Path | None
    resume: bool
    shard: str | None
    gpus: str | None
    dask: str | None
    stall_timeout: int | None = None  # seconds

    @property
    def asked(self) -> bool:
        """Whether a campaign in pieces is asked for."""
        return bool(
            self.folder or self.resume or self.shard or self.gpus or self.dask or self.stall_timeout is not None
        )

    def check(self) -> None:
        """CampaignError for options that do not go together."""
        if self.gpus and self.dask:
            raise CampaignError("--gpus and --dask exclude each other: with Dask, start one worker a GPU")
        stall.check(self.stall_timeout)
        for option, value in (("--resume", self.resume), ("--shard", self.shard)):
            if value and self.folder is None:
                raise CampaignError(f"{option} needs --dir DIR, the folder of the campaign")

    def open(self) -> Folder:
        """The folder; by default a new one among the runs."""
        from pp3.harness.evidence.moment import stamp, utc
        from pp3.harness.evidence.store import open_store
        from pp3.harness.operations.campaign import open_folder

        path = self.folder or open_store(None).home / "campaigns" / stamp(utc(datetime.now(UTC)))
        return open_folder(path, self.resume, self.shard is not None)

    def engine(self, apart: bool, jobs: int = 1) -> Engine:
        """What runs the pieces; `apart` if Triton's interpreter runs some of them, in processes of their own."""
        if self.dask:
            from pp3.harness.operations.dask_engine import connect

            return connect(self.dask)
        if self.gpus:
            return lanes(gpus(self.gpus))
        return lanes([""] * jobs) if jobs > 1 else serial(apart)
