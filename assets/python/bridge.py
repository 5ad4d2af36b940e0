"""The Python side of `--task python:MODULE[:NAME]`, standard library only.

Calls come in on standard input, one JSON object a line; each is answered by one line on what was standard output when the process
began. The task's own prints go to standard error. docs/python-task.md says what a module needs; this file finds it, calls it, and holds
two adapters, for the packages `reasoning_gym` and `verifiers`.
"""

import asyncio
import datetime
import difflib
import faulthandler
import hashlib
import importlib
import importlib.metadata
import importlib.util
import inspect
import json
import math
import os
import queue
import random
import re
import select
import signal
import sys
import sysconfig
import threading
import time
import traceback
from pathlib import Path

# What is imported from here on belongs to the task.
OWN_MODULES = frozenset(sys.modules)

# A module that prints, or reads its standard input, must not meet the protocol; a child that it starts inherits neither.
REQUESTS = os.fdopen(os.dup(0), "rb")
REPLIES = os.fdopen(os.dup(1), "wb")
# of its own, whatever a module makes of sys.stdout and sys.stderr
COMPLAINTS = os.fdopen(os.dup(2), "w", buffering=1, errors="backslashreplace")
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
os.dup2(2, 1)
sys.stdout = os.fdopen(os.dup(2), "w", buffering=1, errors="backslashreplace")

LARGEST_INTEGER = 2**53 - 1
LARGEST_MESSAGE = 500
MEMORY_BYTES = 4 * 2**30
CALL_SECONDS = 5.0
DEEPEST = 200
LOAD_SECONDS = 60.0
MOST_TASKS = 10_000
STANDARD_LIBRARY = tuple(Path(sysconfig.get_path(kind)).resolve() for kind in ("stdlib", "platstdlib"))


class Wrong(Exception):
    """A member of the task that is missing, raises where it must not, or returns something else than it should."""

    def __init__(self, member, message):
        super().__init__(message)
        self.member = member


