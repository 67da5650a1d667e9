"""Labels of clients."""

import pytest

from legato.protocol.errors import InvalidRequest
from legato.protocol.openai.metadata import check_metadata


def test_labels_within_the_specifications_bounds_pass():
    check_metadata(None)
    check_metadata({f"{number:064}": "v" * 512 for number in range(16)})


@pytest.mark.parametrize(
    "metadata",
    [{"k" * 65: ""}, {"k": "v" * 513}, {str(number): "" for number in range(17)}],
)
def test_labels_beyond_them_are_refused(metadata):
    with pytest.raises(InvalidRequest) as refused:
        check_metadata(metadata)
    assert refused.value.field == "metadata"
