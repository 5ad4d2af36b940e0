"""A task in Python: roman numerals. `--task python:examples/own_task.py`; docs/python-task.md goes through it."""

import random
import re

ID = "roman"
VERSION = "1"

VALUES = {1000: "M", 900: "CM", 500: "D", 400: "CD", 100: "C", 90: "XC", 50: "L", 40: "XL", 10: "X", 9: "IX", 5: "V", 4: "IV", 1: "I"}
LARGEST = {"tens": 99, "hundreds": 999, "thousands": 3999}


def roman(number):
    numeral = ""
    for value, letters in VALUES.items():
        numeral += letters * (number // value)
        number %= value
    return numeral


def tiers():
    return ["tens", "hundreds", {"id": "thousands", "trains": False}]


def problem(tier, seed):
    return {"number": random.Random(seed).randint(1, LARGEST[tier])}


def prompt(problem):
    return f"Write {problem['number']} as a Roman numeral. Reply with the numeral alone, in capital letters."


def verify(problem, reply):
    answer = reply.strip()
    if not re.fullmatch("[IVXLCDM]{1,20}", answer):
        return {"outcome": "fail", "category": "format", "reason": "The reply is not letters of a Roman numeral alone."}
    right = answer == roman(problem["number"])
    return {"outcome": "pass" if right else "fail", "answer": answer, "reason": f"{problem['number']} is another numeral."}


def solution(problem):
    return roman(problem["number"])


POLICIES = {"always X": lambda problem: "X"}