class Refused(Exception):
    """The task is not to be had here; `code` is one of the error codes of isopro-native."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def shown(error):
    try:
        text = str(error)
    except BaseException:
        text = ""
    return f"{type(error).__name__}: {text}"[:LARGEST_MESSAGE]


# places that an exception was told of
TOLD = set()


def tell(error):
    """Prints where an exception came from, once for each place; this file is no part of it."""
    said = traceback.TracebackException.from_exception(error, limit=-3)
    said.stack[:] = [frame for frame in said.stack if frame.filename != __file__]
    place = (type(error).__name__, *((frame.filename, frame.lineno) for frame in said.stack[-1:]))
    if place not in TOLD:
        TOLD.add(place)
        print("".join(said.format()) + "(further errors from this line are not shown)", file=COMPLAINTS)


def call(member, function, *arguments):
    try:
        return function(*arguments)
    except (Wrong, Refused):
        raise
    except BaseException as error:
        tell(error)
        raise Wrong(member, f"raised {shown(error)}") from error


def as_json(member, value, otherwise=None):
    """The value as JSON would give it back; what would come back as something else is refused, or made JSON by `otherwise`."""

    def convert(other):
        for method in ("item", "tolist"):  # scalars and arrays of numpy
            try:
                return getattr(other, method)()
            except Exception:
                continue
        if otherwise is not None:
            return otherwise(other)
        raise TypeError(f"{type(other).__name__} is not JSON")

    def large(other, depth=0):
        if depth > DEEPEST:
            raise ValueError(f"it is nested more than {DEEPEST} deep")
        if isinstance(other, (dict, list)):
            return any(large(member, depth + 1) for member in (other.values() if isinstance(other, dict) else other))
        return isinstance(other, int) and abs(other) > LARGEST_INTEGER

    try:
        plain = json.loads(json.dumps(value, allow_nan=False, default=convert))
        beyond = large(plain)
    except Exception as error:
        raise Wrong(member, f"returned something that is not JSON: {shown(error)}") from error
    if beyond:
        raise Wrong(member, "returned an integer beyond 2^53, which JSON does not keep; write it as a string")
    return plain


def takes(function, count):
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # built in, without a signature
        return True
    return True


def seed_generators(seed):
    """So that a module that draws from a global generator gives the same each time."""
    random.seed(seed)
    generators = getattr(sys.modules.get("numpy"), "random", None)
    if generators is not None:
        generators.seed(seed % 2**32)


# ---- a module of the user's own


class OwnTask:
    def __init__(self, holder, name, check):
        self.holder = holder
        self.id = getattr(holder, "ID", name)
        self.version = getattr(holder, "VERSION", None)
        self.verify_seconds = getattr(holder, "VERIFY_SECONDS", None)
        self.policies = getattr(holder, "POLICIES", {})
        self.verify = getattr(holder, "verify", None)
        if check:  # of rows of data, which have everything else
            if not callable(self.verify):
                raise Wrong("verify", "is missing: a check needs the function verify(problem, reply)")
            self.tiers, self.problem, self.solution = lambda: ["all"], None, None
            return
        for member in ("tiers", "problem", "prompt", "verify"):
            if not callable(getattr(holder, member, None)):
                raise Wrong(member, "is missing: the module needs the functions tiers, problem, prompt and verify")
        self.tiers = holder.tiers
        self.problem = holder.problem
        self.solution = getattr(holder, "solution", None)

    def prompt(self, problem, style):
        return self.holder.prompt(problem, style) if takes(self.holder.prompt, 2) else self.holder.prompt(problem)


def own_task(module, name, check):
    holder = module
    for part in name.split(".") if name else []:
        if not hasattr(holder, part):
            raise Refused("TASK_UNKNOWN", f"the module {module.__name__} has no {name}")
        holder = getattr(holder, part)
    if isinstance(holder, type):
        holder = call(name, holder)
    return OwnTask(holder, f"{module.__name__}:{name}" if name else module.__name__, check)


# ---- adapters

def parts_of(text, between):
    """What stands between a character wherever that is in no list, object or text of JSON."""
    parts, depth = [""], 0
    for piece in re.findall(r'"(?:[^"\\]|\\.)*"|.', text, re.DOTALL):
        depth += (piece in "[{") - (piece in "]}")
        if piece == between and depth <= 0:
            parts.append("")
        else:
            parts[-1] += piece
    return parts


def settings_of(text):
    """`max_terms=3,negative=true` as keyword arguments; a value is JSON where it can be read as such."""
    settings = {}
    for part in parts_of(text, ",") if text else []:
        key, equals, value = part.partition("=")
        if not (equals and key.isidentifier()):
            raise Refused("TASK_UNKNOWN", f"settings are written key=value,key=value, not {part!r}")
        try:
            settings[key] = json.loads(value)
        except ValueError:
            settings[key] = value
    return settings


class ReasoningGym:
    """`python:reasoning_gym:DATASET[:SETTINGS[/SETTINGS…]]`: each group of settings of the data set's configuration is a tier."""

    policies = {}
    verify_seconds = None

    def __init__(self, module, name):
        self.module = module
        self.dataset, _, settings = name.partition(":")
        self.id = f"reasoning_gym:{name}"
        self.version = importlib.metadata.version("reasoning-gym")
        self.settings = {part or "default": settings_of(part) for part in parts_of(settings, "/")}
        self.scorers = {}
        self.examples = {}
        chosen = [key for settings in self.settings.values() for key in settings if key in ("seed", "size")]
        if chosen:
            raise Refused("TASK_UNKNOWN", f"{chosen[0]} is no setting: each problem has its own")
        known = sorted(module.factory.DATASETS)
        if self.dataset not in known:
            meant = difflib.get_close_matches(self.dataset, known, 1)
            near = f"; did you mean {meant[0]}?" if meant else f"; it has {', '.join(known)}"
            raise Refused("TASK_UNKNOWN", f"reasoning_gym has no data set {self.dataset!r}{near}")
        for tier in self.settings:
            self.scorer(tier)

    def scorer(self, tier):
        if tier not in self.scorers:
            try:
                self.scorers[tier] = self.module.create_dataset(self.dataset, **self.settings[tier], seed=0, size=1)
            except (AssertionError, TypeError, ValueError) as error:
                raise Refused("TASK_UNKNOWN", f"reasoning_gym makes no {self.dataset} with {tier}: {shown(error)}") from error
        return self.scorers[tier]

    def tiers(self):
        return list(self.settings)

    def problem(self, tier, seed):
        dataset = self.module.create_dataset(self.dataset, **self.settings[tier], seed=seed % 2**32, size=1)
        entry = dataset[0]
        plain = as_json("problem", {key: entry[key] for key in ("question", "answer", "metadata")}, otherwise=str)
        # a problem is judged as it stands in the log
        if plain["answer"] is not None and dataset.score_answer(plain["answer"], plain) != dataset.score_answer(entry["answer"], entry):
            raise Wrong("problem", f"the entries of {self.dataset} are scored otherwise when they have been JSON")
        return plain

    def prompt(self, problem, style):
        # its instruction in the same message: not every model's template has a system message, and few-shot examples repeat it
        instruction = self.module.utils.SYSTEM_PROMPTS["default" if style == "cot" else "direct"].strip()
        asked = {"role": "user", "content": f"{instruction}\n\n{problem['question']}"}
        example = None if style == "cot" else self.example(problem)
        if example is None:
            return [asked]
        reply = {"role": "assistant", "content": self.solution(example)}
        return [{"role": "user", "content": f"{instruction}\n\n{example['question']}"}, reply, asked]

    def example(self, problem):
        """One of two entries, the same for all problems but itself: a small model keeps a form that it has been shown."""
        tier = problem["tier"]
        if tier not in self.examples:
            entries = [{**self.problem(tier, 2**32 - 1 - n), "tier": tier} for n in range(2)]
            self.examples[tier] = [entry for entry in entries if self.solution(entry) is not None]
        return next((entry for entry in self.examples[tier] if entry["question"] != problem["question"]), None)

    def verify(self, problem, reply):
        answer = self.module.utils.extract_answer(reply)
        if answer is None:
            return {"outcome": "fail", "category": "format", "reason": "The reply has no <answer> … </answer>.", "score": 0}
        score = float(self.scorer(problem["tier"]).score_answer(answer, problem))
        if math.isnan(score):
            return {"outcome": "none", "reason": "the data set's scorer gave NaN"}
        outcome = {"outcome": "pass" if score >= 1 else "fail", "score": min(1.0, max(0.0, score)), "answer": answer}
        return outcome if score >= 1 else {**outcome, "reason": "The answer does not have the full score of the data set's own scorer."}

    def solution(self, problem):
        reply = f"<answer>{problem['answer']}</answer>"
        return reply if self.verify(problem, reply)["outcome"] == "pass" else None  # not every entry has its answer


