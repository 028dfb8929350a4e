"""The schema of the result file, for those who read it with other tools."""

import json

from likewise.record import Record


def result_schema() -> str:
    """Return the JSON Schema of the result file, as text."""
    schema = Record.model_json_schema(mode="serialization")
    described = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Result of an audit by likewise",
    }
    return json.dumps(schema | described, indent=2, ensure_ascii=False, sort_keys=True) + "\n"
