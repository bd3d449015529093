"""Operations are those that run a kernel, each with its FLOPs and the bytes that it reads and writes."""

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from repro.tasks.costs.live_bytes import fused_kernels
from repro.tasks.costs.operations import Operation, OperationCounter, flops_in

META = torch.device("meta")


def test_a_product_reads_both_sides_and_writes_the_result() -> None:
    left, right = torch.ones(3, 5, device=META), torch.ones(5, 7, device=META)
    with OperationCounter() as counter:
        torch.relu(left @ right)
    product = Operation("product", 2 * 3 * 5 * 7, 4 * (3 * 5 + 5 * 7 + 3 * 7))
    assert counter.operations == {product: 1, Operation("memory", 0, 4 * 2 * 3 * 7): 1}
    assert flops_in(counter.operations) == product.flops


def test_what_lies_between_products_may_be_joined() -> None:
    """It reads what was there before, and writes what is there afterwards; what else it makes stays in registers."""
    left, right = torch.ones(3, 5, device=META), torch.ones(5, 7, device=META)
    scale = torch.ones(7, device=META)
    with OperationCounter() as counter:
        y = torch.exp(torch.relu(left @ right) * scale)
        y @ right.T
    first = Operation("product", 2 * 3 * 5 * 7, 4 * (3 * 5 + 5 * 7 + 3 * 7))
    second = Operation("product", 2 * 3 * 5 * 7, 4 * (3 * 7 + 5 * 7 + 3 * 5))
    assert first == second
    assert counter.fused == {first: 2, Operation("memory", 0, 4 * (21 + 7 + 21)): 1}
    with OperationCounter() as counter:
        kept = torch.relu(y)
        torch.exp(kept, out=y)
    assert counter.fused == {Operation("memory", 0, 4 * (21 + 2 * 21)): 1}, "both are there afterwards"


def test_joined_operations_have_a_kernel_for_each_size() -> None:
    x = torch.ones(4, 6, device=META)
    with OperationCounter() as counter:
        x.add_(1.0)
        rows = x.sum(1)
    assert counter.operations.total() == 2
    assert counter.fused == {Operation("memory", 0, (96 + 96 + 16) // 2): 2}
    assert len(rows) == 4


def test_views_and_new_tensors_run_no_kernel() -> None:
    x = torch.ones(4, 6, device=META)
    with OperationCounter() as counter:
        x.view(6, 4).t()[1:].expand(2, 3, 6).detach()
        torch.empty(5, device=META)
        torch.empty_like(x)
    assert not counter.operations


def test_what_is_broadcast_is_read_once_and_what_is_changed_in_place_twice() -> None:
    x, row = torch.ones(100, 8, device=META), torch.ones(8, device=META)
    with OperationCounter() as counter:
        torch.mul(x, row.expand(100, 8))
        x.add_(1.0)
    assert counter.operations == {
        Operation("memory", 0, 4 * (800 + 8 + 800)): 1,
        Operation("memory", 0, 4 * (800 + 800)): 1,
    }


def test_dropout_is_a_kernel_each_way() -> None:
    x = torch.ones(10, 8, device=META, requires_grad=True)
    with fused_kernels(), OperationCounter() as counter:
        y = nn.functional.dropout(x, 0.1)
        y.backward(torch.empty_like(y))
    kept = Operation("memory", 0, 4 * (80 + 80) + 80)  # the mask has a byte for each number
    assert counter.operations == {kept: 2}
    with fused_kernels(), OperationCounter() as counter:
        assert nn.functional.dropout(x, 0.1, training=False) is x
    assert not counter.operations


def test_of_a_table_only_the_rows_that_are_taken_are_read() -> None:
    table, places = torch.ones(1000, 8, device=META), torch.zeros(5, dtype=torch.int64, device=META)
    with OperationCounter() as counter:
        table.index_select(0, places)
        table[places]
        nn.functional.embedding(places, table)
        table.gather(0, places[:, None])
    rows = Operation("memory", 0, 4 * (40 + 40) + 8 * 5)
    assert counter.operations == {rows: 3, Operation("memory", 0, 4 * (5 + 5) + 8 * 5): 1}


def test_fused_attention_is_one_kernel_and_flops_are_those_of_its_products() -> None:
    q, k, v = (torch.ones(2, 3, 8, 16, device=META, requires_grad=True) for _ in range(3))
    net = nn.Linear(16, 16, device=META)
    with fused_kernels(), OperationCounter() as counter:
        net(scaled_dot_product_attention(q, k, v)).sum().backward()
    kinds = [operation.kind for operation in counter.operations.elements()]
    assert kinds.count("attention") == 2, "forward and backward"
    assert kinds.count("product") == 3
    assert flops_in(counter.operations) == 3 * 2 * 2 * 3 * 8 * 8 * (16 + 16) + 3 * 2 * 2 * 3 * 8 * 16 * 16