class Verifiers:
    """`python:verifiers:TASKSET[:SETTINGS]`, of verifiers 0.4: a task set whose tasks are one prompt and one reply that is scored alone."""

    policies = {}
    verify_seconds = None
    solution = None

    def __init__(self, module, name):
        if [int(part) for part in module.__version__.split(".")[:2] if part.isdigit()] < [0, 4]:
            raise Refused("PYTHON_UNAVAILABLE", f"{sys.executable} has verifiers {module.__version__}, and 0.4 is needed")
        self.v1 = loading(importlib.import_module, "verifiers.v1")
        self.graph = importlib.import_module("verifiers.v1.graph")
        self.trace = importlib.import_module("verifiers.v1.trace")
        loaders = importlib.import_module("verifiers.v1.utils.loaders")
        identifier, _, settings = name.partition(":")
        self.id = f"verifiers:{name}"
        kind = loading(loaders.taskset_class, identifier)
        self.config = loading(loaders.taskset_config_type(identifier).model_validate, {"id": identifier, **settings_of(settings)})
        self.task = kind.task_type()
        self.refuse_more_than_a_reply(identifier, kind, loaders.environment_class(identifier))
        # as many as a run draws from; a task set may have no end
        self.tasks = [task.data for task in loading(lambda: list(kind(self.config).take(MOST_TASKS)))]
        if not self.tasks:
            raise Wrong("load", "gave no tasks")
        self.version = getattr(sys.modules[kind.__module__], "__version__", None)

    def refuse_more_than_a_reply(self, identifier, kind, environment):
        def own(hook):
            return getattr(self.task, hook) is not getattr(self.v1.Task, hook)

        def runs(function):
            parameter = inspect.signature(function).parameters.get("runtime")
            return parameter is not None and parameter.default is inspect.Parameter.empty

        probe = self.task.__new__(self.task)
        probe.config = self.config.task
        needs = {
            "an environment of its own": environment is not self.v1.SingleAgentEnv,
            "a container": self.task.NEEDS_CONTAINER,
            "tools": kind.toolsets(self.config) or self.task.toolsets(self.config.task),
            "a model that judges": self.config.task.judges,
            "setup or finalize, which need a runtime": own("setup") or own("finalize"),
            "a runtime for its rewards": any(map(runs, probe.hooks("reward"))),
        }
        if any(needs.values()):
            need = next(need for need, needed in needs.items() if needed)
            raise Refused("TASK_UNKNOWN", f"{identifier} needs {need}: it is no task of one reply")

    def tiers(self):
        return ["default"]

    def problem(self, tier, seed):
        data = self.tasks[seed % len(self.tasks)]
        return {"task": data.model_dump(mode="json", exclude_defaults=True, exclude={"idx"})}

    def data(self, problem):
        return self.task.data_type().model_validate(problem["task"])

    def prompt(self, problem, style):
        data = self.data(problem)
        messages = [] if data.system_prompt is None else [{"role": "system", "content": data.system_prompt}]
        if isinstance(data.prompt, str):
            return [*messages, {"role": "user", "content": data.prompt}]
        for message in data.prompt or []:
            if not isinstance(message.content, str):
                raise Wrong("prompt", "has more than text")
            messages.append({"role": message.role, "content": message.content})
        return messages

    def verify(self, problem, reply):
        data = self.data(problem)
        task = self.task(data, self.config.task)
        asked = self.graph.MessageNode(message={"role": "user", "content": data.prompt_text})
        replied = self.graph.MessageNode(parent=0, sampled=True, message={"role": "assistant", "content": reply})
        trace = self.trace.Trace(
            task=self.trace.TraceTask(type=type(task).__name__, data=data),
            agent=self.trace.AgentInfo(config=self.v1.AgentConfig()),
            nodes=[asked, replied],
            is_completed=True,
            ok=True,
        )
        asyncio.run(task.score(trace))
        if not trace.rewards or None in trace.rewards.values():
            return {"outcome": "none", "reason": "the task set gave no reward"}
        reward = trace.reward
        if math.isnan(reward):
            return {"outcome": "none", "reason": "the reward is NaN"}
        outcome = {"outcome": "pass" if reward >= 1 else "fail", "score": min(1.0, max(0.0, reward))}
        return outcome if reward >= 1 else {**outcome, "reason": f"The reward is {reward:g}, and 1 passes."}


