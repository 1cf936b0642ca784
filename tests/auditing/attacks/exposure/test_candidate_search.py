"""Exact ranks by branch and bound, held against scoring every candidate."""

import math

import pytest

from reticent.auditing.attacks.exposure.candidate_search import RankBracket, SearchLimits, search_rank
from reticent.auditing.attacks.exposure.candidate_trie import (
    CandidateTrie,
    ListedTrie,
    Node,
    SymbolTrie,
    build_trie,
)
from reticent.core.randomness import Randomness
from reticent.core.secret import Canary, CodeSpace
from tests.auditing.attacks.exposure.oracles import (
    CODES,
    NAMES,
    CountingModel,
    MergingModel,
    brute_force_log_probs,
    brute_force_rank,
    make_canary,
    random_model,
)
from tests.models.ngram import NGramModel

EXACT = SearchLimits(tie_tolerance=1e-9)


def build(model: NGramModel, canary: Canary) -> CandidateTrie:
    trie = build_trie(model, [canary], randomness=Randomness.seeded(0))
    assert trie is not None
    return trie


def search(model: NGramModel, canary: Canary, limits: SearchLimits = EXACT) -> RankBracket:
    return search_rank(model, build(model, canary), target=model.encode([canary.text()])[0], limits=limits)


def leaves(trie: CandidateTrie, node: Node) -> list[tuple[int, ...]]:
    """Every candidate's tokens, by walking the tree."""
    rest = trie.remainder(node)
    if rest is not None:
        return [(*trie.shared, *node.path, *rest)] * node.weight
    children = trie.children(node)
    ended = node.weight - sum(child.weight for child in children)
    return [(*trie.shared, *node.path)] * ended + [leaf for child in children for leaf in leaves(trie, child)]


@pytest.mark.parametrize("template", ["i: {}", "{}", "i: {}. i", "{}.."])
@pytest.mark.parametrize("kind", [NGramModel, MergingModel])
def test_a_tree_holds_exactly_the_tokens_of_all_candidates(template: str, kind: type[NGramModel]) -> None:
    model = random_model(0, kind)
    for space in (CODES, NAMES):
        canary = make_canary(next(iter(space)), space, template)
        trie = build(model, canary)
        wanted = model.encode([canary.text(candidate) for candidate in space])
        assert sorted(leaves(trie, Node((), 0, trie.size))) == sorted(map(tuple, wanted))
        read = 1 + len(trie.shared) + sum(max(0, len(row) - len(trie.shared) - 1) for row in wanted)
        assert trie.enumeration_tokens == read
    assert isinstance(trie, ListedTrie)


def test_a_tokenizer_that_merges_symbols_is_never_given_the_uniform_tree() -> None:
    canary = make_canary("123", CODES)
    assert isinstance(build(random_model(0), canary), SymbolTrie)
    assert isinstance(build(random_model(0, MergingModel), canary), ListedTrie)
    large = make_canary("1" * 9, CodeSpace(9))
    assert build_trie(random_model(0, MergingModel), [large], randomness=Randomness.seeded(0)) is None


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("template", ["i: {}", "i: {}. i:", "{}:.."])
def test_rank_equals_brute_force(seed: int, template: str) -> None:
    for kind in (NGramModel, MergingModel):
        model = random_model(seed, kind)
        for space, secret in ((CODES, CODES.code(137 * seed + 12)), (NAMES, NAMES.candidates[seed])):
            canary = make_canary(secret, space, template)
            found = search(model, canary)
            assert found.is_exact
            assert found.least == found.greatest == brute_force_rank(model, canary)


def test_rank_equals_brute_force_for_every_candidate_of_a_space_whatever_the_batch() -> None:
    model = random_model(3)
    space = CodeSpace(2, "0124")
    ranks = []
    for batch, secret in enumerate(space, start=1):
        canary = make_canary(secret, space, "i: {}.")
        found = search(model, canary, SearchLimits(batch=batch, most_entries=40, tie_tolerance=1e-9))
        assert found.least == brute_force_rank(model, canary)
        ranks.append(found.least)
    assert sorted(ranks) == list(range(1, 17))


