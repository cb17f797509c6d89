"""The model that every contract test starts from."""

import pytest


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    from trained import make_model  # here, since importing trl takes seconds and other tests need not wait for it

    return make_model(tmp_path_factory.mktemp("model"))