ADAPTERS = {"reasoning_gym": ReasoningGym, "verifiers": Verifiers}


# ---- loading


def loading(function, *arguments):
    """Runs the task's own top level; what it does not find has to be installed."""
    try:
        return function(*arguments)
    except ModuleNotFoundError as error:
        raise Refused("PYTHON_UNAVAILABLE", f"{sys.executable}: {error}") from error
    except BaseException as error:
        tell(error)
        raise Wrong("module", f"raised {shown(error)}") from error


def find_first(folder):
    """Modules of this folder before all others; in place of this file's folder, which Python puts there but in its safe mode."""
    sys.path[: 0 if getattr(sys.flags, "safe_path", False) else 1] = [folder]


def import_task(module, file, name, check):
    """The task, the hash of its file where it is one, and under which name that is a module."""
    if file is not None:
        path = Path(file)
        find_first(str(path.parent))
        loaded = importlib.util.module_from_spec(importlib.util.spec_from_file_location(path.stem, path))
        sys.modules[path.stem] = loaded
        source = path.read_bytes()
        loading(exec, loading(compile, source, str(path), "exec"), loaded.__dict__)
        return own_task(loaded, name, check), {".": hashlib.sha256(source).hexdigest()}, path.stem
    find_first(os.getcwd())
    loaded = loading(importlib.import_module, module)
    adapter = None if check else ADAPTERS.get(module)
    if adapter is None:
        return own_task(loaded, name, check), {}, None
    if not name:
        raise Refused("TASK_UNKNOWN", f"python:{module} needs a name: python:{module}:NAME")
    return call("module", adapter, loaded, name), {}, None