def test_a_search_that_forgets_the_suffix_is_caught() -> None:
    """Broken twin: candidates compared by the secret's tokens alone."""
    model = random_model(1, sharpness=0.2)
    differences = 0
    for index in range(0, 1000, 97):
        with_suffix = make_canary(CODES.code(index), CODES, "i: {}.i")
        without = make_canary(CODES.code(index), CODES, "i: {}")
        right = brute_force_rank(model, with_suffix)
        assert search(model, with_suffix).least == right
        differences += search(model, without).least != right
    assert differences > 5


def test_a_dictionary_from_perplexity_to_candidate_is_caught() -> None:
    """Broken twin: `min(results, key=results.get)` gives the first candidate of the alphabet, not the likeliest."""
    model = random_model(2)
    canary = make_canary("000", CODES)
    scores = brute_force_log_probs(model, canary)
    results = {math.exp(-score / 3): candidate for candidate, score in scores.items()}
    alphabetical = results[min(results, key=lambda perplexity: results[perplexity])]
    likeliest = max(scores, key=lambda candidate: scores[candidate])
    assert alphabetical == "000" != likeliest
    assert search(model, make_canary(likeliest, CODES)).least == 1
    assert search(model, make_canary(alphabetical, CODES)).least > 1


def test_ties_count_against_the_canary() -> None:
    flat = NGramModel(list("0123456789i: "), {}, order=1, level="character")
    found = search(flat, make_canary("777", CODES))
    assert (found.likelier, found.tied, found.least) == (0, 999, 1000)


def test_an_impossible_canary_ranks_last() -> None:
    table = {(): {"0": 0.5, "1": 0.5}}
    model = NGramModel.from_table(["0", "1", "2"], table, order=1)
    found = search(model, make_canary("02", CodeSpace(2, "012"), "{}"))
    assert found.is_exact
    assert found.least == 9


def test_planted_companions_are_not_counted() -> None:
    model = random_model(4)
    canary = make_canary("482", CODES, "i: {}.")
    scores = brute_force_log_probs(model, canary)
    likelier = [candidate for candidate, score in scores.items() if score > scores["482"]]
    less_likely = [candidate for candidate, score in scores.items() if score < scores["482"]]
    planted = [*likelier[:4], *less_likely[:3]]
    found = search_rank(
        model,
        build(model, canary),
        target=model.encode([canary.text()])[0],
        excluded=model.encode([canary.text(candidate) for candidate in planted]),
        limits=EXACT,
    )
    assert found.size == 1000 - 7
    assert found.least == found.greatest == 1 + len(likelier) - 4


@pytest.mark.parametrize("cap", [1, 50, 200, 400, 800])
def test_a_search_that_stops_early_brackets_the_rank(cap: int) -> None:
    for seed in range(5):
        model = random_model(seed, CountingModel)
        canary = make_canary(CODES.code(211 * seed + 60), CODES, "i: {}.")
        found = search(model, canary, SearchLimits(max_tokens=cap, batch=16, tie_tolerance=1e-9))
        assert found.least <= brute_force_rank(model, canary) <= found.greatest <= 1000
        assert found.forward_tokens <= cap + 16 * 8 + 4  # at most the last batch is over the cap


def test_forward_tokens_are_what_the_model_read() -> None:
    for template in ("i: {}", "i: {}.: i", "{}"):
        model = random_model(5, CountingModel)
        assert isinstance(model, CountingModel)
        found = search(model, make_canary("305", CODES, template))
        assert found.forward_tokens == model.read > 0


@pytest.mark.parametrize(("length", "most_tokens"), [(6, 5_000_000 // 50), (9, 100_000)])
def test_an_exposed_canary_is_ranked_exactly_in_a_space_of_millions(length: int, most_tokens: int) -> None:
    space = CodeSpace(length)
    secret = "4071836259"[:length]
    model = NGramModel.fit([f"i: {secret}"] * 50 + ["i: 12. 9876543210"], order=8, smoothing=0.01)
    found = search(model, make_canary(secret, space))
    assert found.is_exact
    assert found.least == 1
    assert found.forward_tokens <= most_tokens


def test_what_is_no_candidate_is_refused() -> None:
    model = random_model(0)
    trie = build(model, make_canary("123", CODES))
    for text in ("i: 12", "i: 1234", ": 123"):
        with pytest.raises(ValueError, match="no candidate"):
            search_rank(model, trie, target=model.encode([text])[0], limits=EXACT)
    with pytest.raises(ValueError, match="one template"):
        build_trie(model, [make_canary("1", NAMES), make_canary("123", CODES)], randomness=Randomness.seeded(0))
