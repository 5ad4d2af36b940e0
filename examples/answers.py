"""A program that answers: `--backend "command:python3 examples/answers.py"`. docs/backends.md describes its lines."""

import json
import sys


def answer(messages, max_tokens):
    """The place for an agent, a chain or a client of a service."""
    question = messages[-1]["content"]
    print(f"asked in {len(question)} characters", file=sys.stderr)
    return f"I cannot say it in {max_tokens} tokens."


for line in sys.stdin:
    request = json.loads(line)
    try:
        reply = {"text": answer(request["messages"], request["maxTokens"])}
    except Exception as error:
        reply = {"error": str(error)}
    print(json.dumps({"id": request["id"], **reply}), flush=True)
