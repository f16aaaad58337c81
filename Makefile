# Two commands matter: make qualify, make test. Both build .venv on first use.
PYTHON ?= python3
PP3_SCRATCH ?= $(shell mktemp -d -t pp3-XXXXXX)
SCRATCH := $(PP3_SCRATCH)
RUN := env PYTHONDONTWRITEBYTECODE=1 TMPDIR=$(SCRATCH) MPLCONFIGDIR=$(SCRATCH)/matplotlib TRITON_CACHE_DIR=$(SCRATCH)/triton \
       HYPOTHESIS_STORAGE_DIRECTORY=$(SCRATCH)/hypothesis TRITON_DEFAULT_FP_FUSION=1
JOBS ?= 2
PYTEST := .venv/bin/python -P -m pytest -o cache_dir=$(SCRATCH)/pytest --basetemp=$(SCRATCH)/tests

.PHONY: qualify test test-older-triton test-newest-python test-gpu soak lint format evidence reference faults bench image sglang \
        vllm-check release-check clean
.DEFAULT_GOAL := qualify

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "PP3 needs Python 3.11 or newer: make PYTHON=python3.11")'
	$(PYTHON) -m venv .venv
	.venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[kernels,image,report,dask,dev]'
	touch .venv/ready

qualify: .venv/ready  ## run the default campaign (ARGS="--requests 100000" passes options)
	.venv/bin/pp3 qualify $(ARGS)

test: .venv/ready  ## the suite a CPU can run, in JOBS processes; T=pattern picks
	.venv/bin/python -m compileall -q --invalidation-mode checked-hash pp3 harness kernels targets # or each process a test starts does
	$(RUN) CUDA_VISIBLE_DEVICES= $(PYTEST) -m 'not gpu and not soak' -n $(JOBS) --dist loadfile $(if $(T),-k '$(T)')

test-older-triton: .venv/ready  ## kernels in the interpreter of the oldest triton that is taken
	$(RUN) .venv/bin/python -P tests/older_triton.py $(SCRATCH)/older-triton

test-newest-python: .venv/ready  ## what needs no torch, on the newest Python of this machine; a skip is named
	$(RUN) tests/newest_python.sh $(SCRATCH)

test-gpu: .venv/ready  ## on a GPU, where a skip is a failure
	$(RUN) PP3_TEST_GPU=1 $(PYTEST) -m gpu

soak: .venv/ready  ## long enumerations
	$(RUN) CUDA_VISIBLE_DEVICES= $(PYTEST) -m soak

lint: .venv/ready
	.venv/bin/ruff check --cache-dir $(SCRATCH)/ruff .
	.venv/bin/ruff format --cache-dir $(SCRATCH)/ruff --check .
	.venv/bin/mypy --cache-dir $(SCRATCH)/mypy

format: .venv/ready
	.venv/bin/ruff check --cache-dir $(SCRATCH)/ruff --fix .
	.venv/bin/ruff format --cache-dir $(SCRATCH)/ruff .

evidence: .venv/ready  ## rewrite the README's table of committed evidence
	.venv/bin/pp3 evidence --write README.md

reference: .venv/ready  ## rewrite docs/reference from the code
	$(RUN) .venv/bin/python -P -m pp3.harness.reference --write docs/reference

faults: .venv/ready  ## plant every known fault; fails if one escapes
	$(RUN) .venv/bin/pp3 faults --jobs 2

bench: .venv/ready  ## time the CPU's work as multiples of a fixed loop, against the stored ones (ARGS=--write stores); the wire
	$(RUN) CUDA_VISIBLE_DEVICES= .venv/bin/python -P tests/benchmark.py --out $(SCRATCH)/benchmark.json $(ARGS)
	$(RUN) .venv/bin/python -P -m pp3.harness.transport.bench
	$(RUN) .venv/bin/python -P -m pp3.harness.transport.latency

image: .venv/ready  ## fetch the sampler files of a pinned vLLM into .image (VERSION=0.33.0, CACHE=folder)
	$(RUN) .venv/bin/python -P -m pp3.harness.image.fetch $(VERSION) $(if $(CACHE),--cache '$(CACHE)')

sglang: .venv/ready  ## fetch SGLang's pinned verifier file into .image
	$(RUN) .venv/bin/python -P -m pp3.harness.samplers.sglang_file $(VERSION)

vllm-check: .venv/ready  ## find vLLM 0.28.0's fault and not in 0.29.0, in the interpreter (make image VERSION=x fetches)
	$(RUN) TRITON_INTERPRET=1 CUDA_VISIBLE_DEVICES= .venv/bin/python -P -m pp3.harness.samplers.vllm_check

release-check: .venv/ready lint test  ## a stale receipt is an error here
	.venv/bin/pp3 evidence --check

clean:
	rm -rf .venv build pp3.egg-info
