"""Which of reasoning-gym's own verifiers may judge an answer.

Each ``score_answer`` of reasoning-gym 0.1.25 named here was read.  Allowed means: nothing of the answer is evaluated,
full credit is given to right answers only, and the judgement needs nothing but the problem's own entry.  Everything
else is refused when the study is parsed, in training rewards as well as in evaluation.
"""

from __future__ import annotations


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# ProceduralDataset.score_answer unchanged: full credit if and only if the answer equals the gold text.
EXACT = _names(
    "acre aiw arc_1d base_conversion basic_arithmetic bf binary_alternation caesar_cipher count_bits count_primes "
    "course_schedule gcd largest_island lcm leg_counting letter_counting list_functions "
    "mahjong_puzzle maze modulo_grid number_filtering number_sequence rotate_matrix rotten_oranges "
    "simple_equations simple_geometry string_manipulation string_splitting string_synthesis syllogism "
    "word_sequence_reversal"
)

# utils.compute_decimal_reward: full credit if both are the same decimal.Decimal after removing commas.
DECIMAL = frozenset({"chain_sum", "products"})

# Own rules, read one by one: text comparison, int(), Decimal() or json.loads() of the answer, never eval.
READ = _names(
    "ab calendar_arithmetic circuit_logic color_cube_rotation decimal_chain_sum dice emoji_mystery "
    "family_relationships fraction_simplification futoshiki graph_color group_anagrams knights_knaves "
    "manipulate_matrix mini_sudoku needle_haystack palindrome_generation palindrome_partitioning path_star "
    "power_function prime_factorization self_reference sentence_reordering shortest_path spell_backward sudoku tsumego "
    "zebra_puzzles"
)

ALLOWED = EXACT | DECIMAL | READ

# Generators that iterate over sets of text: another PYTHONHASHSEED gives other problems from the same seed.
UNREPEATABLE = _names("isomorphic_strings knight_swap polynomial_multiplication ransom_note word_ladder")

_EXECUTES = "evaluates the answer as code"
REFUSED = {
    **dict.fromkeys(("binary_matrix", "n_queens", "spiral_matrix", "string_insertion"), _EXECUTES),
    **dict.fromkeys(("countdown", "puzzle24", "polynomial_multiplication"), _EXECUTES),
    **dict.fromkeys(("simple_integration", "intermediate_integration"), _EXECUTES),
    "bitwise_arithmetic": "evaluates the problem's text as code",
    "number_sorting": "evaluates the gold answer as code and lets every number be off by 1",
    "gsm_symbolic": "takes the first number it sees and drops its sign",
    "figlet_font": "gives full credit to ten right letters of a longer word",
    "game_of_life_halting": "takes every non-empty answer for right",
    "game_of_life": "ignores surplus cells",
    "decimal_arithmetic": "lets the last decimal be off by 1",
    "polynomial_equations": "gives credit by distance",
    "complex_arithmetic": "gives credit by distance",
    "coin_flip": "expands numbers like 1e999999999",
    "composite": "forwards to any other verifier",
    "word_sorting": "takes an answer with surplus words for right",
}

# Partial credit that leads astray, where the verifier itself is allowed.
REFUSED_GRADED = {
    "spell_backward": "gives full credit, but for rounding, to whatever begins with the right answer",
}


def refusal(name: str) -> str | None:
    """Why reasoning-gym's verifier ``name`` may not be used; None when it may."""
    if name in ALLOWED:
        return None
    return REFUSED.get(name, "is not one of the verifiers that were read and found safe")


def graded_refusal(name: str) -> str | None:
    """Why reasoning-gym's verifier ``name`` may not be used for partial credit; None when it may."""
    return refusal(name) or REFUSED_GRADED.get(name)
