"""llama.cpp's server with a draft model: the log-probabilities that it tells of its tokens, for two seeds.

python llama_cpp_logprobs.py URL of a server that speculates. It should print few zeros: a zero claims certainty.
"""

import json
import sys
import urllib.request

for seed in (7, 12345):
    asked = {"prompt": [5], "n_predict": 400, "temperature": 1, "top_k": 0, "top_p": 1, "min_p": 0, "seed": seed}
    body = json.dumps({**asked, "n_probs": 1, "return_tokens": True, "ignore_eos": True}).encode()
    request = urllib.request.Request(f"{sys.argv[1]}/completion", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as response:
        told = [one["logprob"] for one in json.load(response)["completion_probabilities"]]
    print("seed", seed, "tokens", len(told), "told as certain", told.count(0.0), "first", told[:3])
