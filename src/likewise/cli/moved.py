"""Options of earlier versions, and what to write in their place."""

MOVED = {
    "audit": {
        "--lam": "--set map.lam={}",
        "--time": "--set map.time={}",
        "--solver": "--set map.solver={}",
        "--steps": "--set map.steps={}",
        "--feasible": "--set map.feasible=true",
        "--test": "--set decide.test={}",
        "--loss": "--set decide.loss={}",
        "--interval": "--set decide.interval={}",
        "--refits": "--set metric.refits={}",
        "--seed": "--set seed={}",
        "--inputs": "--set columns.inputs={}",
        "--positive": "--set columns.positive={}",
        "--model-output": "--set columns.output={}",
        "--timeout": "--set model.timeout={}",
        "--max-calls": "--set model.max_calls={}",
        "--threads": "--run threads:{}",
        "--workers": "--run processes:{}",
        "--ray": "--run ray:{}",
        "--max-memory": "--run processes,{}",
        "--journal": "-o FOLDER/result.json, and finished blocks are kept in that folder too",
    },
    "metric": {
        "--C": "--set metric.C={}",
        "--inputs": "--set columns.inputs={}",
        "--seed": "--set seed={}",
    },
}
"""By command: the option, and the new way with a place for its value."""
