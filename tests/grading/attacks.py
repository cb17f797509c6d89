"""Answers that are code: each creates a file named ``owned`` in the working directory if anything executes it."""

from __future__ import annotations

import base64
import json

_TOUCH = "__import__('os').system('touch owned')"
_PICKLE = "cos\nsystem\n(S'touch owned'\ntR."

CODE = (
    _TOUCH,
    "open('owned', 'w').close()",
    "[__import__('pathlib').Path('owned').touch()]",
    "exec(\"open('owned', 'w')\")",
    "eval(\"open('owned', 'w')\")",
    "(lambda: open('owned', 'w'))()",
    "[x for x in ().__class__.__base__.__subclasses__() if open('owned', 'w')]",
    f"5 if {_TOUCH} else 5",
    f"{_TOUCH} + 5",
    f"f'{{{_TOUCH}}}'",
    f'sympify("{_TOUCH}")',
    _PICKLE,
    base64.b64encode(_PICKLE.encode()).decode(),
    '!!python/object/apply:os.system ["touch owned"]',
    json.dumps([_TOUCH]),
    json.dumps({"0": _TOUCH, "__reduce__": [_TOUCH]}),
    "\\immediate\\write18{touch owned}",
    f"\\text{{{_TOUCH}}}",
    f"$({_TOUCH})$",
    "$(touch owned)",
    "`touch owned`",
    "5; touch owned",
)
