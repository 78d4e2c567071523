"""PyTorch tensors whose memory is smaller than their shape requires."""


def freed(x):
    x = x.clone()
    x.untyped_storage().resize_(0)
    return x


def freed_behind(x):
    """A row of a freed tensor: its address is null and an offset."""
    import torch

    rows = torch.stack([x, x])
    row = rows[1]
    rows.untyped_storage().resize_(0)
    return row


def cut(x):
    x = x.clone()
    x.untyped_storage().resize_(x.untyped_storage().nbytes() - 1)
    return x


def cut_behind(x):
    import torch

    rows = torch.stack([x, x])
    row = rows[1]
    rows.untyped_storage().resize_(rows.untyped_storage().nbytes() // 2)
    return row


def labelled(make):
    """The same tensor as a subclass, which is passed through DLPack."""
    import torch

    class Labelled(torch.Tensor):
        pass

    return lambda x: make(x).as_subclass(Labelled)
