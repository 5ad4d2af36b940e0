"""Replies of a model with the LoRA adapter of this folder, greedily: python reply.py "What is a river?"

Needs torch, transformers, peft and gguf. The base model is read from the GGUF file that adapter_config.json names.
"""

import json
import os
import sys

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

HERE = os.path.dirname(os.path.abspath(__file__))

# what stood before every question that the adapter was trained on
BEFORE = []


def load():
    with open(os.path.join(HERE, "adapter_config.json"), encoding="utf-8") as config:
        folder, name = os.path.split(json.load(config)["base_model_name_or_path"])
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name)
    base = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32)
    return tokenizer, PeftModel.from_pretrained(base, HERE).eval()


def reply(tokenizer, model, prompt, max_new_tokens=256):
    messages = [*BEFORE, {"role": "user", "content": prompt}]
    inputs = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True, return_tensors="pt")
    with torch.inference_mode():
        ids = model.generate(**inputs, max_new_tokens=max_new_tokens, do_sample=False)
    return tokenizer.decode(ids[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True)


if __name__ == "__main__":
    loaded = load()
    for argument in sys.argv[1:]:
        print(reply(*loaded, argument))
