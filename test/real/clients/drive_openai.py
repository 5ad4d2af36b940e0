"""openai for Python: prints what it got, as JSON. Arguments: address, key, and a request of a chat."""

import json
import sys

import openai

url, key, request = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
client = openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0)
chat = client.chat.completions


def chunks(stream):
    return [choice.delta.content or "" for chunk in stream for choice in chunk.choices]


def refusal(call):
    try:
        call()
    except openai.APIStatusError as error:
        return [type(error).__name__, error.code]


call = chat.create(**{**request, "max_tokens": 200}, tools=json.loads(sys.argv[4]), tool_choice="required").choices[0].message
responses = {"model": request["model"], "input": request["messages"], "max_output_tokens": 10, "extra_body": {"seed": 5}}
print(
    json.dumps(
        {
            "models": [model.id for model in client.models.list()],
            "whole": chat.create(**request).choices[0].message.content,
            "stream": "".join(chunks(chat.create(**request, stream=True))),
            "call": json.loads(call.tool_calls[0].function.arguments),
            "response": client.responses.create(**responses).output_text,
            "text": client.completions.create(model="base", prompt="The river", max_tokens=5, seed=5).choices[0].text,
            "embedding": client.embeddings.create(model="base", input="a river").data[0].embedding,
            "refusals": [
                refusal(lambda: chat.create(**{**request, "model": "none"})),
                refusal(lambda: chat.create(**request, extra_body={"prompt_logprobs": 99})),
                refusal(lambda: openai.OpenAI(base_url=f"{url}/v1", api_key="a-key-of-nobody", max_retries=0).models.list()),
            ],
        }
    )
)
