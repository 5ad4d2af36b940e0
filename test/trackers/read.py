"""What the trackers' own packages read of a folder, as JSON: null for a package that is not installed."""
import glob
import json
import os
import struct
import sys
import zlib

folder = sys.argv[1]


def tensorboard():
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(glob.glob(f"{folder}/tensorboard/*/")[0])
    events.Reload()
    return {tag: [[e.step, e.value] for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def mlflow():
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    from mlflow.tracking import MlflowClient

    client = MlflowClient(f"file://{os.path.abspath(folder)}/mlflow")
    found = {}
    for experiment in client.search_experiments():
        for run in client.search_runs([experiment.experiment_id]):
            history = {key: [[m.step, m.value] for m in client.get_metric_history(run.info.run_id, key)] for key in run.data.metrics}
            found[f"{experiment.name}/{run.info.run_name}"] = [run.info.status, run.data.params, history]
    return found


def trackio():
    os.environ["TRACKIO_DIR"] = f"{folder}/trackio"
    from trackio.sqlite_storage import SQLiteStorage

    project = SQLiteStorage.get_projects()[0]
    runs = SQLiteStorage.get_runs(project)
    rows = SQLiteStorage.get_logs(project, runs[0])
    return [project, runs, [{key: value for key, value in row.items() if key != "timestamp"} for row in rows]]


def wandb():
    from wandb.proto import wandb_internal_pb2

    content = open(glob.glob(f"{folder}/wandb/*/run-*.wandb")[0], "rb").read()
    assert content[:7] == b":W&B\xe1\xbe\x00"
    at, data, found = 7, b"", []
    while at < len(content):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        checksum, length, kind = struct.unpack("<IHB", content[at : at + 7])
        piece = content[at + 7 : at + 7 + length]
        assert zlib.crc32(bytes([kind]) + piece) == checksum
        at, data = at + 7 + length, data + piece
        if kind in (1, 4):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(data)
            data = b""
            name = record.WhichOneof("record_type")
            if name == "run":
                config = {item.key: json.loads(item.value_json) for item in record.run.config.update}
                found.append(["run", record.run.project, record.run.display_name, config])
            elif name == "history":
                items = {item.nested_key[0]: json.loads(item.value_json) for item in record.history.item}
                found.append(["history", record.history.step.num, {k: v for k, v in items.items() if not k.startswith("_")}])
            else:
                found.append([name])
    return found


def attempt(read):
    try:
        return read()
    except ImportError:
        return None


print(json.dumps({read.__name__: attempt(read) for read in (tensorboard, mlflow, trackio, wandb)}))
