"""llm: its command, in this process; prints what it got, as JSON. Arguments: address, key, a request of a chat, and a folder for it."""

import json
import os
import sys
from pathlib import Path

url, key, request, folder = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), Path(sys.argv[4])
os.environ["LLM_USER_PATH"] = str(folder)
settings = {"model_name": request["model"], "api_base": f"{url}/v1", "api_key_name": "mine"}
settings |= {"supports_schema": True, "supports_tools": True}
models = [{"model_id": "mine", **settings}, {"model_id": "mine-text", **settings, "completion": True}]
folder.mkdir(parents=True, exist_ok=True)
(folder / "extra-openai-models.yaml").write_text(json.dumps(models))

from click.testing import CliRunner  # noqa: E402
from llm.cli import cli  # noqa: E402

TOOL = """
def weather() -> str:
    "Tells the weather"
    return "sun"
"""


def command(*arguments, model="mine", tokens=10):
    options = ["-o", "max_tokens", str(tokens), "-o", "seed", "5", "--key", key]
    result = CliRunner().invoke(cli, ["prompt", *arguments, "-m", model, *options])
    if result.exit_code != 0:
        raise RuntimeError(f"{arguments}: {result.output}") from result.exception
    return result.output.removesuffix("\n")


words = request["messages"][0]["content"]
print(
    json.dumps(
        {
            "stream": command(words),
            "whole": command(words, "--no-stream"),
            "text": command(words, model="mine-text"),
            "again": command("And another one.", "-c"),
            "object": json.loads(command(words, "--schema", "large bool", tokens=60)),
            "tool": command(words, "--functions", TOOL, "-n"),
        }
    )
)
