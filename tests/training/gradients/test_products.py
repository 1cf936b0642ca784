"""Products by oneDNN are those of torch, for every shape and stride, and are refused where they are not."""

import pytest
import torch

from reticent.training.gradients import products
from reticent.training.gradients.engine import PerRecordGradients
from reticent.training.gradients.record_loss import TokenBatch
from reticent.training.gradients.tape import exact_products
from tests.training import small_models
from tests.training.gradients import oracles
from tests.training.gradients.test_per_record import MODELS, assert_exact
from tests.training.small_models import START, random_records

SHAPES = [(1, 1, 1, 1), (3, 5, 7, 2), (2, 40, 3, 96), (2, 33, 96, 3), (1, 64, 16, 16)]


@pytest.fixture
def by_onednn(monkeypatch):
    """oneDNN for products of any size on any processor, from an operator that is looked for anew."""
    monkeypatch.setattr(products, "_LEAST_WORK", 0)
    monkeypatch.setattr(products, "_gains", lambda: True)
    search = products._operator
    search.cache_clear()
    if search() is None:
        pytest.skip("this torch has no oneDNN")
    yield products
    search.cache_clear()


@pytest.mark.parametrize(
    ("capability", "maker", "gains"),
    [
        ("AVX512", "GenuineIntel", False),  # MKL uses AVX-512 there
        ("AVX512", "AuthenticAMD", True),
        ("AVX512", None, True),
        ("AVX2", "AuthenticAMD", False),
        ("DEFAULT", None, False),
    ],
)
def test_onednn_is_asked_only_where_mkl_leaves_avx512_unused(capability, maker, gains, tmp_path, monkeypatch):
    file = tmp_path / "cpuinfo"
    if maker is not None:
        file.write_text(f"processor\t: 0\nvendor_id\t: {maker}\nmodel name\t: X\n")
    monkeypatch.setattr(products, "_PROCESSOR", file)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    products._gains.cache_clear()
    assert products._gains() is gains
    products._gains.cache_clear()


def factors(batch, length, p, q):
    source = torch.Generator().manual_seed(0)
    return (torch.randn(batch, length, width, generator=source) for width in (p, q))


