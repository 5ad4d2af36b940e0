"""langchain-openai: prints what it got, as JSON. Arguments: address, key, and a request of a chat."""

import json
import sys

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from pydantic import BaseModel
from typing import Literal

url, key, request = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
words = request["messages"][0]["content"]


def model(**more):
    settings = {"model": request["model"], "max_tokens": 10, "seed": 5, "temperature": 1, **more}
    return ChatOpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0, **settings)


class Size(BaseModel):
    """How large a river is."""

    large: bool


class weather(BaseModel):
    """Tells the weather of a city."""

    city: Literal["Rome", "Oslo"]


tools = model(max_tokens=200).bind_tools([weather], tool_choice="required")
asked = [HumanMessage(words)]
called = tools.invoke(asked)
after = model().invoke([*asked, called, *(ToolMessage("sun", tool_call_id=call["id"]) for call in called.tool_calls)])
usage = model().invoke(words).usage_metadata
print(
    json.dumps(
        {
            "whole": model().invoke(words).content,
            "stream": "".join(chunk.content for chunk in model(stream_usage=True).stream(words)),
            "batch": [reply.content for reply in model().batch([words, words])],
            "object": model(max_tokens=60).with_structured_output(Size, method="json_schema").invoke(words).large,
            "calls": [call["args"] for call in called.tool_calls],
            "after": after.content,
            "usage": usage["output_tokens"],
            "logprobs": [entry["logprob"] for entry in model(logprobs=True).invoke(words).response_metadata["logprobs"]["content"]],
            "embedding": OpenAIEmbeddings(
                model="base", base_url=f"{url}/v1", api_key=key, check_embedding_ctx_length=False
            ).embed_query("a river"),
        }
    )
)
