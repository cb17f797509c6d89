"""The declared version of every kind of verifier: raise it where an edit changes verdicts or partial credit.

A training's name covers the version of the verifier that gives its rewards, and not the verifier's code: a raised
version is how the author of an edit says that what was trained with the rewards before must be trained again.  What
is judged anew at little cost, the scores, follows the code itself.
"""

VERSIONS = {"math_verify": 1, "reasoning_gym": 1, "reasoning_gym_graded": 1}
