"""Small tensors gain nothing from threads, and a busy machine loses much by them."""

import pytest

torch = pytest.importorskip("torch", reason="networks need PyTorch: pip install 'osamd[deep]'")


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