def close(found, expected):
    return torch.allclose(found.double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
def test_products_equal_those_in_float64(shape, by_onednn):
    left, right = factors(*shape)
    each = torch.einsum("btp,btq->bpq", left.double(), right.double())
    found = by_onednn.record_products(left, right)
    assert found is not None
    assert close(torch.stack(found), each)
    summed = by_onednn.summed_products(left, right)
    assert summed.is_contiguous()
    assert close(summed, each.sum(0))
    gram, start = left.double() @ left.double().transpose(1, 2), 0
    for block in by_onednn.gram_blocks(left):
        end = start + block.shape[1]
        assert close(block, gram[:, start:end, :end])
        start = end
    assert start == left.shape[1]


def test_factors_may_lie_in_memory_as_they_like(by_onednn):
    left, right = factors(3, 6, 8, 5)
    for a in (left.transpose(0, 1).contiguous().transpose(0, 1), left[:, :1].expand(3, 6, 8), left[..., ::2]):
        expected = torch.einsum("btp,btq->bpq", a.double(), right.double())
        found = by_onednn.record_products(a, right)
        assert found is not None
        assert close(torch.stack(found), expected)
        assert close(by_onednn.summed_products(a, right), expected.sum(0))
        assert close(by_onednn.gram_blocks(a)[0], a.double() @ a.double().transpose(1, 2))


def test_a_records_product_is_the_same_to_the_bit_in_every_batch(by_onednn):
    left, right = factors(5, 40, 24, 56)
    together, blocks = by_onednn.record_products(left, right), by_onednn.gram_blocks(left)
    for record in range(5):
        here = slice(record, record + 1)
        alone = by_onednn.record_products(left[here], right[here])
        assert together is not None
        assert alone is not None
        assert torch.equal(together[record], alone[0])
        assert all(torch.equal(a[here], b) for a, b in zip(blocks, by_onednn.gram_blocks(left[here]), strict=True))


@pytest.mark.parametrize("written_out", [True, False])
@pytest.mark.parametrize("kind", MODELS)
def test_the_engine_is_exact_with_it(kind, written_out, by_onednn, monkeypatch):
    import reticent.training.gradients.contribution as contribution

    monkeypatch.setattr(contribution, "is_written_out", lambda *args, **sizes: written_out)
    calls = count_calls(by_onednn, monkeypatch)
    assert_exact(MODELS[kind]().float(), random_records(9, longest=20), within=1e-5)
    assert_exact(MODELS[kind]().float(), random_records(9, longest=20), within=1e-5, micro_batch=2)
    assert calls


@pytest.mark.parametrize("written_out", [True, False])
def test_no_record_contributes_more_than_the_clip_norm_with_it(written_out, by_onednn, monkeypatch):
    import reticent.training.gradients.contribution as contribution

    monkeypatch.setattr(contribution, "is_written_out", lambda *args, **sizes: written_out)
    calls = count_calls(by_onednn, monkeypatch)
    with PerRecordGradients(small_models.gpt2(), 0.25) as engine:
        for group in random_records(6, seed=4):
            gradients = engine.clipped_sum(TokenBatch.of_groups([group], START)).gradients
            assert oracles.norm(gradients) <= 0.25 * (1 + 1e-6)
    assert calls


def test_a_product_that_loses_a_position_is_seen_by_the_oracle(by_onednn, monkeypatch):
    right = by_onednn._operator()
    assert right is not None
    monkeypatch.setattr(by_onednn, "_operator", lambda: lambda x, y: right(x[:, 1:], y[:, 1:]))
    with pytest.raises(AssertionError):
        assert_without_self_check()
    monkeypatch.setattr(by_onednn, "_operator", lambda: right)
    assert_without_self_check()


def assert_without_self_check():
    """`assert_exact` in short, for a fault that the self check would refuse first."""
    groups = random_records(6, longest=20)
    truth = oracles.record_gradients(small_models.gpt2(), groups, START)
    with PerRecordGradients(small_models.gpt2(), 0.5, is_checked=False) as engine:
        found = engine.clipped_sum(TokenBatch.of_groups(groups, START))
    assert oracles.distance(found.gradients, oracles.clipped_sum(truth, 0.5)) <= 1e-5


@pytest.mark.parametrize(
    "operator",
    [
        lambda x, y, *rest: x @ y.t() * (1 + 1e-4),
        lambda x, y, *rest: (x.bfloat16() @ y.t().bfloat16()).float(),
        lambda x, y, *rest: (
            x @ y.reshape(-1).as_strided(y.shape, (y.shape[1], 1)).t() if y.is_contiguous() else x @ x.t()
        ),
        lambda x, y, *rest: (x @ y.t()).nan_to_num(),
        lambda x, y: x @ y.t(),  # another signature
        None,
    ],
    ids=["scaled", "half precision", "ignores strides", "hides what is not finite", "other signature", "missing"],
)
def test_an_operator_that_is_anything_but_the_product_is_not_used(operator, monkeypatch):
    fake = type("Operators", (), {} if operator is None else {"_linear_pointwise": staticmethod(operator)})
    monkeypatch.setattr(torch.ops, "mkldnn", fake)
    products._operator.cache_clear()
    try:
        assert products._operator() is None
    finally:
        products._operator.cache_clear()


def test_float64_and_half_precision_and_small_products_stay_with_torch(by_onednn, monkeypatch):
    left, right = factors(2, 4, 6, 6)
    assert by_onednn.record_products(left.double(), right.double()) is None
    assert by_onednn.record_products(left.bfloat16(), right.bfloat16()) is None
    assert by_onednn.record_products(left, right) is not None
    with torch.backends.mkldnn.flags(enabled=False):
        assert by_onednn.record_products(left, right) is None
    monkeypatch.setattr(by_onednn, "_LEAST_WORK", 4 * 6 * 6 + 1)
    assert by_onednn.record_products(left, right) is None


def test_products_are_in_full_precision_whatever_the_model_computes_in(by_onednn):
    left, right = factors(2, 64, 48, 80)
    expected = by_onednn.summed_products(left, right)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        with exact_products(left.device):
            assert torch.equal(by_onednn.summed_products(left, right), expected)
    finally:
        torch.set_float32_matmul_precision(before)


def count_calls(by_onednn, monkeypatch):
    """A list that grows with every product by oneDNN."""
    right, calls = by_onednn._operator(), []
    assert right is not None

    def counted(x, y):
        calls.append(x.shape)
        return right(x, y)

    monkeypatch.setattr(by_onednn, "_operator", lambda: counted)
    return calls
