"""Start llama.cpp's own HTTP server on a GGUF file, from the package xllamacpp (prebuilt; llama.cpp compiled in).

python llama_cpp_server.py MODEL.gguf PORT [DRAFT.gguf [--probabilistic]]; it is known by the name "toy".
"""

import signal
import sys

import xllamacpp

SLOTS, POSITIONS = 4, 8192

arguments = [one for one in sys.argv[1:] if one != "--probabilistic"]
params = xllamacpp.CommonParams()
params.model.path = arguments[0]
params.port = int(arguments[1])
params.model_alias = {"toy"}
params.n_parallel, params.n_ctx = SLOTS, SLOTS * POSITIONS
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
params.warmup = False
if len(arguments) > 2:
    kinds = xllamacpp.common_speculative_type
    params.speculative.types = [kinds.COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE]
    params.speculative.draft.mparams.path = arguments[2]
    params.speculative.draft.probabilistic = "--probabilistic" in sys.argv
    params.speculative.draft.cpuparams.n_threads = params.speculative.draft.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
signal.pause()