def identity(files, entry):
    """SHA-256 of the code that judges: contents of the task's own files, names and versions of the packages, version of Python.

    Where the files lie is no part of it, so that a copy elsewhere has the same.
    """
    owners = importlib.metadata.packages_distributions()
    packages = {}
    files = {"bridge": hashlib.sha256(Path(__file__).read_bytes()).hexdigest(), **files}
    for name, module in sorted(sys.modules.items()):
        top = name.partition(".")[0]
        if name in OWN_MODULES or name == entry:
            continue
        origin = getattr(module, "__file__", None)
        if not isinstance(origin, str) or not os.path.isfile(origin):
            continue
        installed = any(part in ("site-packages", "dist-packages") for part in Path(origin).parts)
        # by where it lies: a file of the task's may have the name of a standard module
        if not installed and any(Path(origin).resolve().is_relative_to(folder) for folder in STANDARD_LIBRARY):
            continue
        if installed and top in owners:
            packages.update((owner, importlib.metadata.version(owner)) for owner in owners[top])
        else:
            files[name] = hashlib.sha256(Path(origin).read_bytes()).hexdigest()
    content = {"python": list(sys.version_info[:2]), "files": files, "packages": packages}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def described(task, sha256):
    tiers = as_json("tiers", call("tiers", task.tiers))
    if not isinstance(tiers, list):
        raise Wrong("tiers", "has to return a list of names, or of dicts with an id")
    if not isinstance(task.policies, dict) or not all(map(callable, task.policies.values())):
        raise Wrong("POLICIES", "is a dict of functions")
    return {
        "id": as_json("ID", task.id),
        "version": sha256[:12] if task.version is None else as_json("VERSION", task.version),
        "tiers": [{"id": tier} if isinstance(tier, str) else tier for tier in tiers],
        "policies": list(task.policies),
        "verifySeconds": as_json("VERIFY_SECONDS", task.verify_seconds),
        "solution": task.solution is not None,
        "sha256": sha256,
    }


# ---- calls


def set_clock_ahead(seconds):
    """What the task reads of the clock from here on, so that what depends on the day or the hour comes out otherwise in this process."""
    now, now_ns, local, utc, ctime, strftime = time.time, time.time_ns, time.localtime, time.gmtime, time.ctime, time.strftime
    time.time = lambda: now() + seconds  # which date.today and datetime.today ask too
    time.time_ns = lambda: now_ns() + int(seconds * 10**9)
    time.localtime = lambda at=None: local(time.time() if at is None else at)
    time.gmtime = lambda at=None: utc(time.time() if at is None else at)
    time.ctime = lambda at=None: ctime(time.time() if at is None else at)
    time.strftime = lambda form, *at: strftime(form, *(at or (time.localtime(),)))
    real = datetime.datetime

    class Kind(type):
        def __instancecheck__(cls, value):
            return isinstance(value, real)

        def __subclasscheck__(cls, kind):
            return issubclass(kind, real)

    class Later(real, metaclass=Kind):
        @classmethod
        def now(cls, tz=None):
            return super().now(tz) + datetime.timedelta(seconds=seconds)

        @classmethod
        def utcnow(cls):
            return cls.now(datetime.timezone.utc).replace(tzinfo=None)

    Later.__name__ = Later.__qualname__ = "datetime"
    Later.__module__ = "datetime"
    datetime.datetime = Later


