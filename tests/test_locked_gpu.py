"""pp3_locked.sh and nvidia-smi: a GPU in use is refused, the power limit is read and never set."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from locked_place import Place, placed, smi, stand_in

from pp3.harness.errors import Exit


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy whose command is the stand-in."""
    return stand_in(tmp_path_factory.mktemp("copy"))


@pytest.fixture
def place(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Nothing of it is left running; a short path, for a socket's name is short."""
    with placed(tree, tmp_path_factory.mktemp("l")) as place:
        yield place


def test_a_gpu_in_use_is_refused(place: Place) -> None:
    """69, with the process that uses it, which is left alone; another GPU may be chosen."""
    path = smi(place, apps="GPU-bbbb, 4242, python3 train.py, --x")
    code, _, err = place.run("--oracle", "0", **path)
    assert (code, "process 4242 (python3 train.py, --x) on GPU-bbbb" in err) == (Exit.UNAVAILABLE, True)
    assert place.run("--oracle", "0", CUDA_VISIBLE_DEVICES="0", **path)[0] == 0
    assert place.run("--oracle", "0", CUDA_VISIBLE_DEVICES="GPU-b", **path)[0] == Exit.UNAVAILABLE
    code, _, err = place.run("--oracle", "0", CUDA_VISIBLE_DEVICES="MIG-1", **path)
    assert (code, "CUDA_VISIBLE_DEVICES=MIG-1: nvidia-smi lists no such GPU" in err) == (Exit.UNAVAILABLE, True)
    assert place.run("--oracle", "0", CUDA_VISIBLE_DEVICES="-1", **path)[0] == 0


def test_the_power_limit_is_read_recorded_and_never_set(place: Place) -> None:
    """Another one than asked for is refused; without being asked it is recorded."""
    assert place.run("--oracle", "0", **smi(place))[0] == 0
    assert place.status()["gpus"] == [{"name": "NVIDIA H200", "powerLimitW": "700.00"}] * 2
    assert place.run("--oracle", "0", PP3_POWER_W="700", **smi(place))[0] == 0
    code, _, err = place.run("--oracle", "0", PP3_POWER_W="500", **smi(place))
    assert (code, "has a power limit of 700.00 W, PP3_POWER_W asks for 500" in err) == (Exit.UNAVAILABLE, True)
    code, _, err = place.run("--oracle", "0", PP3_POWER_W="500", **smi(place, power="[N/A]"))
    assert (code, "a power limit of [N/A] W" in err) == (Exit.UNAVAILABLE, True)


def test_an_nvidia_smi_that_fails_is_named(place: Place) -> None:
    """As after a driver was replaced."""
    code, _, err = place.run("--oracle", "0", **smi(place, code=18))
    assert (code, "nvidia-smi --query-gpu=index,uuid,name,power.limit ended with 18" in err) == (69, True)


@pytest.mark.gpu
def test_the_real_nvidia_smi_is_read() -> None:
    """On a machine that has one."""
    from pp3.harness.operations.gpu import check

    [gpu, *_] = check("")
    assert gpu.uuid.startswith("GPU-")
    assert float(gpu.power_w) > 0
