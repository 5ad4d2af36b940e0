"""
TRL's two clients of a vLLM server, as they are: prints what they got, as JSON. Arguments: address, a prompt's words, another's token ids.

Their modules ask for torch, transformers and vllm; what is called here uses no more of these than their names.
"""

import importlib
import json
import logging
import sys
import types
from importlib.metadata import distribution

url, words, ids = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])


def stand_in(name, path=(), **members):
    module = types.ModuleType(name)
    module.__path__ = list(path)
    module.__dict__.update(members)
    sys.modules[name] = module
    return module


stand_in("torch", nn=stand_in("torch.nn", Module=object), Tensor=object, device=object)
stand_in("transformers", utils=stand_in("transformers.utils", get_json_schema=None))
stand_in("accelerate", logging=stand_in("accelerate.logging", get_logger=logging.getLogger))
# Packages without what they import for others.
for package in ["trl", "trl.generation", "trl.experimental", "trl.experimental.async_grpo"]:
    stand_in(package, [str(distribution("trl").locate_file(package.replace(".", "/")))])
own = importlib.import_module("trl.generation.vllm_client")
own.is_vllm_available = lambda **_: True
trainer = importlib.import_module("trl.experimental.async_grpo.vllm_client").VLLMClient(url)

draws = {"n": 2, "temperature": 1.0, "max_tokens": 4, "generation_kwargs": {"seed": 5}}


def refusal(call):
    try:
        call()
    except Exception as error:
        return str(error)


trainer.wait_for_server_ready()
client = own.VLLMClient(base_url=url)
messages = [{"role": "user", "content": words}]
transfer = {
    "init_weight_transfer_engine": lambda: trainer.init_weight_transfer_engine({"master_address": "x", "master_port": 1}),
    "start_weight_update": trainer.start_weight_update,
    "update_weights": lambda: trainer.update_weights({"names": [], "dtype_names": [], "shapes": []}),
    "finish_weight_update": trainer.finish_weight_update,
    "reset_prefix_cache": client.reset_prefix_cache,
}
print(
    json.dumps(
        {
            "model": client.model,
            "length": trainer.get_max_model_len(),
            "workers": client.get_world_size(),
            "ids": client.generate([ids], logprobs=2, **draws),
            "sampled": client.generate([ids], **draws),
            "words": client.generate([words, words], **draws),
            "chat": client.chat([messages], **draws),
            "features": client.generate([ids], features=[None], **draws),
            "scores": client.get_sequence_logprobs([ids], [2], top_logprobs=3),
            "communicator": refusal(client.init_communicator),
            "transfer": {name: refusal(call) for name, call in transfer.items()},
            "pause": refusal(trainer.pause),
            "load": refusal(lambda: trainer.load_lora_adapter("x", "adapter.gguf")),
            "unload": refusal(lambda: trainer.unload_lora_adapter("x")),
            "regex": refusal(lambda: client.generate([ids], structured_outputs_regex="a+")),
        }
    )
)