class Calls:
    task = None
    seconds = CALL_SECONDS

    def load(self, module, file, name, check, clock_ahead=0):
        if clock_ahead:
            set_clock_ahead(clock_ahead)
        self.task, files, entry = import_task(module, file, name, check)
        description = described(self.task, identity(files, entry))
        if isinstance(description["verifySeconds"], (int, float)):
            self.seconds = max(CALL_SECONDS, description["verifySeconds"])
        return description

    def generate(self, tier, seed):
        seed_generators(int(seed))
        problem = call("problem", self.task.problem, tier, int(seed))
        if not isinstance(problem, dict):
            raise Wrong("problem", f"has to return a dict, not {type(problem).__name__}")
        return as_json("problem", problem)

    def prompt(self, problem, style):
        seed_generators(0)
        messages = call("prompt", self.task.prompt, problem, style)
        return [{"role": "user", "content": messages}] if isinstance(messages, str) else as_json("prompt", messages)

    def judge(self, problem, text):
        seed_generators(0)
        try:
            verdict = self.task.verify(problem, text)
        except BaseException as error:
            tell(error)
            return {"outcome": "none", "reason": f"verify raised {shown(error)}"}
        try:
            return self.verdict(verdict)
        except Wrong as error:
            if isinstance(verdict, dict):
                return {"outcome": "none", "reason": f"verify {error}"}
            raise

    def verdict(self, verdict):
        plain = as_json("verify", verdict)
        if isinstance(plain, bool):
            return {"outcome": "pass" if plain else "fail"}
        if not isinstance(plain, dict):
            raise Wrong("verify", f"has to return True, False or a dict with the key outcome, not {type(verdict).__name__}")
        return plain

    def policy(self, name, problem):
        seed_generators(0)
        reply = call(f"POLICIES[{name!r}]", self.task.policies[name], problem)
        if not isinstance(reply, str):
            raise Wrong(f"POLICIES[{name!r}]", f"has to return a reply, a str, not {type(reply).__name__}")
        return self.judge(problem, reply)

    def solution(self, problem):
        seed_generators(0)
        solution = call("solution", self.task.solution, problem)
        if solution is not None and not isinstance(solution, str):
            raise Wrong("solution", f"has to return a reply, a str, not {type(solution).__name__}")
        return solution


def answer(calls, request):
    method, arguments = request["method"], request["arguments"]
    # ends a process that hangs in C, where no other thread of Python's runs, and whose parent is gone; a parent is sooner
    seconds = LOAD_SECONDS if method == "load" else calls.seconds + 2 * CALL_SECONDS
    faulthandler.dump_traceback_later(seconds, exit=True, file=COMPLAINTS)
    try:
        return {"call": request["call"], "value": getattr(calls, method)(*arguments)}
    except Wrong as error:
        return {"call": request["call"], "member": error.member, "message": str(error)}
    except Refused as error:
        return {"call": request["call"], "code": error.code, "message": str(error)}
    finally:
        faulthandler.cancel_dump_traceback_later()


def say(message):
    REPLIES.write(json.dumps(message, allow_nan=False).encode() + b"\n")
    REPLIES.flush()


def read_requests(requests):
    for line in REQUESTS:
        requests.put(json.loads(line))
    # whoever asked is gone; what was started here goes too
    if leads_group():
        os.killpg(0, signal.SIGKILL)
    os._exit(0)


def leads_group():
    return hasattr(os, "killpg") and os.getpgrp() == os.getpid()


def end_with_parent():
    """Starts a process that ends this one, with all that it has started, when whoever asks is gone, though a call may hold all threads."""
    if not leads_group():
        return
    child = os.fork()
    if child != 0:
        os.waitpid(child, 0)
        return
    if os.fork() != 0:
        os._exit(0)  # what watches is no child of the task's process, which may wait for children of its own
    requests = REQUESTS.fileno()
    gone = select.poll()
    gone.register(requests, 0)  # a hang-up alone
    for stream in (1, 2, REPLIES.fileno(), COMPLAINTS.fileno(), sys.stdout.fileno()):
        os.close(stream)
    gone.poll()
    os.killpg(0, signal.SIGKILL)


def main():
    if hasattr(signal, "SIGINT"):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the command, which ends this process when it is done with it
    try:
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES if most < 0 else min(MEMORY_BYTES, most), most))
    except (ImportError, OSError, ValueError):
        pass  # not on this system
    end_with_parent()
    requests = queue.SimpleQueue()
    threading.Thread(target=read_requests, args=(requests,), daemon=True).start()
    say({"python": list(sys.version_info[:2])})
    calls = Calls()
    while True:
        say(answer(calls, requests.get()))


if __name__ == "__main__":
    main()
