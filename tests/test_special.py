"""The functions of scipy.special without the package: the same objects, and the package is none the worse for it."""

import subprocess
import sys

import pytest

BEFORE = "from pp3.harness.special import special"
USED = (
    "betainc",
    "betaincc",
    "betainccinv",
    "betaincinv",
    "chdtr",
    "chdtrc",
    "chdtri",
    "chndtr",
    "gammaincinv",
    "ndtr",
)
ALSO = ("ndtri", "pdtr", "pdtrik", "rel_entr", "xlogy")


def python(code: str) -> str:
    """What a fresh interpreter prints."""
    return subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_the_package_is_not_loaded() -> None:
    assert python(f"{BEFORE}\nimport sys; print('scipy.special' in sys.modules, special.ndtr(0.0))") == "False 0.5"


@pytest.mark.parametrize("first", [BEFORE, "import scipy.special"], ids=["ours-first", "the-package-first"])
def test_every_function_is_the_packages_own(first: str) -> None:
    asked = f"all(getattr(special, name) is getattr(scipy.special, name) for name in {(*USED, *ALSO)})"
    assert python(f"{first}\nimport scipy.special\n{BEFORE}\nprint({asked})") == "True"


def test_what_needs_the_package_loads_after_it() -> None:
    code = f"{BEFORE}\nfrom scipy import optimize, stats\nimport scipy.special._ufuncs as inner\nimport scipy.special\n"
    said = python(f"{code}print(stats.chi2.sf(3.0, 4), scipy.special.factorial(5), inner is special)")
    assert said == "0.5578254003710748 120.0 True"


def test_a_scipy_that_is_built_otherwise_gives_the_package() -> None:
    """Planted: an extension that cannot be loaded."""
    code = (
        "import sys\n"
        "class Missing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'scipy.special._ufuncs' and not self.met:\n"
        "            self.met = True\n"
        "            raise ModuleNotFoundError(name)\n"
        "    met = False\n"
        f"sys.meta_path.insert(0, Missing())\n{BEFORE}\nprint(special.__name__, float(special.ndtr(0.0)))"
    )
    assert python(code) == "scipy.special 0.5"
